/* Comparing agents over tasks and seeds: means with confidence intervals. */
#pragma once

#include "policy.h"

struct eval_stat {
    double mean, low, high; /* 95 %, bootstrap of the mean with a fixed seed */
    size_t n;
};

struct eval_row {
    char task[TASK_NAME_MAX]; /* or "all" */
    const char *agent;
    struct eval_stat ret, pass_rate, solved, calls;
    size_t failed; /* episodes that ended in an error */
};

struct eval_stat eval_stat_of(const double *values, size_t n, uint64_t seed);
