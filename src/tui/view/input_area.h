/*
 * The input: the text with its cursor, wrapped as it is typed, at most a third of the screen; below
 * it a list of choices.
 */
#pragma once

#include "screen.h"

#define INPUT_MAX     (20u << 20)
#define CHOICES_SHOWN 8   /* rows of completions */
#define CHOICES_MAX   200 /* entries of a list that are kept */

/* The input. Strings are borrowed for the call. */
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

struct input_area {
    struct buf text;
    size_t cursor;
    char *prompt, *hint, *title;
    char **choices, **details;
    size_t n_choices;
    int chosen;

    struct lines lines;
    int width; /* of the layout; 0: there is none */
    size_t cursor_row, top;
    int cursor_column;
};

void input_free(struct input_area *in);
void input_set(struct input_area *in, const struct view_input *given);
int input_height(struct input_area *in, int rows, int columns); /* rows of text that are shown */
int choices_height(const struct input_area *in, int rows);
void input_draw(struct input_area *in, struct screen *s, int row, int height);
void choices_draw(const struct input_area *in, struct screen *s, int row, int height, int columns);
