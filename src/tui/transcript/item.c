/*
 * Items of the transcript: their text, and how each kind looks. Marks stand in the first column,
 * text begins in the third:
 *
 *     ▸ bash  make test   1.2s ✓
 *       │ cc -c a.c
 *       │ … 132 more lines (ctrl-o)
 *       │ 12 passed
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "thread.h"
#include "json.h"
#include "lines.h"
#include "transcript.h"
#include "tui.h"
#include "text.h"
#include "banned.h"

#define SUMMARY_COLUMNS 240          /* of a call's summary that are kept */
#define BODY_MAX        (256u << 10) /* bytes of a call's body; of more, the head and the tail */
#define USER_FOLDED     12           /* lines of a long message */
#define DIFF_FOLDED     40
#define TAB_WIDTH       8
#define BODY            "  │ "

struct item *item_new(enum item_kind kind)
{
    struct item *it = calloc(1, sizeof *it);
    if (!it)
        return NULL;
    it->kind = kind;
    it->raw = it->text = BUF_INIT(ITEM_TEXT_MAX);
    it->lines = LINES_INIT;
    it->stale = true;
    return it;
}

struct item *item_free(struct item *it)
{
    if (!it)
        return NULL;
    item_forget_layout(it);
    buf_free(&it->raw);
    buf_free(&it->text);
    free(it->id);
    free(it->name);
    free(it->summary);
    free(it->outcome);
    free(it->last_output);
    free(it);
    return NULL;
}

void item_append(struct item *it, const char *text, size_t n, bool output)
{
    clean_append(&it->text, text, n, output);
    it->stale = true;
}

void item_stream(struct item *it, const char *text, size_t n)
{
    buf_append(&it->raw, text, n);
    item_append(it, text, n, false);
}

void item_stream_cut(struct item *it, size_t keep)
{
    if (keep >= it->raw.len)
        return;
    it->raw.len = keep;
    it->raw.failed = it->text.failed = false;
    it->text.len = 0;
    if (it->width)
        item_forget_layout(it); /* a Markdown document only grows */
    item_append(it, (const char *)it->raw.data, keep, false);
}

void item_forget_layout(struct item *it)
{
    lines_free(&it->lines);
    if (it->kind == ITEM_ANSWER && it->width)
        markdown_free(&it->markdown);
    it->width = 0;
    it->stale = true;
}

bool item_moves(const struct item *it)
{
    return it->kind == ITEM_TRANSIENT || (it->kind == ITEM_CALL && it->state == CALL_RUNNING) ||
           (it->kind == ITEM_THINKING && !it->over);
}

/* Sets the body of a call, cut at lines where there are some. */
static void item_set_body(struct item *it, const char *text, size_t n)
{
    char note[64];
    it->text.len = 0;
    if (n <= BODY_MAX) {
        item_append(it, text, n, true);
        return;
    }
    const char *tail = text + n - BODY_MAX / 2, *line = memrchr(text, '\n', BODY_MAX / 2);
    const char *head =
        line ? line + 1 : text + BODY_MAX / 2 - utf8_cut_end((const uint8_t *)text, BODY_MAX / 2);
    line = memchr(tail, '\n', BODY_MAX / 2 - 1);
    tail = line ? line + 1 : tail + utf8_cut_start((const uint8_t *)tail, BODY_MAX / 2);
    item_append(it, text, (size_t)(head - text), true);
    snprintf(note, sizeof note, "%s… %td bytes omitted …\n", head[-1] == '\n' ? "" : "\n",
             tail - head);
    item_append(it, note, strlen(note), true);
    item_append(it, tail, (size_t)(text + n - tail), true);
}

void item_set_call(struct item *it, const struct agent_event *e, int64_t now)
{
    _cleanup_buf_ struct buf summary = BUF_INIT(SUMMARY_COLUMNS * 4 + 64);
    const struct tool_view *view = summary_view(e->name);
    const char *name = e->name ? e->name : "";
    const char *body = view->input_body ? json_get_string(e->input, view->input_body) : NULL;
    summary_of_call(e->name, e->input, SUMMARY_COLUMNS, &summary);
    it->id = strdup(e->id ? e->id : "");
    it->name = clean_string(name, strlen(name), 64);
    it->summary = clean_string((const char *)summary.data, summary.len, SUMMARY_COLUMNS * 4);
    it->view = view;
    it->began = now;
    if (body)
        item_set_body(it, body, strlen(body));
}

