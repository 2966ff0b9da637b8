/*
 * A session and its calls: the tool is found, its input checked, its turn awaited, the cache asked,
 * its function run.
 *
 * The queue decides which calls run at the same time, for all frontends: a call may begin when all
 * calls before it have ended, or when it and all of those only read. Nobody overtakes. A frontend
 * that receives calls in one thread and runs them in others enters each in the order they came
 * (tool_begin), and the threads wait for their turn (tool_finish).
 */
#include <errno.h>
#include <inttypes.h>
#include <sha2.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cache.h"
#include "host.h"
#include "schema.h"
#include "session.h"
#include "thread.h"
#include "banned.h"

#define SOURCES_MAX   8
#define CONFIRMED_MAX 64

/* A call's place in the queue, from the moment it was received until it has ended. */
struct tool_turn {
    const struct tool_request *request;
    struct tool_session *session;
    bool reads;
    struct tool_turn *next; /* the calls that came later */
};

struct tool_session {
    struct box *box;
    char *shell;
    struct tool_source *sources[SOURCES_MAX];
    size_t n_sources;
    struct tool_host *host; /* what host-side tools may do; NULL: there are none */
    pthread_mutex_t lock;   /* guards what follows */
    pthread_cond_t turns_changed;
    struct tool_turn *first_turn; /* the oldest call that has not ended */
    uint8_t confirmed[CONFIRMED_MAX][SHA256_DIGEST_LENGTH];
    size_t n_confirmed; /* ever; the oldest is overwritten */
    json_t *plan;
    struct tool_cache *cache;
    char *snapshot; /* the known state of the box; NULL: not known */
    bool alone;     /* nobody else changes the box: see tool_session_alone */
    uint64_t generation;
    uint64_t serial;  /* of the names that the next call makes up; 0: none */
    uint64_t changes; /* calls that may have changed the box */
};

int tool_session_new(struct box *box, const char *shell, struct tool_session **ret,
                     struct error *err)
{
    struct tool_session *s = calloc(1, sizeof *s);
    pthread_condattr_t attr;
    if (!s)
        return error_set(err, ENOMEM, "no memory");
    s->box = box;
    s->shell = strdup(shell ? shell : "main");
    s->plan = json_array();
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->turns_changed, &attr);
    pthread_condattr_destroy(&attr);
    if (!s->shell || !s->plan) {
        tool_session_free(s);
        return error_set(err, ENOMEM, "no memory");
    }
    *ret = s;
    return 0;
}

static void session_host_free(struct tool_host *h)
{
    if (!h)
        return;
    free((char *)h->workspace);
    for (size_t i = 0; i < h->n_clones; i++)
        free((char *)h->clones[i]);
    for (size_t i = 0; i < h->n_nets; i++)
        free((char *)h->nets[i]);
    free(h);
}

struct tool_session *tool_session_free(struct tool_session *s)
{
    if (!s)
        return NULL;
    for (size_t i = 0; i < s->n_sources; i++)
        s->sources[i]->free(s->sources[i]);
    session_host_free(s->host);
    json_decref(s->plan);
    pthread_cond_destroy(&s->turns_changed);
    pthread_mutex_destroy(&s->lock);
    free(s->snapshot);
    free(s->shell);
    free(s);
    return NULL;
}

int tool_session_add(struct tool_session *s, struct tool_source *source)
{
    if (s->n_sources == ARRAY_SIZE(s->sources))
        return -ENOBUFS;
    s->sources[s->n_sources++] = source;
    return 0;
}

static int session_set_state(struct tool_session *s, struct tool_cache *cache, const char *snapshot,
                             bool alone)
{
    char *name = snapshot ? strdup(snapshot) : NULL;
    if (snapshot && !name)
        return -ENOMEM;
    LOCKED(&s->lock);
    free(s->snapshot);
    s->snapshot = name;
    s->cache = cache;
    s->alone |= alone;
    return 0;
}

int tool_session_state(struct tool_session *s, struct tool_cache *cache, const char *snapshot)
{
    return session_set_state(s, cache, snapshot, false);
}

int tool_session_alone(struct tool_session *s, struct tool_cache *cache)
{
    return session_set_state(s, cache, "0", true);
}

void tool_session_serial(struct tool_session *s, uint64_t serial)
{
    LOCKED(&s->lock);
    s->serial = serial;
}

uint64_t tool_session_serial_now(struct tool_session *s)
{
    LOCKED(&s->lock);
    return s->serial;
}

uint64_t tool_session_changes(struct tool_session *s)
{
    LOCKED(&s->lock);
    return s->changes;
}

struct box *tool_session_box(struct tool_session *s)
{
    return s->box;
}

const char *tool_session_shell(const struct tool_session *s)
{
    return s->shell;
}

json_t *tool_session_plan(struct tool_session *s)
{
    LOCKED(&s->lock);
    return json_deep_copy(s->plan);
}

