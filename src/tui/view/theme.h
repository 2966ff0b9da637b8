/*
 * How roles look on this terminal. With 256 colours the theme has its own, for a dark or a light
 * background where that is known (COLORFGBG; HUTCH_THEME=dark|light), else such as are readable on
 * both. With fewer it uses the terminal's eight, which the user has chosen to be readable. Most
 * text has no colour. NO_COLOR leaves bold and underline.
 */
#pragma once

#include <stdbool.h>

#include "lines.h"

enum theme_background { BACKGROUND_UNKNOWN, BACKGROUND_DARK, BACKGROUND_LIGHT };

struct theme {
    unsigned long attributes[ROLE_COUNT]; /* of ncurses, without the colour */
    short pairs[ROLE_COUNT];
    bool ascii;      /* the locale is not UTF-8: everything else is replaced */
    bool few_glyphs; /* the Linux console's font has lines, but no marks */
};

void theme_open(struct theme *t, const char *term);

/* From the two variables; either may be NULL. */
enum theme_background theme_background(const char *hutch_theme, const char *colorfgbg);

/* The ASCII character to show instead of this one; 0: show it as it is. */
char theme_substitute(const struct theme *t, uint32_t code);
