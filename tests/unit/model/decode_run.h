/* Runs a decoder over events, for the tests of the decoders. JSON is written with ' for " here; a '
 * itself cannot be. */
#pragma once

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "decode.h"
#include "provider.h"

struct run {
    struct decoder *d;
    struct buf shown; /* events: T(…) text, H(…) thinking, C(…) call */
    struct retry_hint trouble;
    struct error err;
    struct model_reply reply;
    char *content; /* of the reply, with ' */
};

static inline void run_event(void *data, const struct model_event *e)
{
    struct run *run = data;
    assert_int_equal(e->text[e->n], 0);
    assert_int_equal(strlen(e->text), e->n);
    buf_printf(&run->shown, "%c(%s)", "THC??"[e->kind], e -> text);
}

static inline char *quoted(const char *text, char from, char to)
{
    char *copy = strdup(text);
    for (char *c = copy; *c; c++)
        if (*c == from)
            *c = to;
    return copy;
}

static inline void run_begin(struct run *run, const struct provider *api)
{
    *run = (struct run){.shown = BUF_INIT(1 << 20)};
    struct model_sink sink = {run_event, run};
    assert_int_equal(decoder_new(api->decoder, "p/m", &sink, &run->d), 0);
}

static inline void run_end(struct run *run)
{
    decoder_free(run->d);
    buf_free(&run->shown);
    model_reply_free(&run->reply);
    free(run->content);
}
#define _cleanup_run_ _cleanup_(run_end)

static inline int run_bytes(struct run *run, const char *type, const char *data, size_t n)
{
    struct sse_event e = {.type = type, .data = data, .n = n};
    return decoder_take(run->d, &e, &run->trouble, &run->err);
}

static inline int run_take(struct run *run, const char *json)
{
    _cleanup_free_ char *data = quoted(json, '\'', '"');
    return run_bytes(run, "message", data, strlen(data));
}

static inline int run_finish(struct run *run, bool cut)
{
    int r = decoder_finish(run->d, cut, &run->reply, &run->err);
    if (r < 0)
        return r;
    _cleanup_free_ char *content = json_dumps(run->reply.content, JSON_COMPACT);
    run->content = quoted(content, '"', '\'');
    return 0;
}

/* All of the events, ended by NULL; the last one's answer. */
static inline int run_all(struct run *run, const char *const *events)
{
    int r = 0;
    for (; *events && r == 0; events++)
        r = run_take(run, *events);
    return r;
}

/* A run, and in NAME_r what the last event was answered. */
#define RUN(name, api, ...)                                                                        \
    _cleanup_run_ struct run name;                                                                 \
    run_begin(&name, api);                                                                         \
    int name##_r = run_all(&name, (const char *const[]){__VA_ARGS__, NULL})

#define SHOWN(run) ((run).shown.len ? buf_cstr(&(run).shown) : "")

static inline void run_expect(struct run *run, const char *content, enum model_stop stop)
{
    assert_int_equal(run_finish(run, false), 0);
    assert_string_equal(run->content, content);
    assert_int_equal(run->reply.stop, stop);
}

static inline int run_whole(struct run *run, const char *json)
{
    _cleanup_free_ char *data = quoted(json, '\'', '"');
    return decoder_take_whole(run->d, data, strlen(data), &run->trouble, &run->err);
}
