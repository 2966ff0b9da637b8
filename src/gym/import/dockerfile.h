/*
 * What a Dockerfile puts into its working folder, as far as that is known without building it: COPY
 * and ADD of local files, WORKDIR, ENV. Nothing is executed; a RUN that needs neither the network
 * nor a root user becomes a line of a script that runs in a box later. A line that would change
 * more is a trouble, reported with its number; a line that only installs packages is a note, since
 * the host or an image may have them.
 *
 * The workspace stands for the folder at the top of the root filesystem that the working folder is
 * in. Other such folders are folders of the workspace, with links at the top that lead there.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "task.h"
#include "text.h"

#define DOCKER_TOPS      ".harbor-top"
#define DOCKER_TOPS_MAX  4 /* links that are left beside those that every task has */
#define DOCKER_ENV_MAX   64
#define DOCKER_SETUP_MAX (96u << 10)

struct dockerfile {
    char workdir[4096];        /* absolute; /app if none is named */
    struct task_tree files;    /* of the workspace */
    struct task_list tops;     /* names of other folders at the top, which are DOCKER_TOPS/NAME */
    struct task_list env;      /* KEY=VALUE */
    struct buf setup;          /* calls of the function `run` (foreign/setup.sh) */
    struct task_list notes;    /* what was left out and may not matter */
    struct task_list troubles; /* what was left out and matters */
    uint64_t bytes;            /* copied so far */
};

/* `context` is the folder with the Dockerfile, in memory; `workdir`, unless empty, replaces the
 * last WORKDIR. Errors are only a lack of memory, or too much of something. */
int dockerfile_read(const char *text, size_t n, const struct task_tree *context,
                    const char *workdir, struct dockerfile *ret, struct error *err);
void dockerfile_free(struct dockerfile *d);

/* The name at the top of an absolute path ("app"), and whether a box can have a link there. */
void docker_top(const char *path, char *ret, size_t size);
bool docker_top_is_free(const char *name);
