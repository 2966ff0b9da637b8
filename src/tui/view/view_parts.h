/* The parts of the view: copies of what is shown, and where it stands on the screen. */
#pragma once

#include "screen.h"
#include "transcript.h"
#include "view.h"

#define VIEW_FRAME_MS  33  /* between frames while text streams */
#define VIEW_SPIN_MS   100 /* a spinner's step */
#define VIEW_CHOICES   8   /* rows of completions */
#define VIEW_PANEL     200 /* entries of a list that are kept */
#define VIEW_INPUT_MAX (20u << 20)

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

struct status_line {
    char *model, *busy, *keys;
    struct view_status values; /* numbers only */
    int64_t busy_since;
};

struct view {
    struct screen *screen;
    struct transcript transcript;
    struct input_area input;
    struct status_line status;
    struct row *rows;
    int n_rows;
    int64_t (*now)(void); /* clock_now(), or a test's */
    int64_t drawn;        /* time of the last frame */
    unsigned tick;        /* of spinners in it */
    bool changed, urgent; /* since then; urgent: the user did it */
};

/* Replaces *to by a clean copy; NULL stays NULL. */
void view_set_string(char **to, const char *text);

void input_free(struct input_area *in);
void input_set(struct input_area *in, const struct view_input *given);
int input_height(struct input_area *in, int rows, int columns); /* rows of text that are shown */
int choices_height(const struct input_area *in, int rows);
void input_draw(struct input_area *in, struct screen *s, int row, int height);
void choices_draw(const struct input_area *in, struct screen *s, int row, int height, int columns);
