/*
 * Two processes that help process 1 of a box to start. What starts and finishes them is the
 * launcher's child (spawn.c); what process 1 calls is async-signal-safe.
 *
 * The network helper makes the box's empty network namespace at the same time as the mounts: it is
 * the slowest of all namespaces to make, a third of what a box costs. It shares memory and
 * descriptors with process 1, which waits for it only when everything else is done.
 *
 * The /proc helper is for hosts where the box's own user namespace may not mount a procfs. The
 * kernel lets a user namespace mount one only if one is in full view there already. In a container
 * parts of /proc are masked, so it refuses (EPERM). Root with CAP_SYS_ADMIN in the namespace that
 * owns the container's mounts is not asked that question. So a helper that still has these rights
 * mounts it:
 *
 *     launcher's child ── fork ──> helper: waits on a socket for the pid namespace of process 1
 *                                    └─ fork, into that namespace ──> mounts a procfs, sends it
 *
 * What process 1 gets is a new procfs of its own pid namespace and shows nothing but the box. The
 * container's own /proc is never shown to a box.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define NETWORK_STACK 4096

struct network {
    uint32_t ready; /* futex: 1 when `fd` or `error` is there */
    int fd;         /* the namespace */
    int error;
    pid_t pid;
    char stack[NETWORK_STACK] __attribute__((aligned(16)));
};

int network_start(struct network *n);
int network_enter(struct network *n);   /* by process 1: waits, then enters */
void network_finish(struct network *n); /* takes one that was never started */

struct outer_proc {
    pid_t pid;
    int socket; /* -1: there is no helper */
};

/* Whether parts of /proc are covered by other mounts, as in a container. */
bool outer_proc_is_masked(void);

/* By the launcher's child before it gives up its rights. */
int outer_proc_start(struct outer_proc *p);

/* By process 1: its procfs, as a detached mount. */
int outer_proc_receive(const struct outer_proc *p, int *ret_fd);

/* By the launcher's child once process 1 has its procfs or is gone. */
void outer_proc_finish(struct outer_proc *p);
