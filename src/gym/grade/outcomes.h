/*
 * Outcomes of tests, from the lines of the runner (runner/) or the entries of a report.
 *
 *     TOKEN SEQUENCE KIND<TAB>ID[<TAB>MESSAGE]   kind: B begins, P passed, F failed, E error,
 *                                                S skipped
 *     TOKEN SEQUENCE T<TAB>WHAT                  the interpreter was tampered with
 *     TOKEN SEQUENCE U<TAB>WHY                   something went wrong beside the tests
 *     TOKEN SEQUENCE Z                           all tests were run
 *
 * In texts \n, \t, \r and \\ are escapes. Code under test may write to the same descriptor and may
 * even learn the token. So a test that ends must have begun, once, and sequence numbers have no
 * gaps: a forged line spoils the whole report and gains nothing. Every size is bounded. Pure.
 */
#pragma once

#include "text.h"

#define OUTCOMES_TOKEN       33 /* 32 hexadecimal digits and a NUL */
#define OUTCOMES_LINE_MAX    16384u
#define OUTCOMES_ID_MAX      4000u
#define OUTCOMES_MESSAGE_MAX 4000u
#define OUTCOMES_BYTES_MAX   (64u << 20)
#define OUTCOMES_MAX         200000u

enum grade_outcome { GRADE_MISSING, GRADE_PASSED, GRADE_FAILED, GRADE_ERROR, GRADE_SKIPPED };

struct outcome {
    char *id;
    char *message; /* NULL: none */
    enum grade_outcome outcome;
    bool ended;
    bool twice; /* it was reported twice, or ended before it began */
};

struct outcomes {
    char token[OUTCOMES_TOKEN];
    struct buf line;
    bool overlong; /* the current line is too long and is skipped */
    uint64_t next, bytes;
    struct outcome *items; /* in the order of their first report */
    size_t count, room;
    uint32_t *table; /* hash table of indices + 1, by id */
    size_t n_table;  /* a power of two */
    size_t strange;  /* lines without the token */
    bool forged;     /* a line with the token that the runner did not write */
    bool done;       /* Z was received */
    char *tampered;  /* the first T */
    char *trouble;   /* the first U */
};

void outcomes_init(struct outcomes *o, const char *token);
void outcomes_free(struct outcomes *o);
#define _cleanup_outcomes_ _cleanup_(outcomes_free)

/* The next bytes from the runner's descriptor. False: too many; the caller stops the run. */
bool outcomes_feed(struct outcomes *o, const void *bytes, size_t n);

/* Records an outcome from a report. -ENOMEM, -E2BIG. */
int outcomes_note(struct outcomes *o, const char *id, enum grade_outcome outcome,
                  const char *message);

/* Turns every test that passed so far into an error with this message. */
void outcomes_doubt(struct outcomes *o, const char *why);

/* NULL: it was not reported. */
const struct outcome *outcomes_find(const struct outcomes *o, const char *id);

/* The test that has begun and not ended; NULL: none. */
const struct outcome *outcomes_current(const struct outcomes *o);

/* What a test counts as after all checks, with the reason if that is not what was reported. */
enum grade_outcome outcomes_judge(const struct outcomes *o, const struct outcome *t,
                                  const char **ret_message);
