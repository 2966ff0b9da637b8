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

#include "buf.h"
#include "grade.h"

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
