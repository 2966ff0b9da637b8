/*
 * Where a file is to be written: an open folder and a name in it.
 *
 * A link is followed within the root, by hand, since it is its target that is replaced; each step
 * is resolved beneath the root again, so a link that is swapped meanwhile cannot lead out.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "file.h"

struct place {
    char path[PATH_MAX]; /* as it was asked for or as a link said; changed while folders are walked
                          */
    const char *name;    /* within path */
    int dir;
    bool exists;
    struct stat st;
};

#define PLACE_INIT ((struct place){.dir = -1})

void place_close(struct place *p);
#define _cleanup_place_ _cleanup_(place_close)

/* The place of c->path, all links followed; missing folders are made. */
int place_find(struct file_call *c, struct place *p);

/* -EACCES with words if a file is there whose mode forbids writing: that its folder allows to
 * replace it is no leave to. */
int place_need_writable(const struct place *p, const char *path, struct error *err);

/* A new file beside the place, with a name that nobody has. */
#define PLACE_BESIDE_MAX 64
int place_open_beside(const struct place *p, char name[PLACE_BESIDE_MAX], int *ret_fd);