void tool_session_set_plan(struct tool_session *s, json_t *plan)
{
    LOCKED(&s->lock);
    json_decref(s->plan);
    s->plan = plan;
}

static bool session_offers(const struct tool_session *s, const struct tool *t)
{
    return s->host || !(t->flags & TOOL_HOST);
}

const struct tool *tool_session_find(struct tool_session *s, const char *name, struct error *err)
{
    const struct tool *t = tool_builtin(name);
    if (t && session_offers(s, t))
        return t;
    for (size_t i = 0; i < s->n_sources; i++) {
        t = s->sources[i]->find(s->sources[i], s, name, err);
        if (t)
            return t;
        if (err->code) {
            err->code = EIO; /* there is one: whatever is missing, it is not the tool */
            return NULL;
        }
    }
    error_set(err, ENOENT, "there is no tool '%.100s'; `hutch tool --list` shows all", name);
    return NULL;
}

void tool_session_list(struct tool_session *s, void (*each)(void *data, const struct tool *t),
                       void (*trouble)(void *data, const char *text), void *data)
{
    for (size_t i = 0; TOOLS[i]; i++)
        if (session_offers(s, TOOLS[i]))
            each(data, TOOLS[i]);
    for (size_t i = 0; i < s->n_sources; i++)
        s->sources[i]->list(s->sources[i], s, each, trouble, data);
}

/* --- what host-side tools may do --- */

int tool_session_set_host(struct tool_session *s, const struct tool_host *host, struct error *err)
{
    _cleanup_box_info_ struct box_info info = {0};
    struct tool_host *h = calloc(1, sizeof *h);
    if (!h)
        return error_set(err, ENOMEM, "no memory");
    *h = *host;
    h->workspace = NULL;
    bool copied = true;
    for (size_t i = 0; i < h->n_clones; i++)
        copied &= (h->clones[i] = strdup(host->clones[i])) != NULL;
    for (size_t i = 0; i < h->n_nets; i++)
        copied &= (h->nets[i] = strdup(host->nets[i])) != NULL;
    int r = copied ? box_info(s->box, &info, err) : error_set(err, ENOMEM, "no memory");
    if (r < 0) {
        session_host_free(h);
        return r;
    }
    h->workspace = TAKE_PTR(info.workspace);
    h->direct = info.mode == BOX_DIRECT;
    session_host_free(s->host);
    s->host = h;
    return 0;
}

const struct tool_host *tool_session_host(const struct tool_session *s)
{
    return s->host;
}

/* Was exactly this confirmed before? With `add` it is from now on. */
static bool host_confirmed(struct tool_session *s, const char *tool, const char *text, bool add)
{
    SHA2_CTX hash;
    uint8_t digest[SHA256_DIGEST_LENGTH];
    bool found = false;
    SHA256Init(&hash);
    SHA256Update(&hash, (const uint8_t *)tool, strlen(tool) + 1);
    SHA256Update(&hash, (const uint8_t *)text, strlen(text));
    SHA256Final(digest, &hash);
    LOCKED(&s->lock);
    for (size_t i = 0; i < CONFIRMED_MAX && i < s->n_confirmed && !found; i++)
        found = memcmp(s->confirmed[i], digest, sizeof digest) == 0;
    if (add && !found)
        memcpy(s->confirmed[s->n_confirmed++ % CONFIRMED_MAX], digest, sizeof digest);
    return found;
}

int host_confirm(struct tool_call *c, const char *title, const char *text, const char *option,
                 struct error *err)
{
    const struct tool_host *h = tool_session_host(c->session);
    if (host_confirmed(c->session, c->tool->name, text, false))
        return 0;
    int r = h->confirm.ask ? h->confirm.ask(h->confirm.data, title, text, c->cancel) : -ENOTTY;
    if (r > 0) {
        host_confirmed(c->session, c->tool->name, text, true);
        return 0;
    }
    if (r == 0)
        return error_set(err, EPERM,
                         "the user was asked and said no; nothing was sent. Ask them what to do"
                         " differently before you try again");
    if (r == -ENOTTY)
        return error_set(err, ENOTTY,
                         "%s must be confirmed by the user, and nobody can be asked here; nothing"
                         " was sent. The user can allow it in advance with %s",
                         c->tool->name, option);
    return r == -ECANCELED ? error_set(err, ECANCELED, "the call was cancelled; nothing was sent")
                           : error_errno(err, -r, "cannot ask the user; nothing was sent");
}

/* --- calls --- */

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

/* Whether a call only reads is not known before its tool is found, which may take long: until then
 * it counts as one that changes something. */
static void turn_enter(struct tool_turn *t)
{
    LOCKED(&t->session->lock);
    struct tool_turn **at = &t->session->first_turn;
    while (*at)
        at = &(*at)->next;
    *at = t;
}

/* Waits until all calls before have ended, or all of them and this one only read; with patience_ms
 * not longer than that. */
