#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "io.h"
#include "plain.h"
#include "summary.h"
#include "banned.h"

#define ANSWER_MAX   (1u << 20)
#define CALL_WIDTH   100
#define OUTPUT_SHOWN 65536

void plain_output_init(struct plain_output *s)
{
    *s = (struct plain_output){.terminal = isatty(STDOUT_FILENO), .answer = BUF_INIT(ANSWER_MAX)};
}

void plain_output_free(struct plain_output *s)
{
    buf_free(&s->answer);
}

static void output_write(struct plain_output *s, const void *data, size_t n)
{
    int r = n && !s->failed ? io_write_all(STDOUT_FILENO, data, n) : 0;
    if (r < 0)
        s->failed = -r;
}

static void output_put(struct plain_output *s, const char *text, size_t n)
{
    _cleanup_buf_ struct buf clean = BUF_INIT(HARMLESS_GROWTH * n + 64);
    if (n == 0)
        return;
    s->in_line = text[n - 1] != '\n';
    if (s->terminal && harmless_append(&s->state, text, n, &clean) == 0)
        output_write(s, clean.data, clean.len);
    else if (!s->terminal)
        output_write(s, text, n);
}

static void output_end_line(struct plain_output *s)
{
    if (s->in_line)
        output_put(s, "\n", 1);
}

void plain_output_line(struct plain_output *s, const char *text, size_t n)
{
    output_end_line(s);
    output_put(s, text, n);
    output_end_line(s);
}

static void output_buf(struct plain_output *s, struct buf *b)
{
    plain_output_line(s, b->len ? (const char *)b->data : "", b->len);
}

/* The model was asked again and its answer differs: the line where it continues is repeated. */
static void output_restart(struct plain_output *s, size_t keep)
{
    static const char note[] = "[connection lost; the new answer differs from here on]\n";
    plain_output_line(s, note, sizeof note - 1);
    s->answer.len = keep < s->answer.len ? keep : s->answer.len;
    const char *text = (const char *)s->answer.data;
    const char *line = s->answer.len ? memrchr(text, '\n', s->answer.len) : NULL;
    size_t from = line ? (size_t)(line + 1 - text) : 0;
    output_put(s, s->answer.len ? text + from : "", s->answer.len - from);
}

static void output_call(struct plain_output *s, const struct agent_event *e)
{
    _cleanup_buf_ struct buf line = BUF_INIT(8192);
    s->calls++;
    s->is_shell = e->id && e->id[0] == '!';
    buf_printf(&line, "▸ %s  ", e->name ? e->name : "?");
    summary_of_call(e->name, e->input, CALL_WIDTH, &line);
    output_buf(s, &line);
}

static void output_result(struct plain_output *s, const struct agent_event *e)
{
    _cleanup_buf_ struct buf line = BUF_INIT(8192);
    char time[SUMMARY_TIME_MAX];
    if (s->is_shell && e->result->text.len) {
        size_t n = e->result->text.len;
        plain_output_line(s, (const char *)e->result->text.data,
                          n < OUTPUT_SHOWN ? n : OUTPUT_SHOWN);
    }
    buf_printf(&line, "  %s %s", summary_is_bad(e->result) ? "✗" : "✓",
               summary_time(e->seconds, time));
    if (s->calls > 1)
        buf_printf(&line, "  %s", e->name ? e->name : "");
    buf_append_str(&line, "  ");
    summary_of_result(e->name, e->result, CALL_WIDTH, &line);
    while (line.len && line.data[line.len - 1] == ' ')
        line.len--;
    output_buf(s, &line);
    s->calls -= s->calls > 0;
    s->is_shell = false;
}

static void output_note(struct plain_output *s, const char *text)
{
    _cleanup_buf_ struct buf line = BUF_INIT(65536);
    if (text && buf_printf(&line, "[%s]\n", text) == 0)
        output_buf(s, &line);
}

/* Of several attempts side by side only their calls are shown. */
static void output_attempt(struct plain_output *s, const struct agent_event *e, unsigned attempt)
{
    _cleanup_buf_ struct buf line = BUF_INIT(8192);
    buf_printf(&line, "%u: ", attempt);
    if (e->kind == AGENT_CALL) {
        buf_printf(&line, "▸ %s  ", e->name ? e->name : "?");
        summary_of_call(e->name, e->input, CALL_WIDTH, &line);
    } else if (e->kind == AGENT_DONE) {
        buf_printf(&line, "done%s%s", e->why ? ": " : "", e->why ? e->why : "");
    } else {
        return;
    }
    output_buf(s, &line);
}

void plain_output_event(struct plain_output *s, const struct agent_event *e, unsigned attempt)
{
    _cleanup_buf_ struct buf text = BUF_INIT(1u << 16);
    char time[SUMMARY_TIME_MAX];
    if (attempt) {
        output_attempt(s, e, attempt);
        return;
    }
    switch (e->kind) {
    case AGENT_TEXT:
        if (s->answer.len + e->n < s->answer.max)
            buf_append(&s->answer, e->text, e->n);
        output_put(s, e->text, e->n);
        break;
    case AGENT_BACK:
        output_restart(s, e->keep);
        break;
    case AGENT_SAID:
        output_end_line(s);
        s->answer.len = 0;
        break;
    case AGENT_CALL:
        output_call(s, e);
        break;
    case AGENT_RESULT:
        output_result(s, e);
        break;
    case AGENT_WAIT:
        buf_printf(&text, "[%s; retrying in %s (attempt %d)]\n", e->text ? e->text : "no answer",
                   summary_time(e->wait_ms / 1000.0, time), e->attempt + 1);
        output_buf(s, &text);
        break;
    case AGENT_NOTE:
        output_note(s, e->text);
        break;
    case AGENT_CHANGES:
        summary_list_changes(e->changes, &text);
        output_buf(s, &text);
        break;
    case AGENT_DONE:
        output_end_line(s);
        output_note(s, e->why);
        break;
    default:
        break;
    }
}
