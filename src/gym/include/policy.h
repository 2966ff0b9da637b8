/*
 * Agents of the gym: a `const struct policy_kind` each, and a line in the table.
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
/* policy_model.c */
extern const struct policy_kind *const POLICIES[]; /* ended by NULL */
const struct policy_kind *policy_find(const char *name, struct error *err);

/* What an agent has learned so far, for curves. */
struct policy_progress {
    uint64_t episodes;
    double epsilon; /* of the next episode */
};

/* An open policy; kinds embed it. Functions other than choose and free may be NULL. */
struct policy {
    const struct policy_kind *kind;
    /* A new episode begins: the step is reset's. `learning`: explore, and learn from the steps. */
    int (*begin)(struct policy *p, struct gym_env *e, const struct gym_step *first, bool learning,
                 struct error *err);
    /* The next action. Either *ret_tool NULL and *ret_number, or a tool (borrowed until the next
     * call) and a new reference. */
    int (*choose)(struct policy *p, struct gym_env *e, size_t *ret_number, const char **ret_tool,
                  json_t **ret_input, struct error *err);
    /* The step that followed. */
    int (*learn)(struct policy *p, struct gym_env *e, const struct gym_step *s, struct error *err);
    /* The episode was given up: it must not be learned from. */
    void (*forget)(struct policy *p);
    int (*save)(struct policy *p, const char *path, struct error *err);
    void (*progress)(const struct policy *p, struct policy_progress *ret);
    /* A remark about the last episode, in one line (a difference, what it cost); empty: none. True
     * if the episode failed because of it. */
    bool (*remark)(const struct policy *p, char *text, size_t size);
    void (*free)(struct policy *p);
};

/* The kind opened for this task; an error if it does not fit the task. */
int policy_open(const struct policy_kind *k, const struct task *t, const struct policy_options *o,
                struct policy **ret, struct error *err);
struct policy *policy_free(struct policy *p); /* takes NULL */

/* One whole episode. `each` (or NULL) sees every step, including reset's. -ECANCELED: see
 * env_cancel_on. */
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
