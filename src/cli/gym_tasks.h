/* What `hutch gym tasks` knows of a task. */
#pragma once

#include "check.h"
#include "import.h"

struct tasks_entry {
    struct task *task; /* NULL: it could not be loaded, see result.findings */
    char name[TASK_NAME_MAX];
    struct check_result result;
    bool checked;
};

struct tasks_list {
    struct tasks_entry *items;
    size_t count;
};

/* Checks all of them, `jobs` at once (0: as many as processors), with a line of progress on stderr
 * if that is a terminal. -ECANCELED: cancel became readable. */
int tasks_check(struct tasks_list *l, size_t jobs, int cancel, bool quiet, struct error *err);
