/* What the files of grading share. */
#pragma once

#include "grade.h"
#include "outcomes.h"

#define GRADE_OUTPUT_MAX (16u << 10) /* bytes of the run's output that are kept, the last of them  \
                                      */

struct grade_run {
    struct gym_arena *arena;
    const struct task *task;
    struct box *box;
    int cancel;
    bool look; /* the tests as they are; else those that were staged */
    struct outcomes outcomes;
    double reward; /* of a VERDICT_REWARD; NaN: none */
    struct grade *grade;
};

/* How a run ended, whichever way it was run. */
struct grade_end {
    int exit_code, signal;
    enum wire_limit limit;
    const char *failure; /* why nothing was started; NULL or empty */
};

/* Both run the tests, and fill outcomes, times and output. -EPIPE: the box has ended; -ECANCELED;
 * other errors are troubles. */
int grade_pytest(struct grade_run *r, struct error *err);
int grade_command(struct grade_run *r, struct error *err);

/* What a run of the runner is asked for, with `setup` for one that starts from nothing; NULL
 * without memory.
 */
char *grade_request(const struct grade_run *r, const char *setup);

/* Where reports and homes of a command's run go: a folder of the box that nobody can guess. And
 * what of the task is staged anew for a run. */
int grade_command_clear(const struct task *t, struct task_list *ret);

/* What is staged for grading: the task's own files and the hidden ones, sorted; items are borrowed.
 */
int grade_tree(const struct task *t, struct task_tree *ret);

/* The list of changes as it is told: what concerns hidden files is only told where the agent made
 * something.
 */
int grade_discarded(const struct task *t, const struct task_list *changed, struct task_list *ret);

bool grade_is_beneath(const struct task_list *own, const char *path);

/* Fills tests, counts and the pass rate from what was heard. */
int grade_count(struct grade_run *r, const struct task_list *expected);

/* Notes how it ended, unless everything went as it should. */
void grade_ended(struct grade_run *r, const struct grade_end *e);
void grade_trouble(struct grade *g, const char *fmt, ...) PRINTF(2, 3);

/* The end of what was printed. */
void grade_output(struct grade *g, const void *bytes, size_t n);

/* Addresses in a message differ from run to run: 0x7f… becomes 0x…; in place. */
void grade_settle(char *text);
