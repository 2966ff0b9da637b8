#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "lines.h"
#include "tui.h"
#include "transcript.h"
#include "text.h"
#include "banned.h"

#define SUMMARY_COLUMNS 240          /* of a call's summary that are kept */
#define BODY_MAX        (256u << 10) /* bytes of a call's body; of more, the head and the tail */

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
    snprintf(note, sizeof note, "%s… %td bytes not kept …\n", head[-1] == '\n' ? "" : "\n",
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
