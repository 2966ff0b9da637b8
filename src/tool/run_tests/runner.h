/* Shell command lines, and the table of test runners; see runner.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "buf.h"
#include "wire.h"

#define SHELL_WORDS_MAX    512u
#define SHELL_COMMANDS_MAX 64u

/* What a word holds besides plain text and quotes makes it `odd`: it matches nothing. */
struct shell_word {
    size_t begin, end; /* where in the text */
    char *text;        /* without its quotes */
    bool odd;
};

/* One simple command: words[first] … words[first + count - 1]. */
struct shell_command {
    size_t first, count;
    size_t end; /* where in the text its last word or redirection ends */
    bool piped; /* its output goes into another command */
};

struct shell_line {
    struct shell_word words[SHELL_WORDS_MAX];
    struct shell_command commands[SHELL_COMMANDS_MAX];
    size_t n_words, n_commands;
};

/* 0, -E2BIG if it has more words or commands than that, -EINVAL if a quote is open, -ENOMEM. */
int shell_line_parse(const char *text, struct shell_line **ret);
struct shell_line *shell_line_free(struct shell_line *l);

static inline void cleanup_shell_line(struct shell_line **l)
{
    shell_line_free(*l);
}
#define _cleanup_shell_line_ _cleanup_(cleanup_shell_line)

/* Appends s in single quotes, so that a shell reads it as one word. */
void shell_quote(struct buf *b, const char *s);

#define TESTS_OUTPUT "output" /* the file in the run's folder that gets what a command prints */

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
    unsigned replace;   /* how many of its last words the options replace */
    const char *path;   /* what goes before a path of tests; NULL: it takes none */
    const char *filter; /* before a pattern of names; NULL: it takes none */
};

/* The runner in a simple command, and the word behind those that it is recognised by. */
const struct runner *runner_find(const struct shell_line *l, const struct shell_command *command,
                                 size_t *ret_behind);

/* The first of that framework. */
const struct runner *runner_named(const char *framework);
