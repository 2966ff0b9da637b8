/* What `hutch ask` prints: JSON events (docs/agent.md describes them), or text for people. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ask_show.h"
#include "io.h"
#include "output.h"
#include "summary.h"
#include "banned.h"

void ask_json_print(json_t *event, unsigned attempt)
{
    if (!event) /* one that --json does not show */
        return;
    if (attempt != ATTEMPT_NONE)
        json_object_set_new(event, "attempt", json_integer((json_int_t)attempt + 1));
    output_json(event, JSON_COMPACT);
}

static json_t *ask_json_usage(const struct model_usage *u, const struct agent_money *money)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:o}", "input", (json_int_t)u->input, "output",
                     (json_int_t)u->output, "cache_read", (json_int_t)u->cache_read, "cache_write",
                     (json_int_t)u->cache_write, "thinking", (json_int_t)u->thinking, "cost",
                     money->known ? json_real(money->cost) : json_null());
}

static json_t *ask_json_usage_event(const struct agent_event *e)
{
    json_t *event = ask_json_usage(&e->usage, &e->money);
    json_object_set_new(event, "type", json_string("usage"));
    json_object_set_new(event, "session", ask_json_usage(&e->session_usage, &e->session_money));
    json_object_set_new(event, "context", json_integer((json_int_t)e->context));
    json_object_set_new(event, "window", json_integer((json_int_t)e->window));
    return event;
}

static json_t *ask_json_result_event(const struct agent_event *e)
{
    const struct tool_result *r = e->result;
    json_t *data = r->data ? json_deep_copy(r->data) : NULL;
    return json_pack("{s:s, s:s, s:s, s:b, s:f, s:o, s:o*}", "type", "tool_result", "id", e->id,
                     "name", e->name, "failed", r->failed, "seconds", e->seconds, "text",
                     json_stringn(r->text.len ? (const char *)r->text.data : "", r->text.len),
                     "data", data);
}

json_t *ask_json_changes(const struct agent_changes *c)
{
    json_t *files = json_array();
    for (size_t i = 0; i < c->count; i++) {
        const struct agent_change *one = &c->items[i];
        json_array_append_new(files,
                              json_pack("{s:o, s:s, s:I, s:I, s:b}", "path",
                                        text_json(one->path, strlen(one->path)), "kind", one->kind,
                                        "added", (json_int_t)one->added, "deleted",
                                        (json_int_t)one->deleted, "binary", one->binary));
    }
    return json_pack("{s:s, s:o, s:I, s:I, s:b}", "type", "changes", "changes", files, "added",
                     (json_int_t)c->added, "deleted", (json_int_t)c->deleted, "commits",
                     c->commits);
}

json_t *ask_json_event(const struct agent_event *e)
{
    switch (e->kind) {
    case AGENT_TEXT:
        return json_pack("{s:s, s:s%}", "type", "text", "text", e->text, e->n);
    case AGENT_THINKING:
        return json_pack("{s:s, s:s%}", "type", "thinking", "text", e->text, e->n);
    case AGENT_BACK:
        /* A second attempt at the answer differs: how much of what was printed still counts. */
        return json_pack("{s:s, s:s, s:I, s:I}", "type", "text", "text", "", "keep",
                         (json_int_t)e->keep, "keep_thinking", (json_int_t)e->keep_thinking);
    case AGENT_CALL:
        return json_pack("{s:s, s:s, s:s, s:O}", "type", "tool_call", "id", e->id, "name", e->name,
                         "input", e->input);
    case AGENT_RESULT:
        return ask_json_result_event(e);
    case AGENT_WAIT:
        return json_pack("{s:s, s:s%, s:b, s:i, s:i}", "type", "error", "text", e->text, e->n,
                         "retrying", 1, "wait_ms", e->wait_ms, "attempts", e->attempt);
    case AGENT_USAGE:
        return ask_json_usage_event(e);
    case AGENT_CHANGES:
        return ask_json_changes(e->changes);
    case AGENT_SAID:
    case AGENT_WRITING:
    case AGENT_PROGRESS:
    case AGENT_NOTE:
    case AGENT_DONE:
        break;
    }
    return NULL;
}

#define PIECE_MAX      (4u << 20)
#define ABOUT_MAX      60
#define LINE_MAX_BYTES 4096u
#define FILES_MAX      20

void ask_show_init(struct ask_show *s, bool json)
{
    *s = (struct ask_show){.json = json, .terminal = isatty(STDOUT_FILENO)};
}

void ask_show_free(struct ask_show *s)
{
    agent_changes_free(&s->changes);
    json_decref(s->attempts);
}

static void ask_show_put_words(struct ask_show *s, const char *text, size_t n)
{
    _cleanup_buf_ struct buf out = BUF_INIT(PIECE_MAX);
    if (n == 0)
        return;
    s->middle = text[n - 1] != '\n';
    if (s->terminal && harmless_append(&s->pieces, text, n, &out) == 0)
        output_write(out.data, out.len);
    else if (!s->terminal)
        output_write(text, n);
}

static void ask_show_end_line(struct ask_show *s)
{
    if (s->middle)
        ask_show_put_words(s, "\n", 1);
}

