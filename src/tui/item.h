/*
 * One thing of the transcript: what a person said, an answer, a call with its output, … It keeps
 * its text (clean) and, for the width it was last shown in, its lines. Both are bounded.
 */
#pragma once

#include <jansson.h>

#include "event.h"
#include "line.h"
#include "markdown.h"
#include "wrap.h"

#define ITEM_TEXT_MAX (16u << 20)
#define ITEM_INDENT   2 /* columns: the marks of items stand there */
#define ITEM_SHOWN                                                                                 \
    240 /* bytes of a call's summary that are kept at most: more than fits on a line */

enum item_kind {
    ITEM_PERSON,
    ITEM_ANSWER,
    ITEM_THINKING,
    ITEM_CALL,
    ITEM_DIFF,
    ITEM_NOTE,
    ITEM_CHANGES,
    ITEM_PASSING, /* what is gone with the next event: a wait, a call whose input is being written
                   */
};

enum call_state { CALL_RUNNING, CALL_WELL, CALL_BADLY, CALL_STOPPED };

/* What lies under a call's line, and how many lines of it are shown while it is folded. */
struct item_body {
    bool diff, plan;
    bool quiet; /* nothing of it while it is folded, if the call went well */
    uint8_t head, tail;
};

struct item {
    enum item_kind kind;
    struct buf
        raw; /* of a stream that runs: as it was given, since AGENT_BACK counts in those bytes */
    struct buf text; /* clean: the words, the output, the diff */
    bool open;       /* unfolded */
    bool folds;      /* there is something to unfold; known once it was laid out */
    bool over;       /* of a stream: nothing more comes */

    /* Of a call; `summary` and `outcome` are clean. */
    char *id, *name, *summary, *outcome;
    char *last; /* line of the output of one that runs */
    enum call_state state;
    struct item_body body;
    double seconds;
    int64_t began; /* of a call, or of thoughts */

    /* The layout. */
    struct lines lines;
    struct markdown markdown; /* of an answer, in place of `lines` */
    int width;                /* it was made for; 0: there is none */
    bool stale;               /* text has changed since */
    size_t height;            /* of the last layout, or a guess */
};

struct item *item_new(enum item_kind kind);
struct item *item_free(struct item *it);

/* Adds to the text; the second: what a stream says, kept also as it came. */
void item_say(struct item *it, const char *text, size_t n, bool output);
void item_stream(struct item *it, const char *text, size_t n);
void item_stream_cut(struct item *it, size_t keep); /* bytes as they came */

/* Calls (call.c). */
void item_call(struct item *it, const struct agent_event *e, int64_t now);
void item_result(struct item *it, const struct agent_event *e);
void item_progress(struct item *it, const char *line);
void item_changes(struct item *it, const struct agent_changes *c);

/* How it is to be shown just now. */
struct item_look {
    int width;
    int64_t now;
    unsigned tick;   /* of spinners */
    const char *key; /* that unfolds, for the hint */
};

/* The lines, made if they are not there or not right any more. */
const struct lines *item_lines(struct item *it, const struct item_look *look);
bool item_moves(const struct item *it); /* it changes with time: it runs, or is told to wait */
void item_forget(struct item *it);      /* the layout; the height stays known */
size_t item_height(const struct item *it, int width); /* known or guessed, without laying out */

/* Parts of layouts (item_call.c, item_diff.c). */
void call_lines(struct item *it, const struct item_look *look);
/* `most` lines of the diff, each one row, and how many are left out; all of them, wrapped, with
 * SIZE_MAX. True: a line was cut. */
bool diff_lines(const char *text, size_t n, size_t most, const char *margin, int width,
                struct lines *out, size_t *ret_left);
const char *spinner(unsigned tick);

/* Text without its beginning, as C string; "" where there is none. */
char *clean_string(const char *text, size_t n, size_t most);
