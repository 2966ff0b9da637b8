#include <curses.h>
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <term.h>
#include <termios.h>
#include <unistd.h>

#undef lines /* term.h defines these as macros */
#undef columns

#include "lines.h"
#include "screen.h"
#include "banned.h"

/* The terminal is restored when a signal ends the program: its modes, its screen, its cursor. */

static const int FATAL_SIGNALS[] = {SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,
                                    SIGABRT, SIGQUIT, SIGTERM, SIGHUP};

/* Everything the handler needs is prepared here: it can call nothing that allocates. A process has
 * one terminal, so this is global. */
static struct {
    struct termios modes;
    char reset[512]; /* escape sequences that leave the alternate screen and so on */
    size_t n;
    bool has_modes;
    struct sigaction before[ARRAY_SIZE(FATAL_SIGNALS)];
    bool taken[ARRAY_SIZE(FATAL_SIGNALS)];
} restore;

static void restore_terminal(int signal)
{
    if (write(STDOUT_FILENO, restore.reset, restore.n) < 0)
        restore.n = 0;
    if (restore.has_modes)
        tcsetattr(STDIN_FILENO, TCSANOW, &restore.modes);
    raise(signal); /* now with its default effect (SA_RESETHAND) */
}

/* Before ncurses changes anything. */
static void restore_arm(void)
{
    struct sigaction act = {.sa_handler = restore_terminal, .sa_flags = SA_RESETHAND | SA_NODEFER};
    restore.has_modes = tcgetattr(STDIN_FILENO, &restore.modes) == 0;
    restore.n = 0;
    for (size_t i = 0; i < ARRAY_SIZE(FATAL_SIGNALS); i++) {
        sigaction(FATAL_SIGNALS[i], NULL, &restore.before[i]);
        restore.taken[i] = restore.before[i].sa_handler == SIG_DFL;
        if (restore.taken[i])
            sigaction(FATAL_SIGNALS[i], &act, NULL);
    }
}

/* Once ncurses knows the terminal. */
static void restore_prepare(void)
{
    static const char *const capabilities[] = {"sgr0", "cnorm", "rmkx", "rmcup"};
    bool simple = strstr(termname(), "linux") || strstr(termname(), "vt100");
    /* the modes of KEYS_ON */
    int begin = snprintf(restore.reset, sizeof restore.reset, "\033[?2004l%s",
                         simple ? "" : "\033[>4;0m\033[<u");
    size_t n = (size_t)begin;
    for (size_t i = 0; i < ARRAY_SIZE(capabilities); i++) {
        const char *s = tigetstr(capabilities[i]);
        while (s && (intptr_t)s != -1 && *s && n < sizeof restore.reset) {
            /* without the delays (`$<5>`) of terminfo strings */
            const char *end = s[0] == '$' && s[1] == '<' ? strchr(s, '>') : NULL;
            if (end)
                s = end + 1;
            else
                restore.reset[n++] = *s++;
        }
    }
    restore.n = n;
}

/* Once ncurses has restored the terminal itself. */
static void restore_disarm(void)
{
    for (size_t i = 0; i < ARRAY_SIZE(FATAL_SIGNALS); i++)
        if (restore.taken[i])
            sigaction(FATAL_SIGNALS[i], &restore.before[i], NULL);
    memset(restore.taken, 0, sizeof restore.taken);
}

/* The theme. */

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

static void theme_open(struct theme *t, const char *term)
{
    static const int steps[] = {0, 95, 135, 175, 215, 255};
    enum theme_background background = theme_background(getenv("HUTCH_THEME"), getenv("COLORFGBG"));
    const char *no_color = getenv("NO_COLOR");
    bool colours = !(no_color && *no_color) && has_colors() && start_color() != ERR &&
                   use_default_colors() != ERR;
    *t = (struct theme){.ascii = strcmp(nl_langinfo(CODESET), "UTF-8") != 0,
                        .few_glyphs = term && strcmp(term, "linux") == 0};
    for (int i = 0; i < ROLE_COUNT; i++) {
        const struct colour *c = &COLOURS[i];
        int colour = !colours                         ? -1
                     : COLORS < 256                   ? c->plain
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
        t->attributes[i] = c->always | (t->pairs[i] ? 0 : c->colourless);
    }
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

/* The screen. */

struct screen {
    SCREEN *screen;
    struct theme theme;
};

int screen_open(struct screen **ret, struct error *err)
{
    const char *term = getenv("TERM"), *locale = getenv("LC_ALL");
    locale = locale && *locale ? locale : getenv("LC_CTYPE");
    locale = locale && *locale ? locale : getenv("LANG");
    /* UTF-8, unless the environment names another locale. */
    setlocale(LC_CTYPE, locale && *locale ? "" : "C.UTF-8");

    /* newterm() succeeds on terminals that can do nothing. */
    bool can =
        term && *term && strcmp(term, "dumb") != 0 && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    int found;
    if (can && (can = setupterm(term, STDOUT_FILENO, &found) == OK)) {
        const char *move_cursor = tigetstr("cup");
        can = move_cursor && (intptr_t)move_cursor != -1;
        del_curterm(cur_term);
    }
    struct screen *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(err, ENOMEM, "no memory");
    restore_arm();
    s->screen = can ? newterm(NULL, stdout, stdin) : NULL;
    if (!s->screen) {
        restore_disarm();
        free(s);
        return error_set(err, ENOTSUP, "cannot draw on this terminal (TERM=%s); use --plain",
                         term ? term : "");
    }
    raw();
    noecho();
    nonl();
    theme_open(&s->theme, term);
    restore_prepare();
    *ret = s;
    return 0;
}

struct screen *screen_close(struct screen *s)
{
    if (!s)
        return NULL;
    endwin();
    delscreen(s->screen);
    restore_disarm();
    free(s);
    return NULL;
}

void screen_suspend(struct screen *s)
{
    endwin();
}

void screen_resume(struct screen *s)
{
    screen_resized(s);
    clearok(curscr, TRUE);
    refresh();
}

void screen_resized(struct screen *s)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col)
        resizeterm(size.ws_row, size.ws_col);
}

