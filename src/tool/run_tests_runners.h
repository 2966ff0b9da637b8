/* The table of test runners; see run_tests_runners.c. */
#pragma once

#include "shell_words.h"
#include "wire.h"

#define RUNNER_STDOUT 1u   /* the report is what it prints */
#define RUNNER_SPLIT  2u   /* on stdout alone */
#define RUNNER_AT_END 4u   /* options go behind all of its arguments */
#define RUNNER_MESON  8u   /* the report lies in its build folder */
#define RUNNER_PROVE  16u  /* wants a variable to be set */
#define RUNNER_SCRIPT 32u  /* runs a script of package.json */
#define RUNNER_MAKE   64u  /* runs anything */
#define RUNNER_LEAVES 128u /* leaves JUnit files in places of its own */

struct runner {
    const char *framework;
    const char *words;   /* by which it is recognised */
    const char *options; /* put behind them, or NULL */
    const char *report;  /* where it is then, or NULL */
    enum wire_report_format format;
    unsigned flags;
    unsigned replace; /* how many of its last words the options take the place of */
};

/* The runner in a simple command, and the word behind those that it is recognised by. */
const struct runner *runner_find(const struct shell_line *l, const struct shell_command *command,
                                 size_t *ret_behind);

/* The first of that framework. */
const struct runner *runner_named(const char *framework);
