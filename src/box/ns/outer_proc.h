/*
 * A /proc for a box where its own user namespace may not mount one.
 *
 * The kernel lets a user namespace mount a procfs only if one is in full view there already. In a
 * container parts of /proc are masked, so it refuses (EPERM). Root with CAP_SYS_ADMIN in the
 * namespace that owns the container's mounts is not asked that question. So a helper that still has
 * these rights mounts it:
 *
 *     launcher's child ── fork ──> helper: waits on a socket for the pid namespace of process 1
 *                                    └─ fork, into that namespace ──> mounts a procfs, sends it,
 *                                    ends
 *
 * What process 1 gets is a new procfs of its own pid namespace and shows nothing but the box. The
 * container's own /proc is never shown to a box.
 *
 * All functions but the first are async-signal-safe.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct outer_proc {
    pid_t pid;
    int socket; /* process 1's end; -1: no helper */
};

/* Whether parts of the /proc that we see are covered by other mounts, as in a container. */
bool outer_proc_is_masked(void);

/* By the launcher's child before it gives up its rights. */
int outer_proc_start(struct outer_proc *p);

/* By process 1: its procfs, as a detached mount. */
int outer_proc_receive(const struct outer_proc *p, int *ret_fd);

/* By the launcher's child once process 1 has its procfs or is gone. */
void outer_proc_finish(struct outer_proc *p);
