/*
 * How roles look on this terminal. With 256 colours or more the theme has colours of its own,
 * chosen for a dark or a light background where that is known (COLORFGBG; HUTCH_THEME=dark|light),
 * else such as are readable on both; with fewer the terminal's own eight, which its owner has
 * chosen to be readable. Most text has no colour at all. NO_COLOR leaves bold and underlined.
 */
#pragma once

#include <stdbool.h>

#include "line.h"

enum theme_ground { GROUND_UNKNOWN, GROUND_DARK, GROUND_LIGHT };

struct theme {
    unsigned long attributes[ROLE_COUNT]; /* of ncurses, without the colour */
    short pairs[ROLE_COUNT];
    bool ascii;      /* the locale is not UTF-8: stand-ins for everything else */
    bool few_glyphs; /* the console's font has lines, but no marks */
};

void theme_open(struct theme *t, const char *term);

/* Found out from the environment. */
enum theme_ground theme_ground(const char *hutch_theme, const char *colorfgbg);

/* A character for terminals that cannot show this one; 0: show it as it is. */
char theme_stand_in(const struct theme *t, uint32_t code);
