/*
 * A task: one training problem. A small repository with tests, and what is known about it: an
 * instruction, candidate patches, limits, prices.
 *
 * A task is plain data in memory, from a folder in the form of docs/tasks.md (task_load) or from an
 * importer (import.h). It does not change once it is made; threads share it.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "box.h"
#include "error.h"

#define TASK_NAME_MAX     64
#define TASK_FILES_MAX    20000
#define TASK_BYTES_MAX    (256u << 20) /* of all files together */
#define TASK_PATCHES_MAX  256
#define TASK_READS_MAX    256
#define TASK_EXPECTED_MAX 100000
#define TASK_LINKS_MAX    8

struct task_file {
    char *path; /* relative to the workspace, clean */
    mode_t mode;
    char *bytes; /* of a link: its target */
    size_t size;
};

struct task_tree {
    struct task_file *items; /* sorted by path, each once */
    size_t count;
};

struct task_patch {
    char *name;
    char *diff;
};

struct task_list {
    char **items;
    size_t count;
};

/* A symlink in the boxes of the task: imported tasks use /app, which is our workspace. */
struct task_link {
    char *at; /* "/app" */
    char *to; /* "/workspace" */
};

enum task_runner {
    TASK_PYTEST,  /* warm, see runner/ */
    TASK_COMMAND, /* a command line that leaves a report, or whose exit status counts */
};

enum task_verdict {
    VERDICT_REPORT, /* outcomes of single tests, in `report` */
    VERDICT_EXIT,   /* exit status 0 is one passed test called `command` */
    VERDICT_REWARD, /* a number in the file `report` is the pass rate itself */
};

/* How the tests that count are run. */
struct task_tests {
    enum task_runner runner;
    struct task_list paths;  /* pytest: what is collected, relative to the workspace */
    struct task_list import; /* pytest: folders from which the code under test is imported */
    /* pytest: names that are taken from there even if a package of the name is installed */
    struct task_list packages;
    char *command; /* the command line; also shown to the agent */
    enum task_verdict verdict;
    enum wire_report_format format;
    char *report; /* path in the box; %R in the command stands for one of our choice when NULL */
    /* files and folders that belong to the task: staged pristine for grading, and what an agent
     * changed there is discarded */
    struct task_list own;
    struct task_list clear; /* absolute paths in the box that are removed before grading */
    struct task_list
        expected; /* names of the tests that count; none: those that the solution passes */
};

struct task {
    char name[TASK_NAME_MAX];
    char *title, *instruction, *language;
    char *origin; /* the folder or file it came from, for messages */
    char *root;   /* a host folder that the workspace starts from; NULL: an empty one */
    char *image;  /* root filesystem; NULL: the host's selection */
    struct task_link links[TASK_LINKS_MAX]; /* links at the top of the box */
    size_t n_links;
    struct task_list env;    /* KEY=VALUE, what commands in its boxes have beside the usual */
    struct task_tree files;  /* put over the root at reset */
    char *setup;             /* a script that is run once, when those are there; NULL */
    struct task_tree hidden; /* there for grading only */
    struct task_tests tests;
    struct task_patch *patches;
    size_t n_patches;
    struct task_list
        solution;          /* names of patches, in order; none: it is not known as patches, or: */
    char *solution_script; /* a script that solves it (Harbor); NULL */
    struct task_tree solution_files; /* what that script needs: put into the box before it runs */
    struct task_list reads;          /* files that discrete actions read */
    struct box_limits limits;
    int64_t test_timeout_ns, test_cpu_ns; /* of one run of the tests */
    unsigned max_steps;
    double call_price, second_price;
    uint64_t seed;
    char digest[65]; /* hex SHA-256 of all the above that an episode can depend on */
};

/* Loads a folder in the form of docs/tasks.md. */
int task_load(const char *folder, struct task **ret, struct error *err);
struct task *task_free(struct task *t);
void task_drop(struct task **t);
#define _cleanup_task_ _cleanup_(task_drop)

/* A name, or a path that has a slash: looked for in `tasks` (NULL: $HUTCH_TASKS, or those that came
 * with hutch). */
int task_find(const char *tasks, const char *name, struct task **ret, struct error *err);

/* The names of all tasks in a folder (NULL as above), sorted. */
int task_names(const char *tasks, struct task_list *ret, struct error *err);
void task_list_free(struct task_list *l);

/* For loaders: fills what was not given (limits, prices, digest) and checks that the parts fit
 * together. */
int task_finish(struct task *t, struct error *err);
int task_tree_add(struct task_tree *tree, const char *path, mode_t mode, const void *bytes,
                  size_t n);
int task_tree_read(struct task_tree *tree, const char *folder, const char *prefix,
                   struct error *err);
int task_list_add(struct task_list *l, const char *text);
const struct task_patch *task_patch_find(const struct task *t, const char *name);

/* Do the tests exist only during grading, so that an agent cannot run them? */
bool task_tests_hidden(const struct task *t);

/*
 * The discrete view, for small learners: apply patch 0 … P-1, run the tests, read file 0 … R-1,
 * submit. There is one when the task has patches.
 */
size_t task_actions(const struct task *t);

/* What the action with that number is: ret_tool is borrowed ("apply_diff", "run_tests", "read_file"
 * or "submit"), ret_input a new reference. And what people call it: "apply fix-sign". */
size_t task_features(
    const struct task *t); /* numbers of the discrete observation, see env_features */
int task_action(const struct task *t, size_t number, const char **ret_tool, json_t **ret_input);
void task_action_name(const struct task *t, size_t number, char *text, size_t size);

/* For programs, as new objects (NULL without memory): {"name", "title", "language", "instruction",
 * "max_steps", "call_price", "second_price", "seed", "digest", "patches"}. And the same with how the
 * task is played: "actions" (their names) and "calls" (the same as calls of tools) of the discrete
 * view, "features" (the sizes of their ranges, see env_features), "tools", "expected". `expected`:
 * how many tests count. */
json_t *task_describe(const struct task *t);
json_t *task_interface(const struct task *t, size_t expected);
