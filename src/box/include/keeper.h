/*
 * Boxes that outlive the command that made them.
 *
 * A keeper is a process in the background that holds a box and all that are forked from it (a
 * family), each behind a socket of its own in the registry. Clients (`hutch box …`) connect, send
 * one request in a frame of wire.h with descriptors where there is something to stream, and read
 * answers until one result. The keeper serves any number at once, a thread each, and exits with its
 * last box. When it is killed its boxes end with it, by themselves.
 *
 * Only the owner of the registry's folder can reach the socket, and the keeper asks the kernel who
 * is calling, too.
 */
#pragma once

#include "box.h"

/*
 * The registry: one folder per box, named by its ID, with the socket of its keeper in it, below a
 * folder that only its owner can enter:
 *
 *     $XDG_RUNTIME_DIR/hutch/boxes, or /run/hutch/boxes for root, or else /tmp/hutch-UID/boxes
 *
 * A folder gets its name only once the socket in it listens, so whatever does not answer is the
 * leftover of a keeper that was killed, and is removed by the next command.
 * Nothing else is kept on disk.
 */
#define REGISTRY_ID_LEN 8

struct registry_id {
    char text[REGISTRY_ID_LEN + 1];
};

struct registry_list {
    struct registry_id *ids; /* sorted */
    size_t count;
};

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

/* All names whose keepers are there, or were a moment ago. Removes leftovers on the way. */
int registry_all(int registry, struct registry_list *ret, struct error *err);
void registry_list_free(struct registry_list *list);

/* The box that `given` means: its ID, or a beginning of it that only one has. The error lists what
 * there is. */
int registry_find(int registry, const char *given, struct registry_id *ret, struct error *err);

/* Removes leftovers, if there is a registry; cheap enough for every start. */
void registry_tidy(void);

#define KEEPER_FORKS_MAX     256
#define KEEPER_SNAPSHOT_NAME 16
#define KEEPER_SNAPSHOTS_MAX 1024

/* How long a box lives: until it is removed (ttl_ns 0), so long from its start, or with `idle` so
 * long after the last request to it ended. What runs in the background is no request. Forks live by
 * the same rule. */
struct keeper_life {
    int64_t ttl_ns;
    bool idle;
};

/* Starts a keeper with a new box; returns once the box is up, or with what went wrong. */
int keeper_start(const struct box_options *o, const struct keeper_life *life,
                 struct registry_id *ret, struct error *err);

/* The same in two steps, so that there is something else to do meanwhile: the first does not wait
 * for the box; the second waits for its name on the descriptor, which stays the caller's. */
int keeper_begin(const struct box_options *o, const struct keeper_life *life, int *ret_fd,
                 struct error *err);
int keeper_hear(int fd, struct registry_id *ret, struct error *err);

/* A box that a keeper holds, for box_exec, box_apply and all other calls of box.h; box_close lets
 * go of it. `given` is an ID or a beginning that only one has; the error lists what there is. */
int keeper_attach(const struct registry_id *id, struct box **ret, struct error *err);
int keeper_find(const char *given, struct box **ret, struct error *err);

/* What follows can be asked only of boxes that a keeper holds. */

/* Forks n boxes from one snapshot, a new one (NULL) or a kept one; ret has room for n. All or none.
 * A fork keeps the snapshots of the box under the names ID:NAME. */
int keeper_fork(struct box *b, const char *snapshot, size_t n, const struct restore_report *report,
                struct registry_id *ret, struct error *err);

/* The state that a box began with is always there, at no cost, under this name. */
#define KEEPER_ORIGIN "s0"

int keeper_snapshot(struct box *b, char ret_name[KEEPER_SNAPSHOT_NAME], struct error *err);

/* Puts the box back to a snapshot; its processes end. What was applied since is pending in
 * reverse. */
int keeper_restore(struct box *b, const char *name, const struct restore_report *report,
                   struct error *err);

/* Ends the box and removes its name. */
int keeper_remove(struct box *b, struct error *err);
