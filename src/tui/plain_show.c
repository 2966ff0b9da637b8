#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "io.h"
#include "plain.h"
#include "summary.h"
#include "banned.h"

#define ANSWER_MAX   (1u << 20)
#define CALL_WIDTH   100
#define FILES_SHOWN  20
#define OUTPUT_SHOWN 65536

void plain_show_init(struct plain_show *s)
{
    *s = (struct plain_show){.harmless = isatty(STDOUT_FILENO), .answer = BUF_INIT(ANSWER_MAX)};
}

void plain_show_free(struct plain_show *s)
{
    buf_free(&s->answer);
}

static void write_out(struct plain_show *s, const void *data, size_t n)
{
    int r = n && !s->lost ? io_write_all(STDOUT_FILENO, data, n) : 0;
    if (r < 0)
        s->lost = -r;
}

void plain_put(struct plain_show *s, const char *text, size_t n)
{
    _cleanup_buf_ struct buf clean = BUF_INIT(HARMLESS_GROWTH * n + 64);
    if (n == 0)
        return;
    s->in_line = text[n - 1] != '\n';
    if (s->harmless && harmless_append(&s->state, text, n, &clean) == 0)
        write_out(s, clean.data, clean.len);
    else if (!s->harmless)
        write_out(s, text, n);
}

static void end_line(struct plain_show *s)
{
    if (s->in_line)
        plain_put(s, "\n", 1);
}

void plain_line(struct plain_show *s, const char *text, size_t n)
{
    end_line(s);
    plain_put(s, text, n);
    end_line(s);
}

static void line_of(struct plain_show *s, struct buf *b)
{
    plain_line(s, b->len ? (const char *)b->data : "", b->len);
}

/* The second attempt at an answer differs: the line that it goes on in is said again. */
static void go_back(struct plain_show *s, size_t keep)
{
    static const char note[] = "[the connection broke, and the answer differs from here on]\n";
    plain_line(s, note, sizeof note - 1);
    s->answer.len = keep < s->answer.len ? keep : s->answer.len;
    const char *text = (const char *)s->answer.data;
    const char *line = s->answer.len ? memrchr(text, '\n', s->answer.len) : NULL;
    size_t from = line ? (size_t)(line + 1 - text) : 0;
    plain_put(s, s->answer.len ? text + from : "", s->answer.len - from);
}

static void show_call(struct plain_show *s, const struct agent_event *e)
{
    _cleanup_buf_ struct buf line = BUF_INIT(8192);
    s->calls++;
    s->aloud = e->id && e->id[0] == '!';
    buf_printf(&line, "▸ %s  ", e->name ? e->name : "?");
    summary_of_call(e->name, e->input, CALL_WIDTH, &line);
    line_of(s, &line);
}

static void show_result(struct plain_show *s, const struct agent_event *e)
{
    _cleanup_buf_ struct buf line = BUF_INIT(8192);
    char time[SUMMARY_TIME_MAX];
    if (s->aloud && e->result->text.len) {
        size_t n = e->result->text.len;
        plain_line(s, (const char *)e->result->text.data, n < OUTPUT_SHOWN ? n : OUTPUT_SHOWN);
    }
    buf_printf(&line, "  %s %s", summary_is_bad(e->result) ? "✗" : "✓",
               summary_time(e->seconds, time));
    if (s->calls > 1)
        buf_printf(&line, "  %s", e->name ? e->name : "");
    buf_append_str(&line, "  ");
    summary_of_result(e->name, e->result, CALL_WIDTH, &line);
    while (line.len && line.data[line.len - 1] == ' ')
        line.len--;
    line_of(s, &line);
    s->calls -= s->calls > 0;
    s->aloud = false;
}

static void show_changes(struct plain_show *s, const struct agent_changes *c)
{
    _cleanup_buf_ struct buf text = BUF_INIT(1u << 16);
    changes_summary(c, &text);
    buf_append_str(&text, "\n");
    for (size_t i = 0; i < c->count && i < FILES_SHOWN; i++) {
        buf_printf(&text, "  %-9s", c->items[i].kind);
        summary_line(c->items[i].path, strlen(c->items[i].path), CALL_WIDTH, &text);
        if (c->items[i].binary)
            buf_append_str(&text, "  (binary)\n");
        else
            buf_printf(&text, "  +%" PRIu64 " -%" PRIu64 "\n", c->items[i].added,
                       c->items[i].deleted);
    }
    if (c->count > FILES_SHOWN)
        buf_printf(&text, "  … and %zu more\n", c->count - FILES_SHOWN);
    line_of(s, &text);
}

static void show_note(struct plain_show *s, const char *before, const char *text)
{
    _cleanup_buf_ struct buf line = BUF_INIT(65536);
    if (text && buf_printf(&line, "[%s%s]\n", before, text) == 0)
        line_of(s, &line);
}

static void show_wait(struct plain_show *s, const struct agent_event *e)
{
    char time[SUMMARY_TIME_MAX], before[64];
    snprintf(before, sizeof before,
             "asked again in %s, for the %d. time: ", summary_time(e->wait_ms / 1000.0, time),
             e->attempt);
    show_note(s, before, e->text ? e->text : "");
}

static void show_text(struct plain_show *s, const struct agent_event *e)
{
    if (s->answer.len + e->n < s->answer.max)
        buf_append(&s->answer, e->text, e->n);
    plain_put(s, e->text, e->n);
}

/* Of several attempts side by side only how each goes on is told. */
static void show_attempt(struct plain_show *s, const struct agent_event *e, unsigned attempt)
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
    line_of(s, &line);
}

void plain_event(struct plain_show *s, const struct agent_event *e, unsigned attempt)
{
    if (attempt) {
        show_attempt(s, e, attempt);
        return;
    }
    switch (e->kind) {
    case AGENT_TEXT:
        show_text(s, e);
        break;
    case AGENT_BACK:
        go_back(s, e->keep);
        break;
    case AGENT_SAID:
        end_line(s);
        s->answer.len = 0;
        break;
    case AGENT_CALL:
        show_call(s, e);
        break;
    case AGENT_RESULT:
        show_result(s, e);
        break;
    case AGENT_WAIT:
        show_wait(s, e);
        break;
    case AGENT_NOTE:
        show_note(s, "", e->text);
        break;
    case AGENT_CHANGES:
        show_changes(s, e->changes);
        break;
    case AGENT_DONE:
        end_line(s);
        show_note(s, "", e->why);
        break;
    default:
        break;
    }
}
