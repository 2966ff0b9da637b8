/*
 * The terminal as rows of cells. ncurses knows what is on it and sends the differences. The
 * terminal is restored in any case: when the screen is closed, and when a signal ends the program.
 *
 * The theme says how roles look. With 256 colours it has its own, for a dark or a light background
 * where that is known (COLORFGBG; HUTCH_THEME=dark|light), else such as are readable on both. With
 * fewer it uses the terminal's eight, which the user has chosen to be readable. Most text has no
 * colour. NO_COLOR leaves bold and underline.
 */
#pragma once

#include "error.h"
#include "lines.h"

struct screen;

/* -ENOTSUP: no terminal, or one that cannot move its cursor. */
int screen_open(struct screen **ret, struct error *err);
struct screen *screen_close(struct screen *s);

/* Between these two the terminal is free for another program. */
void screen_suspend(struct screen *s);
void screen_resume(struct screen *s);

void screen_resized(struct screen *s); /* after SIGWINCH */
void screen_size(const struct screen *s, int *ret_rows, int *ret_columns);

/* A frame: everything is drawn again, and ncurses sends what changed. */
void screen_begin(struct screen *s);
/* `more`: flags for the whole line; reversed, it has one colour. */
void screen_line(struct screen *s, int row, const struct lines *l, size_t line, unsigned more);
/* The text is cleaned first. Returns the column after it. */
int screen_text(struct screen *s, int row, int column, unsigned style, const char *text);
void screen_end(struct screen *s, int cursor_row, int cursor_column);

/* For tests. */

enum theme_background { BACKGROUND_UNKNOWN, BACKGROUND_DARK, BACKGROUND_LIGHT };

struct theme {
    unsigned long attributes[ROLE_COUNT]; /* of ncurses, without the colour */
    short pairs[ROLE_COUNT];
    bool ascii;      /* the locale is not UTF-8: everything else is replaced */
    bool few_glyphs; /* the Linux console's font has lines, but no marks */
};

/* From the two variables; either may be NULL. */
enum theme_background theme_background(const char *hutch_theme, const char *colorfgbg);

/* The ASCII character to show instead of this one; 0: show it as it is. */
char theme_substitute(const struct theme *t, uint32_t code);
