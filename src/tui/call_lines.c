/*
 *     ▸ bash  make test   1.2s ✓
 *       │ cc -c a.c
 *       │ … 132 more lines (ctrl-o)
 *       │ 12 passed
 */
#include <stdio.h>
#include <string.h>

#include "clean.h"
#include "clock.h"
#include "item.h"
#include "summary.h"
#include "banned.h"

#define BODY "  │ "

static const char *text_of(const struct item *it)
{
    return it->text.len ? (const char *)it->text.data : "";
}

/* Everything behind the summary: what came of it, how long it took, how it ended. */
static void ending(const struct item *it, const struct item_look *look, struct flow *f)
{
    static const struct {
        const char *mark;
        unsigned role;
    } MARKS[] = {[CALL_WELL] = {"✓", ROLE_GOOD},
                 [CALL_BADLY] = {"✗", ROLE_BAD},
                 [CALL_STOPPED] = {"stopped", ROLE_WARN}};
    char time[SUMMARY_TIME_MAX];
    bool runs = it->state == CALL_RUNNING;
    double seconds = runs ? (double)(look->now - it->began) / NS_PER_S : it->seconds;
    if (it->outcome && *it->outcome)
        flow_say(f, it->state == CALL_BADLY ? ROLE_BAD : ROLE_MUTED, it->outcome);
    if (it->state != CALL_STOPPED && seconds >= (runs ? 1 : 0.1)) { /* less is not worth a figure */
        flow_say(f, ROLE_MUTED, f->text.len ? "  " : "");
        flow_say(f, ROLE_MUTED, summary_time(seconds, time));
    }
    if (!runs) {
        flow_say(f, ROLE_MUTED, f->text.len ? " " : "");
        flow_say(f, MARKS[it->state].role, MARKS[it->state].mark);
    }
}

static void put_flow(struct lines *out, const struct flow *f)
{
    size_t at = 0;
    for (size_t i = 0; i < f->count; at = f->spans[i++].end)
        lines_put(out, f->spans[i].style, (const char *)f->text.data + at, f->spans[i].end - at,
                  clean_width((const char *)f->text.data + at, f->spans[i].end - at));
}

static int flow_width(const struct flow *f)
{
    return f->text.len ? clean_width((const char *)f->text.data, f->text.len) : 0;
}

/* As much of the summary as leaves room for the ending, with … where it is cut. */
static void put_summary(struct lines *out, const char *summary, int room)
{
    size_t n = strlen(summary);
    int width = clean_width(summary, n);
    bool cut = width > room;
    if (cut)
        n = clean_fit(summary, n, room - 1, &width);
    lines_put(out, ROLE_TEXT, summary, n, width);
    if (cut)
        lines_say(out, ROLE_MUTED, "…");
}

static void head_line(struct item *it, const struct item_look *look)
{
    _cleanup_flow_ struct flow end = FLOW_INIT;
    bool runs = it->state == CALL_RUNNING;
    const char *name = it->name ? it->name : "", *summary = it->summary ? it->summary : "";
    ending(it, look, &end);
    int used = ITEM_INDENT + clean_width(name, strlen(name)) + 2 + 3 + flow_width(&end);
    lines_say(&it->lines, ROLE_ACCENT, runs ? spinner(look->tick) : "▸");
    lines_say(&it->lines, ROLE_TEXT, " ");
    lines_say(&it->lines, ROLE_TEXT | STYLE_BOLD, name);
    if (*summary && look->width - used > 4) {
        lines_say(&it->lines, ROLE_TEXT, "  ");
        put_summary(&it->lines, summary, look->width - used);
    }
    if (end.text.len) {
        lines_say(&it->lines, ROLE_TEXT, "   ");
        put_flow(&it->lines, &end);
    }
    lines_end(&it->lines);
}

static size_t count_lines(const char *text, size_t n)
{
    size_t count = 0;
    for (const char *at = text, *end = text + n; at < end; count++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        at = newline ? newline + 1 : end;
    }
    return count;
}

static const char *skip_lines(const char *at, const char *end, size_t n)
{
    for (; n && at < end; n--) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        at = newline ? newline + 1 : end;
    }
    return at;
}

