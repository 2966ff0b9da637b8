/* The life of an environment: open, reset, fork, close, and what there is to know about it. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "env_private.h"
#include "env_report.h"
#include "reward.h"
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
