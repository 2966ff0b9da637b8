#include <curses.h>
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <term.h>
#include <unistd.h>

#undef lines /* term.h names half of the dictionary */
#undef columns

#include "clean.h"
#include "restore.h"
#include "screen.h"
#include "banned.h"

struct screen {
    SCREEN *screen;
    struct theme theme;
};

/* Where nothing is said about the language, UTF-8 is what terminals speak; a locale that was named
 * counts. */
static void set_locale(void)
{
    const char *named = getenv("LC_ALL");
    named = named && *named ? named : getenv("LC_CTYPE");
    named = named && *named ? named : getenv("LANG");
    setlocale(LC_CTYPE, "");
    if (!(named && *named))
        setlocale(LC_CTYPE, "C.UTF-8");
}

/* newterm() succeeds on terminals that can do nothing. */
static bool can_draw(const char *term)
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
    const char *term = getenv("TERM");
    set_locale();
    if (!can_draw(term))
        return error_set(err, ENOTSUP, "the terminal %s cannot be drawn on; use --plain",
                         term ? term : "");
    struct screen *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(err, ENOMEM, "no memory");
    restore_arm();
    s->screen = newterm(NULL, stdout, stdin);
    if (!s->screen) {
        restore_disarm();
        free(s);
        return error_set(err, ENOTSUP, "the terminal %s cannot be drawn on; use --plain", term);
    }
    raw();
    noecho();
    nonl();
    theme_open(&s->theme, term);
    restore_learn();
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

static void set_style(const struct screen *s, unsigned style)
{
    enum role role = STYLE_ROLE(style);
    attr_t a = s->theme.attributes[role] | (style & STYLE_BOLD ? A_BOLD : 0) |
               (style & STYLE_ITALIC ? A_ITALIC : 0) | (style & STYLE_UNDERLINE ? A_UNDERLINE : 0) |
               (style & STYLE_REVERSE ? A_REVERSE : 0);
    attr_set(a, s->theme.pairs[role], NULL);
}

/* One character and the marks on it, as many as a cell of ncurses holds. */
static void put_cell(const struct screen *s, const char *text, size_t n, int width)
{
    wchar_t cell[CCHARW_MAX + 1] = {0};
    size_t count = 0, size;
    for (size_t i = 0; i < n && count < CCHARW_MAX; i += size)
        cell[count++] = (wchar_t)clean_decode(text + i, n - i, &size);
    char stand_in = theme_stand_in(&s->theme, (uint32_t)cell[0]);
    if (stand_in) {
        for (; width > 0; width--)
            addch((chtype)(unsigned char)stand_in);
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

static bool is_ascii(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (text[i] & 0x80)
            return false;
    return true;
}

/* Text from the cursor on, within the row; returns its columns. */
static int put_text(const struct screen *s, const char *text, size_t n, int room)
{
    int used = 0, width;
    if (is_ascii(text, n)) {
        used = n < (size_t)room ? (int)n : room;
        addnstr(text, used);
        return used;
    }
    for (size_t i = 0, size; i < n; i += size) {
        size = clean_next(text + i, n - i, &width);
        if (used + width > room)
            break;
        put_cell(s, text + i, size, width);
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
        set_style(s, more & STYLE_REVERSE ? (run->style & STYLE_BOLD) | more : run->style | more);
        column += put_text(s, (const char *)l->text.data + run->at, run->n, COLS - column);
    }
    attr_set(A_NORMAL, 0, NULL);
}

int screen_text(struct screen *s, int row, int column, unsigned style, const char *text)
{
    if (column >= COLS || row < 0)
        return column;
    move(row, column);
    set_style(s, style);
    column += put_text(s, text, strlen(text), COLS - column);
    attr_set(A_NORMAL, 0, NULL);
    return column;
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