/* Lines of output: folded, each takes one row. */
static void output_lines(struct item *it, const char *at, const char *end, size_t most, int width)
{
    struct margin m = {BODY, BODY, ROLE_MUTED, ROLE_MUTED};
    for (size_t i = 0; at < end && i < most; i++) {
        _cleanup_flow_ struct flow f = FLOW_INIT;
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        flow_add(&f, it->open || it->state == CALL_BADLY ? ROLE_TEXT : ROLE_MUTED, at,
                 (size_t)((newline ? newline : end) - at));
        if (it->open)
            wrap_exact(&f, &m, width - 4, 8, &it->lines);
        else
            it->folds |= wrap_one(&f, &m, width - 4, 8, &it->lines);
        at = newline ? newline + 1 : end;
    }
}

static void more_line(struct item *it, size_t left, const char *key)
{
    char text[96];
    snprintf(text, sizeof text, "… %zu more line%s (%s)", left, left == 1 ? "" : "s", key);
    lines_say(&it->lines, ROLE_MUTED, BODY);
    lines_say(&it->lines, ROLE_MUTED, text);
    lines_end(&it->lines);
}

static void diff_body(struct item *it, const struct item_look *look)
{
    size_t left = 0;
    bool cut = diff_lines(text_of(it), it->text.len, it->open ? SIZE_MAX : it->body.head, BODY,
                          look->width, &it->lines, &left);
    it->folds = left || cut || it->open;
    if (left)
        more_line(it, left, look->key);
}

static void text_body(struct item *it, const struct item_look *look)
{
    const char *text = text_of(it), *end = text + it->text.len;
    while (end > text && end[-1] == '\n')
        end--;
    size_t count = count_lines(text, (size_t)(end - text));
    bool quiet = it->body.quiet && it->state == CALL_WELL;
    size_t head = quiet ? 0 : it->body.head, tail = quiet ? 0 : it->body.tail;
    it->folds = it->open;
    if (it->open ||
        count <= head + tail + (head + tail > 0)) { /* one line is no more than the hint */
        output_lines(it, text, end, SIZE_MAX, look->width);
        return;
    }
    it->folds = true;
    if (head + tail == 0)
        return;
    output_lines(it, text, end, head, look->width);
    more_line(it, count - head - tail, look->key);
    output_lines(it, skip_lines(text, end, count - tail), end, tail, look->width);
}

/* The tool says `[x] text`; shown with marks, and what is done steps back. */
static void plan_body(struct item *it, const struct item_look *look)
{
    static const struct {
        char mark;
        const char *first;
        unsigned mark_style, style;
    } MARKS[] = {{'x', "  ✓ ", ROLE_GOOD, ROLE_MUTED},
                 {'>', "  ▸ ", ROLE_ACCENT, ROLE_TEXT | STYLE_BOLD},
                 {'-', "  – ", ROLE_MUTED, ROLE_MUTED},
                 {' ', "  ○ ", ROLE_MUTED, ROLE_TEXT}};
    const char *at = text_of(it), *end = at + it->text.len;
    while (at < end) {
        _cleanup_flow_ struct flow f = FLOW_INIT;
        const char *newline = memchr(at, '\n', (size_t)(end - at)), *stop = newline ? newline : end;
        bool marked = stop - at > 4 && at[0] == '[' && at[2] == ']';
        size_t k = 0;
        while (marked && k + 1 < ARRAY_SIZE(MARKS) && MARKS[k].mark != at[1])
            k++;
        struct margin m = {marked ? MARKS[k].first : "    ", "    ",
                           marked ? MARKS[k].mark_style : 0, 0};
        at += marked ? 4 : 0;
        flow_add(&f, marked ? MARKS[k].style : ROLE_TEXT, at, (size_t)(stop - at));
        wrap_words(&f, &m, look->width - 4, &it->lines);
        at = stop + 1;
    }
}

void call_lines(struct item *it, const struct item_look *look)
{
    head_line(it, look);
    if (it->state == CALL_RUNNING) {
        if (it->last)
            output_lines(it, it->last, it->last + strlen(it->last), 1, look->width);
        return;
    }
    if (it->text.len == 0)
        return;
    if (it->body.plan && it->state == CALL_WELL)
        plan_body(it, look);
    else if (it->body.diff)
        diff_body(it, look);
    else
        text_body(it, look);
}
