/* What the files of the importer for rows of SWE-bench share. */
#pragma once

#include <jansson.h>
#include <linux/limits.h>

#include "importer.h"

/* One row, its strings borrowed from the JSON. */
struct row {
    const char *id, *repo, *problem, *patch;
    /* NULL: the one that the repository's name ends with, or what is checked out */
    const char *commit;
    /* NULL: the tests are the base's, and `patch` makes the bug (SWE-smith) */
    const char *test_patch;
    const json_t *json;
    struct task_list must, keep; /* FAIL_TO_PASS and PASS_TO_PASS as they are */
};

struct rows {
    struct import *im;
    const char *file;
    char cache[PATH_MAX]; /* where commits are extracted */
};

/* Both lists of tests, and whether their names are pytest's. */
int swebench_lists(struct row *row, struct error *err);

/* The tests that count, and the files they are in. Needs hidden. */
int swebench_tests(const struct rows *rows, const struct row *row, struct task *t,
                   struct error *err);

/* The base as a folder: root. */
int swebench_root(const struct rows *rows, const struct row *row, struct task *t,
                  struct error *err);

/* The tests as the test patch makes them: hidden. Needs root and own. */
int swebench_hidden(const struct rows *rows, const char *test_patch, struct task *t,
                    struct error *err);

/* What else the tests need as the base has it, but for what the solution changes: files, own. */
int swebench_supports(struct task *t, const char *solution, struct error *err);

/* From where the code is imported, and the names that it has there. Needs root. */
int swebench_code(struct task *t, struct error *err);

/* A folder of its own for files of a row, which git can work on without any repository: made,
 * filled with the base's files of that list, and removed. */
int swebench_scratch(const struct rows *rows, const struct task *t, const struct task_list *paths,
                     char scratch[PATH_MAX], struct error *err);
int swebench_apply(const char *scratch, const char *patch, bool reverse, const char *doing,
                   struct error *err);
