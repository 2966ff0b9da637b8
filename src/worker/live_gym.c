/*
 * Environments of the gym over HTTP: a live job holds the arena of one task and any number of
 * environments of one user.
 *
 * A call is one item or a list of them, each of which resets an environment or takes a step in it.
 * The items of a list are played in two passes: first all whose outcome is in the arena's cache, in
 * the call's thread; then the others, which need boxes, on several threads at once. An item that
 * fails does not fail the others.
 *
 * An environment is held by the call that plays it: another call gets the status 409. Its ID is
 * JOB-TAG-NUMBER. The tag is made anew by each attempt of the job, so that an ID of an attempt whose
 * worker was lost never names another environment.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "gym_envs.h"
#include "json.h"
#include "live.h"
#include "thread.h"
#include "banned.h"

#define GYM_BATCH_MAX   1024u       /* items in a list */
#define GYM_ANSWER_MAX  (64u << 20) /* bytes of the answers of a call */
#define GYM_THREADS_MAX 64u
#define GYM_CHUNK       (128u << 10)

/* One reset or step of a call. */
struct gym_item {
    struct gym_job *job;
    const json_t *want; /* borrowed */
    struct gym_entry *entry;
    json_t *input; /* of a tool */
    bool reset, pending;
    int status; /* 0: it is answered; else of the problem */
    char type[32], why[512];
    json_t *answer;
};

/* --- items --- */

static void item_fail(struct gym_item *it, int status, const char *type, const char *fmt, ...)
    PRINTF(4, 5);
static void item_fail(struct gym_item *it, int status, const char *type, const char *fmt, ...)
{
    va_list args;
    it->status = status;
    snprintf(it->type, sizeof it->type, "%s", type);
    va_start(args, fmt);
    vsnprintf(it->why, sizeof it->why, fmt, args);
    va_end(args);
}

/* The status and type of a problem. */
static int problem_of(const struct error *err, const char **ret_type)
{
    static const struct {
        int code, status;
        const char *type;
    } KINDS[] = {{ENOENT, 404, "no-environment"},
                 {EBUSY, 409, "busy"},
                 {EDQUOT, 429, "limit"},
                 {ECANCELED, 409, "interrupted"},
                 {EINVAL, 409, "episode"}};
    for (size_t i = 0; i < ARRAY_SIZE(KINDS); i++)
        if (KINDS[i].code == err->code) {
            *ret_type = KINDS[i].type;
            return KINDS[i].status;
        }
    *ret_type = "environment-failed";
    return 503;
}

static void call_problem_with(struct live_call *c, const struct error *err)
{
    const char *type;
    int status = problem_of(err, &type);
    call_problem(c, status, type, "%s", err->text);
}

static void item_fail_with(struct gym_item *it, const struct error *err)
{
    const char *type;
    int status = problem_of(err, &type);
    item_fail(it, status, type, "%s", err->text);
}

/* The action of a step: {"tool": NAME, …input}, in the item itself or as its member "action", which
 * may also be a number of the discrete view. */
static void item_read_action(struct gym_item *it)
{
    const json_t *action = json_object_get(it->want, "action");
    const json_t *call = action ? action : it->want;
    if (json_is_integer(action)) {
        if (json_integer_value(action) < 0)
            item_fail(it, 422, "bad-action", "action: must be at least 0");
        return;
    }
    if (!json_get_string(call, "tool")) {
        item_fail(it, 422, "bad-action",
                  "an item needs \"tool\" (the name of a tool), or \"action\" (the number of an "
                  "action of the task)");
        return;
    }
    it->input = json_copy((json_t *)call);
    json_object_del(it->input, "tool");
    if (!action) {
        json_object_del(it->input, "env");
        json_object_del(it->input, "task");
    }
    if (!it->input)
        item_fail(it, 503, "environment-failed", "no memory");
}

static void item_prepare(struct gym_item *it, int cancel)
{
    struct error err = {0};
    const char *id = json_get_string(it->want, "env");
    it->reset |= json_get_bool(it->want, "reset");
    if (!json_is_object(it->want)) {
        item_fail(it, 422, "bad-action", "an item must be an object");
        return;
    }
    if (!it->reset)
        item_read_action(it);
    if (it->status)
        return;
    int r = -ENOENT;
    if (id)
        r = gym_env_hold(it->job, id, &it->entry, &err);
    else if (!it->reset)
        error_set(&err, ENOENT, "env: names no environment; reset begins one");
    if (r == -ENOENT && it->reset && (!id || strcmp(id, GYM_SHARED_ENV) == 0))
        r = gym_env_new(it->job, id != NULL, &it->entry, &err);
    if (r < 0)
        item_fail_with(it, &err);
    else
        env_cancel_on(it->entry->env, cancel);
}

