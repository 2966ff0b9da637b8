/* The lists of tests, within each other, that a TAP document is; private to tap.c and tap_levels.c.
 */
#pragma once

#include "report.h"
#include "tap.h"

struct level {
    char *name;      /* of the subtest */
    char *announced; /* by a comment at this level: the subtest that comes next */
    bool planned;
    unsigned long plan, ran;
    unsigned long children; /* tests of a subtest that just ended */
    bool child_bad;
};

/* The test that was read last. */
struct pending {
    bool there;
    unsigned depth;
    enum wire_outcome outcome;
    char *name;
    struct clip message;
    int64_t duration_ns;
    char *file;
    uint64_t line;
};

struct tap {
    struct report *report;
    struct level levels[REPORT_NEST_MAX];
    unsigned depth;
    struct pending test;
    size_t yaml; /* the indentation of the block we are in, 0 outside */
    bool bailed;
};

void tap_level_reset(struct level *l);

/* A test at some depth, named with the subtests it is in. */
int tap_tell(struct tap *t, unsigned depth, const struct report_test *test);

/* Tells the test that was read last. */
int tap_flush(struct tap *t);

/* Tells it, and goes to the list at this depth: leaves subtests, whose plans must hold, or enters
 * new ones.
 */
int tap_go_to(struct tap *t, unsigned depth);

/* The document ends, and the next one begins. */
int tap_restart(struct tap *t);
