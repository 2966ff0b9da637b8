/* What the files of the importer for rows of SWE-bench share. */
#pragma once

#include <linux/limits.h>

#include "import_private.h"

/* One row, its strings borrowed from the JSON. */
struct row {
    const char *id, *repo, *commit, *problem, *patch, *test_patch;
    const json_t *json;
};

struct rows {
    struct import *im;
    char cache[PATH_MAX]; /* where commits are extracted */
};

/* The base as a folder: root. */
int swebench_root(const struct rows *rows, const struct row *row, struct task *t, struct error *err);

/* The tests as the test patch makes them: hidden. Needs root and own. */
int swebench_hidden(const struct rows *rows, const struct row *row, struct task *t, struct error *err);

/* What else the tests need as the base has it, but for what the solution changes: files, own. */
int swebench_supports(struct task *t, const char *solution, struct error *err);