static json_t *item_answer(const struct gym_item *it, const struct gym_step *s)
{
    char name[80];
    gym_env_name(it->job, it->entry, name);
    return json_pack("{s:s, s:i, s:O, s:f, s:o, s:b, s:b, s:O, s:o*}", "env", name, "step",
                     (int)s->number, "observation", s->observation, "reward", s->reward,
                     "pass_rate", isnan(s->pass_rate) ? json_null() : json_real(s->pass_rate),
                     "terminated", s->terminated, "truncated", s->truncated, "info", s->info,
                     "features", gym_env_features(it->entry));
}

static int item_reset(struct gym_item *it, struct gym_step *ret, struct error *err)
{
    const json_t *seed = json_object_get(it->want, "seed");
    const char *clock = json_get_string(json_object_get(it->want, "options"), "clock");
    const char *episode = json_get_string(it->want, "episode_id");
    struct gym_entry *e = it->entry;
    char name[80];
    gym_env_name(it->job, e, name);
    e->resets++;
    if (episode)
        snprintf(e->episode, sizeof e->episode, "%.255s", episode);
    else
        snprintf(e->episode, sizeof e->episode, "%s.%u", name, e->resets);
    if (clock)
        env_set_clock(e->env, strcmp(clock, "virtual") == 0 ? CLOCK_VIRTUAL : CLOCK_WALL);
    return env_reset(
        e->env, json_is_integer(seed) ? (uint64_t)json_integer_value(seed) : it->job->task->seed,
        ret, err);
}

/* Plays an item whose environment is held. `known`: only if the outcome is in the cache. */
static void item_play(struct gym_item *it, bool known)
{
    _cleanup_step_ struct gym_step s = {0};
    struct error err = {0};
    struct gym_env *e = it->entry->env;
    const json_t *action = json_object_get(it->want, "action");
    const char *tool = json_get_string(json_is_object(action) ? action : it->want, "tool");
    size_t number = (size_t)json_integer_value(action);
    int r;
    if (it->reset)
        r = item_reset(it, &s, &err);
    else if (it->input)
        r = known ? env_step_known(e, tool, it->input, &s, &err)
                  : env_step(e, tool, it->input, &s, &err);
    else
        r = known ? env_act_known(e, number, &s, &err) : env_act(e, number, &s, &err);
    it->pending = r == -EAGAIN && known;
    if (it->pending)
        return;
    if (r < 0)
        item_fail_with(it, &err);
    else if (!(it->answer = item_answer(it, &s)))
        item_fail(it, 503, "environment-failed", "no memory");
}

/* What a list's answer has for an item: a new reference. */
static json_t *item_result(struct gym_item *it)
{
    if (!it->status)
        return json_incref(it->answer);
    return json_pack("{s:s?, s:{s:i, s:s, s:s}}", "env", json_get_string(it->want, "env"), "error",
                     "status", it->status, "type", it->type, "detail", it->why);
}

/* --- calls --- */

struct gym_batch {
    struct gym_item *items;
    size_t n;
    atomic_size_t next;
};

static void *batch_thread(void *data)
{
    struct gym_batch *b = data;
    for (;;) {
        size_t i = atomic_fetch_add(&b->next, 1);
        if (i >= b->n)
            return NULL;
        if (b->items[i].pending)
            item_play(&b->items[i], false);
    }
}