void item_set_result(struct item *it, const struct agent_event *e)
{
    static const struct tool_view failed = {.head = 6, .tail = 2};
    const struct tool_result *r = e->result;
    _cleanup_buf_ struct buf outcome = BUF_INIT(SUMMARY_COLUMNS * 4 + 64);
    const struct tool_view *view = summary_view(e->name);
    const char *body = view->data_body ? json_get_string(r->data, view->data_body) : NULL;
    it->state = summary_is_bad(r) ? CALL_FAILED : CALL_OK;
    it->seconds = e->seconds;
    if (!r->failed)
        summary_of_result(e->name, r, SUMMARY_COLUMNS, &outcome);
    it->outcome = clean_string((const char *)outcome.data, outcome.len, SUMMARY_COLUMNS * 4);
    if (r->failed)
        it->view = &failed;
    if (body && !r->failed)
        item_set_body(it, body, strlen(body));
    else if (r->failed || !view->input_body) /* else the input says it better */
        item_set_body(it, (const char *)r->text.data, r->text.len);
    item_forget_layout(it);
}

const char *spinner(unsigned tick)
{
    static const char *const frames[] = {"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"};
    return frames[tick % ARRAY_SIZE(frames)];
}

/* Layout. */

static const char *item_text(const struct item *it)
{
    return it->text.len ? (const char *)it->text.data : "";
}

/* The line at `at` without its newline. */
static size_t line_length(const char *at, const char *end)
{
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    return (size_t)((newline ? newline : end) - at);
}

/* Goes on by n lines, as far as there are some; returns their number. */
static size_t skip_lines(const char **at, const char *end, size_t n)
{
    size_t count = 0;
    for (; count < n && *at < end; count++) {
        *at += line_length(*at, end);
        *at += *at < end;
    }
    return count;
}

/* `… 132 more lines (ctrl-o)` */
static void item_put_more(struct lines *out, const char *margin, size_t left, const char *key)
{
    char text[96];
    if (left == 0)
        return;
    snprintf(text, sizeof text, "… %zu more line%s (%s)", left, left == 1 ? "" : "s", key);
    lines_puts(out, ROLE_MUTED, margin);
    lines_puts(out, ROLE_MUTED, text);
    lines_end(out);
}

/* All of the text, or its first `most` lines; returns how many lines were left out. */
static size_t item_put_text(struct item *it, const struct margin *m, unsigned style, int width,
                            size_t most)
{
    _cleanup_styled_ struct styled s = STYLED_INIT;
    const char *text = item_text(it), *end = text + it->text.len, *stop = text;
    while (end > text && end[-1] == '\n')
        end--;
    skip_lines(&stop, end, most);
    styled_add(&s, style, text, (size_t)(stop - text));
    wrap_words(&s, m, width, &it->lines);
    return skip_lines(&stop, end, SIZE_MAX);
}

static void item_put_spinner(struct lines *out, const struct layout *l)
{
    lines_puts(out, ROLE_ACCENT, spinner(l->tick));
    lines_puts(out, ROLE_MUTED, " ");
}

/* Folded thoughts are one line: the last while they stream, the first once they are complete. */
static void thinking_put_lines(struct item *it, const struct layout *l, int width)
{
    _cleanup_styled_ struct styled s = STYLED_INIT;
    struct margin m = {it->over || it->open ? "∴ " : "", "  ", ROLE_MUTED, ROLE_MUTED};
    it->folds = true;
    if (it->open) {
        item_put_text(it, &m, ROLE_MUTED | STYLE_ITALIC, width, SIZE_MAX);
        return;
    }
    const char *text = item_text(it), *end = text + it->text.len;
    while (end > text && (end[-1] == '\n' || end[-1] == ' '))
        end--;
    while (text < end && (*text == '\n' || *text == ' '))
        text++;
    if (!it->over) {
        const char *newline = memrchr(text, '\n', (size_t)(end - text));
        text = newline ? newline + 1 : text;
        item_put_spinner(&it->lines, l);
    }
    size_t n = line_length(text, end);
    styled_add(&s, ROLE_MUTED | STYLE_ITALIC, text, n);
    styled_puts(&s, ROLE_MUTED, text + n < end ? " …" : "");
    wrap_one(&s, &m, width, TAB_WIDTH, &it->lines);
}

