/*
 * Honest grading: whether the tests pass, found out where the agent has no say.
 *
 * The box is a fresh fork of the state that the agent left: none of its processes is there. The
 * task's own files (tests, their configuration) are put back from the pristine copy, together with
 * the hidden ones; what the agent had changed there is told and does not count. Then the tests run,
 * and their outcomes come over a descriptor that the runner holds; they are compared with the list
 * of expected tests. A test that is not heard of has failed; so has one that is heard of twice;
 * what anything prints is nothing.
 */
#pragma once

#include "task.h"

struct gym_arena;

enum grade_outcome { GRADE_MISSING, GRADE_PASSED, GRADE_FAILED, GRADE_ERROR, GRADE_SKIPPED };

struct grade_test {
    char *name;
    enum grade_outcome outcome;
    char *message; /* the first lines of why; NULL */
};

struct grade {
    struct grade_test *tests; /* one for each expected test, in that order */
    size_t count, passed;
    double pass_rate; /* passed / count, or the reward of a VERDICT_REWARD */
    size_t unexpected;
    char *trouble; /* why there are no outcomes, or fewer: "the run was stopped: cpu-time"; NULL */
    struct task_list
        discarded; /* the task's files that the agent changed, added or removed: "M tests/x.py" */
    int64_t duration_ns, cpu_ns;
    char *output; /* the end of what the run printed, valid UTF-8 */
};
void grade_free(struct grade *g);
#define _cleanup_grade_ _cleanup_(grade_free)

/* Grades in this box, which is a fork made for it and of no use afterwards. Without expected tests
 * (the arena is about to find them out) all that the run names are told. What keeps the tests from
 * being staged or run is no error but the grade's trouble: nothing has passed. An error is a box
 * that has ended (-EPIPE), no memory, or that nobody wants to know any more (-ECANCELED;
 * base/thread.h): what runs is then ended at once. */
int grade_box(struct gym_arena *a, struct box *b, int cancel, struct grade *ret, struct error *err);

/* The tests as they are in this box now, for the action run_tests: nothing is staged, nothing
 * hidden is run, and the outcomes are all that the run names, expected or not. */
int grade_look(struct gym_arena *a, struct box *b, int cancel, struct grade *ret,
               struct error *err);

/* The program of the warm runner (runner/), and what its prepare() is given for this task; NULL
 * without memory. Nothing of the hidden files is in it: the warm process also runs in boxes that an
 * agent can reach. */
extern const char GRADE_PROGRAM[];

/* What an interpreter that runs tests is started with, wherever it is not a warm one. */
extern const char *const GRADE_PYTHON_ENV[];
char *grade_setup(const struct task *t);

/* Puts files into a box: `tree` as it is, after removing `own` and `clear` (each may be NULL). What
 * differed there is told in ret_changed, which may be NULL. */
int grade_stage(struct box *b, int cancel, const struct task_tree *tree,
                const struct task_list *own, const struct task_list *clear,
                struct task_list *ret_changed, struct error *err);
