/*
 * Outcomes of tests, as they are heard of: lines of the runner (runner/), or entries of a report.
 *
 *     TOKEN SEQUENCE KIND<TAB>ID[<TAB>MESSAGE]        kind B begins, P passed, F failed, E error, S
 *                                                     skipped
 *     TOKEN SEQUENCE T<TAB>WHAT                       the interpreter was tampered with
 *     TOKEN SEQUENCE U<TAB>WHY                        something went wrong beside the tests
 *     TOKEN SEQUENCE Z                                all were run
 *
 * In texts \n, \t, \r and \\ are written so. Code under test may write to the same descriptor, and
 * with luck it knows the token. So: a test that ends must have begun, once; each line has the
 * number that follows; whoever breaks that spoils what was said and gains nothing. Every size is
 * bounded. Pure.
 */
#pragma once

#include "grade.h"
#include "text.h"

#define OUTCOMES_TOKEN       33 /* 32 hexadecimal digits and a NUL */
#define OUTCOMES_LINE_MAX    16384u
#define OUTCOMES_ID_MAX      4000u
#define OUTCOMES_MESSAGE_MAX 4000u
#define OUTCOMES_BYTES_MAX   (64u << 20)

struct outcome {
    char *id;
    char *message; /* NULL: none */
    enum grade_outcome outcome;
    bool ended;
    bool twice; /* it was heard of in a way that cannot be */
};

struct outcomes {
    char token[OUTCOMES_TOKEN];
    struct buf line;
    bool overlong; /* the line under way is too long, and is passed over */
    uint64_t next, bytes;
    struct outcome *items; /* in the order in which they were first heard of */
    size_t count, room;
    uint32_t *table; /* of indices + 1, by the ids' hash */
    size_t n_table;  /* a power of two */
    size_t strange;  /* lines that are nobody's */
    bool forged;     /* a line with the token that the runner did not write */
    bool done;       /* Z was heard */
    char *tampered;  /* T */
    char *trouble;   /* U, the first */
};

void outcomes_init(struct outcomes *o, const char *token);
void outcomes_free(struct outcomes *o);
#define _cleanup_outcomes_ _cleanup_(outcomes_free)

/* The next bytes that came. False: too many; the run is to be ended. */
bool outcomes_feed(struct outcomes *o, const void *bytes, size_t n);

/* An outcome that was not told by lines. -ENOMEM, -E2BIG. */
int outcomes_note(struct outcomes *o, const char *id, enum grade_outcome outcome,
                  const char *message);

/* Nothing that passed so far is believed. */
void outcomes_doubt(struct outcomes *o, const char *why);

/* NULL: it was not heard of. */
const struct outcome *outcomes_find(const struct outcomes *o, const char *id);

/* The test that has begun and not ended; NULL: none. */
const struct outcome *outcomes_current(const struct outcomes *o);

/* What the outcome of this one counts as, and why if that is another. */
enum grade_outcome outcomes_judge(const struct outcomes *o, const struct outcome *t,
                                  const char **ret_message);

/* What outcomes.c and outcomes_lines.c share. */

int outcomes_begin(struct outcomes *o, const char *id);
int outcomes_end(struct outcomes *o, const char *id, enum grade_outcome outcome,
                 const char *message);

/* What the files of grading share. */

#define GRADE_OUTPUT_MAX                                                                           \
    (16u << 10) /* bytes of the run's output that are kept, the last of them  \
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
 * without memory. */
char *grade_request(const struct grade_run *r, const char *setup);

/* Where reports and homes of a command's run go: a folder of the box that nobody can guess. And
 * what of the task is staged anew for a run. */
int grade_command_clear(const struct task *t, struct task_list *ret);

/* What is staged for grading: the task's own files and the hidden ones, sorted; items are
 * borrowed. */
int grade_tree(const struct task *t, struct task_tree *ret);

/* The list of changes as it is told: what concerns hidden files is only told where the agent made
 * something. */
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