/* Lines of summary_list_changes(): `M path  +1 −2`. */
static void changes_put_lines(struct item *it, const struct layout *l)
{
    const char *at = item_text(it), *end = at + it->text.len;
    for (bool first = true; at < end; first = false) {
        _cleanup_styled_ struct styled s = STYLED_INIT;
        const char *stop = at + line_length(at, end);
        struct margin m = {first ? "± " : "  ", "  ", ROLE_ACCENT, ROLE_TEXT};
        const char *figures = memrchr(at, '+', (size_t)(stop - at)); /* after any + of the name */
        figures = figures && figures > at && figures[-1] == ' ' ? figures : stop;
        const char *minus = memmem(figures, (size_t)(stop - figures), "−", strlen("−"));
        minus = minus ? minus : stop;
        styled_add(&s, first ? ROLE_TEXT | STYLE_BOLD : ROLE_TEXT, at, (size_t)(figures - at));
        styled_add(&s, ROLE_ADDED, figures, (size_t)(minus - figures));
        styled_add(&s, ROLE_DELETED, minus, (size_t)(stop - minus));
        wrap_one(&s, &m, l->width - ITEM_INDENT, TAB_WIDTH, &it->lines);
        at = stop + 1;
    }
}

/*
 * Diffs. Of git's headers a person needs the name of the file and what happened to it: the hashes,
 * and the --- and +++ lines, are left out. Lines of hunks are counted, since one may look like a
 * header (a deleted "-- comment" is shown as "--- comment").
 */
struct diff_state {
    long old_left, new_left; /* lines of the hunk */
    bool header;             /* in git's header of a file */
};

/* The style of the next line, or -1 if it is not shown. */
static int diff_next_style(struct diff_state *d, const char *line, size_t n)
{
    if (has_prefix(line, n, "@@")) {
        /* `@@ -1,3 +1,4 @@`; a missing count is 1 */
        char text[80], *at = text + 2;
        long counts[2] = {0, 0};
        snprintf(text, sizeof text, "%.*s", (int)(n < sizeof text ? n : sizeof text - 1), line);
        for (int i = 0; i < 2 && (at = strpbrk(at, i == 0 ? "-" : "+")); i++) {
            strtol(at + 1, &at, 10);
            counts[i] = *at == ',' ? strtol(at + 1, &at, 10) : 1;
        }
        if (at)
            *d = (struct diff_state){.old_left = counts[0], .new_left = counts[1]};
        d->header = false;
        return ROLE_HUNK;
    }
    if (d->old_left > 0 || d->new_left > 0) {
        char mark = n ? *line : ' ';
        d->old_left -= mark != '+' && mark != '\\';
        d->new_left -= mark != '-' && mark != '\\';
        return mark == '+'    ? ROLE_ADDED
               : mark == '-'  ? ROLE_DELETED
               : mark == '\\' ? ROLE_MUTED
                              : ROLE_TEXT;
    }
    d->header |= has_prefix(line, n, "diff --git ");
    if (d->header && (has_prefix(line, n, "index ") || has_prefix(line, n, "--- ") ||
                      has_prefix(line, n, "+++ ")))
        return -1;
    return (int)diff_style(line, n);
}

/* The text as a diff: unfolded all of it, wrapped, with a hanging indent after the marks; folded
 * `most` lines of one row each. */
static void diff_put_lines(struct item *it, size_t most, const char *margin, const struct layout *l)
{
    static const char head[] = "diff --git a/";
    struct diff_state d = {0};
    const char *next = item_text(it), *end = next + it->text.len;
    size_t shown = 0, left = 0;
    bool cut = false;
    char rest[32];
    struct margin m = {margin, rest, ROLE_MUTED, ROLE_MUTED};
    int room = l->width - clean_width(margin, strlen(margin));
    snprintf(rest, sizeof rest, "%s  ", margin);
    while (next < end) {
        const char *line = next;
        size_t n = line_length(line, end);
        int style = diff_next_style(&d, line, n);
        skip_lines(&next, end, 1);
        if (style < 0)
            continue;
        if (!it->open && shown >= most) {
            left++;
            continue;
        }
        if (shown++ > 0 && has_prefix(line, n, "diff --git ")) {
            lines_puts(&it->lines, ROLE_MUTED, margin);
            lines_end(&it->lines);
        }
        if (has_prefix(line, n, head) && n > strlen(head) + 4) { /* `diff --git a/x b/x`: `x` */
            const char *name = line + strlen(head);
            size_t half = (n - strlen(head) - 3) / 2;
            bool same = has_prefix(name + half, n - strlen(head) - half, " b/") &&
                        memcmp(name, name + half + 3, half) == 0;
            line = same ? name : line + strlen("diff --git ");
            n = same ? half : n - strlen("diff --git ");
        }
        _cleanup_styled_ struct styled s = STYLED_INIT;
        styled_add(&s, (unsigned)style, line, n);
        if (it->open)
            wrap_exact(&s, &m, room - 2, TAB_WIDTH, &it->lines);
        else
            cut |= wrap_one(&s, &m, room, TAB_WIDTH, &it->lines);
    }
    it->folds = left || cut || it->open;
    item_put_more(&it->lines, margin, left, l->key);
}