static void turn_wait(struct tool_turn *t, bool reads, int patience_ms)
{
    struct tool_session *s = t->session;
    int64_t end = clock_now() + patience_ms * NS_PER_MS;
    const struct timespec until = {.tv_sec = end / NS_PER_S, .tv_nsec = end % NS_PER_S};
    LOCKED(&s->lock);
    t->reads = reads;
    if (reads)
        pthread_cond_broadcast(&s->turns_changed);
    for (int r = 0; r == 0;) {
        const struct tool_turn *before = s->first_turn;
        while (before != t && before->reads)
            before = before->next;
        if (before == t && (t->reads || t == s->first_turn))
            return;
        r = patience_ms ? pthread_cond_timedwait(&s->turns_changed, &s->lock, &until)
                        : pthread_cond_wait(&s->turns_changed, &s->lock);
    }
}

static void turn_leave(struct tool_turn *t)
{
    LOCKED(&t->session->lock);
    struct tool_turn **at = &t->session->first_turn;
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    pthread_cond_broadcast(&t->session->turns_changed);
}

/* Answers from the cache, or runs the tool. */
static void call_execute(struct tool_call *c, bool cache_commands, struct error *err)
{
    struct tool_session *s = c->session;
    unsigned flags = c->tool->flags;
    bool changes = flags & (TOOL_CHANGES | TOOL_RUNS);
    bool cacheable = flags & TOOL_CACHED || (cache_commands && flags & TOOL_RUNS);
    struct tool_cache *cache = NULL;
    uint8_t key[CACHE_KEY_SIZE];
    if (cancel_asked(c->cancel)) { /* while it waited */
        error_set(err, ECANCELED, "the call was cancelled before it began");
        return;
    }
    pthread_mutex_lock(&s->lock);
    if (cacheable && s->cache && s->snapshot &&
        tool_cache_key(s->snapshot, c->tool->name, c->input, key) == 0)
        cache = s->cache;
    pthread_mutex_unlock(&s->lock);
    if (cache && tool_cache_find(cache, key, c->result))
        return;

    /* A call that may change the box makes its state unknown, whether it says that it failed or
     * not. */
    if (changes) {
        LOCKED(&s->lock);
        free(s->snapshot);
        s->snapshot = NULL;
        s->changes++;
    }
    int r = c->tool->run(c, err);
    if (r < 0 && !err->code)
        error_errno(err, -r, "%s", c->tool->name);
    else if (r >= 0)
        err->code = 0;
    if (r >= 0 && c->result->text.failed)
        error_set(err, E2BIG, "the result of %s is too long", c->tool->name);

    /* If only this session changes its box, what the call left is a state of its own; but not while
     * something that it started still runs. */
    if (changes) {
        LOCKED(&s->lock);
        s->alone = s->alone && !c->result->lingers;
        if (s->alone) {
            free(s->snapshot);
            s->snapshot = str_printf("%" PRIu64, ++s->generation);
        }
    }
    if (cache && !err->code && !c->result->failed)
        tool_cache_add(cache, key, c->result);
}

static int turn_finish(struct tool_turn *t, struct tool_result *ret)
{
    const struct tool_request *q = t->request;
    struct error err = {0};
    _cleanup_json_ json_t *input = q->input ? json_incref(q->input) : json_object();
    struct tool_call c = {.session = t->session,
                          .tool = q->tool,
                          .input = input,
                          .result = ret,
                          .cancel = q->cancel,
                          .progress = q->progress};
    *ret = TOOL_RESULT_INIT;
    int r = 0;
    if (!c.tool && !(c.tool = tool_session_find(t->session, q->name, &err)))
        r = -err.code;
    else if (schema_check_text(c.tool->input, c.input, "input", &err) < 0)
        r = -EINVAL;
    if (c.tool && r == 0) {
        turn_wait(t, c.tool->flags & TOOL_READS, q->patience_ms);
        call_execute(&c, q->cached, &err);
    }
    if (err.code) {
        json_decref(ret->data);
        ret->data = NULL;
        tool_fail(&c, "%s", err.text);
    }
    turn_leave(t);
    return r;
}

int tool_begin(struct tool_session *s, const struct tool_request *q, struct tool_turn **ret)
{
    struct tool_turn *t = malloc(sizeof *t);
    if (!t)
        return -ENOMEM;
    *t = (struct tool_turn){.request = q, .session = s};
    turn_enter(t);
    *ret = t;
    return 0;
}

int tool_finish(struct tool_turn *t, struct tool_result *ret)
{
    int r = turn_finish(t, ret);
    free(t);
    return r;
}

int tool_call(struct tool_session *s, const struct tool_request *q, struct tool_result *ret)
{
    struct tool_turn t = {.request = q, .session = s};
    turn_enter(&t);
    return turn_finish(&t, ret);
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
    return json_get_string(c->input, name);
}
