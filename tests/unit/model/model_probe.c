/*
 * Asks models for the tests in tests/model: a JSON object per line on stdin, an answer per line on
 * stdout.
 *
 *     {"api": "anthropic"|"chat"|"responses", "url": S, "messages": […], "system": S, "tools": […],
 *     "extra":
 * {…}, "name": S, "encode": B}
 *
 * With "encode" the answer is {"body": S}, the request's body as it would be sent. Without, the
 * model at the URL is asked, and the answer is the reply with what the sink was shown on the way,
 * or {"error": S, "code": N}.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "encode.h"
#include "decode.h"
#include "model.h"
#include "provider.h"

struct shown {
    struct buf text, thinking;
    unsigned calls;
};

static void show(void *data, const struct model_event *e)
{
    struct shown *s = data;
    if (e->kind == MODEL_TEXT)
        buf_append(&s->text, e->text, e->n);
    else if (e->kind == MODEL_THINKING)
        buf_append(&s->thinking, e->text, e->n);
    else if (e->kind == MODEL_CALL)
        s->calls++;
}

static json_t *string_of(const struct buf *b)
{
    return json_stringn(b->len ? (const char *)b->data : "", b->len);
}

static json_t *usage_of(const struct model_usage *u)
{
    return json_pack("{s:b, s:I, s:I, s:I, s:I, s:I}", "known", u->known, "input",
                     (json_int_t)u->input, "output", (json_int_t)u->output, "cache_read",
                     (json_int_t)u->cache_read, "cache_write", (json_int_t)u->cache_write,
                     "thinking", (json_int_t)u->thinking);
}

static json_t *failure(int r, const struct error *err)
{
    return json_pack("{s:s, s:i}", "error", err->text, "code", -r);
}

static json_t *ask(const struct model_spec *spec, const struct model_request *q)
{
    struct shown s = {.text = BUF_INIT(64u << 20), .thinking = BUF_INIT(64u << 20)};
    struct model_sink sink = {show, &s};
    struct model_reply reply = {0};
    struct model *m = NULL;
    struct error err = {0};
    int r = model_open(spec, &m, &err);
    if (r == 0)
        r = model_ask(m, q, &sink, &reply, &err);
    json_t *answer =
        r < 0 ? failure(r, &err)
              : json_pack("{s:O, s:s, s:o, s:s, s:o, s:o, s:I}", "content", reply.content, "stop",
                          model_stop_name(reply.stop), "usage", usage_of(&reply.usage), "model",
                          reply.model, "shown", string_of(&s.text), "shown_thinking",
                          string_of(&s.thinking), "shown_calls", (json_int_t)s.calls);
    model_close(m);
    model_reply_free(&reply);
    buf_free(&s.text);
    buf_free(&s.thinking);
    return answer;
}

static json_t *encode(const struct model_spec *spec, const struct model_request *q)
{
    _cleanup_buf_ struct buf body = BUF_INIT(ENCODER_BYTES_MAX);
    struct error err = {0};
    int r = encode_request(spec, q, &body, &err);
    return r < 0 ? failure(r, &err) : json_pack("{s:o}", "body", string_of(&body));
}

static json_t *answer(const json_t *line)
{
    const char *name = json_string_value(json_object_get(line, "name"));
    struct model_spec spec = {
        .api = provider_find("", json_string_value(json_object_get(line, "api")), NULL),
        .provider = "p",
        .name = name ? name : "m",
        .base_url = json_string_value(json_object_get(line, "url")),
        .key = "k",
        .extra = json_object_get(line, "extra"),
        .retries = 0};
    struct model_request q = {.system = json_string_value(json_object_get(line, "system")),
                              .tools = json_object_get(line, "tools"),
                              .messages = json_object_get(line, "messages"),
                              .max_tokens = 1000,
                              .cancel = -1};
    return json_is_true(json_object_get(line, "encode")) ? encode(&spec, &q) : ask(&spec, &q);
}

int main(void)
{
    _cleanup_free_ char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0) {
        _cleanup_json_ json_t *given = json_loads(line, 0, NULL);
        if (!given)
            return 2;
        _cleanup_json_ json_t *said = answer(given);
        if (json_dumpf(said, stdout, JSON_COMPACT) < 0)
            return 1;
        putchar('\n');
        fflush(stdout);
    }
    return 0;
}