/* Plays all items: a failed one has its problem. */
static void batch_play(struct gym_batch *b, int cancel)
{
    pthread_t threads[GYM_THREADS_MAX];
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t most = 2 * (size_t)(processors > 0 ? processors : 1) + 1, pending = 0, started = 0;
    for (size_t i = 0; i < b->n; i++) {
        struct gym_item *it = &b->items[i];
        item_prepare(it, cancel);
        if (!it->status)
            item_play(it, b->n > 1);
        pending += it->pending;
    }
    if (pending) {
        most = most > GYM_THREADS_MAX ? GYM_THREADS_MAX : most;
        for (; started < most && started + 1 < pending; started++)
            if (thread_start(&threads[started], NULL, batch_thread, b) < 0)
                break; /* then there are fewer; this one is enough */
        batch_thread(b);
        for (size_t i = 0; i < started; i++)
            pthread_join(threads[i], NULL);
    }
    for (size_t i = 0; i < b->n; i++) {
        struct gym_item *it = &b->items[i];
        bool first = it->reset && !json_get_string(it->want, "env");
        if (!it->entry)
            continue;
        if (first && it->status)
            it->entry->closing = true; /* no client has its ID */
        gym_env_release(it->job, it->entry);
    }
}

/* Answers are data of the call, as text: they may be larger than a message, and the server passes
 * them on as they are. */
static void call_send_json(struct live_call *c, const json_t *answer)
{
    _cleanup_buf_ struct buf text = BUF_INIT(GYM_ANSWER_MAX);
    if (!answer || json_append(&text, answer, JSON_COMPACT) < 0) {
        call_problem(c, 507, "too-large",
                     "the answer has more than %u MiB; send fewer steps at once",
                     GYM_ANSWER_MAX >> 20);
        return;
    }
    int r = 0;
    for (size_t at = 0; r == 0 && at < text.len; at += GYM_CHUNK)
        r = call_send(c, text.data + at, text.len - at < GYM_CHUNK ? text.len - at : GYM_CHUNK);
    if (r == 0)
        call_send(c, NULL, 0);
}

/* The job of a call about environments of its task; else the call has ended. */
static struct gym_job *call_gym(struct live_call *c)
{
    struct gym_job *g = call_state(c);
    const char *task = json_get_string(call_input(c), "task");
    if (!task || strcmp(task, g->task->name) == 0)
        return g;
    call_problem(c, 404, "no-environment", "the environment is not one of the task %.64s", task);
    return NULL;
}

/* `many`: the member of the input that may be a list; NULL: none. */
static void call_play(struct live_call *c, const char *many, bool reset)
{
    const json_t *input = call_input(c), *list = many ? json_object_get(input, many) : NULL;
    struct gym_job *g = call_gym(c);
    if (!g)
        return;
    size_t n = list ? json_array_size(list) : 1;
    if (n == 0 || n > GYM_BATCH_MAX) {
        call_problem(c, 422, "bad-action", "%s: must be a list of 1 to %u items", many,
                     GYM_BATCH_MAX);
        return;
    }
    _cleanup_json_ json_t *results = json_array();
    struct gym_batch b = {.n = n, .items = calloc(n, sizeof *b.items)};
    if (!b.items || !results) {
        free(b.items);
        call_problem(c, 503, "environment-failed", "no memory");
        return;
    }
    for (size_t i = 0; i < n; i++)
        b.items[i] = (struct gym_item){
            .job = g, .want = list ? json_array_get(list, i) : input, .reset = reset};
    batch_play(&b, call_cancel(c));
    const struct gym_item *only = &b.items[0];
    if (list) {
        for (size_t i = 0; i < n; i++)
            json_array_append_new(results, item_result(&b.items[i]));
        _cleanup_json_ json_t *answer = json_pack("{s:O}", "results", results);
        call_send_json(c, answer);
    } else if (only->status) {
        call_problem(c, only->status, only->type, "%s", only->why);
    } else {
        call_send_json(c, only->answer);
    }
    for (size_t i = 0; i < n; i++) {
        json_decref(b.items[i].answer);
        json_decref(b.items[i].input);
    }
    free(b.items);
}

static void op_reset(struct live_call *c)
{
    call_play(c, NULL, true);
}

static void op_step(struct live_call *c)
{
    call_play(c, "steps", false);
}

/* The environment that the input names, held; else the call has ended with the problem. */
static struct gym_entry *call_hold(struct live_call *c)
{
    struct gym_job *g = call_gym(c);
    struct error err = {0};
    struct gym_entry *e;
    if (!g)
        return NULL;
    if (gym_env_hold(g, json_get_string_or(call_input(c), "env", ""), &e, &err) == 0)
        return e;
    call_problem_with(c, &err);
    return NULL;
}

