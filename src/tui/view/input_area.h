/*
 * The input: the text with its cursor, wrapped as it is typed, at most a third of the screen; below
 * it a list of choices.
 */
#pragma once

#include "screen.h"

#define CHOICES_SHOWN 8 /* rows of completions */

/* What is shown; strings are borrowed and need not be clean. */
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

/* The layout of the text in the last frame. */
struct input_area {
    struct lines lines;
    size_t cursor_row, top; /* line of the cursor; first line that is shown */
    int cursor_column;
};

/* Lays the text out; returns how many rows of it are shown. */
int input_lay_out(struct input_area *in, const struct view_input *given, int rows, int columns);
void input_draw(const struct input_area *in, struct screen *s, int row, int height);

int choices_height(const struct view_input *given, int rows);
void choices_draw(const struct view_input *given, struct screen *s, int row, int height,
                  int columns);
