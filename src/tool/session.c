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
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>

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
    struct tool_source *sources[SOURCES_MAX];
    size_t n_sources;
    bool has_own_tools;     /* tool_sources_add was called */
    struct tool_host *host; /* what host-side tools may do; NULL: there are none */
    pthread_mutex_t lock;   /* guards what follows */
    pthread_cond_t turns_changed;
    struct tool_turn *first_turn;  /* the oldest call that has not ended */
    struct tool_source *own_tools; /* made when a name is first looked up that is not built in */
    uint8_t confirmed[CONFIRMED_MAX][SHA256_DIGEST_LENGTH];
    size_t n_confirmed; /* ever; the oldest is overwritten */
    json_t *plan;
    struct tool_cache *cache;
    uint64_t state;     /* a number for what the box holds now: another one before and after each
                         * call that may change it */
    bool state_unknown; /* a command runs on in the background: nothing can be cached any more */
    uint64_t serial;    /* of the names that the next call makes up; 0: none */
    uint64_t changes;   /* calls that may have changed the box */
    unsigned changing;  /* those that run now: what is read beside them is not cached */
};

int tool_session_new(struct box *box, struct tool_session **ret, struct error *err)
{
    struct tool_session *s = calloc(1, sizeof *s);
    pthread_condattr_t attr;
    if (!s)
        return error_set(err, ENOMEM, "no memory");
    s->box = box;
    s->plan = json_array();
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->turns_changed, &attr);
    pthread_condattr_destroy(&attr);
    *ret = s;
    return 0;
}

static void session_free_host(struct tool_host *h)
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
    if (s->own_tools)
        s->own_tools->free(s->own_tools);
    session_free_host(s->host);
    json_decref(s->plan);
    pthread_cond_destroy(&s->turns_changed);
    pthread_mutex_destroy(&s->lock);
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

int (*tool_servers_add)(struct tool_session *s, struct config *config, struct error *err);

int tool_sources_add(struct tool_session *s, struct config *config, struct error *err)
{
    _cleanup_config_ struct config taken = *config;
    *config = (struct config){0};
    s->has_own_tools = true;
    return tool_servers_add ? tool_servers_add(s, &taken, err) : 0;
}

/* The person's own tools; NULL if the session has none. */
static struct tool_source *session_own_tools(struct tool_session *s)
{
    LOCKED(&s->lock);
    if (s->has_own_tools && !s->own_tools)
        s->own_tools = own_tools_new();
    return s->own_tools;
}

