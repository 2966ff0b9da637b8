#include <curses.h>
#include <langinfo.h>
#include <stdlib.h>
#include <string.h>
#include <term.h>

#undef lines /* term.h defines these as macros */
#undef columns

#include "cleanup.h"
#include "theme.h"
#include "banned.h"

struct colour {
    short plain;               /* of eight; -1: the default colour */
    short both, dark, light;   /* of 256; -1: the default colour */
    attr_t always, colourless; /* attributes; the second where there is no colour for it */
};

static const struct colour COLOURS[ROLE_COUNT] = {
    [ROLE_TEXT] = {-1, -1, -1, -1, 0, 0},
    [ROLE_MUTED] = {-1, 244, 245, 242, 0, A_DIM},
    [ROLE_ACCENT] = {COLOR_CYAN, 67, 110, 25, 0, A_BOLD},
    [ROLE_HEADING] = {-1, -1, -1, -1, A_BOLD, 0},
    [ROLE_CODE] = {COLOR_CYAN, 136, 180, 94, 0, A_BOLD},
    [ROLE_LINK] = {-1, 67, 110, 25, A_UNDERLINE, 0},
    [ROLE_GOOD] = {COLOR_GREEN, 71, 108, 28, 0, A_BOLD},
    [ROLE_BAD] = {COLOR_RED, 167, 174, 124, 0, A_BOLD},
    [ROLE_WARN] = {COLOR_YELLOW, 172, 179, 130, 0, A_BOLD},
    [ROLE_KEYWORD] = {COLOR_MAGENTA, 133, 139, 90, 0, A_BOLD},
    [ROLE_STRING] = {COLOR_GREEN, 71, 108, 28, 0, 0},
    [ROLE_COMMENT] = {-1, 244, 245, 242, 0, A_DIM},
    [ROLE_ADDED] = {COLOR_GREEN, 71, 108, 28, 0, 0},
    [ROLE_DELETED] = {COLOR_RED, 167, 174, 124, 0, 0},
    [ROLE_HUNK] = {COLOR_CYAN, 67, 110, 25, 0, A_DIM},
};

enum theme_background theme_background(const char *hutch_theme, const char *colorfgbg)
{
    if (hutch_theme && strcmp(hutch_theme, "dark") == 0)
        return BACKGROUND_DARK;
    if (hutch_theme && strcmp(hutch_theme, "light") == 0)
        return BACKGROUND_LIGHT;
    const char *last = colorfgbg ? strrchr(colorfgbg, ';') : NULL;
    char *end;
    long background = last ? strtol(last + 1, &end, 10) : -1;
    if (!last || end == last + 1 || *end || background < 0 || background > 15)
        return BACKGROUND_UNKNOWN;
    return background == 7 || background == 15 ? BACKGROUND_LIGHT : BACKGROUND_DARK;
}

static void theme_set_colours(struct theme *t)
{
    static const int steps[] = {0, 95, 135, 175, 215, 255};
    enum theme_background background = theme_background(getenv("HUTCH_THEME"), getenv("COLORFGBG"));
    for (int i = 0; i < ROLE_COUNT; i++) {
        const struct colour *c = &COLOURS[i];
        int colour = COLORS < 256                     ? c->plain
                     : background == BACKGROUND_DARK  ? c->dark
                     : background == BACKGROUND_LIGHT ? c->light
                                                      : c->both;
        /* With direct colours, one of the 256 is 0xRRGGBB. */
        if (colour >= 232 && COLORS > 256 && tigetflag("RGB") > 0)
            colour = (8 + (colour - 232) * 10) * 0x010101;
        else if (colour >= 16 && COLORS > 256 && tigetflag("RGB") > 0)
            colour = steps[(colour - 16) / 36] << 16 | steps[(colour - 16) / 6 % 6] << 8 |
                     steps[(colour - 16) % 6];
        if (colour >= 0 && init_extended_pair(i + 1, colour, -1) != ERR)
            t->pairs[i] = (short)(i + 1);
    }
}

void theme_open(struct theme *t, const char *term)
{
    const char *no_color = getenv("NO_COLOR");
    *t = (struct theme){.ascii = strcmp(nl_langinfo(CODESET), "UTF-8") != 0,
                        .few_glyphs = term && strcmp(term, "linux") == 0};
    if (!(no_color && *no_color) && has_colors() && start_color() != ERR &&
        use_default_colors() != ERR)
        theme_set_colours(t);
    for (int i = 0; i < ROLE_COUNT; i++)
        t->attributes[i] = COLOURS[i].always | (t->pairs[i] ? 0 : COLOURS[i].colourless);
}

char theme_substitute(const struct theme *t, uint32_t code)
{
    static const struct {
        uint32_t code;
        char ascii;
        bool in_console; /* the font of the Linux console has it */
    } SUBSTITUTES[] = {
        {0x25b8, '>', false},  {0x203a, '>', false},  {0x2713, 'v', false}, {0x2717, 'x', false},
        {0x2234, '*', false},  {0x00b1, '~', true},   {0x00b7, '.', true},  {0x2022, '*', true},
        {0x25cb, 'o', true},   {0x25e6, '-', false},  {0x25aa, '-', false}, {0x2026, '~', false},
        {0x2212, '-', false},  {0x2014, '-', false},  {0x2013, '-', false}, {0x2193, 'v', true},
        {0x2018, '\'', false}, {0x2019, '\'', false}, {0x201c, '"', false}, {0x201d, '"', false},
        {0x2192, '>', true},   {0x2500, '-', true},   {0x2502, '|', true},
    };
    if (code < 0x80 || (!t->ascii && !t->few_glyphs))
        return 0;
    for (size_t i = 0; i < ARRAY_SIZE(SUBSTITUTES); i++)
        if (SUBSTITUTES[i].code == code)
            return t->ascii || !SUBSTITUTES[i].in_console ? SUBSTITUTES[i].ascii : 0;
    if (code >= 0x2800 && code <= 0x28ff) /* spinners */
        return "|/-\\"[code / 3 % 4];
    if (code >= 0x2500 && code <= 0x257f)
        return t->ascii ? '+' : 0;
    return t->ascii ? '?' : 0;
}
