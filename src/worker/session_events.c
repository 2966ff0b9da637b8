/* The events of a session: see live_session.h. */
#include <stdio.h>
#include <string.h>

#include "json.h"
#include "live_session.h"
#include "banned.h"

#define STORED_MAX (48u << 10) /* of one event in the store */

/* The last byte of what ends with a whole paragraph; 0: there is none. */
static size_t paragraph_end(const struct buf *text)
{
    for (size_t i = text->len; i >= 2; i--)
        if (text->data[i - 1] == '\n' && text->data[i - 2] == '\n')
            return i;
    return 0;
}

static void events_store(struct session_events *v, const json_t *event)
{
    if (v->job)
        live_job_note(v->job, event_trimmed(event, STORED_MAX));
}

/* Stores the first n bytes of the text that is kept. */
static void events_store_text(struct session_events *v, size_t n)
{
    if (n == 0)
        return;
    _cleanup_json_ json_t *event =
        json_pack("{s:s, s:s%}", "type", v->text_kind == AGENT_TEXT ? "text" : "thinking", "text",
                  (char *)v->text.data, n);
    events_store(v, event);
    buf_consume(&v->text, n);
}

void session_events_send(struct session_events *v, json_t *event, bool store)
{
    _cleanup_json_ json_t *taken = event;
    if (!event)
        return;
    if (store) {
        events_store_text(v, v->text.len);
        events_store(v, event);
    }
    if (v->call)
        call_event(v->call, event_trimmed(event, LIVE_EVENT_MAX));
}

void session_events_log(struct session_events *v, const char *text)
{
    session_events_send(
        v, json_pack("{s:s, s:o}", "type", "log", "text", text_json(text, strlen(text))), true);
}

static void events_add_text(struct session_events *v, const struct agent_event *e)
{
    if (v->text_kind != e->kind || v->text.len + e->n > SESSION_TEXT_MAX)
        events_store_text(v, v->text.len);
    v->text_kind = e->kind;
    if (buf_append(&v->text, e->text, e->n) < 0) { /* longer than that by itself */
        v->text.failed = false;
        session_events_send(v, agent_event_json(e), true);
        return;
    }
    events_store_text(v, paragraph_end(&v->text));
    session_events_send(v, agent_event_json(e), false);
}

void session_events_agent(struct session_events *v, const struct agent_event *e)
{
    switch (e->kind) {
    case AGENT_TEXT:
    case AGENT_THINKING:
        events_add_text(v, e);
        break;
    case AGENT_SAID:
        events_store_text(v, v->text.len);
        break;
    case AGENT_NOTE:
        session_events_send(
            v, json_pack("{s:s, s:o}", "type", "log", "text", text_json(e->text, e->n)), true);
        break;
    case AGENT_PROGRESS:
        session_events_send(v,
                            json_pack("{s:s, s:s, s:s, s:f, s:o*}", "type", "progress", "id", e->id,
                                      "name", e->name, "seconds", e->seconds, "text",
                                      e->text ? text_json(e->text, e->n) : NULL),
                            false);
        break;
    case AGENT_DONE:
        v->stop = e->stop;
        snprintf(v->why, sizeof v->why, "%s", e->why ? e->why : "");
        break;
    default:
        session_events_send(v, agent_event_json(e), true);
        break;
    }
}

/* --- trimming --- */

/* A copy whose strings have at most `max` bytes each. */
static json_t *json_cut_strings(const json_t *value, size_t max)
{
    const char *name, *text = json_string_value(value);
    size_t i, n = json_string_length(value);
    json_t *one, *copy;
    if (text && n > max) {
        n = max - utf8_cut_end((const uint8_t *)text, max);
        return json_sprintf("%.*s…", (int)n, text);
    }
    if (json_is_array(value)) {
        copy = json_array();
        json_array_foreach(value, i, one) json_array_append_new(copy, json_cut_strings(one, max));
        return copy;
    }
    if (!json_is_object(value))
        return json_deep_copy(value);
    copy = json_object();
    json_object_foreach((json_t *)value, name, one)
        json_object_set_new(copy, name, json_cut_strings(one, max));
    return copy;
}

json_t *event_trimmed(const json_t *event, size_t max)
{
    static const char *const LARGE[] = {"input", "data", "changes"};
    if (json_dumpb(event, NULL, 0, JSON_COMPACT) <= max)
        return json_deep_copy(event);
    json_t *copy = NULL;
    for (size_t longest = max / 3; longest >= 64; longest /= 4) {
        json_decref(copy);
        copy = json_cut_strings(event, longest);
        json_object_set_new(copy, "truncated", json_true());
        if (json_dumpb(copy, NULL, 0, JSON_COMPACT) <= max)
            return copy;
    }
    for (size_t i = 0; i < ARRAY_SIZE(LARGE); i++)
        json_object_del(copy, LARGE[i]);
    return copy;
}
