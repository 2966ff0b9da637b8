/*
 * Grading: whether the tests pass, measured where the agent has no influence.
 *
 * The box is a fresh fork of the state that the agent left: none of its processes is there. The
 * task's own files (tests, their configuration) are restored from the pristine copy, together with
 * the hidden ones; what the agent changed there is listed and does not count. Then the tests run,
 * and their outcomes come over a descriptor that the runner holds (outcomes.h); they are compared
 * with the list of expected tests. A test without an outcome, or with two, has failed. Output does
 * not count.
 */
#pragma once

#include "outcomes.h"
#include "task.h"
#include "warm.h"

struct grade_test {
    char *name;
    enum grade_outcome outcome;
    char *message; /* the first lines of the reason; NULL */
};

struct grade {
    struct grade_test *tests; /* one for each expected test, in that order */
    size_t count, passed;
    double pass_rate; /* passed / count, or the reward of a VERDICT_REWARD */
    size_t unexpected;
    char *trouble; /* why outcomes are missing: "the run was stopped: cpu-time"; NULL */
    /* the task's files that the agent changed, added or removed: "M tests/x.py" */
    struct task_list discarded;
    int64_t duration_ns, cpu_ns;
    char *output; /* the end of what the run printed, valid UTF-8 */
};
void grade_free(struct grade *g);
#define _cleanup_grade_ _cleanup_(grade_free)

struct grade_options {
    const struct task *task;
    const struct task_list *expected; /* empty: the outcomes of all tests that the run reports */
    struct warm *warm;                /* pytest; NULL: the run starts its interpreter */
    /* Run the tests as they are in the box (the action run_tests): nothing is restored, nothing
     * hidden is run, and `expected` is ignored. */
    bool as_is;
    int cancel; /* base/thread.h; -1: none */
};

/*
 * Runs the tests in this box, which is of no use afterwards unless `as_is`. When the tests cannot
 * be restored or run, that is the grade's trouble and nothing has passed. Errors: the box has ended
 * (-EPIPE), -ENOMEM, or -ECANCELED, which ends the run at once.
 */
int grade_box(const struct grade_options *o, struct box *b, struct grade *ret, struct error *err);

/* The program of the warm runner (runner/), and the argument of its prepare() for this task; NULL
 * without memory. It has nothing of the hidden files: the warm process also runs in boxes that an
 * agent can reach. */
extern const char GRADE_PROGRAM[];
char *grade_setup(const struct task *t);

/* The environment of an interpreter that runs tests and is not a warm one. */
extern const char *const GRADE_PYTHON_ENV[];

/* Puts files into a box: `tree` as it is, after removing `own` and `clear` (each may be NULL). What
 * differed there is listed in ret_changed, which may be NULL. */
int grade_stage(struct box *b, int cancel, const struct task_tree *tree,
                const struct task_list *own, const struct task_list *clear,
                struct task_list *ret_changed, struct error *err);

/* The rest is shared by the files of this folder only. */

#define GRADE_OUTPUT_MAX (16u << 10) /* bytes kept from the end of the run's output */

struct grade_run {
    const struct grade_options *options;
    const struct task *task;
    struct box *box;
    struct outcomes outcomes;
    double reward; /* of a VERDICT_REWARD; NaN: none */
    struct grade *grade;
};

/* Both run the tests and fill outcomes, times and output. Errors other than -EPIPE, -ECANCELED and
 * -ENOMEM become the grade's trouble. */
int grade_pytest(struct grade_run *r, struct error *err);
int grade_command(struct grade_run *r, struct error *err);

/* Appends the paths in the box that are removed before the tests run. */
int grade_command_clear(const struct task *t, struct task_list *ret);

/* Records how the run ended, unless everything went well. */
struct grade_end {
    int exit_code, signal;
    enum wire_limit limit;
    const char *failure; /* why nothing was started; NULL or empty */
};
void grade_ended(struct grade_run *r, const struct grade_end *e);

/* Sets the trouble, unless there is one: the first is the cause of the others. */
void grade_trouble(struct grade *g, const char *fmt, ...) PRINTF(2, 3);
void grade_output(struct grade *g, const void *bytes, size_t n);

/* Is the path one of these files, or in one of these folders? */
bool grade_is_beneath(const struct task_list *own, const char *path);
