/*
 * A call: the tool is found, its input checked, its turn awaited, the cache asked, its function
 * run.
 *
 * The queue decides which calls run at the same time, for all frontends: a call may begin when all
 * calls before it have ended, or when it and all of those only read. Nobody overtakes. A frontend
 * that receives calls in one thread and runs them in others takes a ticket for each in the order
 * they came (tool_begin), and the threads wait for their turn (tool_finish).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "thread.h"
#include "clock.h"
#include "schema.h"
#include "session.h"
#include "session_state.h"
#include "banned.h"

void call_queue_init(struct call_queue *q)
{
    pthread_condattr_t attr;
    pthread_mutex_init(&q->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&q->changed, &attr);
    pthread_condattr_destroy(&attr);
    q->first = NULL;
    q->last = &q->first;
}

void call_queue_destroy(struct call_queue *q)
{
    pthread_mutex_destroy(&q->lock);
    pthread_cond_destroy(&q->changed);
}

/* Whether a call only reads is not known before its tool is found, which may take long: until then
 * it counts as one that changes something. */
static void call_queue_enter(struct call_queue *q, struct call_ticket *t)
{
    *t = (struct call_ticket){0};
    pthread_mutex_lock(&q->lock);
    *q->last = t;
    q->last = &t->next;
    pthread_mutex_unlock(&q->lock);
}

static bool call_queue_may_begin(const struct call_queue *q, const struct call_ticket *t)
{
    const struct call_ticket *before = q->first;
    while (before != t && before->reads)
        before = before->next;
    return before == t && (t->reads || t == q->first);
}

/* Waits for the turn; with patience_ms not longer than that. */
static void call_queue_wait(struct call_queue *q, struct call_ticket *t, bool reads,
                            int patience_ms)
{
    int64_t end = clock_now() + patience_ms * NS_PER_MS;
    const struct timespec until = {.tv_sec = end / NS_PER_S, .tv_nsec = end % NS_PER_S};
    int r = 0;
    pthread_mutex_lock(&q->lock);
    if (reads) {
        t->reads = true;
        pthread_cond_broadcast(&q->changed);
    }
    while (r == 0 && !call_queue_may_begin(q, t))
        r = patience_ms ? pthread_cond_timedwait(&q->changed, &q->lock, &until)
                        : pthread_cond_wait(&q->changed, &q->lock);
    pthread_mutex_unlock(&q->lock);
}

