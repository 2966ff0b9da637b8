/* What the commands of `hutch gym` share: their options, and a task made ready. */
#pragma once

#include <stdint.h>

#include "cli.h"
#include "policy.h"
#include "settings.h"

/* One struct for all of them. */
struct gym_options {
    const char *task;                 /* eval: several, with commas, or `all` */
    const char *tasks, *from, *repos; /* where tasks come from; NULL: those that came with hutch */
    const char *image;                /* harbor: the root filesystem; NULL: none */
    const char *agent;                /* eval: several, with commas; NULL: the command's default */
    const char *model, *trajectory, *checkpoint;
    const char *record, *out;
    uint64_t seed;
    bool has_seed;
    bool has_clock, virtual_clock, no_cache, resume, no_check, json, trust;
    uint64_t max_steps; /* 0: the task's */
    uint64_t episodes, seeds, jobs, envs;
    uint64_t epsilon_decay;                          /* 0: the default */
    double epsilon_start, epsilon_end, alpha, gamma; /* negative: the default */
};

#define GYM_OPTIONS_INIT                                                                           \
    ((struct gym_options){.epsilon_start = -1, .epsilon_end = -1, .alpha = -1, .gamma = -1})

/* Bits of option.where. */
enum { FOR_TASKS = 1, FOR_EPISODE = 2, FOR_TRAIN = 4, FOR_EVAL = 8, FOR_BENCH = 16 };
extern const struct option GYM_OPTIONS[];

/* Reads the command line of a command that plays one task. False: *ret_status says how it ended. */
bool gym_words(const struct command *self, int argc, char **argv, struct gym_options *o,
               int *ret_status);

/* Does the command play a trajectory again, which names its task? */
bool gym_replays(const struct gym_options *o);

/* The tasks of --from, all or one by its name, with --max-steps. */
struct task_set;
int gym_import(const struct gym_options *o, const char *only, int cancel, struct task_set *ret,
               struct error *err);

/* A task by its name, with --max-steps. `name` NULL: the only one of --from. */
int gym_task(const struct gym_options *o, const char *name, int cancel, struct task **ret,
             struct error *err);

/* The task of the options with an arena and an environment, which ends what it does when `cancel`
 * is readable. */
struct gym_setup {
    struct task *task;
    struct gym_arena *arena;
    struct gym_env *env;
};
int gym_setup_open(const struct gym_options *o, int cancel, struct gym_setup *ret,
                   struct error *err);
void gym_setup_close(struct gym_setup *p);
#define _cleanup_gym_setup_ _cleanup_(gym_setup_close)

struct arena_options gym_arena_options(const struct gym_options *o);

/* Options for agents. Reads the settings and says their notes if one of the agents is a model. */
int gym_policy_options(const struct gym_options *o, bool model, struct policy_options *ret,
                       struct settings **ret_settings, struct error *err);

/* The exit status of a failure: 128 + N after a signal, which explains itself; else says it. */
int gym_failed(const struct error *err);