void tool_session_set_cache(struct tool_session *s, struct tool_cache *cache)
{
    LOCKED(&s->lock);
    s->cache = cache;
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

const struct tool *tool_builtin(const char *name)
{
    for (size_t i = 0; TOOLS[i]; i++)
        if (strcmp(TOOLS[i]->name, name) == 0)
            return TOOLS[i];
    return NULL;
}

const struct tool *tool_session_find(struct tool_session *s, const char *name, struct error *err)
{
    const struct tool *t = tool_builtin(name);
    if (t && (s->host || !(t->flags & TOOL_HOST)))
        return t;
    struct tool_source *own = session_own_tools(s);
    t = own ? own->find(own, s, name, err) : NULL;
    for (size_t i = 0; !t && !err->code && i < s->n_sources; i++)
        t = s->sources[i]->find(s->sources[i], s, name, err);
    if (!t && err->code)
        err->code = EIO; /* the tool exists: whatever is missing, it is not the tool */
    else if (!t)
        error_set(err, ENOENT, "there is no tool '%.100s'; `hutch tool --list` shows all", name);
    return t;
}

void tool_session_list(struct tool_session *s, void (*each)(void *data, const struct tool *t),
                       void (*trouble)(void *data, const char *text), void *data)
{
    struct tool_source *own = session_own_tools(s);
    for (size_t i = 0; TOOLS[i]; i++)
        if (s->host || !(TOOLS[i]->flags & TOOL_HOST))
            each(data, TOOLS[i]);
    if (own)
        own->list(own, s, each, trouble, data);
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
        session_free_host(h);
        return r;
    }
    h->workspace = TAKE_PTR(info.workspace);
    h->direct = info.mode == BOX_DIRECT;
    session_free_host(s->host);
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

/* Answers from the cache, or runs the tool. */
static void call_execute(struct tool_call *c, struct error *err)
{
    struct tool_session *s = c->session;
    bool changes = c->tool->flags & (TOOL_CHANGES | TOOL_RUNS);
    struct tool_cache *cache = NULL;
    uint8_t key[CACHE_KEY_SIZE];
    char state[32];
    if (cancel_asked(c->cancel)) { /* while it waited */
        error_set(err, ECANCELED, "the call was cancelled before it began");
        return;
    }
    pthread_mutex_lock(&s->lock);
    snprintf(state, sizeof state, "%" PRIu64, s->state);
    if (c->tool->flags & TOOL_CACHED && s->cache && !s->state_unknown && !s->changing &&
        tool_cache_key(state, c->tool->name, c->input, key) == 0)
        cache = s->cache;
    pthread_mutex_unlock(&s->lock);
    if (cache && tool_cache_find(cache, key, c->result))
        return;

    if (changes) {
        LOCKED(&s->lock);
        s->state++;
        s->changes++;
        s->changing++;
    }
    int r = c->tool->run(c, err);
    if (r < 0 && !err->code)
        error_errno(err, -r, "%s", c->tool->name);
    else if (r >= 0)
        err->code = 0;
    if (r >= 0 && c->result->text.failed)
        error_set(err, E2BIG, "the result of %s is too long", c->tool->name);
    else if (r >= 0 && c->tool->output && !c->result->data && !c->result->failed)
        error_set(err, ENOMEM, "no memory for the result");

    /* Whether it failed or not. The state is not known while something that it started runs on. */
    if (changes) {
        LOCKED(&s->lock);
        s->state++;
        s->changing--;
        s->state_unknown |= c->result->lingers;
    }
    if (cache && !err->code && !c->result->failed)
        tool_cache_add(cache, key, c->result);
}

int tool_begin(struct tool_session *s, const struct tool_request *q, struct tool_turn **ret)
{
    struct tool_turn *t = malloc(sizeof *t), **at = &s->first_turn;
    if (!t)
        return -ENOMEM;
    /* Whether a call only reads is not known before its tool is found, which may take long: until
     * then it counts as one that changes something. */
    *t = (struct tool_turn){.request = q, .session = s};
    LOCKED(&s->lock);
    while (*at)
        at = &(*at)->next;
    *ret = *at = t;
    return 0;
}

int tool_finish(struct tool_turn *t, struct tool_result *ret)
{
    const struct tool_request *q = t->request;
    struct tool_session *s = t->session;
    struct error err = {0};
    _cleanup_json_ json_t *input = q->input ? json_incref(q->input) : json_object();
    struct tool_call c = {.session = s,
                          .tool = q->tool,
                          .input = input,
                          .result = ret,
                          .cancel = q->cancel,
                          .progress = q->progress};
    *ret = TOOL_RESULT_INIT;
    int r = 0;
    if (!c.tool && !(c.tool = tool_session_find(s, q->name, &err)))
        r = -err.code;
    else if (schema_check_text(c.tool->input, c.input, "input", &err) < 0)
        r = -EINVAL;
    if (r == 0) {
        turn_wait(t, c.tool->flags & TOOL_READS, q->patience_ms);
        call_execute(&c, &err);
    }
    if (err.code) {
        json_decref(ret->data);
        ret->data = NULL;
        tool_fail(&c, "%s", err.text);
    }
    LOCKED(&s->lock);
    struct tool_turn **at = &s->first_turn;
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    free(t);
    pthread_cond_broadcast(&s->turns_changed);
    return r;
}

int tool_call(struct tool_session *s, const struct tool_request *q, struct tool_result *ret)
{
    struct tool_turn *t = NULL;
    if (tool_begin(s, q, &t) == 0)
        return tool_finish(t, ret);
    *ret = TOOL_RESULT_INIT;
    return tool_fail(&(struct tool_call){.result = ret}, "no memory");
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

/* --- the cache of results --- */

#define BUCKETS  1024
#define LARGEST  4 /* one result takes at most this part of the cache */
#define OVERHEAD 512

struct cached_result {
    uint8_t key[CACHE_KEY_SIZE];
    struct tool_result result;
    size_t bytes;
    LIST_ENTRY(cached_result) bucket;
    TAILQ_ENTRY(cached_result) age;
};

LIST_HEAD(bucket, cached_result);
TAILQ_HEAD(ages, cached_result);

struct tool_cache {
    pthread_mutex_t lock;
    struct bucket buckets[BUCKETS];
    struct ages ages; /* the least recently used first */
    size_t bytes, max;
};

struct tool_cache *tool_cache_new(size_t max_bytes)
{
    struct tool_cache *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    pthread_mutex_init(&c->lock, NULL);
    TAILQ_INIT(&c->ages);
    c->max = max_bytes;
    return c;
}

static void cache_drop(struct tool_cache *c, struct cached_result *e)
{
    LIST_REMOVE(e, bucket);
    TAILQ_REMOVE(&c->ages, e, age);
    c->bytes -= e->bytes;
    tool_result_free(&e->result);
    free(e);
}

struct tool_cache *tool_cache_free(struct tool_cache *c)
{
    if (!c)
        return NULL;
    while (!TAILQ_EMPTY(&c->ages))
        cache_drop(c, TAILQ_FIRST(&c->ages));
    pthread_mutex_destroy(&c->lock);
    free(c);
    return NULL;
}

/* Each part with its length before it, so that no two triples give the same bytes. */
static void cache_key_add(SHA2_CTX *sha, const char *text)
{
    uint64_t n = strlen(text);
    SHA256Update(sha, (const uint8_t *)&n, sizeof n);
    SHA256Update(sha, (const uint8_t *)text, n);
}

int tool_cache_key(const char *snapshot, const char *tool, const json_t *input,
                   uint8_t ret[CACHE_KEY_SIZE])
{
    SHA2_CTX sha;
    char *text = json_dumps(input, JSON_COMPACT | JSON_SORT_KEYS);
    if (!text)
        return -ENOMEM;
    SHA256Init(&sha);
    cache_key_add(&sha, snapshot);
    cache_key_add(&sha, tool);
    cache_key_add(&sha, text);
    SHA256Final(ret, &sha);
    free(text);
    return 0;
}

static struct bucket *cache_bucket(struct tool_cache *c, const uint8_t *key)
{
    return &c->buckets[(key[0] | key[1] << 8) % BUCKETS];
}

static struct cached_result *cache_get(struct tool_cache *c, const uint8_t *key)
{
    struct cached_result *e;
    LIST_FOREACH(e, cache_bucket(c, key), bucket)
    if (memcmp(e->key, key, CACHE_KEY_SIZE) == 0)
        return e;
    return NULL;
}

bool tool_cache_find(struct tool_cache *c, const uint8_t key[CACHE_KEY_SIZE],
                     struct tool_result *ret)
{
    pthread_mutex_lock(&c->lock);
    struct cached_result *e = cache_get(c, key);
    bool found = e && tool_result_copy(&e->result, ret) == 0;
    if (found) {
        ret->cached = true;
        TAILQ_REMOVE(&c->ages, e, age);
        TAILQ_INSERT_TAIL(&c->ages, e, age);
    }
    pthread_mutex_unlock(&c->lock);
    return found;
}

void tool_cache_add(struct tool_cache *c, const uint8_t key[CACHE_KEY_SIZE],
                    const struct tool_result *r)
{
    /* Roughly: JSON takes some four times as much memory as its text. */
    size_t data = r->data ? json_dumpb(r->data, NULL, 0, JSON_COMPACT) : 0;
    size_t bytes = OVERHEAD + r->text.len + r->image.len + 4 * data;
    struct cached_result *e = bytes <= c->max / LARGEST ? calloc(1, sizeof *e) : NULL;
    if (!e)
        return;
    if (tool_result_copy(r, &e->result) < 0) {
        free(e);
        return;
    }
    memcpy(e->key, key, CACHE_KEY_SIZE);
    e->bytes = bytes;
    pthread_mutex_lock(&c->lock);
    struct cached_result *old = cache_get(c, key);
    if (old)
        cache_drop(c, old);
    LIST_INSERT_HEAD(cache_bucket(c, key), e, bucket);
    TAILQ_INSERT_TAIL(&c->ages, e, age);
    c->bytes += bytes;
    while (c->bytes > c->max)
        cache_drop(c, TAILQ_FIRST(&c->ages));
    pthread_mutex_unlock(&c->lock);
}
