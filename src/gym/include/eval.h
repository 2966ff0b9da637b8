/* Comparing agents over tasks and seeds: means with confidence intervals. */
#pragma once

#include "policy.h"

#define EVAL_SEEDS_MAX 10000u

struct eval_stat {
    double mean, low,
        high; /* 95 %, bootstrap of the mean with a fixed seed; NaN if there is no value */
    size_t n;
};

struct eval_row {
    char task[TASK_NAME_MAX]; /* or "all" */
    const char *agent;
    struct eval_stat ret, pass_rate, solved, calls;
    size_t failed;   /* episodes that could not be played to their end */
    uint64_t played; /* episodes of training before, of all seeds together */
    char why[160];   /* why some failed, or why there are none; or empty */
};

struct eval_options {
    struct task *const *tasks;
    size_t n_tasks;
    const struct policy_kind *const *agents;
    size_t n_agents;
    uint64_t seeds;               /* 1 … seeds; at most EVAL_SEEDS_MAX */
    uint64_t episodes;            /* of training, for each seed, of an agent that learns */
    struct policy_options policy; /* for all agents */
    struct arena_options arena;
    size_t jobs; /* tasks at once; 0: as many as processors */
    int cancel;  /* base/thread.h; -1: none */
    /* A row is done; one at a time, in any order. */
    void (*done)(void *data, const struct eval_row *row);
    void *data;
};

/* How many rows there are: one for each task and agent, and if there are several tasks one for each
 * agent over all of them. */
size_t eval_rows(const struct eval_options *o);

/* Fills the rows, task by task. */
int eval(const struct eval_options *o, struct eval_row *ret, struct error *err);

struct eval_stat eval_stat_of(const double *values, size_t n, uint64_t seed);
