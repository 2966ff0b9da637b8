/*
 * The screen: the transcript above, the input with completions or a panel below it, and a status
 * line. The view decides what is where and how it looks; chat.h decides what happens.
 *
 * An item of the transcript is laid out for the width once, and again only when it changed: a frame
 * costs what is on the screen, and a stream of any length costs the paragraph at its end.
 *
 * All of it is used from one thread. Texts may be untrusted: they are cleaned here (clean.h).
 */
#pragma once

#include "screen.h"
#include "transcript.h"

/* The key that unfolds, as hints name it; chat_keys.c binds it. */
#define VIEW_FOLD_KEY "ctrl-o"

/* What the input shows; strings are borrowed and need not be clean. */
struct view_input {
    const char *text;           /* with newlines */
    size_t n, cursor;           /* bytes */
    const char *prompt;         /* before the first line */
    const char *hint;           /* shown muted while the text is empty; or NULL */
    const char *const *choices; /* completions, or entries of a panel, below the text */
    const char *const *details; /* a few words about each; or NULL */
    size_t n_choices;
    int chosen;        /* -1: none */
    const char *title; /* of a panel (review, history search); or NULL */
};

/* Strings are borrowed and need not be clean. */
struct view_status {
    const char *model;
    uint64_t context, window; /* tokens */
    bool cost_known;
    double cost;
    size_t changes;   /* files pending */
    const char *busy; /* the current activity, shown with a spinner and the time; NULL: idle */
    double busy_seconds;
    const char *keys; /* what can be pressed now; or NULL */
};

struct view {
    struct screen *screen;
    struct transcript transcript;
    struct lines input;           /* the input in the last frame */
    size_t cursor_row, input_top; /* its line with the cursor; its first line that is shown */
    int cursor_column;
    struct row *rows;
    int n_rows;
    int64_t (*now)(void); /* clock_now(), or a test's */
    unsigned tick;        /* of spinners in the last frame */
};

/* Takes the terminal, in raw mode and without echo; keys are read elsewhere. -ENOTSUP where it
 * cannot be drawn on. */
int view_open(struct view **ret, struct error *err);
struct view *view_close(struct view *v);

void view_event(struct view *v, const struct agent_event *e);

/* A message of the user, a note of hutch, or a git diff, which is folded like output. */
void view_add(struct view *v, enum item_kind kind, const char *text, size_t n);

/* For the functions of the transcript. */
struct layout view_layout(const struct view *v);

/* Draws a frame. Returns after how many milliseconds the next one is due for a spinner even if
 * nothing happens, or -1. */
int view_draw(struct view *v, const struct view_input *in, const struct view_status *s);
