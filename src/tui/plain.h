/* What the files of line mode share: who prints, and who reads lines. */
#pragma once

#include <stdbool.h>

#include "buf.h"
#include "desk.h"
#include "harmless.h"

/* Prints what the agent tells, as it comes. */
struct plain_show {
    bool harmless; /* stdout is a terminal: nothing of a stranger's reaches it raw */
    bool in_line;  /* something stands in the line already */
    bool aloud;    /* the output of the call under way is the person's own wish */
    int lost;      /* why stdout cannot be written any more, an errno; 0: it can */
    struct harmless state;
    struct buf answer; /* the text of the answer under way */
    size_t calls;      /* under way */
};
void plain_show_init(struct plain_show *s);
void plain_show_free(struct plain_show *s);
void plain_event(struct plain_show *s, const struct agent_event *e, unsigned attempt);
void plain_put(struct plain_show *s, const char *text, size_t n);  /* of a stranger */
void plain_line(struct plain_show *s, const char *text, size_t n); /* in a line of its own */

/* Reads what a person enters, which may be several lines: a line that ends in a backslash goes on,
 * and ''' in a line of its own begins and ends a block. */
#define PLAIN_LINE  1
#define PLAIN_BLOCK 2

struct plain_read {
    struct buf in;
    bool ended;
    volatile bool *stop; /* becomes true when nothing is to be read any more */
};
void plain_read_init(struct plain_read *r, volatile bool *stop);
void plain_read_free(struct plain_read *r);

/* PLAIN_LINE or PLAIN_BLOCK with what was entered, which in a block is no command; 0 at the end, or
 * a negative errno: -EINTR if it was stopped. `prompt` and `more` are printed where stdin is a
 * terminal; or NULL. */
int plain_read(struct plain_read *r, const char *prompt, const char *more, struct buf *ret);