static void op_state(struct live_call *c)
{
    struct gym_job *g = call_state(c);
    if (json_object_get(call_input(c), "env")) {
        struct gym_entry *e = call_hold(c);
        if (!e)
            return;
        json_t *state = gym_env_state(g, e);
        gym_env_release(g, e);
        call_end(c, state);
        return;
    }
    struct arena_counts n;
    char name[80];
    json_t *envs = json_array();
    arena_counts(g->arena, &n);
    {
        LOCKED(&g->lock);
        for (size_t i = 0; i < g->count; i++) {
            gym_env_name(g, g->entries[i], name);
            json_array_append_new(envs, json_string(name));
        }
    }
    call_end(c, json_pack("{s:s, s:o, s:b, s:{s:I, s:I, s:I, s:I, s:I}}", "task", g->task->name,
                          "environments", envs, "warm", n.warm, "counts", "resets",
                          (json_int_t)n.resets, "steps", (json_int_t)n.steps, "test_runs",
                          (json_int_t)n.test_runs, "cache_hits", (json_int_t)n.cache_hits, "boxes",
                          (json_int_t)n.boxes));
}

static void op_fork(struct live_call *c)
{
    struct gym_job *g = call_state(c);
    struct gym_entry *e = call_hold(c), *copy = NULL;
    struct gym_env *env = NULL;
    struct error err = {0};
    if (!e)
        return;
    env_cancel_on(e->env, call_cancel(c));
    int r = env_fork(e->env, &env, &err);
    gym_env_release(g, e);
    if (r == 0)
        r = gym_env_add(g, false, env, &copy, &err);
    if (r < 0) {
        env_close(env);
        call_problem_with(c, &err);
        return;
    }
    json_t *state = gym_env_state(g, copy);
    gym_env_release(g, copy);
    call_end(c, state);
}

static void op_close(struct live_call *c)
{
    struct gym_job *g = call_gym(c);
    struct error err = {0};
    if (g && gym_env_close(g, json_get_string_or(call_input(c), "env", ""), &err) < 0)
        call_problem_with(c, &err);
}

/* A new environment that lives as long as the call: {"env"} is its event. */
static void op_session(struct live_call *c)
{
    struct gym_job *g = call_state(c);
    struct gym_entry *e = NULL;
    struct error err = {0};
    char name[80];
    if (gym_env_new(g, false, &e, &err) < 0) {
        call_problem_with(c, &err);
        return;
    }
    gym_env_name(g, e, name);
    gym_env_release(g, e);
    if (call_event(c, json_pack("{s:s}", "env", name)) == 0)
        cancel_wait(-1, 0, -1, call_cancel(c));
    gym_env_close(g, name, &err);
}

/* --- the job --- */

static void gym_close(struct live_job *l, void *state, bool keep)
{
    struct gym_job *g = state;
    if (!g)
        return;
    for (size_t i = 0; i < g->count; i++) {
        env_close(g->entries[i]->env);
        free(g->entries[i]);
    }
    free(g->entries);
    arena_close(g->arena);
    task_free(g->task);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

static int gym_open(struct live_job *l, void **ret_state, struct error *err)
{
    const char *name = json_get_string_or(live_job_spec(l), "task", "");
    const struct arena_options options = {.clock = CLOCK_WALL};
    uint32_t tag;
    if (strchr(name, '/') || !*name)
        return error_set(err, EINVAL, "'%.100s' is not the name of a task", name);
    struct gym_job *g = calloc(1, sizeof *g);
    if (!g || getrandom(&tag, sizeof tag, 0) != sizeof tag) {
        free(g);
        return error_errno(err, ENOMEM, "cannot prepare the task %s", name);
    }
    pthread_mutex_init(&g->lock, NULL);
    snprintf(g->prefix, sizeof g->prefix, "%.20s-%08x-", live_job_id(l), tag);
    int r = task_find(NULL, name, &g->task, err);
    if (r == 0)
        r = arena_open(g->task, &options, live_job_cancel(l), &g->arena, err);
    if (r < 0)
        gym_close(l, g, false);
    else
        *ret_state = g;
    return r;
}

static const struct live_op GYM_OPS[] = {{"reset", op_reset},
                                         {"step", op_step},
                                         {"state", op_state},
                                         {"fork", op_fork},
                                         {"close", op_close},
                                         {"session", op_session},
                                         {0}};

const struct live_kind LIVE_GYM = {
    .name = "gym", .open = gym_open, .close = gym_close, .ops = GYM_OPS};
