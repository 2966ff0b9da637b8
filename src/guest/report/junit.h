/* What junit.c has read of a <testcase>, and what junit_test.c makes of it. */
#pragma once

#include <expat.h>

#include "report.h"

enum capture { NOTHING, BODY, OUTPUT };

struct junit {
    XML_Parser xml;
    struct report *report;
    struct error *err;
    int failure; /* negative errno that stopped the parser */
    unsigned depth;
    char *suites[REPORT_NEST_MAX]; /* names of the suites we are in */
    unsigned n_suites;
    bool pytest;
    bool in_case;
    unsigned case_depth, capture_depth; /* where the elements began */
    enum capture capture;
    char *name, *class, *file, *status, *result, *summary;
    uint64_t line;
    int64_t duration_ns;
    enum wire_outcome outcome; /* 0 until an element says one */
    bool todo;
    bool flaky;
    struct clip body, output;
};

/* How the test went, what it is called, and what there is to say about it. */
enum wire_outcome junit_outcome(const struct junit *j);
void junit_name(const struct junit *j, struct clip *name);
void junit_message(struct junit *j, enum wire_outcome outcome, struct clip *message);
