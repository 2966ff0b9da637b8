/* The view's parts: what was told, kept as it was told, and where it stands on the screen. */
#pragma once

#include "screen.h"
#include "transcript.h"
#include "view.h"

#define VIEW_FRAME_MS  33  /* no more frames than that while text streams */
#define VIEW_SPIN_MS   100 /* a spinner's step */
#define VIEW_CHOICES   8   /* rows of completions */
#define VIEW_PANEL     200 /* entries of a list that are kept around the chosen one */
#define VIEW_INPUT_MAX (20u << 20)

/* The input, laid out; `text` and the others are copies. */
struct input_area {
    struct buf text; /* as it was given */
    size_t cursor;
    char *prompt, *hint, *title;
    char **choices, **details;
    size_t n_choices;
    int chosen; /* of those kept */

    struct lines lines;
    int width; /* it was laid out for; 0: it is not */
    size_t cursor_row, top;
    int cursor_column;
};

struct status_bar {
    char *model, *busy, *keys;
    struct view_status told; /* numbers only */
    int64_t busy_since;
};

struct view {
    struct screen *screen;
    struct transcript transcript;
    struct input_area input;
    struct status_bar status;
    struct row *rows;
    int n_rows;
    int64_t (*now)(void); /* clock_now, but for tests */
    int64_t drawn;        /* when */
    unsigned tick;        /* of the spinners that were drawn */
    bool changed, urgent; /* since then; urgent: a person waits for it */
};

void input_free(struct input_area *in);
void input_take(struct input_area *in, const struct view_input *given);
int input_height(struct input_area *in, int rows, int columns); /* rows of text that are shown */
int choices_height(const struct input_area *in, int rows);
void input_draw(struct input_area *in, struct screen *s, int row, int height);
void choices_draw(const struct input_area *in, struct screen *s, int row, int height, int columns);

void status_free(struct status_bar *b);
void status_take(struct status_bar *b, const struct view_status *given, int64_t now);
void status_draw(const struct status_bar *b, struct screen *s, int row, int columns, unsigned tick,
                 int64_t now);