void screen_size(const struct screen *s, int *ret_rows, int *ret_columns)
{
    *ret_rows = LINES;
    *ret_columns = COLS;
}

void screen_begin(struct screen *s)
{
    erase();
}

static void screen_set_style(const struct screen *s, unsigned style)
{
    enum role role = STYLE_ROLE(style);
    attr_t a = s->theme.attributes[role] | (style & STYLE_BOLD ? A_BOLD : 0) |
               (style & STYLE_ITALIC ? A_ITALIC : 0) | (style & STYLE_UNDERLINE ? A_UNDERLINE : 0) |
               (style & STYLE_REVERSE ? A_REVERSE : 0);
    attr_set(a, s->theme.pairs[role], NULL);
}

/* One character with its combining marks, as many as a cell of ncurses holds. */
static void screen_put_cell(const struct screen *s, const char *text, size_t n, int width)
{
    wchar_t cell[CCHARW_MAX + 1] = {0};
    size_t count = 0, size;
    for (size_t i = 0; i < n && count < CCHARW_MAX; i += size)
        cell[count++] = (wchar_t)clean_decode(text + i, n - i, &size);
    char substitute = theme_substitute(&s->theme, (uint32_t)cell[0]);
    if (substitute) {
        for (; width > 0; width--)
            addch((chtype)(unsigned char)substitute);
        return;
    }
    if (cell[0] >= 0x80 && wcwidth(cell[0]) == 0) { /* a mark without a character */
        memmove(cell + 1, cell, (CCHARW_MAX - 1) * sizeof *cell);
        cell[0] = ' ';
        count += count < CCHARW_MAX;
    }
    cell[count] = 0;
    addnwstr(cell, (int)count);
}

/* Puts clean text at the cursor, within the row; returns its columns. */
static int screen_put_text(const struct screen *s, const char *text, size_t n, int room)
{
    int used = 0, width;
    size_t ascii = 0;
    while (ascii < n && !(text[ascii] & 0x80))
        ascii++;
    if (ascii == n) {
        used = n < (size_t)room ? (int)n : room;
        addnstr(text, used);
        return used;
    }
    for (size_t i = 0, size; i < n; i += size) {
        size = clean_next(text + i, n - i, &width);
        if (used + width > room)
            break;
        screen_put_cell(s, text + i, size, width);
        used += width;
    }
    return used;
}

void screen_line(struct screen *s, int row, const struct lines *l, size_t line, unsigned more)
{
    const struct line *at = &l->all[line];
    int column = 0;
    move(row, 0);
    for (size_t i = at->first; i < at->first + at->count && column < COLS; i++) {
        const struct run *run = &l->runs[i];
        screen_set_style(s, more & STYLE_REVERSE ? (run->style & STYLE_BOLD) | more
                                                 : run->style | more);
        column += screen_put_text(s, (const char *)l->text.data + run->at, run->n, COLS - column);
    }
    attr_set(A_NORMAL, 0, NULL);
}

int screen_text(struct screen *s, int row, int column, unsigned style, const char *text)
{
    _cleanup_free_ char *clean = clean_string(text, strlen(text), 1024);
    if (!clean || column >= COLS || row < 0)
        return column;
    move(row, column);
    screen_set_style(s, style);
    column += screen_put_text(s, clean, strlen(clean), COLS - column);
    attr_set(A_NORMAL, 0, NULL);
    return column;
}

void screen_end(struct screen *s, int cursor_row, int cursor_column)
{
    curs_set(1);
    move(cursor_row, cursor_column < COLS ? cursor_column : COLS - 1);
    wnoutrefresh(stdscr);
    doupdate();
}
