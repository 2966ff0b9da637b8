/*
 * The screen: the transcript above, the input with completions or a panel below it, and a status
 * line. The view decides what is where and how it looks; chat.h decides what happens.
 *
 * The transcript is a list of items (messages of the user, answers, thoughts, calls with their
 * output, notes). An item is laid out for the width once, and again only when it changed: a frame
 * costs what is on the screen, and a stream of any length costs the paragraph at its end.
 *
 * All of it is used from one thread. Texts may be untrusted: they are cleaned here (clean.h).
 */
#pragma once

#include "input_area.h"
#include "transcript.h"

/* The key that unfolds, as hints name it; chat_keys.c binds it. */
#define VIEW_FOLD_KEY "ctrl-o"

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
    struct input_area input;
    struct row *rows;
    int n_rows;
    int64_t (*now)(void); /* clock_now(), or a test's */
    unsigned tick;        /* of spinners in the last frame */
};

/* Takes the terminal, in raw mode and without echo; keys are read elsewhere. -ENOTSUP where it
 * cannot be drawn on. */
int view_open(struct view **ret, struct error *err);
struct view *view_close(struct view *v);

/* Between these two the terminal is free for another program. */
void view_suspend(struct view *v);
void view_resume(struct view *v);

void view_resized(struct view *v); /* after SIGWINCH / KEY_RESIZE */

/* The transcript. */
void view_user(struct view *v, const char *text); /* a message of the user */
void view_event(struct view *v, const struct agent_event *e);
void view_note(struct view *v, const char *text); /* of hutch: results of commands, errors */
void view_diff(struct view *v, const char *diff, size_t n); /* a git diff, folded like output */
void view_clear(struct view *v);

/* Scrolling. While the end is shown, it stays in view when text is added. */
void view_scroll(struct view *v, int lines);
void view_page(struct view *v, int pages);
void view_top(struct view *v);
void view_end(struct view *v);

/* Folded items (output, thoughts): the selection moves between them. */
void view_select(struct view *v, int by); /* -1: the one before, 1: the next; 0: none */
bool view_toggle(struct view *v); /* the selected one, else the last; false: there is none */
void view_toggle_all(struct view *v);

/* Draws a frame. Returns after how many milliseconds the next one is due for a spinner even if
 * nothing happens, or -1. */
int view_draw(struct view *v, const struct view_input *in, const struct view_status *s);
