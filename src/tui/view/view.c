#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clean.h"
#include "clock.h"
#include "summary.h"
#include "view.h"
#include "banned.h"

#define SPINNER_MS 100

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
    v->input.lines = LINES_INIT;
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
    lines_free(&v->input.lines);
    free(v->rows);
    free(v);
    return NULL;
}

void view_suspend(struct view *v)
{
    screen_suspend(v->screen);
}

void view_resume(struct view *v)
{
    screen_resume(v->screen);
}

void view_resized(struct view *v)
{
    screen_resized(v->screen);
}

static struct layout view_layout(const struct view *v)
{
    int rows, columns;
    screen_size(v->screen, &rows, &columns);
    return (struct layout){
        .width = columns > 8 ? columns : 8, .now = v->now(), .tick = v->tick, .key = VIEW_FOLD_KEY};
}

static void view_add(struct view *v, enum item_kind kind, const char *text, size_t n)
{
    struct item *it = transcript_add(&v->transcript, kind);
    if (it)
        item_append(it, text, n, false);
}

void view_user(struct view *v, const char *text)
{
    transcript_end(&v->transcript);
    view_add(v, ITEM_USER, text, strlen(text));
}

void view_event(struct view *v, const struct agent_event *e)
{
    transcript_event(&v->transcript, e, v->now());
}

void view_note(struct view *v, const char *text)
{
    view_add(v, ITEM_NOTE, text, strlen(text));
}

void view_diff(struct view *v, const char *diff, size_t n)
{
    view_add(v, ITEM_DIFF, diff, n);
}

void view_clear(struct view *v)
{
    transcript_clear(&v->transcript);
}

void view_scroll(struct view *v, int lines_down)
{
    struct layout l = view_layout(v);
    transcript_scroll(&v->transcript, &l, lines_down);
}

void view_page(struct view *v, int pages)
{
    int page = v->transcript.height > 4 ? v->transcript.height - 2 : 1; /* two lines overlap */
    view_scroll(v, pages * page);
}

void view_top(struct view *v)
{
    transcript_top(&v->transcript);
}

void view_end(struct view *v)
{
    transcript_end(&v->transcript);
}

void view_select(struct view *v, int by)
{
    struct layout l = view_layout(v);
    transcript_select(&v->transcript, &l, by);
}

bool view_toggle(struct view *v)
{
    struct layout l = view_layout(v);
    return transcript_toggle(&v->transcript, &l);
}

void view_toggle_all(struct view *v)
{
    transcript_toggle_all(&v->transcript);
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

static void status_context(struct buf *out, const struct view_status *t)
{
    if (!t->context && !t->window)
        return;
    status_count(out, t->context);
    if (!t->window)
        return;
    buf_append_str(out, "/");
    status_count(out, t->window);
    buf_printf(out, " (%llu%%)", (unsigned long long)(t->context * 100 / t->window));
}

static int status_draw_busy(const struct view_status *v, struct screen *s, int row, unsigned tick)
{
    char time[SUMMARY_TIME_MAX];
    double seconds = v->busy_seconds;
    int column = screen_text(s, row, 0, ROLE_ACCENT, spinner(tick));
    column = screen_text_cleaned(s, row, column + 1, ROLE_TEXT, v->busy);
    if (seconds >= 1) /* whole seconds: what changes ten times as often draws the eye */
        column = screen_text(s, row, column + 1, ROLE_MUTED,
                             summary_time(seconds < 10 ? (int)seconds : seconds, time));
    return column;
}

/* Draws the part if all of it fits, and empties the buffer for the next. */
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
static void status_draw(const struct view_status *v, struct screen *s, int row, int columns,
                        unsigned tick)
{
    _cleanup_buf_ struct buf text = BUF_INIT(4096);
    int keys = v->keys ? clean_width(v->keys, strlen(v->keys)) : 0;
    int column = v->busy ? status_draw_busy(v, s, row, tick) : ITEM_INDENT;
    int end = columns - 1; /* never the last cell: writing there scrolls */
    if (keys && column + 2 + keys < end) {
        screen_text(s, row, end - keys, ROLE_MUTED, v->keys);
        end -= keys + 2;
    }
    if (v->model)
        clean_append(&text, v->model, strlen(v->model), false);
    column = status_draw_part(s, row, column, end, &text);
    status_context(&text, v);
    column = status_draw_part(s, row, column, end, &text);
    if (v->cost_known)
        buf_printf(&text, v->cost > 0 && v->cost < 0.1 ? "$%.3f" : "$%.2f", v->cost);
    column = status_draw_part(s, row, column, end, &text);
    if (v->changes)
        buf_printf(&text, "%zu file%s changed", v->changes, v->changes == 1 ? "" : "s");
    status_draw_part(s, row, column, end, &text);
}

static void view_draw_transcript(struct view *v, int height, const struct layout *l)
{
    if (height <= 0)
        return;
    if (height > v->n_rows) {
        struct row *more = reallocarray(v->rows, (size_t)height, sizeof *more);
        if (!more)
            return;
        v->rows = more;
        v->n_rows = height;
    }
    transcript_rows(&v->transcript, l, height, v->rows);
    for (int i = 0; i < height; i++)
        if (v->rows[i].lines)
            screen_line(v->screen, i, 0, v->rows[i].lines, v->rows[i].line,
                        v->rows[i].selected && v->rows[i].line == 0 ? STYLE_REVERSE : 0);
}

/* The line between transcript and input shows how much lies below. */
static void view_draw_rule(struct view *v, int row, int columns)
{
    char text[64];
    size_t below = transcript_below(&v->transcript, columns);
    screen_rule(v->screen, row);
    if (!below)
        return;
    int n = snprintf(text, sizeof text, " ↓ %zu more lines ", below) - 2;
    screen_text(v->screen, row, columns > n + 2 ? columns - n - 2 : 0, ROLE_ACCENT, text);
}

int view_draw(struct view *v, const struct view_input *in, const struct view_status *s)
{
    int rows, columns;
    v->tick = (unsigned)(v->now() / (SPINNER_MS * NS_PER_MS));
    struct layout l = view_layout(v);
    screen_size(v->screen, &rows, &columns);
    int input = input_lay_out(&v->input, in, rows, columns), choices = choices_height(in, rows);
    int gap = rows >= 16; /* an empty row above the line */
    int status = rows - 1, choices_at = status - choices, input_at = choices_at - input,
        rule = input_at - 1;
    screen_begin(v->screen);
    view_draw_transcript(v, rule - gap, &l);
    if (rule >= 0)
        view_draw_rule(v, rule, columns);
    choices_draw(in, v->screen, choices_at, choices, columns);
    status_draw(s, v->screen, status, columns, v->tick);
    input_at = input_at < 0 ? 0 : input_at;
    input_draw(&v->input, v->screen, input_at, input);
    screen_end(v->screen, input_at + (int)(v->input.cursor_row - v->input.top),
               v->input.cursor_column);
    return s->busy || transcript_moves(&v->transcript) ? SPINNER_MS : -1;
}
