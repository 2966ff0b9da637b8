/*
 * The life of an environment: open, reset, fork, close; its box; rewards and names of states.
 *
 * An environment gets a box when an action's outcome is not in the cache: a fresh fork of the
 * origin, in which the actions of the episode are repeated. As long as no action ran code, only the
 * guest changed files, and no process of the agent was ever in the box: a run of the tests then
 * takes the environment's own box, and the next action makes another. Once code has run, a run of
 * the tests gets a fork of a snapshot, and the environment keeps its box.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "thread.h"
#include "env.h"
#include "env_state.h"
#include "observation.h"
#include "tool.h"
#include "banned.h"

int env_open(struct gym_arena *a, struct gym_env **ret, struct error *err)
{
    const struct task *t = arena_task(a);
    struct gym_env *e = calloc(1, sizeof *e);
    if (e) {
        e->arena = a;
        e->task = t;
        e->clock = arena_clock(a);
        e->pass_rate = NAN;
        e->cancel = -1;
        e->patched = calloc(t->n_patches + 1, sizeof(bool));
        e->was_read = calloc(t->reads.count + 1, sizeof(bool));
    }
    if (!e || !e->patched || !e->was_read) {
        env_close(e);
        return error_errno(err, ENOMEM, "cannot make an environment");
    }
    *ret = e;
    return 0;
}

static void env_actions_clear(struct gym_env *e)
{
    for (size_t i = 0; i < e->n_actions; i++) {
        free(e->actions[i].tool);
        json_decref(e->actions[i].input);
    }
    e->n_actions = 0;
}

struct gym_env *env_close(struct gym_env *e)
{
    if (!e)
        return NULL;
    env_box_drop(e);
    env_actions_clear(e);
    free(e->actions);
    free(e->patched);
    free(e->was_read);
    free(e);
    return NULL;
}

int env_actions_add(struct gym_env *e, const char *tool, json_t *input)
{
    if (e->n_actions == e->room_actions) {
        size_t room = e->room_actions ? 2 * e->room_actions : 16;
        struct env_action *more = realloc(e->actions, room * sizeof *more);
        if (!more)
            return -ENOMEM;
        e->actions = more;
        e->room_actions = room;
    }
    char *name = strdup(tool);
    if (!name)
        return -ENOMEM;
    e->actions[e->n_actions++] = (struct env_action){.tool = name, .input = json_incref(input)};
    return 0;
}

int env_reset(struct gym_env *e, uint64_t seed, struct gym_step *ret, struct error *err)
{
    const struct reward nothing = {0};
    env_box_drop(e);
    env_actions_clear(e);
    memset(e->patched, 0, e->task->n_patches * sizeof(bool));
    memset(e->was_read, 0, e->task->reads.count * sizeof(bool));
    e->begun = e->over = e->live = e->ran = false;
    e->calls = 0;
    e->ns = 0;
    e->pass_rate = NAN;
    e->tests = 0;
    e->seed = seed;
    int r = state_begin(e->task->digest, e->state);
    struct gym_step s = {.pass_rate = NAN};
    if (r == 0) {
        s.observation = observe_reset(e->task);
        s.info = env_info(e, &nothing);
    }
    if (!s.observation || !s.info) {
        gym_step_free(&s);
        return error_errno(err, ENOMEM, "cannot reset the environment");
    }
    e->begun = true;
    arena_count(e->arena, ARENA_RESET);
    *ret = s;
    return 0;
}

void gym_step_free(struct gym_step *s)
{
    json_decref(s->action);
    json_decref(s->observation);
    json_decref(s->info);
    *s = (struct gym_step){0};
}

/* The copy gets a fork of the box, without the processes that run there. */
static int env_fork_box(struct gym_env *e, struct gym_env *copy, struct error *err)
{
    struct snapshot *s = NULL;
    int r = box_snapshot_until(e->box, e->cancel, &s, err);
    if (r == 0)
        r = box_fork(s, &copy->box, err);
    snapshot_free(s);
    if (r < 0)
        return r;
    arena_count(e->arena, ARENA_BOX);
    r = tool_session_new(copy->box, &copy->session, err);
    if (r == 0)
        tool_session_set_plan(copy->session, tool_session_plan(e->session));
    copy->n_done = e->n_done;
    return r;
}

