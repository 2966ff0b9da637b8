/*
 * One overlay as the diff worker is shown it:
 *
 *     base     the lowest layer, as it is now; other programs of the host may write it
 *     merged   the overlay as the box sees it
 *     l0 l1 …  the layers between them: l0 is the box's own, the others are older
 *     copy     an empty folder to write a new layer to
 *
 * In a layer a whiteout (a character device 0:0, or a regular file marked by an extended attribute)
 * says that the name is gone, and a folder marked opaque hides everything of that path in older
 * layers.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "buf.h"
#include "error.h"

#define OVERLAY_LAYERS_MAX 64

struct overlay {
    const char *name;
    int merged, base, copy; /* folders, or -1 */
    int layers[OVERLAY_LAYERS_MAX];
    size_t n_layers;
};

/* Opens what there is of the overlay `name` ("w" or "r") beneath root; its parts may all be
 * missing.
 */
int overlay_open(int root, const char *name, struct overlay *ret, struct error *err);
void overlay_close(struct overlay *t);
#define OVERLAY_INIT      ((struct overlay){.merged = -1, .base = -1, .copy = -1})
#define _cleanup_overlay_ _cleanup_(overlay_close)

/* Does a folder of a layer hide what older layers have there? */
bool overlay_is_opaque(int dir);

/*
 * A walk over everything that may differ between an overlay's base and its merged view.
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
enum walk_side { WALK_MERGED, WALK_BASE, WALK_COPY, WALK_LAYERS };

struct walk;

struct walk_entry {
    const char *path; /* from the overlay's root; name is its last component */
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

/* Walks an overlay. Sides that are -1 are taken to be empty. */
int walk_run(const struct overlay *o, const struct walk_ops *ops, void *data, struct error *err);

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
