/*
 * The terminal as rows of cells. ncurses knows what is on it and sends the differences. The
 * terminal is restored in any case: when the screen is closed, and when a signal ends the program.
 */
#pragma once

#include "error.h"
#include "lines.h"
#include "theme.h"

struct screen;

/* -ENOTSUP: no terminal, or one that cannot move its cursor. */
int screen_open(struct screen **ret, struct error *err);
struct screen *screen_close(struct screen *s);

void screen_suspend(struct screen *s);
void screen_resume(struct screen *s);
void screen_resized(struct screen *s);
void screen_size(const struct screen *s, int *ret_rows, int *ret_columns);

/* A frame: everything is drawn again, and ncurses sends what changed. */
void screen_begin(struct screen *s);
/* `more`: flags for the whole line; reversed, it has one colour. */
void screen_line(struct screen *s, int row, int column, const struct lines *l, size_t line,
                 unsigned more);
/* `text` is clean. Returns the column after it. */
int screen_text(struct screen *s, int row, int column, unsigned style, const char *text);
int screen_text_cleaned(struct screen *s, int row, int column, unsigned style,
                        const char *text); /* for text that may not be clean */
void screen_rule(struct screen *s, int row);
void screen_end(struct screen *s, int cursor_row, int cursor_column); /* -1: no cursor */