int env_fork(struct gym_env *e, struct gym_env **ret, struct error *err)
{
    struct gym_env *copy = NULL;
    int r = env_open(e->arena, &copy, err);
    if (r < 0)
        return r;
    copy->clock = e->clock;
    copy->seed = e->seed;
    copy->cancel = e->cancel;
    copy->begun = e->begun;
    copy->over = e->over;
    copy->calls = e->calls;
    copy->ns = e->ns;
    copy->pass_rate = e->pass_rate;
    copy->live = e->live;
    copy->ran = e->ran;
    copy->tests = e->tests;
    memcpy(copy->state, e->state, sizeof copy->state);
    memcpy(copy->patched, e->patched, e->task->n_patches * sizeof(bool));
    memcpy(copy->was_read, e->was_read, e->task->reads.count * sizeof(bool));
    for (size_t i = 0; r == 0 && i < e->n_actions; i++)
        r = env_actions_add(copy, e->actions[i].tool, e->actions[i].input);
    if (r < 0)
        error_errno(err, ENOMEM, "cannot fork the environment");
    /* What runs on cannot be repeated, and without the cache nothing that ran code is repeated:
     * then the state is in the box only. */
    bool only_in_box = !e->over && e->box && (e->live || (e->ran && !arena_cache(e->arena)));
    if (r == 0 && only_in_box)
        r = env_fork_box(e, copy, err);
    if (r < 0)
        env_close(copy);
    else
        *ret = copy;
    return r;
}

/* The box without its tools; the environment has none then. */
static struct box *env_detach_box(struct gym_env *e)
{
    e->session = tool_session_free(e->session);
    e->n_done = 0;
    return TAKE_PTR(e->box);
}

void env_box_drop(struct gym_env *e)
{
    e->frozen = snapshot_free(e->frozen);
    arena_give(e->arena, env_detach_box(e));
}

int env_box_ready(struct gym_env *e, struct error *err)
{
    int r = 0;
    if (e->live) {
        r = box_tick(e->box, err); /* notices what happened between the steps */
    } else if (!e->box) {
        r = arena_take(e->arena, &e->box, err);
        if (r == 0)
            r = tool_session_new(e->box, &e->session, err);
    }
    if (r < 0) {
        env_box_drop(e);
        return r;
    }
    for (; r == 0 && !e->live && e->n_done < e->n_actions; e->n_done++) {
        struct tool_result result;
        const struct env_action *a = &e->actions[e->n_done];
        struct tool_request q = {.name = a->tool, .input = a->input, .cancel = e->cancel};
        tool_session_serial(e->session, e->n_done + 1); /* generated names are the same again */
        tool_call(e->session, &q, &result);
        r = result.failed ? box_check(e->box, err) : 0;
        tool_result_free(&result);
    }
    if (r == 0)
        tool_session_serial(e->session, e->n_actions + 1);
    return r;
}

int env_box_spare(struct gym_env *e, struct box **ret, struct error *err)
{
    int r = env_box_ready(e, err);
    if (r < 0)
        return r;
    if (!e->ran && !e->live) {
        *ret = env_detach_box(e);
        return 0;
    }
    if (!e->frozen || e->live || e->frozen_at != e->n_actions) {
        e->frozen = snapshot_free(e->frozen);
        e->frozen_at = e->n_actions;
        r = box_snapshot_until(e->box, e->cancel, &e->frozen, err);
        if (r < 0)
            return r;
    }
    arena_count(e->arena, ARENA_BOX);
    return box_fork(e->frozen, ret, err);
}

void env_episode(const struct gym_env *e, struct gym_episode *ret)
{
    struct reward sum = reward_of(e->task, e->calls, e->ns, e->over ? e->pass_rate : NAN);
    *ret = (struct gym_episode){.total = reward_sum(&sum),
                                .pass_rate = e->pass_rate,
                                .calls = e->calls,
                                .seconds = reward_seconds(e->ns),
                                .seed = e->seed,
                                .over = e->over};
}

