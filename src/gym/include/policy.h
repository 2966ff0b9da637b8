/*
 * Who plays: an agent of the gym. One `const struct policy_kind` per file, one line in the table.
 *
 * Agents for the discrete view (random, greedy, qlearn, search) choose by number; `model` and
 * `replay` give tool calls. A policy belongs to one thread.
 */
#pragma once

#include <stdint.h>

#include "env.h"
#include "task.h"
#include "trajectory.h"

struct policy;
struct settings;

struct policy_options {
    uint64_t seed;
    const char *model;         /* model: PROVIDER/NAME; NULL: what is configured */
    struct settings *settings; /* model: where keys come from; borrowed */
    const char *trajectory;    /* replay: the file */
    const char *checkpoint;    /* qlearn: the table to start from; NULL: an empty one */
    /* qlearn: epsilon falls evenly from start to end in the first epsilon_decay episodes. Negative
     * (0 for epsilon_decay): what the checkpoint says, or the default. */
    double epsilon_start, epsilon_end;
    uint64_t epsilon_decay;
    double alpha, gamma;
};
void policy_options_default(struct policy_options *o);

struct policy_kind {
    const char *name;
    const char *summary;
    bool discrete; /* needs a task with patches */
    bool learns;
    int (*open)(const struct policy_kind *k, const struct task *t, const struct policy_options *o,
                struct policy **ret, struct error *err);
};
/* policies.c */
extern const struct policy_kind *const POLICIES[]; /* ended by NULL */
const struct policy_kind *policy_find(const char *name, struct error *err);

/* What an agent has learnt so far, for curves. */
struct policy_progress {
    uint64_t episodes;
    double epsilon; /* of the next episode */
};

/* What an open policy is; kinds embed it. What a kind has no use for is NULL, but for choose and
 * free. */
struct policy {
    const struct policy_kind *kind;
    /* A new episode begins: the step is reset's. `learning`: explore, and learn from what comes. */
    int (*begin)(struct policy *p, struct gym_env *e, const struct gym_step *first, bool learning,
                 struct error *err);
    /* What to do now. Either *ret_tool NULL and *ret_number, or a tool (borrowed until the next
     * call) and a new reference. */
    int (*choose)(struct policy *p, struct gym_env *e, size_t *ret_number, const char **ret_tool,
                  json_t **ret_input, struct error *err);
    /* What came of it. */
    int (*learn)(struct policy *p, struct gym_env *e, const struct gym_step *s, struct error *err);
    /* The episode was given up: nothing of it is learnt. */
    void (*forget)(struct policy *p);
    int (*save)(struct policy *p, const char *path, struct error *err);
    void (*progress)(const struct policy *p, struct policy_progress *ret);
    /* What there is to say about the episode that was played, in one line (a difference, what was
     * paid); empty: nothing. True if that makes it a failed one. */
    bool (*remark)(const struct policy *p, char *text, size_t size);
    void (*free)(struct policy *p);
};

/* The kind opened for this task; an error if it does not fit the task. */
int policy_open(const struct policy_kind *k, const struct task *t, const struct policy_options *o,
                struct policy **ret, struct error *err);
struct policy *policy_free(struct policy *p); /* takes NULL */

/* One whole episode. each (or NULL) sees every step, reset's among them. -ECANCELED when the
 * environment is told to end (env_cancel_on). */
int policy_play(struct policy *p, struct gym_env *e, uint64_t seed, bool learning,
                void (*each)(void *data, const struct gym_step *s), void *data,
                struct gym_episode *ret, struct error *err);

/* The kinds of agents, for the table. */

extern const struct policy_kind policy_random, policy_greedy, policy_qlearn, policy_search,
    policy_model, policy_replay;

/*
 * Dice: random numbers that are the same on every machine for the same seed (xoshiro256**, seeded
 * by splitmix64; both by Blackman and Vigna). For agents and for sampling, never for secrets.
 */

struct dice {
    uint64_t state[4]; /* not all zero */
};

void dice_seed(struct dice *d, uint64_t seed);
uint64_t dice_next(struct dice *d);
uint64_t dice_below(struct dice *d, uint64_t n); /* 0 … n - 1, each as likely; n > 0 */
double dice_unit(struct dice *d);                /* 0 or more, less than 1 */

/* An action as people call it: "apply fix-sign", "run tests", "read src/a.py", "bash make",
 * "submit". Pure. */

/* One line, valid UTF-8 without control characters, cut to fit. */
void action_label(const struct task *t, const json_t *action, char *text, size_t size);
