/*
 * One thing of the transcript: a message of the user, an answer, a call with its output, … It keeps
 * its text (clean) and its lines for the width it was last shown in. Both are bounded.
 */
#pragma once

#include <jansson.h>

#include "event.h"
#include "markdown.h"

#define ITEM_TEXT_MAX    (16u << 20)
#define ITEM_INDENT      2   /* columns: the marks of items stand there */
#define ITEM_SUMMARY_MAX 240 /* columns of a call's summary that are kept */

enum item_kind {
    ITEM_USER,
    ITEM_ANSWER,
    ITEM_THINKING,
    ITEM_CALL,
    ITEM_DIFF,
    ITEM_NOTE,
    ITEM_CHANGES,
    ITEM_TRANSIENT, /* removed by the next event: a retry's wait, a call that the model is writing
                     */
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
void item_set_progress(struct item *it, const char *line);

/* How items are shown at the moment. */
struct layout {
    int width;
    int64_t now;
    unsigned tick;   /* of spinners */
    const char *key; /* that unfolds, for the hint */
};

/* The lines, laid out again if the width, the text or the time asks for it. */
const struct lines *item_lines(struct item *it, const struct layout *l);
bool item_moves(const struct item *it);               /* changes with time */
void item_forget_layout(struct item *it);             /* the height stays known */
size_t item_height(const struct item *it, int width); /* known or estimated */

const char *spinner(unsigned tick);