size_t env_features(const struct gym_env *e, int64_t *ret, size_t room)
{
    const struct task *t = e->task;
    size_t n = task_features(t), tests = t->n_patches;
    for (size_t i = 0; i < n && i < room; i++)
        ret[i] = i < tests    ? e->patched[i]
                 : i == tests ? (int64_t)e->tests
                              : e->was_read[i - tests - 1];
    return n;
}

void env_cancel_on(struct gym_env *e, int cancel)
{
    e->cancel = cancel;
}

int env_cancel(const struct gym_env *e)
{
    return e->cancel;
}

const struct task *env_task(const struct gym_env *e)
{
    return e->task;
}

enum gym_clock env_clock(const struct gym_env *e)
{
    return e->clock;
}

void env_set_clock(struct gym_env *e, enum gym_clock clock)
{
    e->clock = clock;
}

pid_t env_box_pid(const struct gym_env *e)
{
    return e->box ? box_pid(e->box) : 0;
}

double reward_seconds(int64_t ns)
{
    return (double)ns / (double)NS_PER_S;
}

struct reward reward_of(const struct task *t, unsigned calls, int64_t ns, double pass_rate)
{
    /* `0 - x` and not `-x`: a price of 0 gives 0, not a negative zero, which would print as one */
    return (struct reward){.pass_rate = isnan(pass_rate) ? 0 : pass_rate,
                           .calls = 0 - t->call_price * calls,
                           .seconds = 0 - t->second_price * reward_seconds(ns)};
}

double reward_sum(const struct reward *r)
{
    return r->pass_rate + r->calls + r->seconds;
}

json_t *env_info(const struct gym_env *e, const struct reward *r)
{
    return json_pack("{s:i, s:f, s:o?, s:s?, s:{s:f, s:f, s:f}}", "calls", (int)e->calls, "seconds",
                     reward_seconds(e->ns), "pass_rate",
                     isnan(e->pass_rate) ? NULL : json_real(e->pass_rate), "state",
                     e->live ? NULL : e->state, "reward", "pass_rate", r->pass_rate, "calls",
                     r->calls, "seconds", r->seconds);
}

/* The cost follows from the tool's flags, so that a new tool has one. Calls that reach no tool cost
 * as much as reading. */
int64_t virtual_clock_ns(const char *tool, size_t expected)
{
    const int64_t read = 50 * NS_PER_MS, change = 100 * NS_PER_MS, run = 500 * NS_PER_MS;
    const int64_t each_test = 20 * NS_PER_MS;
    if (strcmp(tool, TOOL_RUN_TESTS.name) == 0 || strcmp(tool, "submit") == 0)
        return run + (int64_t)expected * each_test;
    const struct tool *t = tool_builtin(tool);
    unsigned flags = t ? t->flags : 0;
    return flags & TOOL_RUNS ? run : flags & TOOL_CHANGES ? change : read;
}

/* The digest over name, tool and sorted input is the cache's key (tool/cache.h). */
int state_after(const char *name, const char *tool, const json_t *input, char ret[STATE_NAME_SIZE])
{
    static const char DIGITS[] = "0123456789abcdef";
    uint8_t key[CACHE_KEY_SIZE];
    int r = tool_cache_key(name, tool, input, key);
    if (r < 0)
        return r;
    for (size_t i = 0; i < sizeof key; i++) {
        ret[2 * i] = DIGITS[key[i] >> 4];
        ret[2 * i + 1] = DIGITS[key[i] & 15];
    }
    ret[STATE_NAME_SIZE - 1] = 0;
    return 0;
}

int state_begin(const char *task_digest, char ret[STATE_NAME_SIZE])
{
    json_t *nothing = json_object();
    int r = nothing ? state_after(task_digest, "reset", nothing, ret) : -ENOMEM;
    json_decref(nothing);
    return r;
}
