#include <curses.h>
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <term.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#undef lines /* term.h defines these as macros */
#undef columns

#include "thread.h"
#include "lines.h"
#include "tui.h"
#include "text.h"
#include "view.h"
#include "banned.h"

#define SPINNER_MS    100
#define CHOICES_SHOWN 8 /* rows of completions */

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
    enum theme_background background = theme_background(getenv("HUTCH_THEME"), getenv("COLORFGBG"));
    const char *no_color = getenv("NO_COLOR");
    bool colours = !(no_color && *no_color) && has_colors() && start_color() != ERR &&
                   use_default_colors() != ERR;
    *t = (struct theme){.ascii = strcmp(nl_langinfo(CODESET), "UTF-8") != 0,
                        .few_glyphs = term && strcmp(term, "linux") == 0};
    for (int i = 0; i < ROLE_COUNT; i++) {
        const struct colour *c = &COLOURS[i];
        int colour = !colours                         ? -1
                     : COLORS != 256                  ? c->plain
                     : background == BACKGROUND_DARK  ? c->dark
                     : background == BACKGROUND_LIGHT ? c->light
                                                      : c->both;
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

/* The terminal. */

int view_open(struct view **ret, struct error *err)
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
    struct view *v = calloc(1, sizeof *v);
    if (!v)
        return error_set(err, ENOMEM, "no memory");
    restore_arm();
    v->screen = can ? newterm(NULL, stdout, stdin) : NULL;
    if (!v->screen) {
        restore_disarm();
        free(v);
        return error_set(err, ENOTSUP, "cannot draw on this terminal (TERM=%s); use --plain",
                         term ? term : "");
    }
    raw();
    noecho();
    nonl();
    theme_open(&v->theme, term);
    restore_prepare();
    transcript_open(&v->transcript);
    v->input = LINES_INIT;
    v->now = clock_now;
    *ret = v;
    return 0;
}

struct view *view_close(struct view *v)
{
    if (!v)
        return NULL;
    endwin();
    delscreen(v->screen);
    restore_disarm();
    transcript_clear(&v->transcript);
    lines_free(&v->input);
    free(v->rows);
    free(v);
    return NULL;
}

void view_suspend(struct view *v)
{
    endwin();
}

void view_resume(struct view *v)
{
    view_resized(v);
    clearok(curscr, TRUE);
    refresh();
}

void view_resized(struct view *v)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col)
        resizeterm(size.ws_row, size.ws_col);
}

static void screen_set_style(const struct view *v, unsigned style)
{
    enum role role = STYLE_ROLE(style);
    attr_t a = v->theme.attributes[role] | (style & STYLE_BOLD ? A_BOLD : 0) |
               (style & STYLE_ITALIC ? A_ITALIC : 0) | (style & STYLE_UNDERLINE ? A_UNDERLINE : 0) |
               (style & STYLE_REVERSE ? A_REVERSE : 0);
    attr_set(a, v->theme.pairs[role], NULL);
}

/* Puts clean text at the cursor, within the row; returns its columns. A cell of ncurses holds one
 * character with some of its combining marks. */
static int screen_put_text(const struct view *v, const char *text, size_t n, int room)
{
    int used = 0, width;
    size_t ascii = 0, size;
    while (ascii < n && !(text[ascii] & 0x80))
        ascii++;
    if (ascii == n) {
        used = n < (size_t)room ? (int)n : room;
        addnstr(text, used);
        return used;
    }
    for (size_t i = 0, next; i < n; i = next, used += width) {
        wchar_t cell[CCHARW_MAX + 1] = {0};
        size_t count = 0;
        next = i + clean_next(text + i, n - i, &width);
        if (used + width > room)
            break;
        for (size_t at = i; at < next && count < CCHARW_MAX; at += size)
            cell[count++] = (wchar_t)clean_decode(text + at, next - at, &size);
        char substitute = theme_substitute(&v->theme, (uint32_t)cell[0]);
        for (int k = 0; substitute && k < width; k++)
            addch((chtype)(unsigned char)substitute);
        if (cell[0] >= 0x80 && wcwidth(cell[0]) == 0) { /* a mark without a character */
            memmove(cell + 1, cell, (CCHARW_MAX - 1) * sizeof *cell);
            cell[0] = ' ';
            count += count < CCHARW_MAX;
        }
        if (!substitute)
            addnwstr(cell, (int)count);
    }
    return used;
}

