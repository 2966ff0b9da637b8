/*
 * A walk over everything that may differ between a tree's base and its merged view.
 *
 * Candidates are the names in any layer, and below a folder that hides what the base has (it is
 * opaque, or took the place of something else, or is gone) the base's names as well. What a
 * candidate really is, is always asked of the merged view and of the base, so that a name too many
 * costs time, never truth.
 *
 * All sides are walked together. Each has one cursor: a descriptor of the deepest folder on the
 * present path that exists on that side. Going down opens a child in its place, going up opens
 * "..", so that the number of descriptors is the number of sides however deep the tree, and the
 * path may be longer than the kernel takes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "buf.h"
#include "error.h"
#include "tree.h"

enum walk_side { WALK_MERGED, WALK_BASE, WALK_COPY, WALK_LAYERS };

struct walk;

struct walk_entry {
    const char *path; /* from the tree's root; name is its last component */
    size_t path_len;
    const char *name;
    bool in_merged, in_base;
    struct stat merged, base; /* where it is */
};

struct walk_ops {
    /* One candidate: above it all folders were entered. 1 to enter it (it is a folder on some
     * side), 0, or an error. */
    int (*visit)(struct walk *w, const struct walk_entry *e, void *data);
    /* A folder that was entered, the root too, after all that is in it; the cursors still stand in
     * it. */
    int (*leave)(struct walk *w, void *data);
};

/* Walks a tree. Sides that are -1 are taken to be empty. */
int walk_run(const struct tree *t, const struct walk_ops *ops, void *data, struct error *err);

/* The folder that the walk stands in, on one side; -1 if it does not exist there. */
int walk_dir(const struct walk *w, enum walk_side side);

/* Of the folder that the walk stands in: its path ("" is the root); what was found in it so far;
 * does it hide what older layers had there; does it, or one above it. */
const char *walk_path(const struct walk *w);
size_t walk_path_len(const struct walk *w);
size_t walk_found_merged(const struct walk *w);
size_t walk_found_base(const struct walk *w);
bool walk_is_replaced(const struct walk *w);
bool walk_is_hidden(const struct walk *w);

struct error *walk_error(struct walk *w);
