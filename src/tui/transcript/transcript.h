/*
 * The transcript: items (messages of the user, answers, calls with their output, …) from the top to
 * the end, and which part of them is on the screen. An item keeps its text (clean) and its lines
 * for the width it was last shown in; both are bounded. Only what is shown is laid out; the height
 * of the rest, where it matters (how much lies below), is estimated.
 *
 * A position is an item and a line in it, so that nothing above has to be known. While the end is
 * shown, it stays in view when lines are added.
 */
#pragma once

#include <jansson.h>

#include "event.h"
#include "markdown.h"

#define ITEM_TEXT_MAX (16u << 20)
#define ITEM_INDENT   2 /* columns: the marks of items stand there */

enum item_kind {
    ITEM_USER,
    ITEM_ANSWER,
    ITEM_THINKING,
    ITEM_CALL,
    ITEM_DIFF,
    ITEM_NOTE,
    ITEM_CHANGES,
    ITEM_TRANSIENT, /* removed by the next event: a retry's wait, a call the model is writing */
};

enum call_state { CALL_RUNNING, CALL_OK, CALL_FAILED, CALL_STOPPED };

struct item {
    enum item_kind kind;
    struct buf raw;  /* of a stream: the text as it came, since AGENT_BACK counts in its bytes */
    struct buf text; /* clean: the message, the output, the diff */
    bool open;       /* unfolded */
    bool folds;      /* there is something to unfold; known once it was laid out */
    bool over;       /* of a stream: complete */

    /* Of a call; the strings are clean. */
    char *id, *name, *summary, *outcome;
    char *last_output; /* line of a running call */
    enum call_state state;
    const struct tool_view *view; /* how its body is shown */
    double seconds;
    int64_t began; /* of a call or thoughts; of a wait, when it ends */
    int attempt;   /* that follows a wait */

    /* The layout. */
    struct lines lines;
    struct markdown markdown; /* of an answer, instead of `lines` */
    int width;                /* of the layout; 0: there is none */
    bool stale;               /* the text has changed since */
    size_t height;            /* of the last layout; 0: never laid out */
};

struct item *item_new(enum item_kind kind);
struct item *item_free(struct item *it);

/* Append to the text. item_stream() also keeps the raw bytes, item_stream_cut() goes back to the
 * first `keep` of those. */
void item_append(struct item *it, const char *text, size_t n, bool output);
void item_stream(struct item *it, const char *text, size_t n);
void item_stream_cut(struct item *it, size_t keep);

void item_set_call(struct item *it, const struct agent_event *e, int64_t now);
void item_set_result(struct item *it, const struct agent_event *e);

/* How items are shown at the moment. */
struct layout {
    int width;
    int64_t now;
    unsigned tick;   /* of spinners */
    const char *key; /* that unfolds, for the hint */
};

/* The lines, laid out again if the width, the text or the time asks for it. */
const struct lines *item_lines(struct item *it, const struct layout *l);
bool item_moves(const struct item *it);   /* changes with time */
void item_forget_layout(struct item *it); /* the height stays known */

const char *spinner(unsigned tick);

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

/* Down, or up if negative; LONG_MIN and LONG_MAX: to the top, to the end. */
void transcript_scroll(struct transcript *t, const struct layout *l, long lines);
void transcript_page(struct transcript *t, const struct layout *l, int pages); /* overlaps by two */

/* Folded items (output, thoughts): the selection moves to the one before (-1) or the next (1). */
void transcript_select(struct transcript *t, const struct layout *l, int by);

/* Folds or unfolds the selected item, else the last one (false: there is none); or all of them. */
bool transcript_toggle(struct transcript *t, const struct layout *l);
void transcript_toggle_all(struct transcript *t);
