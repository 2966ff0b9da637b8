/*
 * An environment plays episodes of a task, one at a time. reset is a fork, step is a tool call, the
 * reward is the pass rate of the tests less a price for calls and time.
 *
 *     reward of a step    − call_price − second_price · seconds     (the last step: + pass_rate)
 *     return              pass_rate − call_price · calls − second_price · seconds
 *
 * A state of an episode has a name: the digest of the task and of all actions that may have changed
 * something. Outcomes of a state (the observation of an action, the grade) are cached under that
 * name. A box is made only when an outcome is not in the cache: a fresh fork, in which the actions
 * so far are repeated. After an action that leaves a process running, the episode stays in its box.
 *
 * One thread at a time uses an environment.
 */
#pragma once

#include <jansson.h>

#include "arena.h"

struct gym_env;

int env_open(struct gym_arena *a, struct gym_env **ret, struct error *err);
struct gym_env *env_close(struct gym_env *e); /* takes NULL */

/* A step of an episode; `reset` gives one, too, with the instruction as its observation. */
struct gym_step {
    unsigned number; /* 0: reset */
    json_t *action;  /* {"tool": NAME, …input}; NULL after reset */
    /* {"text": S, "failed": B, "data": {…}}; the same bytes for the same state under CLOCK_VIRTUAL:
     * no times, no names made up */
    json_t *observation;
    double reward;
    /* of the last test run of the episode; NaN: there was none since the last change */
    double pass_rate;
    bool terminated, truncated;
    double seconds; /* what the clock counted for this step */
    /* {"calls", "seconds", "pass_rate", "reward": {"pass_rate", "calls", "seconds"}, …}; the last
     * step also "tests", "discarded", "trouble", and if truncated "reason" */
    json_t *info;
};
void gym_step_free(struct gym_step *s);
#define _cleanup_step_ _cleanup_(gym_step_free)

/* Begins an episode; an unfinished one is dropped. */
int env_reset(struct gym_env *e, uint64_t seed, struct gym_step *ret, struct error *err);

/*
 * One action: a tool of the table and its input, or `submit`. Bad input and failed tools are
 * observations, not errors. Errors are mistakes of the caller (-EINVAL before reset or after the
 * end), a cancelled step (-ECANCELED, see env_cancel_on) and what makes the environment unusable;
 * after the last two it must be reset. A box that died truncates the episode, with the reason.
 */
int env_step(struct gym_env *e, const char *tool, json_t *input, struct gym_step *ret,
             struct error *err);

/* The same for an action of the discrete view. */
int env_act(struct gym_env *e, size_t action, struct gym_step *ret, struct error *err);

/* The same if the outcome is in the cache; else -EAGAIN, and nothing has happened. They never
 * block. */
int env_step_known(struct gym_env *e, const char *tool, json_t *input, struct gym_step *ret,
                   struct error *err);
int env_act_known(struct gym_env *e, size_t action, struct gym_step *ret, struct error *err);

/* From now on no step begins while this descriptor (base/thread.h; -1: none) is readable, and the
 * one under way ends at once, whatever runs in the box: -ECANCELED. Forks have the same. */
void env_cancel_on(struct gym_env *e, int cancel);
int env_cancel(const struct gym_env *e);

/* The discrete view's observation: for each patch 0/1 whether it is applied; the tests of the last
 * run since the last change: 0 not run, else 1 + how many passed; for each file of `reads` 0/1
 * whether it was read. task_features() is how many numbers that are. */
size_t env_features(const struct gym_env *e, int64_t *ret, size_t room);

/* A second, independent environment in the same state. Files are copied, processes are not: what an
 * action left running does not run in the second one. */
int env_fork(struct gym_env *e, struct gym_env **ret, struct error *err);

/* Sums of the episode so far. */
struct gym_episode {
    double total; /* the return */
    double pass_rate;
    unsigned calls;
    double seconds;
    uint64_t seed;
    bool over;
};
void env_episode(const struct gym_env *e, struct gym_episode *ret);
const struct task *env_task(const struct gym_env *e);
/* The arena's, unless another one was set. To be set before a reset. */
enum gym_clock env_clock(const struct gym_env *e);
void env_set_clock(struct gym_env *e, enum gym_clock clock);

/* Tests only: the process 1 of the environment's box, or 0 if it has none now. */
pid_t env_box_pid(const struct gym_env *e);
