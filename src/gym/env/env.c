/* The life of an environment: open, reset, fork, close, and what there is to know about it. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "env_state.h"
#include "thread.h"
#include "banned.h"

int env_open(struct gym_arena *a, struct gym_env **ret, struct error *err)
{
    struct gym_env *e = calloc(1, sizeof *e);
    if (e) {
        e->arena = a;
        e->pass_rate = NAN;
        e->cancel = -1;
        e->patched = calloc(a->task->n_patches + 1, sizeof(bool));
        e->was_read = calloc(a->task->reads.count + 1, sizeof(bool));
    }
    if (!e || !e->patched || !e->was_read) {
        env_close(e);
        return error_errno(err, ENOMEM, "cannot make an environment");
    }
    *ret = e;
    return 0;
}

struct gym_env *env_close(struct gym_env *e)
{
    if (!e)
        return NULL;
    env_box_drop(e);
    env_actions_free(e);
    free(e->actions);
    free(e->patched);
    free(e->was_read);
    free(e);
    return NULL;
}

static void forget_episode(struct gym_env *e)
{
    const struct task *t = e->arena->task;
    env_box_drop(e);
    env_actions_free(e);
    memset(e->patched, 0, t->n_patches * sizeof(bool));
    memset(e->was_read, 0, t->reads.count * sizeof(bool));
    e->begun = e->over = e->live = e->ran = false;
    e->calls = 0;
    e->ns = 0;
    e->pass_rate = NAN;
    e->tests = 0;
}

int env_reset(struct gym_env *e, uint64_t seed, struct gym_step *ret, struct error *err)
{
    struct gym_step step = {0};
    forget_episode(e);
    e->seed = seed;
    if (state_begin(e->arena->task->digest, e->state) < 0 || env_report_reset(e, &step) < 0)
        return error_errno(err, ENOMEM, "cannot reset the environment");
    e->begun = true;
    atomic_fetch_add(&e->arena->resets, 1);
    *ret = step;
    return 0;
}

/* Is the state in the box alone? What is live cannot be done again, and without the cache nothing
 * that ran code is done twice. */
static bool is_in_box(const struct gym_env *e)
{
    return !e->over && e->at.box && (e->live || (e->ran && !e->arena->cache));
}

/* The second one gets a fork of the box, without the processes that run there. */
static int fork_box(struct gym_env *e, struct gym_env *copy, struct error *err)
{
    struct snapshot *s = NULL;
    int r = box_snapshot_until(e->at.box, e->cancel, &s, err);
    if (r == 0)
        r = box_fork(s, &copy->at.box, err);
    snapshot_free(s);
    if (r < 0)
        return r;
    atomic_fetch_add(&e->arena->boxes, 1);
    r = tool_session_new(copy->at.box, NULL, &copy->at.session, err);
    if (r == 0)
        tool_session_set_plan(copy->at.session, tool_session_plan(e->at.session));
    copy->at.done = e->at.done;
    return r;
}

static int copy_episode(struct gym_env *e, struct gym_env *copy, struct error *err)
{
    const struct task *t = e->arena->task;
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
    memcpy(copy->patched, e->patched, t->n_patches * sizeof(bool));
    memcpy(copy->was_read, e->was_read, t->reads.count * sizeof(bool));
    if (env_actions_copy(copy, e) < 0)
        return error_errno(err, ENOMEM, "cannot fork the environment");
    return is_in_box(e) ? fork_box(e, copy, err) : 0;
}

int env_fork(struct gym_env *e, struct gym_env **ret, struct error *err)
{
    struct gym_env *copy = NULL;
    int r = env_open(e->arena, &copy, err);
    if (r == 0)
        r = copy_episode(e, copy, err);
    if (r < 0) {
        env_close(copy);
        return r;
    }
    *ret = copy;
    return 0;
}

void env_episode(const struct gym_env *e, struct gym_episode *ret)
{
    struct reward sum =
        reward_of_episode(e->arena->task, e->calls, e->ns, e->over ? e->pass_rate : NAN);
    *ret = (struct gym_episode){.total = reward_sum(&sum),
                                .pass_rate = e->pass_rate,
                                .calls = e->calls,
                                .seconds = reward_seconds(e->ns),
                                .seed = e->seed,
                                .over = e->over};
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
    return e->arena->task;
}

enum gym_clock env_clock(const struct gym_env *e)
{
    return e->arena->options.clock;
}

pid_t env_box_pid(const struct gym_env *e)
{
    return e->at.box ? box_pid(e->at.box) : 0;
}

/*
 * What comes of an action: known from before, or found out. What is kept under (state, tool, input)
 * is the observation with all that else followed from it, as one JSON object; the cache is that of
 * the tools.
 */

void env_result_free(struct env_result *o)
{
    json_decref(o->observation);
    json_decref(o->verdict);
    *o = (struct env_result){0};
}

static json_t *pack(const struct env_result *o)
{
    json_t *k = json_pack("{s:O, s:I, s:b}", "observation", o->observation, "ns", (json_int_t)o->ns,
                          "changed", o->changed);
    if (k && o->tested) {
        data_set(k, "passed", json_integer((json_int_t)o->passed));
        data_set(k, "pass_rate", json_real(o->pass_rate));
    }
    if (k && o->verdict)
        data_set(k, "verdict", json_incref(o->verdict));
    return k;
}

