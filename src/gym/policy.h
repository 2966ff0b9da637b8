/*
 * Who plays: an agent of the gym. One `const struct policy_kind` per file, one line in the table.
 *
 * Agents for the discrete view (random, greedy, qlearn, search) choose by number; `model` and `replay` give
 * tool calls. A policy belongs to one thread.
 */
#pragma once

#include "env.h"
#include "trajectory.h"

struct policy;

struct policy_options {
    uint64_t seed;
    const char *model;                 /* model: PROVIDER/NAME; NULL: what is configured */
    const char *trajectory;            /* replay: the file */
    const char *checkpoint;            /* qlearn, greedy: the table to start from; NULL: an empty one */
    double epsilon_start, epsilon_end; /* of the schedule, which ends after epsilon_decay of all episodes */
    double epsilon_decay, alpha, gamma;
    uint64_t episodes; /* that will be trained, for schedules */
    int cancel;        /* -1: none */
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
extern const struct policy_kind *const POLICIES[]; /* ended by NULL */
const struct policy_kind *policy_find(const char *name, struct error *err);

/* What an open policy is; kinds embed it. */
struct policy {
    const struct policy_kind *kind;
    /* A new episode begins: the step is reset's. `learning`: explore, and learn from what comes. */
    int (*begin)(struct policy *p, struct gym_env *e, const struct gym_step *first, bool learning,
                 struct error *err);
    /* What to do now. Either *ret_tool NULL and *ret_number, or a tool (borrowed until the next call) and a
     * new reference. */
    int (*choose)(struct policy *p, struct gym_env *e, size_t *ret_number, const char **ret_tool,
                  json_t **ret_input, struct error *err);
    /* What came of it. */
    int (*learn)(struct policy *p, struct gym_env *e, const struct gym_step *s, struct error *err);
    int (*save)(struct policy *p, const char *path, struct error *err); /* NULL: nothing to save */
    void (*free)(struct policy *p);
};
struct policy *policy_free(struct policy *p);

/* One whole episode. each (or NULL) sees every step, reset's among them. */
int policy_play(struct policy *p, struct gym_env *e, uint64_t seed, bool learning,
                void (*each)(void *data, const struct gym_step *s), void *data, struct gym_episode *ret,
                struct error *err);