/* `more`: flags for the whole line; reversed, it has one colour. */
static void screen_line(const struct view *v, int row, const struct lines *l, size_t line,
                        unsigned more)
{
    const struct line *at = &l->all[line];
    int column = 0;
    move(row, 0);
    for (size_t i = at->first; i < at->first + at->count && column < COLS; i++) {
        const struct run *run = &l->runs[i];
        screen_set_style(v, more & STYLE_REVERSE ? (run->style & STYLE_BOLD) | more
                                                 : run->style | more);
        column += screen_put_text(v, (const char *)l->text.data + run->at, run->n, COLS - column);
    }
    attr_set(A_NORMAL, 0, NULL);
}

/* The text is cleaned first. Returns the column after it. */
static int screen_text(const struct view *v, int row, int column, unsigned style, const char *text)
{
    _cleanup_free_ char *clean = clean_string(text, strlen(text), 1024);
    if (!clean || column >= COLS || row < 0)
        return column;
    move(row, column);
    screen_set_style(v, style);
    column += screen_put_text(v, clean, strlen(clean), COLS - column);
    attr_set(A_NORMAL, 0, NULL);
    return column;
}

/* The view. */

struct layout view_layout(const struct view *v)
{
    return (struct layout){
        .width = COLS > 8 ? COLS : 8, .now = v->now(), .tick = v->tick, .key = VIEW_FOLD_KEY};
}

void view_event(struct view *v, const struct agent_event *e)
{
    transcript_event(&v->transcript, e, v->now());
}

void view_add(struct view *v, enum item_kind kind, const char *text, size_t n)
{
    struct item *it = transcript_add(&v->transcript, kind);
    if (kind == ITEM_USER)
        v->transcript.follow = true;
    if (it)
        item_append(it, text, n, false);
}

/* The input: the text with its cursor, wrapped as it is typed. */

struct input_layout {
    struct lines *lines;
    int margin, width, column;
};

static void input_end_line(struct input_layout *t)
{
    lines_end(t->lines);
    lines_put(t->lines, ROLE_TEXT, "                    ", (size_t)t->margin, t->margin);
    t->column = 0;
}

/* Lays the text out; returns how many rows of it are shown, at most a third of the screen. */
static int input_lay_out(struct view *v, const struct view_input *in, int rows, int columns)
{
    size_t cursor = in->cursor < in->n ? in->cursor : in->n;
    int margin = clean_width(in->prompt, strlen(in->prompt)), most = rows / 3 > 1 ? rows / 3 : 1;
    bool wide = margin <= 20 && margin < columns / 2;
    struct input_layout t = {.lines = &v->input, .margin = wide ? margin : 0};
    t.width = columns - t.margin > 2 ? columns - t.margin : 2;
    lines_cut(&v->input, 0);
    if (wide)
        lines_put(&v->input, ROLE_ACCENT | STYLE_BOLD, in->prompt, strlen(in->prompt), margin);
    for (size_t at = 0; at <= in->n;) {
        if (at == cursor) {
            if (t.column >= t.width)
                input_end_line(&t);
            v->cursor_row = v->input.count;
            v->cursor_column = t.margin + t.column;
        }
        if (at == in->n)
            break;
        const uint8_t *next = (const uint8_t *)in->text + at;
        size_t n = utf8_character(next, in->n - at), size;
        _cleanup_buf_ struct buf clean = BUF_INIT(64);
        at += n ? n : 1;
        if (*next == '\n')
            input_end_line(&t);
        else if (*next == '\t')
            buf_append(&clean, "    ", (size_t)(4 - t.column % 4));
        else
            clean_append(&clean, next, n ? n : 1, false);
        if (!clean.len)
            continue;
        /* A combining mark stands on the character before it. */
        const char *shown = (const char *)clean.data;
        uint32_t code = clean_decode(shown, clean.len, &size);
        bool mark =
            code >= 0x300 && size == clean.len && t.column > 0 && wcwidth((wchar_t)code) == 0;
        int width = mark ? 0 : clean_width(shown, clean.len);
        if (t.column + width > t.width)
            input_end_line(&t);
        lines_put(t.lines, ROLE_TEXT, shown, clean.len, width);
        t.column += width;
    }
    if (in->n == 0 && in->hint)
        lines_puts(&v->input, ROLE_MUTED, in->hint);
    lines_end(&v->input);

    /* Scroll as little as possible to show the cursor. */
    int height = v->input.count < (size_t)most ? (int)v->input.count : most;
    if (v->cursor_row < v->input_top)
        v->input_top = v->cursor_row;
    if (v->cursor_row >= v->input_top + (size_t)height)
        v->input_top = v->cursor_row - (size_t)height + 1;
    if (v->input_top + (size_t)height > v->input.count)
        v->input_top = v->input.count - (size_t)height;
    return height;
}

