/*
 * What env.c and env_step.c share: an environment, names of states, rewards.
 */
#pragma once

#include <jansson.h>

#include "arena.h"
#include "session.h"

/*
 * Names of states. A state of an episode is named by what led to it: the digest of the task and of
 * each action since reset that may have changed something. Two episodes that did the same are in
 * the same state and share what is cached about it.
 */
#define STATE_NAME_SIZE 65 /* a SHA-256 in hexadecimal digits, and a NUL */

/* The state after reset, and the one that an action leads to; ret may be `name` itself. 0 or
 * -ENOMEM. */
int state_begin(const char *task_digest, char ret[STATE_NAME_SIZE]);
int state_after(const char *name, const char *tool, const json_t *input, char ret[STATE_NAME_SIZE]);

/* An action that may have changed something, to be repeated in another box. */
struct env_action {
    char *tool;
    json_t *input;
};

struct gym_env {
    struct gym_arena *arena;
    const struct task *task;
    enum gym_clock clock;
    uint64_t seed;
    bool begun, over;
    unsigned calls;
    int64_t ns; /* of all steps, as the clock counted them */
    double pass_rate;

    char state[STATE_NAME_SIZE];
    bool live; /* a process of the agent runs between the steps: the state has no name any more */
    bool ran;  /* an action ran code in the box */
    struct env_action *actions;
    size_t n_actions, room_actions;

    struct box *box; /* NULL: none now */
    struct tool_session *session;
    size_t n_done; /* the first of the actions, which were done in it */
    /* snapshot of the box after `frozen_at` actions, for runs of the tests; NULL: none */
    struct snapshot *frozen;
    size_t frozen_at;

    bool *patched, *was_read; /* features: of each patch, of each file of `reads` */
    size_t tests;             /* feature: 0 not run, else 1 + how many passed */
    int cancel;               /* see env_cancel_on */
    bool known_only;          /* during env_step_known */
};

/* Makes the box ready, with all actions so far done in it. */
int env_box_ready(struct gym_env *e, struct error *err);

/* A box in the same state without the agent's processes, for one run of the tests; the caller gives
 * it back to the arena. The environment's own box may be gone afterwards. */
int env_box_spare(struct gym_env *e, struct box **ret, struct error *err);
void env_box_drop(struct gym_env *e);

int env_actions_add(struct gym_env *e, const char *tool, json_t *input);

/*
 * Rewards. Pure, and exact: time is counted in whole nanoseconds, so that sums do not depend on the
 * order of the additions, and every price is multiplied once.
 */

/* The parts of a reward; their sum is the reward. */
struct reward {
    double pass_rate; /* 0 except at the end */
    double calls;     /* at most 0 */
    double seconds;   /* at most 0 */
};

/* Of an episode, or with calls 1 of a step. `pass_rate` NaN: this is not the end. */
struct reward reward_of(const struct task *t, unsigned calls, int64_t ns, double pass_rate);
double reward_sum(const struct reward *r);
double reward_seconds(int64_t ns);

/* A step's info, with the sums of the episode and this reward; NULL without memory. */
json_t *env_info(const struct gym_env *e, const struct reward *r);

/* What an action costs on the virtual clock, in nanoseconds: the same on every machine. `expected`:
 * how many tests a run of them has. */
int64_t virtual_clock_ns(const char *tool, size_t expected);
