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
    const char *cwd;       /* borrowed */
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

/* Fills everything of the plan but cwd, which is set before. `framework` is what the caller forces,
 * and `report` where the report is, or NULL. */
int tests_plan_make(struct tool_call *c, struct tests_plan *p, const char *command,
                    const char *framework, const char *report, struct error *err);

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
int tests_detect(struct tool_call *c, const char *cwd, const char *only, struct tests_choices *ret,
                 struct error *err);
void tests_choices_free(struct tests_choices *c);

/* The command with path and filter put in as its runner wants them. */
int tests_select(struct tests_choice *choice, const char *path, const char *filter,
                 struct error *err);

/* One script, in the session's shell; in its folder unless cwd is given. Both streams are captured
 * in ret->out. */
int tests_shell(struct tool_call *c, const char *cwd, const char *script, int64_t timeout_ns,
                struct box_result *ret, struct error *err);

/* A small file of the box; what is relative lies in cwd, and that in the workspace. */
int tests_read_file(struct tool_call *c, const char *cwd, const char *path, struct buf *b,
                    struct error *err);
bool tests_exists(struct tool_call *c, const char *cwd, const char *path);
int tests_list(struct tool_call *c, const char *cwd, const char *path,
               void (*each)(void *data, const char *name), void *data, struct error *err);

/* The last n bytes of a file, whose path is absolute; 1 if it has more. */
int tests_read_tail(struct tool_call *c, const char *path, size_t n, struct buf *b,
                    struct error *err);

/* What was reported. */
struct tests_found {
    json_t *bad, *rest; /* arrays of {name, outcome, message, file, line} */
    uint64_t passed, failed, errors, skipped, left_out;
    int64_t duration_ns;
    enum wire_report_format format;
    uint64_t files, stale;
};

void tests_found_free(struct tests_found *f);

/* Adds what the report says. Reports that were there before `newer_ns` are passed over. A report
 * that is not there adds nothing; one that is broken becomes a test that is an error. */
int tests_collect(struct tool_call *c, const struct tests_plan *p,
                  const struct tests_report *report, int64_t newer_ns, struct tests_found *f,
                  struct error *err);

/* Adds one test of our own making. */
int tests_add(struct tests_found *f, const char *name, enum wire_outcome outcome,
              const char *message);

/* How the run went, for tests_show. */
struct tests_run {
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
