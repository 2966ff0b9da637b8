/* Events of an agent as JSON objects: the lines of `hutch ask --json`, the events of jobs. */
#include <string.h>

#include "event.h"
#include "banned.h"

json_t *agent_usage_json(const struct model_usage *u, const struct agent_money *money)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:o}", "input", (json_int_t)u->input, "output",
                     (json_int_t)u->output, "cache_read", (json_int_t)u->cache_read, "cache_write",
                     (json_int_t)u->cache_write, "thinking", (json_int_t)u->thinking, "cost",
                     money->known ? json_real(money->cost) : json_null());
}

json_t *agent_changes_json(const struct agent_changes *c)
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

json_t *agent_event_json(const struct agent_event *e)
{
    const struct tool_result *r = e->result;
    json_t *event;
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
        return json_pack("{s:s, s:s, s:s, s:b, s:f, s:o, s:o*}", "type", "tool_result", "id", e->id,
                         "name", e->name, "failed", r->failed, "seconds", e->seconds, "text",
                         json_stringn(r->text.len ? (const char *)r->text.data : "", r->text.len),
                         "data", r->data ? json_deep_copy(r->data) : NULL);
    case AGENT_WAIT:
        return json_pack("{s:s, s:s%, s:b, s:i, s:i}", "type", "error", "text", e->text, e->n,
                         "retrying", 1, "wait_ms", e->wait_ms, "attempts", e->attempt);
    case AGENT_USAGE:
        event = agent_usage_json(&e->usage, &e->money);
        json_object_set_new(event, "type", json_string("usage"));
        json_object_set_new(event, "session",
                            agent_usage_json(&e->session_usage, &e->session_money));
        json_object_set_new(event, "context", json_integer((json_int_t)e->context));
        json_object_set_new(event, "window", json_integer((json_int_t)e->window));
        return event;
    case AGENT_CHANGES:
        return agent_changes_json(e->changes);
    default:
        return NULL;
    }
}
