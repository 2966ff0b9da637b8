/* Lines as window.c compares them: folded, as a hash, and as the set of their pairs of characters.
 */
#pragma once

#include "bytes.h"

#define ANCHORS_MAX   3
#define OLD_LINES_MAX 2000u /* of `old` that are looked at */
#define PAIRS_WORDS   16

struct line_form {
    uint64_t hash;   /* of the folded line */
    uint32_t folded; /* its length */
    uint32_t pairs;  /* how many bits are set in: */
    uint64_t set[PAIRS_WORDS];
};

/* How much alike two lines are, in percent; perhaps 0 if it is not more than so much. */
unsigned line_form_likeness(const struct line_form *a, const struct line_form *b,
                            unsigned more_than);

/* Calls `each` for all lines of a text that are not blank, numbered from 0. */
void each_line(struct bytes text, bool with_pairs,
               void (*each)(void *data, uint64_t number, const struct line_form *form), void *data);

struct old_line {
    uint64_t hash;
    uint32_t folded;
    uint32_t next; /* the next line with the same hash, plus 1; 0: none */
    uint32_t hits; /* how often the text has it */
};

struct old_lines {
    struct bytes text;
    struct old_line *lines;
    uint32_t *table; /* by hash: a line plus 1 */
    uint32_t slots;
    uint64_t total; /* lines of `old`, */
    size_t count;   /* of which so many are looked at */
};

int old_lines_make(struct bytes old, struct old_lines *ret);
void old_lines_free(struct old_lines *o);

/* A line with that hash, plus 1; 0 if there is none. */
uint32_t old_lines_find(const struct old_lines *o, uint64_t hash);

/* The longest lines: their forms and numbers; how many. */
size_t old_lines_anchors(const struct old_lines *o, struct line_form *ret, uint32_t *ret_lines);
