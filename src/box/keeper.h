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
#include "registry.h"
#include "restore.h"

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

/* What follows are requests to the keeper of a box. */

/* Like box_exec; with c->capture, and if ret_changes is not NULL and the box is BOX_COW, also
 * box_changes. When c->cancel becomes readable the command is ended and -ECANCELED returned. */
int keeper_exec(int registry, const struct registry_id *id, const struct box_command *c,
                struct box_result *ret, struct box_changes *ret_changes, struct error *err);

/* Like box_request. */
int keeper_request(int registry, const struct registry_id *id, struct buf *request, int *ret_fd,
                   struct error *err);

/* Forks n boxes from one snapshot, a new one (NULL) or a kept one; ret has room for n. All or none.
 * A fork keeps the snapshots of the box under the names ID:NAME. */
int keeper_fork(int registry, const struct registry_id *id, const char *snapshot, size_t n,
                const struct restore_report *report, struct registry_id *ret, struct error *err);

/* The state that a box began with is always there, at no cost, under this name. */
#define KEEPER_ORIGIN "s0"

int keeper_snapshot(int registry, const struct registry_id *id, char ret_name[KEEPER_SNAPSHOT_NAME],
                    struct error *err);

/* Puts the box back to a snapshot; its processes end. What was applied since is pending in reverse.
 */
int keeper_restore(int registry, const struct registry_id *id, const char *name,
                   const struct restore_report *report, struct error *err);

/* Like box_changes, box_diff, box_apply, box_sync and box_note_seen. */
int keeper_changes(int registry, const struct registry_id *id, struct box_changes *ret,
                   struct error *err);
int keeper_diff(int registry, const struct registry_id *id, bool stat, int out, struct error *err);
/* The diff in a file without a name, to be read from its start. */
int keeper_diff_file(int registry, const struct registry_id *id, bool stat, int *ret_fd,
                     struct error *err);
int keeper_apply(int registry, const struct registry_id *id, const struct apply_options *o,
                 const struct apply_report *report, struct error *err);
int keeper_sync(int registry, const struct registry_id *id, const struct apply_options *o,
                const struct apply_report *report, struct error *err);
int keeper_note(int registry, const struct registry_id *id, struct error *err);

/* Like box_adjust. */
int keeper_adjust(int registry, const struct registry_id *id, const struct box_options *o,
                  unsigned fields, struct error *err);

/* Ends the box and removes its name. */
int keeper_remove(int registry, const struct registry_id *id, struct error *err);

struct keeper_info {
    pid_t pid; /* of the keeper */
    enum box_mode mode;
    int64_t age_ns;
    int64_t left_ns;          /* until its time to live ends; -1: it stays */
    uint64_t commands;        /* running now */
    uint64_t snapshots;       /* kept */
    char *workspace;          /* NULL: an empty one */
    char *net;                /* as --net writes it */
    struct box_limits limits; /* memory, pids, cpus and timeout_ns */
};

int keeper_info(int registry, const struct registry_id *id, struct keeper_info *ret,
                struct error *err);
void keeper_info_free(struct keeper_info *i);