static void call_head_line(struct item *it, const struct layout *l)
{
    static const struct {
        const char *mark;
        unsigned role;
    } MARKS[] = {[CALL_OK] = {"✓", ROLE_GOOD},
                 [CALL_FAILED] = {"✗", ROLE_BAD},
                 [CALL_STOPPED] = {"stopped", ROLE_WARN}};
    _cleanup_styled_ struct styled end = STYLED_INIT;
    struct lines *out = &it->lines;
    const char *name = it->name ? it->name : "", *summary = it->summary ? it->summary : "";
    bool runs = it->state == CALL_RUNNING;
    double seconds = runs ? (double)(l->now - it->began) / NS_PER_S : it->seconds;
    char time[SUMMARY_TIME_MAX];

    /* What stands after the summary: the outcome, the time, the mark. */
    if (it->outcome && *it->outcome)
        styled_puts(&end, it->state == CALL_FAILED ? ROLE_BAD : ROLE_MUTED, it->outcome);
    if (it->state != CALL_STOPPED && seconds >= (runs ? 1 : 0.1)) { /* less is not worth a figure */
        styled_puts(&end, ROLE_MUTED, end.text.len ? "  " : "");
        styled_puts(&end, ROLE_MUTED, summary_time(seconds, time));
    }
    if (!runs) {
        styled_puts(&end, ROLE_MUTED, end.text.len ? " " : "");
        styled_puts(&end, MARKS[it->state].role, MARKS[it->state].mark);
    }

    int room =
        l->width - (ITEM_INDENT + clean_width(name, strlen(name)) + 2 + 3 + styled_width(&end));
    lines_puts(out, ROLE_ACCENT, runs ? spinner(l->tick) : "▸");
    lines_puts(out, ROLE_TEXT, " ");
    lines_puts(out, ROLE_TEXT | STYLE_BOLD, name);
    if (*summary && room > 4) { /* as much of the summary as leaves room for the ending */
        size_t n = strlen(summary);
        int width = clean_width(summary, n);
        bool cut = width > room;
        if (cut)
            n = clean_fit(summary, n, room - 1, &width);
        lines_puts(out, ROLE_TEXT, "  ");
        lines_put(out, ROLE_TEXT, summary, n, width);
        lines_puts(out, ROLE_MUTED, cut ? "…" : "");
    }
    lines_puts(out, ROLE_TEXT, end.text.len ? "   " : "");
    lines_put_styled(out, &end);
    lines_end(out);
}

/* Lines of output: folded, each takes one row. */
static void output_put_lines(struct item *it, const char *at, const char *end, size_t most,
                             int width)
{
    struct margin m = {BODY, BODY, ROLE_MUTED, ROLE_MUTED};
    unsigned style = it->open || it->state == CALL_FAILED ? ROLE_TEXT : ROLE_MUTED;
    for (size_t i = 0; at < end && i < most; i++, skip_lines(&at, end, 1)) {
        _cleanup_styled_ struct styled s = STYLED_INIT;
        styled_add(&s, style, at, line_length(at, end));
        if (it->open)
            wrap_exact(&s, &m, width - 4, TAB_WIDTH, &it->lines);
        else
            it->folds |= wrap_one(&s, &m, width - 4, TAB_WIDTH, &it->lines);
    }
}

static void call_text_body(struct item *it, const struct layout *l)
{
    const char *text = item_text(it), *end = text + it->text.len, *tail_at = text;
    while (end > text && end[-1] == '\n')
        end--;
    size_t count = skip_lines(&tail_at, end, SIZE_MAX);
    bool quiet = it->view->quiet && it->state == CALL_OK;
    size_t head = quiet ? 0 : it->view->head, tail = quiet ? 0 : it->view->tail;
    it->folds = it->open;
    /* One line more takes no more room than the hint would. */
    if (it->open || count <= head + tail + (head + tail > 0)) {
        output_put_lines(it, text, end, SIZE_MAX, l->width);
        return;
    }
    it->folds = true;
    if (head + tail == 0)
        return;
    tail_at = text;
    skip_lines(&tail_at, end, count - tail);
    output_put_lines(it, text, end, head, l->width);
    item_put_more(&it->lines, BODY, count - head - tail, l->key);
    output_put_lines(it, tail_at, end, tail, l->width);
}

