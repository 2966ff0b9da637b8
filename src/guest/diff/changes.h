/* The list of what a box changed in a tree, in order of the paths' bytes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "answer.h"
#include "error.h"
#include "overlay.h"

/* More than these are left out, and the answer says so: the list must fit into the memory of the
 * host. */
#define CHANGES_MAX       1000000u
#define CHANGES_BYTES_MAX (256u << 20)

/* Folders are listed where they are empty or their permissions changed; others that were added or
 * deleted only when asked for, as implied by what is in them. */
struct change {
    enum wire_change kind;
    /* in the merged view, or for what is gone, in the base; likewise size and target */
    mode_t mode;
    uint64_t size;
    bool implied;
    uint64_t link; /* of a file with several names: the same for all of them; else 0 */
    char *target;  /* of a link */
    char path[];
};

struct changes {
    struct change **items;
    size_t count, room;
    size_t bytes;
    size_t left_out;
    bool folders; /* list implied folders, too */
};

/* `folders` lists implied folders, too. */
int changes_collect(const struct overlay *t, bool folders, struct changes *ret, struct error *err);
void changes_free(struct changes *c);
#define _cleanup_changes_ _cleanup_(changes_free)

/* The answer to WIRE_CHANGES. */
int changes_answer(const struct overlay *t, bool folders, struct answer *a, struct error *err);
