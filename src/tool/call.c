/* From a request to a result: the one way that all doors take. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "thread.h"
#include "schema.h"
#include "session_private.h"
#include "banned.h"

#define THREADS_MAX 16

int tool_fail(struct tool_call *c, const char *fmt, ...)
{
    char text[4 * ERROR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    c->result->failed = true;
    c->result->text.len = 0;
    text_append(&c->result->text, text, strlen(text));
    return 0;
}

static void set_error(struct tool_result *r, const struct error *err)
{
    json_decref(r->data);
    r->data = NULL;
    r->failed = true;
    r->text.len = 0;
    text_append(&r->text, err->text, strlen(err->text));
}

static int check_input(const struct tool *t, const json_t *input, struct error *err)
{
    json_error_t at;
    json_t *schema = json_loads(t->input, 0, &at);
    if (!schema)
        return error_set(err, EINVAL, "the tool %s has a broken schema: %s", t->name, at.text);
    int r = schema_check(schema, input, "input", err);
    json_decref(schema);
    return r;
}

/* The key of an answer that may be kept. False if it may not: the state of the box is not known, or
 * running this again might give something else. */
static bool cache_key(struct tool_call *c, const struct tool_request *q, struct tool_cache **ret,
                      uint8_t key[CACHE_KEY_SIZE])
{
    struct tool_session *s = c->session;
    bool may = (c->tool->flags & TOOL_CACHED) || (q->cached && (c->tool->flags & TOOL_RUNS));
    pthread_mutex_lock(&s->lock);
    may = may && s->cache && s->snapshot &&
          tool_cache_key(s->snapshot, c->tool->name, c->input, key) == 0;
    *ret = s->cache;
    pthread_mutex_unlock(&s->lock);
    return may;
}

/* What may have changed the box makes its state unknown, whether it says that it failed or not. */
static void forget_state(struct tool_session *s)
{
    pthread_mutex_lock(&s->lock);
    free(s->snapshot);
    s->snapshot = NULL;
    s->changes++;
    pthread_mutex_unlock(&s->lock);
}

/* In a session that alone changes its box, what this call left is a state of its own; but not while
 * something runs on. */
static void name_state(struct tool_session *s, bool lingers)
{
    char name[32];
    pthread_mutex_lock(&s->lock);
    s->alone = s->alone && !lingers;
    if (s->alone) {
        snprintf(name, sizeof name, "%" PRIu64, ++s->generation);
        free(s->snapshot);
        s->snapshot = strdup(name);
    }
    pthread_mutex_unlock(&s->lock);
}

static void run_tool(struct tool_call *c, struct error *err)
{
    int r = c->tool->run(c, err);
    if (r < 0 && !err->code)
        error_errno(err, -r, "%s", c->tool->name);
    else if (r >= 0 && c->result->text.failed)
        error_set(err, E2BIG, "the result of %s is too long", c->tool->name);
    else if (r >= 0)
        err->code = 0;
    if (err->code)
        set_error(c->result, err);
}

static void run(struct tool_call *c, const struct tool_request *q)
{
    uint8_t key[CACHE_KEY_SIZE];
    struct tool_cache *cache = NULL;
    struct error err = {0};
    if (cancel_asked(c->cancel)) { /* while it waited */
        error_set(&err, ECANCELED, "the call was cancelled before it began");
        set_error(c->result, &err);
        return;
    }
    bool keep = cache_key(c, q, &cache, key);
    if (keep && tool_cache_find(cache, key, c->result))
        return;
    bool changes = c->tool->flags & (TOOL_CHANGES | TOOL_RUNS);
    if (changes)
        forget_state(c->session);
    run_tool(c, &err);
    if (changes)
        name_state(c->session, c->result->lingers);
    if (keep && !c->result->failed)
        tool_cache_add(cache, key, c->result);
}

/* A call on its way, with its place in the order. */
struct tool_turn {
    const struct tool_request *q;
    struct tool_call call;
    struct order_ticket ticket;
    pthread_t thread;
    int found; /* 0, or why it cannot be called */
    bool threaded;
};

/* Takes its place. Whether it only reads is not known before the tool is found, which may take
 * long: until then nobody overtakes it. */
static void turn_begin(struct tool_turn *t, struct tool_session *s, const struct tool_request *q,
                       struct tool_result *ret)
{
    *t = (struct tool_turn){.q = q,
                            .call = {.session = s,
                                     .tool = q->tool,
                                     .result = ret,
                                     .cancel = q->cancel,
                                     .progress = q->progress}};
    order_take(&s->order, &t->ticket, false);
}

/* Finds the tool and looks at the input. */
static int turn_find(struct tool_turn *t, struct error *err)
{
    struct tool_call *c = &t->call;
    if (!c->tool)
        c->tool = tool_session_find(c->session, t->q->name, err);
    if (!c->tool)
        return -err->code;
    return check_input(c->tool, c->input, err) < 0 ? -EINVAL : 0;
}

static void turn_end(struct tool_turn *t)
{
    struct order *order = &t->call.session->order;
    struct error err = {0};
    *t->call.result = TOOL_RESULT_INIT;
    t->call.input = t->q->input ? json_incref(t->q->input) : json_object();
    t->found = turn_find(t, &err);
    if (t->found < 0) {
        set_error(t->call.result, &err);
    } else {
        if (t->call.tool->flags & TOOL_READS)
            order_reads(order, &t->ticket);
        order_wait(order, &t->ticket, t->q->patience_ms);
        run(&t->call, t->q);
    }
    order_leave(order, &t->ticket);
    json_decref(t->call.input);
}

int tool_begin(struct tool_session *s, const struct tool_request *q, struct tool_turn **ret)
{
    struct tool_turn *t = malloc(sizeof *t);
    if (!t)
        return -ENOMEM;
    turn_begin(t, s, q, NULL);
    *ret = t;
    return 0;
}

int tool_finish(struct tool_turn *t, struct tool_result *ret)
{
    t->call.result = ret;
    turn_end(t);
    int found = t->found;
    free(t);
    return found;
}

int tool_call(struct tool_session *s, const struct tool_request *q, struct tool_result *ret)
{
    struct tool_turn t;
    turn_begin(&t, s, q, ret);
    turn_end(&t);
    return t.found;
}

static void *turn_thread(void *data)
{
    turn_end(data);
    return NULL;
}

/* Up to THREADS_MAX at a time: who waits for a turn waits in a thread. The last of them runs here.
 */
static void call_some(struct tool_session *s, const struct tool_request *q, size_t n,
                      struct tool_result *ret)
{
    struct tool_turn turns[THREADS_MAX];
    for (size_t i = 0; i < n; i++)
        turn_begin(&turns[i], s, &q[i], &ret[i]);
    for (size_t i = 0; i + 1 < n; i++)
        turns[i].threaded = pthread_create(&turns[i].thread, NULL, turn_thread, &turns[i]) == 0;
    for (size_t i = 0; i < n; i++)
        if (!turns[i].threaded)
            turn_end(&turns[i]);
    for (size_t i = 0; i < n; i++)
        if (turns[i].threaded)
            pthread_join(turns[i].thread, NULL);
}

void tool_call_many(struct tool_session *s, const struct tool_request *q, size_t n,
                    struct tool_result *ret)
{
    for (size_t at = 0; at < n; at += THREADS_MAX)
        call_some(s, q + at, n - at < THREADS_MAX ? n - at : THREADS_MAX, ret + at);
}