/* `[x] text`, shown with marks; done items step back. */
static void call_plan_body(struct item *it, const struct layout *l)
{
    static const struct {
        char mark;
        const char *first;
        unsigned mark_style, style;
    } MARKS[] = {{'x', "  ✓ ", ROLE_GOOD, ROLE_MUTED},
                 {'>', "  ▸ ", ROLE_ACCENT, ROLE_TEXT | STYLE_BOLD},
                 {'-', "  – ", ROLE_MUTED, ROLE_MUTED},
                 {' ', "  ○ ", ROLE_MUTED, ROLE_TEXT}};
    const char *at = item_text(it), *end = at + it->text.len;
    while (at < end) {
        _cleanup_styled_ struct styled s = STYLED_INIT;
        const char *stop = at + line_length(at, end);
        bool marked = stop - at > 4 && at[0] == '[' && at[2] == ']';
        size_t k = 0;
        while (marked && k + 1 < ARRAY_SIZE(MARKS) && MARKS[k].mark != at[1])
            k++;
        struct margin m = {marked ? MARKS[k].first : "    ", "    ",
                           marked ? MARKS[k].mark_style : 0, 0};
        at += marked ? 4 : 0;
        styled_add(&s, marked ? MARKS[k].style : ROLE_TEXT, at, (size_t)(stop - at));
        wrap_words(&s, &m, l->width - 4, &it->lines);
        at = stop + 1;
    }
}

static void item_lay_out(struct item *it, const struct layout *l)
{
    _cleanup_styled_ struct styled s = STYLED_INIT;
    struct margin user = {"› ", "  ", ROLE_ACCENT | STYLE_BOLD, ROLE_TEXT};
    struct margin note = {"· ", "  ", ROLE_MUTED, ROLE_TEXT};
    int prose = l->width < PROSE_WIDTH ? l->width : PROSE_WIDTH;
    bool runs = it->state == CALL_RUNNING;
    size_t left;
    switch (it->kind) {
    case ITEM_USER:
        left = item_put_text(it, &user, ROLE_TEXT | STYLE_BOLD, prose - ITEM_INDENT,
                             it->open ? SIZE_MAX : USER_FOLDED);
        it->folds = left || it->open;
        item_put_more(&it->lines, "  ", left, l->key);
        break;
    case ITEM_NOTE:
        item_put_text(it, &note, ROLE_TEXT, l->width - ITEM_INDENT, SIZE_MAX);
        break;
    case ITEM_DIFF:
        diff_put_lines(it, DIFF_FOLDED, "  ", l);
        break;
    case ITEM_THINKING:
        thinking_put_lines(it, l, prose - ITEM_INDENT);
        break;
    case ITEM_CALL:
        call_head_line(it, l);
        if (runs && it->last_output)
            output_put_lines(it, it->last_output, it->last_output + strlen(it->last_output), 1,
                             l->width);
        if (runs || it->text.len == 0)
            break;
        if (it->view->body == TOOL_BODY_PLAN && it->state == CALL_OK)
            call_plan_body(it, l);
        else if (it->view->body == TOOL_BODY_DIFF)
            diff_put_lines(it, it->view->head, BODY, l);
        else
            call_text_body(it, l);
        break;
    case ITEM_CHANGES:
        changes_put_lines(it, l);
        break;
    case ITEM_TRANSIENT:
        styled_add(&s, ROLE_MUTED, item_text(it), it->text.len);
        if (it->began) {
            char wait[64];
            int64_t ns = it->began - l->now;
            snprintf(wait, sizeof wait, "; retrying in %lld s (attempt %d)",
                     (long long)(ns > 0 ? (ns + NS_PER_S - 1) / NS_PER_S : 0), it->attempt);
            styled_puts(&s, ROLE_MUTED, wait);
        }
        item_put_spinner(&it->lines, l);
        wrap_one(&s, &(struct margin){"", "", 0, 0}, l->width - ITEM_INDENT, TAB_WIDTH, &it->lines);
        break;
    case ITEM_ANSWER: /* has Markdown */
        break;
    }
}

const struct lines *item_lines(struct item *it, const struct layout *l)
{
    bool answer = it->kind == ITEM_ANSWER;
    if (it->width && it->width != l->width)
        item_forget_layout(it);
    if (answer && !it->width)
        markdown_open(&it->markdown, l->width, ITEM_INDENT);
    if (answer && it->stale) {
        markdown_update(&it->markdown, item_text(it), it->text.len);
    } else if (!answer && (it->stale || item_moves(it))) {
        lines_cut(&it->lines, 0);
        item_lay_out(it, l);
    }
    it->width = l->width;
    it->stale = false;
    const struct lines *lines = answer ? &it->markdown.lines : &it->lines;
    it->height = lines->count;
    return lines;
}
