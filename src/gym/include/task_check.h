/*
 * Checks a task by playing it, in boxes like any other: the original must fail, the solution must
 * pass every time, and no part of it and no other patch may pass on its own.
 */
#pragma once

#include "task.h"

#define CHECK_SUBSETS_MAX 64

struct check_result {
    struct task_list findings; /* what is wrong, a line each; none: the task is good */
    struct task_list notes;    /* what is worth knowing */
    size_t expected;           /* tests that count */
    size_t runs;               /* of the tests */
    int64_t duration_ns;
};
void check_result_free(struct check_result *r);

struct check_options {
    int cancel; /* base/thread.h; -1: none */
};

/* Errors are only those that are not the task's fault: no memory, no boxes, -ECANCELED. */
int task_check(const struct task *t, const struct check_options *o, struct check_result *ret,
               struct error *err);
