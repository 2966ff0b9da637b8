/*
 * The transcript: items from the top to the end, and which part of them is on the screen. Only what
 * is shown is laid out; the height of the rest, where it matters (how much lies below), is
 * estimated.
 *
 * A position is an item and a line in it, so that nothing above has to be known. While the end is
 * shown, it stays in view when lines are added.
 */
#pragma once

#include "item.h"

/* With more items or more text than this, the oldest are dropped. */
#define TRANSCRIPT_ITEMS 50000
#define TRANSCRIPT_BYTES (64u << 20) /* checked now and then */
#define TRANSCRIPT_LINES 20000       /* lines of layouts that are kept though they are not shown */

struct transcript {
    struct item **items;
    size_t count, cap;
    struct item *transient; /* after the last, until the next event; or NULL */
    size_t answer;          /* first item of the answer that streams */
    bool follow;            /* the end is shown */
    size_t top;             /* first item that is shown … */
    size_t top_line;        /* … and its first line; 0: the empty line before it */
    size_t shown_end;       /* the item after the last that was shown */
    int height, width;      /* when it was last shown */
    unsigned shows;         /* how often it was shown */
    size_t selected;        /* item, or TRANSCRIPT_NONE */
    bool all_open;
};
#define TRANSCRIPT_NONE SIZE_MAX

/* One row of the screen; lines is NULL for an empty one. */
struct row {
    const struct lines *lines;
    size_t line;
    bool selected;
};

void transcript_open(struct transcript *t);
void transcript_clear(struct transcript *t);

/* A new item at the end; NULL without memory. */
struct item *transcript_add(struct transcript *t, enum item_kind kind);
void transcript_event(struct transcript *t, const struct agent_event *e, int64_t now);

/* The contents of `height` rows. */
void transcript_rows(struct transcript *t, const struct layout *l, int height, struct row *ret);
size_t transcript_below(const struct transcript *t,
                        int width);                /* lines, estimated; 0: at the end */
bool transcript_moves(const struct transcript *t); /* something shown changes with time */

void transcript_scroll(struct transcript *t, const struct layout *l, long lines);
void transcript_top(struct transcript *t);
void transcript_end(struct transcript *t);

void transcript_select(struct transcript *t, const struct layout *l, int by);
bool transcript_toggle(struct transcript *t, const struct layout *l);
void transcript_toggle_all(struct transcript *t);
