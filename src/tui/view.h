/*
 * The screen: the transcript above, the input with its completions or a panel below, one status
 * line. What is where and how it looks is decided here; what happens is not (chat.h).
 *
 * The transcript is a list of items (the person's words, answers, thoughts, calls with their
 * output, notes). An item is laid out in lines for the width once and again only when it changed,
 * so that a frame costs what is on the screen, and a stream of any length costs the paragraph it is
 * in.
 *
 * All of it is used from one thread. Texts are untrusted unless said otherwise: made harmless here,
 * at the one place where characters become cells.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "event.h"

/* The key that toggles, as hints name it; chat binds it. */
#define VIEW_FOLD_KEY "ctrl-o"

struct view;

/* -ENOTSUP where there is no terminal that can be drawn on: plain mode serves then. Keys are not
 * read here: the terminal is in raw mode, without echo. */
int view_open(struct view **ret, struct error *err); /* takes the terminal */
struct view *view_close(struct view *v);             /* and gives it back, as it was */

/* Between these two the terminal is its own again: for a pager, say, or SIGTSTP. */
void view_suspend(struct view *v);
void view_resume(struct view *v);

void view_resized(struct view *v); /* after SIGWINCH / KEY_RESIZE */

/* The transcript. */
void view_person(struct view *v, const char *words);          /* what the person said */
void view_event(struct view *v, const struct agent_event *e); /* what the agent tells */
void view_note(struct view *v, const char *text); /* what hutch says: answers of commands, errors */
void view_diff(struct view *v, const char *diff,
               size_t n); /* a git diff, coloured; opened and folded like output */
void view_clear(struct view *v);

/* Scrolling by lines; a page or everything by view_page, view_top, view_end. New text follows the
 * end while the end is shown. */
void view_scroll(struct view *v, int lines);
void view_page(struct view *v, int pages);
void view_top(struct view *v);
void view_end(struct view *v);

/* Folded items (output, thoughts): the selection moves between them, the selected one opens or
 * folds; or all do. */
void view_select(struct view *v, int by); /* -1: the one before, 1: the next; 0: none */
bool view_toggle(struct view *v); /* the selected one, else the last; false: there is none */
void view_toggle_all(struct view *v);

/* The input as it is to be shown: lines of text with the cursor. Borrowed for the call. */
struct view_input {
    const char *text;   /* with newlines */
    size_t n, cursor;   /* bytes */
    const char *prompt; /* in front of the first line */
    const char *hint;   /* shown grey where the text is empty; or NULL */
    const char *const
        *choices; /* completions, or entries of a panel, shown above the status line */
    const char *const *details; /* a few words to each; or NULL */
    size_t n_choices;
    int chosen;        /* -1: none */
    const char *title; /* of a panel (review, history search); or NULL */
};
void view_input(struct view *v, const struct view_input *in);

struct view_status {
    const char *model, *session, *workspace;
    uint64_t context, window; /* tokens */
    bool cost_known;
    double cost;
    size_t changes; /* files pending */
    const char
        *busy; /* what is going on ("thinking", "bash"), with a spinner and the time; NULL: idle */
    double busy_seconds;
    const char *keys; /* a hint on what can be pressed now; or NULL */
};
void view_status(struct view *v, const struct view_status *s);

/* Draws what changed, nothing else; text that streams no more than 30 times a second, so it may be
 * called after every event. Returns how many milliseconds later it wants to be called again though
 * nothing happens (a spinner, text that waits for its frame), or -1. */
int view_draw(struct view *v);
