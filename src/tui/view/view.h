/*
 * The screen: the transcript above, the input with completions or a panel below it, and a status
 * line. The view decides what is where and how it looks; chat.h decides what happens.
 *
 * An item of the transcript is laid out for the width once, and again only when it changed: a frame
 * costs what is on the screen, and a stream of any length costs the paragraph at its end.
 *
 * All of it is used from one thread. Texts may be untrusted: they are cleaned here (text.h).
 *
 * ncurses knows what is on the terminal and sends the differences. The terminal is restored in any
 * case: when the view is closed, and when a signal ends the program.
 *
 * The theme says how roles look. With 256 colours it has its own, for a dark or a light background
 * where that is known (COLORFGBG; HUTCH_THEME=dark|light), else such as are readable on both. With
 * another number it uses the terminal's eight, which the user has chosen to be readable. Most text
 * has no colour. NO_COLOR leaves bold and underline.
 */
#pragma once

#include "error.h"
#include "transcript.h"

/* The key that unfolds, as hints name it; chat_input.c binds it. */
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

struct theme {
    unsigned long attributes[ROLE_COUNT]; /* of ncurses, without the colour */
    short pairs[ROLE_COUNT];
    bool ascii;      /* the locale is not UTF-8: everything else is replaced */
    bool few_glyphs; /* the Linux console's font has lines, but no marks */
};

struct view {
    void *screen; /* of ncurses */
    struct theme theme;
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

/* Between these two the terminal is free for another program. */
void view_suspend(struct view *v);
void view_resume(struct view *v);
void view_resized(struct view *v); /* after SIGWINCH */

void view_event(struct view *v, const struct agent_event *e);

/* A message of the user, a note of hutch, or a git diff, which is folded like output. */
void view_add(struct view *v, enum item_kind kind, const char *text, size_t n);

/* For the functions of the transcript. */
struct layout view_layout(const struct view *v);

/* Draws a frame. Returns after how many milliseconds the next one is due for a spinner even if
 * nothing happens, or -1. */
int view_draw(struct view *v, const struct view_input *in, const struct view_status *s);

/* For tests. */

enum theme_background { BACKGROUND_UNKNOWN, BACKGROUND_DARK, BACKGROUND_LIGHT };

/* From the two variables; either may be NULL. */
enum theme_background theme_background(const char *hutch_theme, const char *colorfgbg);

/* The ASCII character to show instead of this one; 0: show it as it is. */
char theme_substitute(const struct theme *t, uint32_t code);