static void unpack(json_t *k, struct env_result *ret)
{
    json_t *passed = json_object_get(k, "passed");
    *ret = (struct env_result){.observation = json_incref(json_object_get(k, "observation")),
                               .ns = json_integer_value(json_object_get(k, "ns")),
                               .changed = json_is_true(json_object_get(k, "changed")),
                               .tested = passed != NULL,
                               .passed = (size_t)json_integer_value(passed),
                               .pass_rate = json_real_value(json_object_get(k, "pass_rate")),
                               .verdict = json_incref(json_object_get(k, "verdict"))};
}

static bool recall(struct gym_env *e, const uint8_t *key, struct env_result *ret)
{
    _cleanup_result_ struct tool_result known = TOOL_RESULT_INIT;
    if (!tool_cache_find(e->arena->cache, key, &known))
        return false;
    unpack(known.data, ret);
    atomic_fetch_add(&e->arena->cache_hits, 1);
    return true;
}

static void keep(struct gym_env *e, const uint8_t *key, const struct env_result *o)
{
    _cleanup_result_ struct tool_result known = TOOL_RESULT_INIT;
    known.data = pack(o);
    if (known.data)
        tool_cache_add(e->arena->cache, key, &known);
}

int env_find_out(struct gym_env *e, const char *tool, json_t *input, struct env_result *ret)
{
    uint8_t key[CACHE_KEY_SIZE];
    bool may = e->arena->cache && !e->live && tool_cache_key(e->state, tool, input, key) == 0;
    if (may && recall(e, key, ret))
        return 0;
    if (e->known_only)
        return -EAGAIN;
    int r = env_carry_out(e, tool, input, ret);
    if (r == 0 && may && !ret->lingers && !ret->doubtful && !ret->reason[0] &&
        !cancel_asked(e->cancel))
        keep(e, key, ret);
    return r;
}

/*
 * The boxes of an environment.
 *
 * A box is made when something is asked that is not known yet; the actions of the episode are then
 * done again in a fresh fork of the origin. As long as nothing but files was changed through the
 * guest (no action ran code), that is also how a box for the tests is had: no process of the agent
 * was ever in it, so the environment's own box serves, and the next action makes another. Once code
 * has run, a run of the tests gets a fork of a snapshot, and the box goes on.
 */

static void close_tools(struct gym_env *e)
{
    e->at.session = tool_session_free(e->at.session);
    e->at.done = 0;
}

static struct box *detach_box(struct gym_env *e)
{
    close_tools(e);
    return TAKE_PTR(e->at.box);
}

void env_box_drop(struct gym_env *e)
{
    e->frozen = snapshot_free(e->frozen);
    arena_give(e->arena, detach_box(e));
}

static int take_box(struct gym_env *e, struct error *err)
{
    int r = arena_take(e->arena, &e->at.box, err);
    if (r < 0)
        return r;
    r = tool_session_new(e->at.box, NULL, &e->at.session, err);
    if (r < 0)
        env_box_drop(e);
    return r;
}

/* Names that the call makes up are those that it made up the first time. */
static int repeat(struct gym_env *e, const struct env_action *a, struct error *err)
{
    struct tool_result result;
    struct tool_request q = {.name = a->tool, .input = a->input, .cancel = e->cancel};
    tool_session_serial(e->at.session, e->at.done + 1);
    tool_call(e->at.session, &q, &result);
    int r = result.failed ? box_check(e->at.box, err) : 0;
    tool_result_free(&result);
    return r;
}

/* What runs on between the steps is looked after here; during a call, the call does it. */
static int check_live(struct gym_env *e, struct error *err)
{
    int r = box_tick(e->at.box, err);
    if (r < 0)
        env_box_drop(e);
    return r;
}

int env_box_ready(struct gym_env *e, struct error *err)
{
    int r = e->live ? check_live(e, err) : e->at.box ? 0 : take_box(e, err);
    while (r == 0 && !e->live && e->at.done < e->n_actions) {
        r = repeat(e, &e->actions[e->at.done], err);
        e->at.done++;
    }
    if (r == 0)
        tool_session_serial(e->at.session, e->n_actions + 1);
    return r;
}

static int freeze(struct gym_env *e, struct error *err)
{
    if (e->frozen && !e->live && e->frozen_at == e->n_actions)
        return 0;
    e->frozen = snapshot_free(e->frozen);
    e->frozen_at = e->n_actions;
    return box_snapshot_until(e->at.box, e->cancel, &e->frozen, err);
}

int env_box_spare(struct gym_env *e, struct box **ret, struct error *err)
{
    int r = env_box_ready(e, err);
    if (r < 0)
        return r;
    if (!e->ran && !e->live) {
        *ret = detach_box(e);
        return 0;
    }
    r = freeze(e, err);
    if (r < 0)
        return r;
    atomic_fetch_add(&e->arena->boxes, 1);
    return box_fork(e->frozen, ret, err);
}

void env_actions_free(struct gym_env *e)
{
    for (size_t i = 0; i < e->n_actions; i++) {
        free(e->actions[i].tool);
        json_decref(e->actions[i].input);
    }
    e->n_actions = 0;
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

int env_actions_copy(struct gym_env *e, const struct gym_env *from)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < from->n_actions; i++)
        r = env_actions_add(e, from->actions[i].tool, from->actions[i].input);
    return r;
}