/* The part of the choices around the chosen one, below their title. */
static void choices_draw(struct view *v, const struct view_input *in, int row, int height,
                         int columns)
{
    if (in->title && height > 0) {
        screen_text(v, row++, ITEM_INDENT, ROLE_TEXT | STYLE_BOLD, in->title);
        height--;
    }
    int first = in->chosen >= height ? in->chosen - height + 1 : 0, widest = 0;
    for (int i = first; i < first + height; i++) {
        int width = clean_width(in->choices[i], strlen(in->choices[i]));
        widest = width > widest ? width : widest;
    }
    widest = widest < columns / 2 ? widest : columns / 2;
    for (int i = first; i < first + height; i++, row++) {
        const char *detail = in->details ? in->details[i] : NULL;
        bool chosen = i == in->chosen;
        int column = screen_text(v, row, 0, ROLE_ACCENT, chosen ? "▸ " : "  ");
        column = screen_text(v, row, column, chosen ? ROLE_ACCENT | STYLE_BOLD : ROLE_TEXT,
                             in->choices[i]);
        if (detail && *detail)
            screen_text(v, row, column > widest + 4 ? column + 2 : widest + 4, ROLE_MUTED, detail);
    }
}

/* The status line. */

/* `812`, `34k`, `1.2M`. */
static void status_count(struct buf *out, uint64_t n)
{
    if (n < 1000)
        buf_printf(out, "%llu", (unsigned long long)n);
    else if (n < 999500)
        buf_printf(out, "%lluk", (unsigned long long)((n + 500) / 1000));
    else
        buf_printf(out, "%.*fM", n % 1000000 < 50000 ? 0 : 1, (double)n / 1e6);
}

/* Draws a part of the line if all of it fits, and empties the buffer for the next. */
static int status_draw_part(const struct view *v, int row, int column, int room, struct buf *text)
{
    const char *part = buf_cstr(text);
    text->len = 0;
    int width = part ? clean_width(part, strlen(part)) : 0, between = column > ITEM_INDENT ? 3 : 0;
    if (width == 0 || column + between + width > room)
        return column;
    if (between)
        column = screen_text(v, row, column, ROLE_MUTED, " · ");
    return screen_text(v, row, column, ROLE_MUTED, part);
}

