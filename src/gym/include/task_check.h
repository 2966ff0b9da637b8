/*
 * Is a task in order? Found out by playing it, in boxes like any other: the original does not pass,
 * the solution does and every time, no part of it and no other patch does on its own, every patch
 * applies.
 */
#pragma once

#include "task.h"

#define CHECK_SUBSETS_MAX 64

struct check_result {
    struct task_list findings; /* what is wrong, a line each; none: the task is in order */
    struct task_list notes;    /* what is worth knowing */
    size_t expected;           /* tests that count */
    size_t runs;               /* of the tests */
    int64_t duration_ns;
};
void check_result_free(struct check_result *r);

struct check_options {
    int cancel; /* ends the check when it becomes readable; -1: none */
};

/* An error is only what is not the task's fault: no memory, no boxes. -ECANCELED when it was asked
 * to end. */
int task_check(const struct task *t, const struct check_options *o, struct check_result *ret,
               struct error *err);
