/*
 * Which files of the tree a diff means.
 *
 * Diffs write a/src/x.c, src/x.c, /workspace/src/x.c or old-1.0/src/x.c for the same file. Unless
 * it is said how many components to strip, both names of the diff and what is in the tree tell. A
 * path that comes out is relative, has no "." and "..", and goes through no .git.
 */
#pragma once

#include "diff.h"
#include "world.h"

struct paths {
    char *old, *new; /* both are set, the same unless the file is renamed or copied */
};

struct paths_options {
    int strip;        /* -1: find out */
    const char *root; /* of absolute paths that are meant, "/workspace" */
};

/* A name for a file whose path cannot be found. */
const char *paths_shown(const struct diff_file *f);

/* -EINVAL, -EPERM with words that say what is wrong with the path. */
int paths_find(const struct diff_file *f, const struct paths_options *o, struct world *w,
               struct paths *ret, struct error *err);
void paths_free(struct paths *p);