/* `model · 34k/200k (17%) · $0.12 · 3 files changed`, and what can be pressed. */
static void status_draw(struct view *v, const struct view_status *st, int row, int columns)
{
    _cleanup_buf_ struct buf text = BUF_INIT(4096);
    char time[SUMMARY_TIME_MAX];
    int keys = st->keys ? clean_width(st->keys, strlen(st->keys)) : 0;
    int column = ITEM_INDENT, end = columns - 1; /* never the last cell: writing there scrolls */
    if (st->busy) {
        double seconds = st->busy_seconds;
        column = screen_text(v, row, 0, ROLE_ACCENT, spinner(v->tick));
        column = screen_text(v, row, column + 1, ROLE_TEXT, st->busy);
        if (seconds >= 1) /* whole seconds: what changes ten times as often draws the eye */
            column = screen_text(v, row, column + 1, ROLE_MUTED,
                                 summary_time(seconds < 10 ? (int)seconds : seconds, time));
    }
    if (keys && column + 2 + keys < end) {
        screen_text(v, row, end - keys, ROLE_MUTED, st->keys);
        end -= keys + 2;
    }

    if (st->model)
        clean_append(&text, st->model, strlen(st->model), false);
    column = status_draw_part(v, row, column, end, &text);
    if (st->context || st->window)
        status_count(&text, st->context);
    if (st->window) {
        buf_append_str(&text, "/");
        status_count(&text, st->window);
        buf_printf(&text, " (%llu%%)", (unsigned long long)(st->context * 100 / st->window));
    }
    column = status_draw_part(v, row, column, end, &text);
    if (st->cost_known)
        buf_printf(&text, st->cost > 0 && st->cost < 0.1 ? "$%.3f" : "$%.2f", st->cost);
    column = status_draw_part(v, row, column, end, &text);
    if (st->changes)
        buf_printf(&text, "%zu file%s changed", st->changes, st->changes == 1 ? "" : "s");
    status_draw_part(v, row, column, end, &text);
}

int view_draw(struct view *v, const struct view_input *in, const struct view_status *s)
{
    int rows = LINES, columns = COLS;
    v->tick = (unsigned)(v->now() / (SPINNER_MS * NS_PER_MS));

    /* From the bottom: the status, the choices, the input, a line, an empty row, the transcript. */
    int most = in->title ? rows / 2 : rows / 3 < CHOICES_SHOWN ? rows / 3 : CHOICES_SHOWN;
    int choices = in->n_choices < (size_t)most ? (int)in->n_choices : most;
    choices += in->title != NULL;
    int input = input_lay_out(v, in, rows, columns);
    int status = rows - 1, choices_at = status - choices, input_at = choices_at - input;
    int rule = input_at - 1, height = rule - (rows >= 16);
    erase(); /* everything is drawn again, and ncurses sends what changed */
    if (height > v->n_rows) {
        struct row *more = reallocarray(v->rows, (size_t)height, sizeof *more);
        v->rows = more ? more : v->rows;
        v->n_rows = more ? height : v->n_rows;
    }
    if (height > 0 && height <= v->n_rows) {
        struct layout l = view_layout(v);
        transcript_rows(&v->transcript, &l, height, v->rows);
        for (int i = 0; i < height; i++)
            if (v->rows[i].lines)
                screen_line(v, i, v->rows[i].lines, v->rows[i].line,
                            v->rows[i].selected && v->rows[i].line == 0 ? STYLE_REVERSE : 0);
    }
    if (rule >= 0) {
        char text[64];
        size_t below = transcript_below(&v->transcript, columns);
        for (int column = 0; column < columns; column += 8)
            screen_text(v, rule, column, ROLE_MUTED, "────────");
        int n = snprintf(text, sizeof text, " ↓ %zu more lines ", below) - 2;
        if (below)
            screen_text(v, rule, columns > n + 2 ? columns - n - 2 : 0, ROLE_ACCENT, text);
    }
    choices_draw(v, in, choices_at, choices, columns);
    status_draw(v, s, status, columns);
    input_at = input_at < 0 ? 0 : input_at;
    for (int i = 0; i < input; i++)
        screen_line(v, input_at + i, &v->input, v->input_top + (size_t)i, 0);
    curs_set(1);
    move(input_at + (int)(v->cursor_row - v->input_top),
         v->cursor_column < columns ? v->cursor_column : columns - 1);
    wnoutrefresh(stdscr);
    doupdate();
    return s->busy || transcript_moves(&v->transcript) ? SPINNER_MS : -1;
}
