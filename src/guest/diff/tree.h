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

#include "error.h"

#define TREE_LAYERS_MAX 64

struct tree {
    const char *name;
    int merged, base, copy; /* folders, or -1 */
    int layers[TREE_LAYERS_MAX];
    size_t n_layers;
};

/* Opens what there is of the tree `name` ("w" or "r") beneath root; its parts may all be missing.
 */
int tree_open(int root, const char *name, struct tree *ret, struct error *err);
void tree_close(struct tree *t);
#define TREE_INIT      ((struct tree){.merged = -1, .base = -1, .copy = -1})
#define _cleanup_tree_ _cleanup_(tree_close)

/* Does a folder of a layer hide what older layers have there? */
bool tree_is_opaque(int dir);