static void ask_show_result(struct ask_show *s, unsigned attempt, const struct agent_event *e)
{
    _cleanup_buf_ struct buf line = BUF_INIT(LINE_MAX_BYTES);
    char name[128], seconds[SUMMARY_TIME_MAX];
    ask_show_end_line(s);
    if (attempt != ATTEMPT_NONE)
        buf_printf(&line, "[%u] ", attempt + 1);
    buf_printf(&line, "▸ %s  ", say_clean(e->name, name, sizeof name));
    summary_of_call(e->name, e->input, ABOUT_MAX, &line);
    buf_printf(&line, "   %s %s ", summary_time(e->seconds, seconds),
               summary_is_bad(e->result) ? "✗" : "✓");
    summary_of_result(e->name, e->result, 2 * ABOUT_MAX, &line);
    while (line.len > 0 && line.data[line.len - 1] == ' ')
        line.len--;
    buf_append(&line, "\n", 1);
    io_write_all(STDERR_FILENO, line.data, line.len);
}

static void ask_show_text_event(struct ask_show *s, unsigned attempt, const struct agent_event *e)
{
    switch (e->kind) {
    case AGENT_TEXT:
        if (attempt == ATTEMPT_NONE)
            ask_show_put_words(s, e->text, e->n);
        break;
    case AGENT_BACK:
        ask_show_end_line(s);
        say("the answer was interrupted; the rest comes from a new attempt");
        break;
    case AGENT_SAID:
        ask_show_end_line(s);
        break;
    case AGENT_RESULT:
        ask_show_result(s, attempt, e);
        break;
    case AGENT_WAIT:
        ask_show_end_line(s);
        say("%.*s; retrying in %.1f s (attempt %d of %d)", (int)e->n, e->text, e->wait_ms / 1000.0,
            e->attempt + 1, e->attempts + 1);
        break;
    default:
        break;
    }
}

static void ask_show_one(struct ask_show *s, unsigned attempt, const struct agent_event *e)
{
    if (e->kind == AGENT_NOTE) {
        ask_show_end_line(s);
        say("%.*s", (int)e->n, e->text);
    } else if (e->kind == AGENT_CHANGES && attempt == ATTEMPT_NONE) {
        agent_changes_free(&s->changes);
        agent_changes_copy(e->changes, &s->changes);
    } else if (e->kind == AGENT_DONE && attempt == ATTEMPT_NONE) {
        s->done = true;
        s->stop = e->stop;
        snprintf(s->why, sizeof s->why, "%s", e->why ? e->why : "");
    }
    if (s->json)
        ask_json_print(ask_json_event(e), attempt);
    else
        ask_show_text_event(s, attempt, e);
}

void ask_show_event(void *data, const struct agent_event *e)
{
    ask_show_one(data, ATTEMPT_NONE, e);
}

void ask_show_attempt(void *data, unsigned attempt, const struct agent_event *e)
{
    ask_show_one(data, attempt, e);
}

void ask_show_session(struct ask_show *s, struct agent *a, bool resumed)
{
    struct agent_state state;
    agent_state(a, &state);
    if (s->json)
        ask_json_print(json_pack("{s:s, s:s, s:s, s:s*, s:b}", "type", "session", "session",
                                 state.session, "model", state.model, "workspace", state.workspace,
                                 "resumed", resumed),
                       ATTEMPT_NONE);
}

void ask_show_changes(struct ask_show *s)
{
    const struct agent_changes *c = &s->changes;
    char path[512];
    for (size_t i = 0; i < c->count && i < FILES_MAX; i++) {
        const struct agent_change *one = &c->items[i];
        say_clean(one->path, path, sizeof path);
        if (one->binary)
            dprintf(STDERR_FILENO, "  %-8s %s (binary)\n", one->kind, path);
        else
            dprintf(STDERR_FILENO, "  %-8s %s +%" PRIu64 " -%" PRIu64 "\n", one->kind, path,
                    one->added, one->deleted);
    }
    if (c->count > FILES_MAX)
        dprintf(STDERR_FILENO, "  and %zu more\n", c->count - FILES_MAX);
    if (c->count)
        say("%zu file%s changed, +%" PRIu64 " -%" PRIu64, c->count, c->count == 1 ? "" : "s",
            c->added, c->deleted);
}

/* What a person reads may have several lines (how to give a key). */
void ask_show_error(struct ask_show *s, const struct error *err)
{
    ask_show_end_line(s);
    if (s->json)
        ask_json_print(
            json_pack("{s:s, s:s, s:b}", "type", "error", "text", err->text, "retrying", 0),
            ATTEMPT_NONE);
    say_lines(err->text);
}

static json_t *ask_show_end_event(const struct ask_show *s, const struct ask_end *e,
                                  const struct agent_state *state, const char *box)
{
    json_t *cost = state->money.known ? json_real(state->money.cost) : json_null();
    json_t *attempts = s->attempts ? json_incref(s->attempts) : NULL;
    return json_pack("{s:s, s:s, s:s*, s:s*, s:s*, s:b, s:i, s:o, s:i, s:o*}", "type", "done",
                     "session", state->session, "stop", s->done ? model_stop_name(s->stop) : NULL,
                     "why", s->why[0] ? s->why : NULL, "box", box, "applied", e->applied,
                     "conflicts", e->conflicts, "cost", cost, "status", e->status, "attempts",
                     attempts);
}

void ask_show_end(struct ask_show *s, const struct ask_end *e)
{
    struct agent_state state;
    const char *box = agent_changes_any(&s->changes) && !e->applied ? agent_box(e->agent) : NULL;
    agent_state(e->agent, &state);
    if (s->json)
        ask_json_print(ask_show_end_event(s, e, &state, box), ATTEMPT_NONE);
    if (s->why[0])
        say("%s; resume with 'hutch --resume %s'", s->why, state.session);
    if (box && !s->json)
        say("the changes are pending in the box: 'hutch box diff %s' shows them, 'hutch box apply "
            "%s' "
            "applies "
            "them, 'hutch --resume %s' continues the session",
            box, box, state.session);
}
