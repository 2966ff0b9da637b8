/*
 * A model asked by hand, for tests/model/test_transport.py: the first argument is a JSON object
 * with the spec, and how often to ask ("asks"); each event, reply and error is one line of JSON on
 * stdout. With "cancel", a byte on stdin cancels the question. With "embed", the texts in it become
 * vectors instead.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "model.h"
#include "provider.h"
#include "thread.h"
#include "banned.h"

static const char *string_of(const json_t *o, const char *name)
{
    return json_string_value(json_object_get(o, name));
}

static int number_of(const json_t *o, const char *name, int otherwise)
{
    const json_t *n = json_object_get(o, name);
    return n ? (int)json_integer_value(n) : otherwise;
}

static struct model_spec spec_of(const json_t *o)
{
    const char *api = string_of(o, "api");
    struct model_spec spec = {.provider = string_of(o, "provider"),
                              .name = string_of(o, "name"),
                              .base_url = string_of(o, "base_url"),
                              .key = string_of(o, "key"),
                              .headers = json_object_get(o, "headers"),
                              .record = string_of(o, "record"),
                              .idle_ms = number_of(o, "idle_ms", 0),
                              .retries = number_of(o, "retries", -1),
                              .backoff_ms = number_of(o, "backoff_ms", 1),
                              .pace = json_number_value(json_object_get(o, "pace"))};
    spec.api = strcmp(api, "replay") == 0 ? &PROVIDER_REPLAY : provider_find("", api, NULL);
    return spec;
}

static void print(json_t *line)
{
    char *text = json_dumps(line, JSON_COMPACT);
    puts(text);
    fflush(stdout);
    free(text);
    json_decref(line);
}

static void show(void *quiet, const struct model_event *e)
{
    static const char *const KINDS[] = {"text", "thinking", "call", "wait", "back"};
    if (*(bool *)quiet)
        return;
    json_t *line =
        json_pack("{s:s,s:s#}", "event", KINDS[e->kind], "text", e->text ? e->text : "", (int)e->n);
    if (e->kind == MODEL_WAIT)
        json_object_update_new(line,
                               json_pack("{s:i,s:i}", "ms", e->wait_ms, "attempt", e->attempt));
    if (e->kind == MODEL_BACK)
        json_object_update_new(line, json_pack("{s:I,s:I}", "keep", (json_int_t)e->keep,
                                               "keep_thinking", (json_int_t)e->keep_thinking));
    print(line);
}

static void print_error(int r, const struct error *err)
{
    print(json_pack("{s:s,s:s}", "error", strerrorname_np(-r), "text", err->text));
}

static void ask(struct model *m, const json_t *o)
{
    bool quiet = json_is_true(json_object_get(o, "quiet"));
    const struct model_sink sink = {.event = show, .data = &quiet};
    struct model_reply reply = {0};
    struct error err = {0};
    json_t *messages = json_incref(json_object_get(o, "messages"));
    if (!messages)
        messages = json_pack("[{s:s,s:[{s:s,s:s}]}]", "role", "user", "content", "type", "text",
                             "text", "Hello");
    const struct model_request q = {
        .messages = messages,
        .max_tokens = 1000,
        .cancel = json_is_true(json_object_get(o, "cancel")) ? STDIN_FILENO : -1};
    int64_t began = clock_now();
    int r = model_ask(m, &q, &sink, &reply, &err);
    double ms = (double)(clock_now() - began) / NS_PER_MS;
    if (r < 0)
        print_error(r, &err);
    if (r == 0 || r == -ECANCELED)
        print(json_pack("{s:O,s:s,s:I,s:I,s:f}", "reply", reply.content, "stop",
                        model_stop_name(reply.stop), "input", (json_int_t)reply.usage.input,
                        "output", (json_int_t)reply.usage.output, "ms", ms));
    model_reply_free(&reply);
    json_decref(messages);
}

static void embed(struct model *m, json_t *texts)
{
    struct error err = {0};
    json_t *vectors = NULL;
    int r = model_embed(m, "embed-1", texts, -1, &vectors, &err);
    if (r < 0)
        print_error(r, &err);
    else
        print(json_pack("{s:o}", "vectors", vectors));
}

int main(int argc, char **argv)
{
    struct error err = {0};
    struct model *m = NULL;
    json_t *o = argc == 2 ? json_loads(argv[1], 0, NULL) : NULL;
    if (!o)
        return 2;
    const struct model_spec spec = spec_of(o);
    int r = model_open(&spec, &m, &err);
    if (r < 0)
        print_error(r, &err);
    else if (json_object_get(o, "embed"))
        embed(m, json_object_get(o, "embed"));
    else
        for (int i = 0; i < number_of(o, "asks", 1); i++)
            ask(m, o);
    model_close(m);
    json_decref(o);
    return 0;
}
