/*
 * The transcript: items from the top to the end, and which part of them is on the screen. Only what
 * is shown is laid out; where the rest is needed (how much lies below), its height is guessed.
 *
 * A position is an item and a line in it, so that nothing above has to be known. While the end is
 * shown, new lines keep it shown.
 */
#pragma once

#include "item.h"

#define TRANSCRIPT_ITEMS 50000 /* above, or with more text than that, the oldest are dropped */
#define TRANSCRIPT_BYTES (64u << 20) /* (looked at now and then) */
#define TRANSCRIPT_LINES 20000       /* lines of layouts that are kept though not shown */

struct transcript {
    struct item **items;
    size_t count, cap;
    struct item *passing; /* behind the last, until the next event; or NULL */
    size_t answer;        /* the first item of the answer that streams */
    bool follow;          /* the end is shown */
    size_t top, top_line; /* else: the first item that is shown, and its first line (0: the empty
                             one before) */
    size_t shown_end;     /* the item behind the last that was shown */
    int height, width;    /* when it was last shown */
    unsigned shows;       /* how often it was */
    size_t selected;      /* item; TRANSCRIPT_NONE */
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

/* What is in the `height` rows. */
void transcript_rows(struct transcript *t, const struct item_look *look, int height,
                     struct row *ret);
size_t transcript_below(const struct transcript *t,
                        int width);                /* lines, about; 0: the end is shown */
bool transcript_moves(const struct transcript *t); /* something shown changes with time */

void transcript_scroll(struct transcript *t, const struct item_look *look, long lines);
void transcript_top(struct transcript *t);
void transcript_end(struct transcript *t);

void transcript_select(struct transcript *t, const struct item_look *look, int by);
bool transcript_toggle(struct transcript *t, const struct item_look *look);
void transcript_toggle_all(struct transcript *t);
