/*
 * Names of states. A state of an episode is called by what led to it: the digest of the task, and
 * of each action since reset that may have changed something. Two episodes that did the same are in
 * the same state, and share what is known about it.
 */
#pragma once

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "cache.h"
#include "env.h"
#include "session.h"
#include "task.h"

#define STATE_NAME_SIZE 65 /* a SHA-256 in hexadecimal digits, and a NUL */

/* The state that reset gives. */
int state_begin(const char *task_digest, char ret[STATE_NAME_SIZE]);

/* The one that an action leads to; ret may be `name` itself. 0 or -ENOMEM. */
int state_after(const char *name, const char *tool, const json_t *input, char ret[STATE_NAME_SIZE]);

/* What the files of the arena and of the environments share. */

struct gym_arena {
    const struct task *task;
    struct arena_options options;
    struct snapshot *origin; /* what every reset starts from */
    struct pool *pool;       /* of boxes forked from it */
    struct task_list expected;
    struct tool_cache *cache; /* NULL: off */
    int warming;              /* turn.h: whoever starts the warm runner has it */
    pthread_mutex_t lock;     /* of the next three */
    bool warm_tried;
    struct warm *warm;
    struct error no_warm; /* why there is none */
    atomic_uint_fast64_t resets, steps, test_runs, cache_hits, boxes;
};

/* What runs the tests of the task is there, in a box with its files. */
int arena_check_runner(const struct task *t, struct box *template, int cancel, struct error *err);

/* Fills a->expected from the task, or by running the tests on its solution. */
int arena_find_expected(struct gym_arena *a, int cancel, struct error *err);

/* Runs the task's set-up script, if it has one, in the box that all others are forked from. */
int arena_setup(const struct task *t, struct box *template, int cancel, struct error *err);

/* What the files of the environment share. */

/* An action that may have changed something, to be done again in another box. */
struct env_action {
    char *tool;
    json_t *input;
};

/* A box with its tools, and how many of the episode's actions were done in it. */
struct env_box {
    struct box *box;
    struct tool_session *session;
    size_t done;
};

struct gym_env {
    struct gym_arena *arena;
    uint64_t seed;
    bool begun, over;
    unsigned calls;
    int64_t ns; /* of all steps, as the clock counted them */
    double pass_rate;

    char state[STATE_NAME_SIZE];
    bool live; /* something runs on in the box: the state has no name any more */
    struct env_action *actions;
    size_t n_actions, room_actions;
    bool ran; /* one of them ran code in the box */
    struct env_box at;
    /* of the box after `frozen_at` actions, for runs of the tests; NULL: none */
    struct snapshot *frozen;
    size_t frozen_at;

    bool *patched, *was_read; /* of each patch, each file of `reads` */
    size_t tests;             /* the feature */
    int cancel;               /* see env_cancel_on */
    bool known_only;          /* during env_step_known */
};

/* What came of an action, found out now or known from before. */
struct env_result {
    json_t *observation;
    int64_t ns; /* that it really took */
    bool changed, lingers;
    bool tested; /* it was a run of the tests: */
    size_t passed;
    double pass_rate;
    bool doubtful;     /* the run did not take place: another time it may */
    json_t *verdict;   /* of a grading: {"tests", "discarded", "trouble"} */
    char reason[1024]; /* why the episode cannot go on; or empty */
};
void env_result_free(struct env_result *o);
#define _cleanup_env_result_ _cleanup_(env_result_free)

/* Carries an action out. 0, whatever came of it; or -ENOMEM. */
int env_carry_out(struct gym_env *e, const char *tool, json_t *input, struct env_result *ret);

/* The same, if it is not known yet what will come of it; -EAGAIN if only what is known is asked
 * for. */
int env_find_out(struct gym_env *e, const char *tool, json_t *input, struct env_result *ret);

/* The box, with all actions so far done in it. */
int env_box_ready(struct gym_env *e, struct error *err);

/* A box in the same state with none of the agent's processes, for one run of the tests; to be given
 * back to the arena. The environment's own box may be gone afterwards. */
int env_box_spare(struct gym_env *e, struct box **ret, struct error *err);

void env_box_drop(struct gym_env *e);

/* Takes over the actions of another environment; and adds one. */
int env_actions_copy(struct gym_env *e, const struct gym_env *from);
int env_actions_add(struct gym_env *e, const char *tool, json_t *input);
void env_actions_free(struct gym_env *e);

/* What the discrete view sees of an action. */
void env_features_note(struct gym_env *e, const char *tool, const json_t *input,
                       const struct env_result *o);

const struct tool *env_tool(const char *name);

/* run_tests as the task means it: without any input. */
bool env_is_look(const char *tool, const json_t *input);

/* Filling a step. Both return 0 or -ENOMEM, and leave ret untouched then. */

int env_report_reset(const struct gym_env *e, struct gym_step *ret);

/* After everything was counted. `verdict` is that of the end, or NULL; `reason` why it was
 * truncated, or NULL. */
struct env_report {
    const char *tool;
    json_t *input;
    json_t *observation;
    int64_t ns;
    bool terminated, truncated;
    json_t *verdict;
    const char *reason;
};
int env_report_step(const struct gym_env *e, const struct env_report *r, struct gym_step *ret);

/*
 * Rewards. Pure, and exact: time is counted in whole nanoseconds, so that sums do not depend on the
 * order in which they were made, and every price is multiplied once.
 */

/* What a reward is made of; their sum is the reward. */
struct reward {
    double pass_rate; /* 0 but at the end */
    double calls;     /* not more than 0 */
    double seconds;   /* not more than 0 */
};

/* Of one step that took so long. `pass_rate` is that of the end; NaN: this is not the end. */
struct reward reward_of_step(const struct task *t, int64_t ns, double pass_rate);

/* Of a whole episode: its return. NaN: it has not ended. */
struct reward reward_of_episode(const struct task *t, unsigned calls, int64_t ns, double pass_rate);

double reward_sum(const struct reward *r);

double reward_seconds(int64_t ns);

/* What actions cost on the virtual clock: the same for the same action, whatever the machine is
 * doing. */

/* In nanoseconds. `expected`: how many tests a run of them has. */
int64_t virtual_clock_ns(const char *tool, size_t expected);