static void call_queue_leave(struct call_queue *q, struct call_ticket *t)
{
    struct call_ticket **at = &q->first;
    pthread_mutex_lock(&q->lock);
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    if (!t->next)
        q->last = at;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

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

static void call_set_error(struct tool_result *r, const struct error *err)
{
    json_decref(r->data);
    r->data = NULL;
    r->failed = true;
    r->text.len = 0;
    text_append(&r->text, err->text, strlen(err->text));
}

/* The cache and the key of an answer that may be kept; NULL if the state of the box is not known,
 * or if running this again might give something else. */
static struct tool_cache *call_cache(const struct tool_call *c, bool cached,
                                     uint8_t key[CACHE_KEY_SIZE])
{
    struct tool_session *s = c->session;
    struct tool_cache *cache = NULL;
    if (!(c->tool->flags & TOOL_CACHED) && !(cached && c->tool->flags & TOOL_RUNS))
        return NULL;
    pthread_mutex_lock(&s->lock);
    if (s->cache && s->snapshot && tool_cache_key(s->snapshot, c->tool->name, c->input, key) == 0)
        cache = s->cache;
    pthread_mutex_unlock(&s->lock);
    return cache;
}

/* A call that may change the box makes its state unknown, whether it says that it failed or not. */
static void call_forget_state(struct tool_session *s)
{
    pthread_mutex_lock(&s->lock);
    free(s->snapshot);
    s->snapshot = NULL;
    s->changes++;
    pthread_mutex_unlock(&s->lock);
}

/* If only this session changes its box, what the call left is a state of its own; but not while
 * something that it started still runs. */
static void call_name_state(struct tool_session *s, bool lingers)
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

static void call_execute(struct tool_call *c, bool cached)
{
    uint8_t key[CACHE_KEY_SIZE];
    struct error err = {0};
    if (cancel_asked(c->cancel)) { /* while it waited */
        error_set(&err, ECANCELED, "the call was cancelled before it began");
        call_set_error(c->result, &err);
        return;
    }
    struct tool_cache *cache = call_cache(c, cached, key);
    if (cache && tool_cache_find(cache, key, c->result))
        return;
    bool changes = c->tool->flags & (TOOL_CHANGES | TOOL_RUNS);
    if (changes)
        call_forget_state(c->session);
    int r = c->tool->run(c, &err);
    if (r < 0 && !err.code)
        error_errno(&err, -r, "%s", c->tool->name);
    else if (r >= 0)
        err.code = 0;
    if (r >= 0 && c->result->text.failed)
        error_set(&err, E2BIG, "the result of %s is too long", c->tool->name);
    if (err.code)
        call_set_error(c->result, &err);
    if (changes)
        call_name_state(c->session, c->result->lingers);
    if (cache && !c->result->failed)
        tool_cache_add(cache, key, c->result);
}

struct tool_turn {
    const struct tool_request *q;
    struct tool_session *session;
    struct call_ticket ticket;
};

/* The tool, and whether its schema allows the input. */
static int call_check(struct tool_call *c, const struct tool_request *q, struct error *err)
{
    json_error_t at;
    c->tool = q->tool ? q->tool : tool_session_find(c->session, q->name, err);
    if (!c->tool)
        return -err->code;
    _cleanup_json_ json_t *schema = json_loads(c->tool->input, 0, &at);
    if (!schema)
        return error_set(err, EINVAL, "the tool %s has a broken schema: %s", c->tool->name,
                         at.text);
    return schema_check(schema, c->input, "input", err) < 0 ? -EINVAL : 0;
}

static int call_finish(struct tool_turn *t, struct tool_result *ret)
{
    const struct tool_request *q = t->q;
    struct call_queue *queue = &t->session->queue;
    struct error err = {0};
    _cleanup_json_ json_t *input = q->input ? json_incref(q->input) : json_object();
    struct tool_call c = {.session = t->session,
                          .input = input,
                          .result = ret,
                          .cancel = q->cancel,
                          .progress = q->progress};
    *ret = TOOL_RESULT_INIT;
    int r = call_check(&c, q, &err);
    if (r == 0) {
        call_queue_wait(queue, &t->ticket, c.tool->flags & TOOL_READS, q->patience_ms);
        call_execute(&c, q->cached);
    } else {
        call_set_error(ret, &err);
    }
    call_queue_leave(queue, &t->ticket);
    return r;
}

int tool_begin(struct tool_session *s, const struct tool_request *q, struct tool_turn **ret)
{
    struct tool_turn *t = malloc(sizeof *t);
    if (!t)
        return -ENOMEM;
    *t = (struct tool_turn){.q = q, .session = s};
    call_queue_enter(&s->queue, &t->ticket);
    *ret = t;
    return 0;
}

int tool_finish(struct tool_turn *t, struct tool_result *ret)
{
    int r = call_finish(t, ret);
    free(t);
    return r;
}

int tool_call(struct tool_session *s, const struct tool_request *q, struct tool_result *ret)
{
    struct tool_turn t = {.q = q, .session = s};
    call_queue_enter(&s->queue, &t.ticket);
    return call_finish(&t, ret);
}

int64_t input_int(const struct tool_call *c, const char *name, int64_t fallback)
{
    const json_t *value = json_object_get(c->input, name);
    if (json_is_integer(value))
        return json_integer_value(value);
    return value ? (int64_t)json_number_value(value) : fallback;
}

bool input_bool(const struct tool_call *c, const char *name, bool fallback)
{
    const json_t *value = json_object_get(c->input, name);
    return value ? json_is_true(value) : fallback;
}

const char *input_string(const struct tool_call *c, const char *name)
{
    return json_string_value(json_object_get(c->input, name));
}
