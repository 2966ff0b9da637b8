/*
 * The answer to WIRE_COPY: the box's changes as a new layer, in the tree's `copy` folder.
 *
 * Plain, it is l0 as it is, with whiteouts, overlay's marks, links among files and holes kept.
 * Flattened, it is all layers in one: what the merged view shows at each candidate, a whiteout
 * where it shows nothing but the base has something, and an opaque mark on each folder that hides
 * what the base has there.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "tree.h"

struct share;

struct copy_options {
    bool flatten;
    uint64_t
        *room; /* bytes that may still be written; NULL: the filesystem has a limit of its own */
    struct share *share; /* files of the last snapshot (share.h); NULL: everything is copied */
};

/* Trees without a folder to copy to are skipped. On failure what was written is removed again. */
int copy_tree(const struct tree *t, const struct copy_options *o, struct error *err);
