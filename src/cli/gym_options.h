/* Target of the option table of `hutch gym`: one struct for all of its subcommands. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

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

/* What is not a zero while nothing is given. */
#define GYM_OPTIONS_INIT                                                                           \
    ((struct gym_options){.epsilon_start = -1, .epsilon_end = -1, .alpha = -1, .gamma = -1})
