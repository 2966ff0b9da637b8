/*
 * run_tests, in steps:
 *
 *     detect    without a command: which kinds of tests does the project have, and by what
 *               command do they run
 *     plan      the command is made to write a report: options behind the runner that is found in
 *               it, or variables of the environment that reach a runner somewhere beneath
 *     run       in a shell of the box, with a fresh folder for the reports
 *     collect   the guest parses the reports (WIRE_REPORT)
 *     show      counts and failures, as data and as text
 *
 * What a runner prints is not believed: a run without a report is an error, whatever its output
 * says.
 */
#pragma once

#include "ask.h"
#include "box.h"
#include "tool.h"

#define TESTS_REPORTS_MAX 12
#define TESTS_CHOICES_MAX 12
#define TESTS_OUTPUT      "output" /* file in the run's folder: the output */

enum tests_need {
    TESTS_REQUIRED, /* a runner in the command was told to write it */
    TESTS_OPTIONAL, /* a runner beneath the command may write it */
    TESTS_SEARCHED, /* looked for only when nothing else was found */
};

/* Where a report may be. */
struct tests_report {
    char *path; /* in the box: absolute, or relative to the working folder; may be a pattern */
    enum wire_report_format format;
    enum tests_need need;
};

struct tests_plan {
    const char *framework; /* a name of the table in runner.c, or "command" */
    char *command;         /* as it was given or chosen */
    char *edited;          /* as it is run */
    char dir[64];          /* the run's own folder in the box */
    char id[32];           /* a name that no other run has */
    struct buf env;        /* lines of shell that set variables */
    struct buf after;      /* lines of shell that remove what was left elsewhere */
    struct tests_report reports[TESTS_REPORTS_MAX];
    size_t n_reports;
    bool keep_output;       /* stdout goes to a file, since the report is in it */
    bool split;             /* and stderr does not */
    bool piped;             /* the runner's output goes into another command */
    bool named;             /* the caller has named the report */
    bool by_exit;           /* without a report, the exit status is the result of one test */
    char *target;           /* of that name */
    bool unittest, nextest; /* a file of ours must lie in the folder */
    char also[128];         /* other runners in the command */
};

void tests_plan_free(struct tests_plan *p);

/* `here` is the project's folder; `framework` is what the caller forces, and `report` where the
 * report is, or NULL. */
int tests_plan_make(struct tool_call *c, struct tests_plan *p, const char *here,
                    const char *command, const char *framework, const char *report,
                    struct error *err);

/* A way to run the project's tests. */
struct tests_choice {
    const char *framework;
    char *command;
    char why[96];
};

struct tests_choices {
    struct tests_choice items[TESTS_CHOICES_MAX];
    size_t count;
};

/* All ways, the best first. `only`: none but that framework. */
int tests_detect(struct tool_call *c, const char *here, const char *only, struct tests_choices *ret,
                 struct error *err);
void tests_choices_free(struct tests_choices *c);

/* The command with path and filter put in as its runner wants them. */
int tests_select(struct tests_choice *choice, const char *path, const char *filter,
                 struct error *err);

/* One script, in the session's shell; in its folder unless cwd, an absolute path, is given. Both
 * streams are captured in ret->out. */
int tests_shell(struct tool_call *c, const char *cwd, const char *script, int64_t timeout_ns,
                struct box_result *ret, struct error *err);

/* Files of the project: beneath `here`, an absolute path in the box, unless their own is. What is
 * read has a NUL behind it. */
int tests_read_file(struct tool_call *c, const char *here, const char *path, struct buf *b,
                    struct error *err);
bool tests_exists(struct tool_call *c, const char *here, const char *path);

/* What was reported. */
struct tests_found {
    json_t *bad, *rest; /* arrays of {name, outcome, message, file, line} */
    uint64_t passed, failed, errors, skipped, left_out;
    int64_t duration_ns;
    enum wire_report_format format;
    uint64_t files, stale;
};

void tests_found_free(struct tests_found *f);

/* Adds what the report says; `cwd` is where the command ran. Reports that were there before
 * `newer_ns` are passed over. A report that is not there adds nothing; one that is broken becomes a
 * test that is an error. */
int tests_collect(struct tool_call *c, const char *cwd, const struct tests_report *report,
                  int64_t newer_ns, struct tests_found *f, struct error *err);

/* Adds one test of our own making. */
int tests_add(struct tests_found *f, const char *name, enum wire_outcome outcome,
              const char *message);

/* How the run went, for tests_show. */
struct tests_run {
    char here[4096]; /* the project's folder in the box */
    struct tests_plan plan;
    struct tests_choices choices; /* what was recognised; the first of them ran */
    struct box_result result;
    struct buf output; /* the tail */
    bool output_cut;
    struct tests_found found;
    unsigned missing;    /* reports that a runner was told to write, and did not */
    const char *failure; /* why this is no result; NULL if it is one */
};

int tests_show(struct tool_call *c, struct tests_run *run, struct error *err);

/* The program that runs Python's unittest and writes a report. */
extern const char TESTS_UNITTEST[];

/* --- shell command lines, and the table of test runners (runner.c) --- */

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
