#include <curses.h>
#include <errno.h>
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

#include "clean.h"
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

static void restore_add(const char *s)
{
    size_t n = strlen(s);
    if (n > sizeof restore.reset - restore.n)
        return;
    memcpy(restore.reset + restore.n, s, n);
    restore.n += n;
}

/* Without the delays (`$<5>`) of terminfo strings. */
static void restore_add_capability(const char *name)
{
    const char *s = tigetstr(name);
    char plain[128];
    size_t n = 0;
    if (!s || (intptr_t)s == -1)
        return;
    while (*s && n + 1 < sizeof plain) {
        const char *end = s[0] == '$' && s[1] == '<' ? strchr(s, '>') : NULL;
        if (end)
            s = end + 1;
        else
            plain[n++] = *s++;
    }
    plain[n] = 0;
    restore_add(plain);
}

/* Once ncurses knows the terminal. */
static void restore_prepare(void)
{
    restore.n = 0;
    restore_add("\033[?2004l"); /* the modes of KEYS_ON */
    if (!strstr(termname(), "linux") && !strstr(termname(), "vt100"))
        restore_add("\033[>4;0m\033[<u");
    restore_add_capability("sgr0");
    restore_add_capability("cnorm");
    restore_add_capability("rmkx");
    restore_add_capability("rmcup");
}

/* Once ncurses has restored the terminal itself. */
static void restore_disarm(void)
{
    for (size_t i = 0; i < ARRAY_SIZE(FATAL_SIGNALS); i++)
        if (restore.taken[i])
            sigaction(FATAL_SIGNALS[i], &restore.before[i], NULL);
    memset(restore.taken, 0, sizeof restore.taken);
}

struct screen {
    SCREEN *screen;
    struct theme theme;
};

/* newterm() succeeds on terminals that can do nothing. */
static bool terminal_can_draw(const char *term)
{
    int found;
    if (!term || !*term || strcmp(term, "dumb") == 0 || !isatty(STDIN_FILENO) ||
        !isatty(STDOUT_FILENO))
        return false;
    if (setupterm(term, STDOUT_FILENO, &found) != OK)
        return false;
    const char *move = tigetstr("cup");
    bool can = move && (intptr_t)move != -1;
    del_curterm(cur_term);
    return can;
}

int screen_open(struct screen **ret, struct error *err)
{
    const char *term = getenv("TERM"), *locale = getenv("LC_ALL");
    locale = locale && *locale ? locale : getenv("LC_CTYPE");
    locale = locale && *locale ? locale : getenv("LANG");
    /* UTF-8, unless the environment names another locale. */
    setlocale(LC_CTYPE, locale && *locale ? "" : "C.UTF-8");
    if (!terminal_can_draw(term))
        return error_set(err, ENOTSUP, "cannot draw on this terminal (TERM=%s); use --plain",
                         term ? term : "");
    struct screen *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(err, ENOMEM, "no memory");
    restore_arm();
    s->screen = newterm(NULL, stdout, stdin);
    if (!s->screen) {
        restore_disarm();
        free(s);
        return error_set(err, ENOTSUP, "cannot draw on this terminal (TERM=%s); use --plain", term);
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

/* Text from the cursor on, within the row; returns its columns. */
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

void screen_line(struct screen *s, int row, int column, const struct lines *l, size_t line,
                 unsigned more)
{
    const struct line *at = &l->all[line];
    move(row, column);
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
    if (column >= COLS || row < 0)
        return column;
    move(row, column);
    screen_set_style(s, style);
    column += screen_put_text(s, text, strlen(text), COLS - column);
    attr_set(A_NORMAL, 0, NULL);
    return column;
}

int screen_text_cleaned(struct screen *s, int row, int column, unsigned style, const char *text)
{
    _cleanup_free_ char *clean = clean_string(text, strlen(text), 1024);
    return screen_text(s, row, column, style, clean ? clean : "");
}

void screen_rule(struct screen *s, int row)
{
    for (int column = 0; column < COLS;)
        column = screen_text(s, row, column, ROLE_MUTED, "────────");
}

void screen_end(struct screen *s, int cursor_row, int cursor_column)
{
    curs_set(cursor_row >= 0);
    if (cursor_row >= 0)
        move(cursor_row, cursor_column < COLS ? cursor_column : COLS - 1);
    wnoutrefresh(stdscr);
    doupdate();
}
