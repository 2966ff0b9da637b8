/*
 * The boxes that stay, as the filesystem knows them: one folder per box, named by its ID, with the
 * socket of its keeper in it, below a folder that only its owner can enter:
 *
 *     $XDG_RUNTIME_DIR/hutch/boxes, or /run/hutch/boxes for root, or else /tmp/hutch-UID/boxes
 *
 * A folder gets its name only once the socket in it listens, so whatever does not answer is the
 * leftover of a keeper that was killed, and may be removed by whoever sees it. Nothing else is kept
 * on disk.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "error.h"

#define REGISTRY_ID_LEN 8

struct registry_id {
    char text[REGISTRY_ID_LEN + 1];
};

struct registry_list {
    struct registry_id *ids; /* sorted */
    size_t count;
};

/* Opens hutch's runtime folder, the one above that of all boxes; as registry_open(). */
int registry_open_runtime(bool make, int *ret_folder, struct error *err);

/* Opens the folder of all boxes, made if need be; fails if it is not the caller's alone. -ENOENT,
 * without a text, when it is not there and not to be made. */
int registry_open(bool make, int *ret_registry, struct error *err);

/* A new name with a listening socket. */
int registry_add(int registry, struct registry_id *ret_id, int *ret_listener, struct error *err);

/* Removes a box's name; harmless if it has gone. */
void registry_remove(int registry, const char *id);

/* Connects to the keeper of a box. -ENOENT or -ECONNREFUSED when there is none (any more), without
 * a text. */
int registry_connect(int registry, const char *id, int *ret_socket);

/* All names whose keepers are there, or were a moment ago. Leftovers are removed on the way. */
int registry_all(int registry, struct registry_list *ret, struct error *err);
void registry_list_free(struct registry_list *list);

/* The box that `given` means: its ID, or a beginning of it that only one has. The error lists what
 * there is. */
int registry_find(int registry, const char *given, struct registry_id *ret, struct error *err);

/* Removes a few leftovers, if there are any; cheap enough for every start. */
void registry_tidy(void);
