/* The last line: `model · 34k/200k (17%) · $0.12 · 3 files changed`, and what can be pressed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clean.h"
#include "clock.h"
#include "summary.h"
#include "view_private.h"
#include "banned.h"

void status_free(struct status_bar *b)
{
    free(b->model);
    free(b->busy);
    free(b->keys);
}

static void set(char **to, const char *text)
{
    free(*to);
    *to = text ? clean_string(text, strlen(text), 256) : NULL;
}

void status_take(struct status_bar *b, const struct view_status *given, int64_t now)
{
    set(&b->model, given->model);
    set(&b->busy, given->busy);
    set(&b->keys, given->keys);
    b->told = *given;
    b->told.model = b->told.session = b->told.workspace = b->told.busy = b->told.keys = NULL;
    b->busy_since = now - (int64_t)(given->busy_seconds * NS_PER_S);
}

/* `812`, `34k`, `1.2M`. */
static void say_count(struct buf *out, uint64_t n)
{
    if (n < 1000)
        buf_printf(out, "%llu", (unsigned long long)n);
    else if (n < 999500)
        buf_printf(out, "%lluk", (unsigned long long)((n + 500) / 1000));
    else
        buf_printf(out, "%.*fM", n % 1000000 < 50000 ? 0 : 1, (double)n / 1e6);
}

static void say_context(struct buf *out, const struct view_status *t)
{
    if (!t->context && !t->window)
        return;
    say_count(out, t->context);
    if (!t->window)
        return;
    buf_append_str(out, "/");
    say_count(out, t->window);
    buf_printf(out, " (%llu%%)", (unsigned long long)(t->context * 100 / t->window));
}

static void say_cost(struct buf *out, const struct view_status *t)
{
    if (t->cost_known)
        buf_printf(out, t->cost > 0 && t->cost < 0.1 ? "$%.3f" : "$%.2f", t->cost);
}

static void say_changes(struct buf *out, const struct view_status *t)
{
    if (t->changes)
        buf_printf(out, "%zu file%s changed", t->changes, t->changes == 1 ? "" : "s");
}

static int draw_busy(const struct status_bar *b, struct screen *s, int row, unsigned tick,
                     int64_t now)
{
    char time[SUMMARY_TIME_MAX];
    double seconds = (double)(now - b->busy_since) / NS_PER_S;
    int column = screen_text(s, row, 0, ROLE_ACCENT, spinner(tick));
    column = screen_text(s, row, column + 1, ROLE_TEXT, b->busy);
    if (seconds >= 1) /* whole seconds: what changes ten times as often draws the eye */
        column = screen_text(s, row, column + 1, ROLE_MUTED,
                             summary_time(seconds < 10 ? (int)seconds : seconds, time));
    return column;
}

/* One part more, if it fits as a whole. */
static int draw_part(struct screen *s, int row, int column, int room, struct buf *text)
{
    const char *part = buf_cstr(text);
    int width = part ? clean_width(part, strlen(part)) : 0, between = column > ITEM_INDENT ? 3 : 0;
    if (width == 0 || column + between + width > room)
        return column;
    if (between)
        column = screen_text(s, row, column, ROLE_MUTED, " · ");
    return screen_text(s, row, column, ROLE_MUTED, part);
}

void status_draw(const struct status_bar *b, struct screen *s, int row, int columns, unsigned tick,
                 int64_t now)
{
    static void (*const parts[])(struct buf *, const struct view_status *) = {say_context, say_cost,
                                                                              say_changes};
    _cleanup_buf_ struct buf text = BUF_INIT(4096);
    int keys = b->keys ? clean_width(b->keys, strlen(b->keys)) : 0;
    int column = b->busy ? draw_busy(b, s, row, tick, now) : ITEM_INDENT;
    int end = columns - 1; /* never the last cell: writing there scrolls */
    if (keys && column + 2 + keys < end) {
        screen_text(s, row, end - keys, ROLE_MUTED, b->keys);
        end -= keys + 2;
    }
    if (b->model)
        buf_append_str(&text, b->model);
    column = draw_part(s, row, column, end, &text);
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        text.len = 0;
        parts[i](&text, &b->told);
        column = draw_part(s, row, column, end, &text);
    }
}
