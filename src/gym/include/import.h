/* Tasks in foreign formats, imported at run time: `--from KIND:WHERE`. */
#pragma once

#include "task.h"

struct task_set {
    struct task **items;
    size_t count;
    size_t skipped; /* rows or folders that are not usable; `say` got the reasons */
};

struct import_options {
    /* quixbugs:DIR, swebench:FILE (JSON or JSON lines; repositories in `repos`), harbor:DIR (one
     * task, or a folder of tasks), or tasks:DIR (ours) */
    const char *from;
    /* swebench: a folder with a checkout per repository, `owner__name` or `name` */
    const char *repos;
    /* harbor: a root filesystem for all tasks, or a folder with one per task; NULL: none */
    const char *image;
    const char *only; /* one task's name; NULL: all */
    void (*say)(void *data, const char *text);
    void *data;
    int cancel; /* base/thread.h; -1: none */
};

int task_import(const struct import_options *o, struct task_set *ret, struct error *err);
void task_set_free(struct task_set *s);
