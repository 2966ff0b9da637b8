/* The list of what a box changed in a tree, in order of the paths' bytes. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "answer.h"
#include "error.h"
#include "tree.h"

/* More than these are left out, and the answer says so: the list must fit into the memory of the host. */
#define CHANGES_MAX       1000000u
#define CHANGES_BYTES_MAX (256u << 20)

/* Folders are listed only where they are empty, since a file's path tells of the folders above it. */
struct change {
    enum wire_change kind;
    mode_t mode; /* in the merged view, or for what is gone, in the base; likewise size and target */
    uint64_t size;
    size_t gone;  /* of a deleted one: how many folders at the end of its path are gone too */
    char *target; /* of a link */
    char path[];
};

struct changes {
    struct change **items;
    size_t count, room;
    size_t bytes;
    size_t left_out;
};

int changes_collect(const struct tree *t, struct changes *ret, struct error *err);
void changes_free(struct changes *c);
#define _cleanup_changes_ _cleanup_(changes_free)

/* The answer to WIRE_CHANGES. */
int changes_answer(const struct tree *t, struct answer *a, struct error *err);
