/*
 * The target of a write: an open folder and a name in it.
 *
 * A link is followed within the root, step by step, because its target is what gets replaced. The
 * kernel resolves each step beneath the root again, so a link that is swapped at the same time
 * cannot lead out.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "file.h"

struct write_target {
    char path[PATH_MAX]; /* as it was asked for, or as a link said */
    const char *name;    /* within path */
    int dir;
    bool exists;
    struct stat st;
};

#define WRITE_TARGET_INIT ((struct write_target){.dir = -1})

void write_target_close(struct write_target *p);
#define _cleanup_write_target_ _cleanup_(write_target_close)

/* The target of c->path, with all links followed; makes missing folders. */
int write_target_find(struct file_call *c, struct write_target *p);

/* -EACCES with a message if the mode of an existing file forbids writing, even where its folder
 * allows replacing it. */
int write_target_need_writable(const struct write_target *p, const char *path, struct error *err);

/* A new file in a folder, with an unused name. */
#define TEMPORARY_NAME_MAX 64
int write_target_open_temporary(int dir, char name[TEMPORARY_NAME_MAX], int *ret_fd);
