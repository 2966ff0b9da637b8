#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "lines.h"
#include "thread.h"
#include "tui.h"
#include "text.h"
#include "view.h"
#include "banned.h"

#define SPINNER_MS    100
#define CHOICES_SHOWN 8 /* rows of completions */

int view_open(struct view **ret, struct error *err)
{
    struct view *v = calloc(1, sizeof *v);
    if (!v)
        return error_set(err, ENOMEM, "no memory");
    int r = screen_open(&v->screen, err);
    if (r < 0) {
        free(v);
        return r;
    }
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
    screen_close(v->screen);
    transcript_clear(&v->transcript);
    lines_free(&v->input);
    free(v->rows);
    free(v);
    return NULL;
}

struct layout view_layout(const struct view *v)
{
    int rows, columns;
    screen_size(v->screen, &rows, &columns);
    return (struct layout){
        .width = columns > 8 ? columns : 8, .now = v->now(), .tick = v->tick, .key = VIEW_FOLD_KEY};
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

/* Puts the first character of the text; returns its bytes. */
static size_t input_put_character(struct input_layout *t, const char *text, size_t left)
{
    const uint8_t *s = (const uint8_t *)text;
    size_t n = utf8_character(s, left), size;
    _cleanup_buf_ struct buf clean = BUF_INIT(64);
    n = n ? n : 1;
    if (*s == '\n') {
        input_end_line(t);
        return n;
    }
    if (*s == '\t')
        buf_append(&clean, "    ", (size_t)(4 - t->column % 4));
    else
        clean_append(&clean, s, n, false);
    if (!clean.len)
        return n;
    /* A combining mark stands on the character before it. */
    const char *shown = (const char *)clean.data;
    uint32_t code = clean_decode(shown, clean.len, &size);
    bool mark = code >= 0x300 && size == clean.len && t->column > 0 && wcwidth((wchar_t)code) == 0;
    int width = mark ? 0 : clean_width(shown, clean.len);
    if (t->column + width > t->width)
        input_end_line(t);
    lines_put(t->lines, ROLE_TEXT, shown, clean.len, width);
    t->column += width;
    return n;
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
        at += input_put_character(&t, in->text + at, in->n - at);
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
    struct screen *s = v->screen;
    if (in->title && height > 0) {
        screen_text(s, row++, ITEM_INDENT, ROLE_TEXT | STYLE_BOLD, in->title);
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
        int column = screen_text(s, row, 0, ROLE_ACCENT, chosen ? "▸ " : "  ");
        column = screen_text(s, row, column, chosen ? ROLE_ACCENT | STYLE_BOLD : ROLE_TEXT,
                             in->choices[i]);
        if (detail && *detail)
            screen_text(s, row, column > widest + 4 ? column + 2 : widest + 4, ROLE_MUTED, detail);
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
static int status_draw_part(struct screen *s, int row, int column, int room, struct buf *text)
{
    const char *part = buf_cstr(text);
    text->len = 0;
    int width = part ? clean_width(part, strlen(part)) : 0, between = column > ITEM_INDENT ? 3 : 0;
    if (width == 0 || column + between + width > room)
        return column;
    if (between)
        column = screen_text(s, row, column, ROLE_MUTED, " · ");
    return screen_text(s, row, column, ROLE_MUTED, part);
}

/* `model · 34k/200k (17%) · $0.12 · 3 files changed`, and what can be pressed. */
static void status_draw(struct view *v, const struct view_status *st, int row, int columns)
{
    _cleanup_buf_ struct buf text = BUF_INIT(4096);
    struct screen *s = v->screen;
    char time[SUMMARY_TIME_MAX];
    int keys = st->keys ? clean_width(st->keys, strlen(st->keys)) : 0;
    int column = ITEM_INDENT, end = columns - 1; /* never the last cell: writing there scrolls */
    if (st->busy) {
        double seconds = st->busy_seconds;
        column = screen_text(s, row, 0, ROLE_ACCENT, spinner(v->tick));
        column = screen_text(s, row, column + 1, ROLE_TEXT, st->busy);
        if (seconds >= 1) /* whole seconds: what changes ten times as often draws the eye */
            column = screen_text(s, row, column + 1, ROLE_MUTED,
                                 summary_time(seconds < 10 ? (int)seconds : seconds, time));
    }
    if (keys && column + 2 + keys < end) {
        screen_text(s, row, end - keys, ROLE_MUTED, st->keys);
        end -= keys + 2;
    }

    if (st->model)
        clean_append(&text, st->model, strlen(st->model), false);
    column = status_draw_part(s, row, column, end, &text);
    if (st->context || st->window)
        status_count(&text, st->context);
    if (st->window) {
        buf_append_str(&text, "/");
        status_count(&text, st->window);
        buf_printf(&text, " (%llu%%)", (unsigned long long)(st->context * 100 / st->window));
    }
    column = status_draw_part(s, row, column, end, &text);
    if (st->cost_known)
        buf_printf(&text, st->cost > 0 && st->cost < 0.1 ? "$%.3f" : "$%.2f", st->cost);
    column = status_draw_part(s, row, column, end, &text);
    if (st->changes)
        buf_printf(&text, "%zu file%s changed", st->changes, st->changes == 1 ? "" : "s");
    status_draw_part(s, row, column, end, &text);
}

static void view_draw_transcript(struct view *v, int height)
{
    struct layout l = view_layout(v);
    if (height > v->n_rows) {
        struct row *more = reallocarray(v->rows, (size_t)height, sizeof *more);
        if (!more)
            return;
        v->rows = more;
        v->n_rows = height;
    }
    transcript_rows(&v->transcript, &l, height, v->rows);
    for (int i = 0; i < height; i++)
        if (v->rows[i].lines)
            screen_line(v->screen, i, v->rows[i].lines, v->rows[i].line,
                        v->rows[i].selected && v->rows[i].line == 0 ? STYLE_REVERSE : 0);
}

int view_draw(struct view *v, const struct view_input *in, const struct view_status *s)
{
    int rows, columns;
    v->tick = (unsigned)(v->now() / (SPINNER_MS * NS_PER_MS));
    screen_size(v->screen, &rows, &columns);

    /* From the bottom: the status, the choices, the input, a line, an empty row, the transcript. */
    int most = in->title ? rows / 2 : rows / 3 < CHOICES_SHOWN ? rows / 3 : CHOICES_SHOWN;
    int choices = in->n_choices < (size_t)most ? (int)in->n_choices : most;
    choices += in->title != NULL;
    int input = input_lay_out(v, in, rows, columns);
    int status = rows - 1, choices_at = status - choices, input_at = choices_at - input;
    int rule = input_at - 1, height = rule - (rows >= 16);
    screen_begin(v->screen);
    if (height > 0)
        view_draw_transcript(v, height);
    if (rule >= 0) {
        char text[64];
        size_t below = transcript_below(&v->transcript, columns);
        for (int column = 0; column < columns; column += 8)
            screen_text(v->screen, rule, column, ROLE_MUTED, "────────");
        int n = snprintf(text, sizeof text, " ↓ %zu more lines ", below) - 2;
        if (below)
            screen_text(v->screen, rule, columns > n + 2 ? columns - n - 2 : 0, ROLE_ACCENT, text);
    }
    choices_draw(v, in, choices_at, choices, columns);
    status_draw(v, s, status, columns);
    input_at = input_at < 0 ? 0 : input_at;
    for (int i = 0; i < input; i++)
        screen_line(v->screen, input_at + i, &v->input, v->input_top + (size_t)i, 0);
    screen_end(v->screen, input_at + (int)(v->cursor_row - v->input_top), v->cursor_column);
    return s->busy || transcript_moves(&v->transcript) ? SPINNER_MS : -1;
}
