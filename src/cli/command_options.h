/* Targets of the option tables in commands.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct fork_options {
    uint64_t count;
    bool json;
};

/* Of `box apply` and `box sync`. */
struct apply_command_options {
    const char *on_conflict;
    bool new_folder;
    bool allow_git_dirs;
};

struct history_ls_options {
    uint64_t count; /* 0: all */
    const char *workspace;
    bool json;
};

struct history_show_options {
    bool json, full;
};

struct history_export_options {
    const char *format, *output;
};

struct history_search_options {
    uint64_t count;
    const char *session;
    bool json;
};

struct trust_options {
    bool list, show, json;
    const char *revoke;
};

/* One struct for all subcommands of `gym`. */
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
