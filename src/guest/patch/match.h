/*
 * One hunk against the lines of a file: the comparisons that both sets of rules are made of.
 */
#pragma once

#include "place.h"

/* A hunk taken apart. */
struct hunk_lines {
    const struct diff_hunk *hunk;
    const struct diff_line *lines;
    struct image_line *old, *new;
    size_t n_old, n_new;
    size_t before, behind; /* lines of context at its head and tail */
};

/* Room for the largest hunk of a file. */
int hunk_lines_make(const struct diff *d, const struct diff_file *f, struct hunk_lines *ret);
void hunk_lines_free(struct hunk_lines *p);

void hunk_lines_set(struct hunk_lines *p, const struct diff *d, const struct diff_hunk *h);

/* The pattern of the hunk turned around: its replacement is what is looked for. */
void hunk_lines_swap(struct hunk_lines *p);

enum match_how {
    MATCH_EXACT,
    MATCH_GIT,  /* the last line may have a newline that the pattern has not, at the end of the file
                 */
    MATCH_BARE, /* a newline may be missing at the end of the file */
    MATCH_SPACE /* but for blanks and carriage returns at the ends of lines, and a missing last
                   newline */
};

struct matcher {
    const struct image *img;
    enum match_how how;
    uint64_t *work;
};

/* Do the old lines match from line `at` (from 0) on, less so many at the head and at the tail? */
bool match_at(const struct matcher *m, const struct hunk_lines *p, size_t at, size_t head,
              size_t tail);

/* The first line from `from` on where they do; SIZE_MAX if there is none. */
size_t match_find(const struct matcher *m, const struct hunk_lines *p, size_t from, size_t head,
                  size_t tail);

/* For a hunk without numbers: the place, or SIZE_MAX with *ret_why. It must not lie above `lowest`;
 * `expected` is where the hunk before it ended. */
size_t match_bare(const struct matcher *m, const struct hunk_lines *p, size_t lowest,
                  size_t expected, size_t head, size_t tail, enum place_why *ret_why);
