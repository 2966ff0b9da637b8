/*
 * From a plan to a running process 1. Two processes execute it:
 *
 *     the host ── clone ──> the launcher's child: joins the cgroup, enters the user namespace,
 *                           executes stage 0 (if there is one), enters the mount namespace it
 *                           starts from, executes stage 1
 *                              ├─ clone ──> makes the network, on another processor if there is one
 *                              └─ clone(CLONE_PARENT, new namespaces) ──> process 1: executes
 *                                         stage 2, becomes the guest
 *
 * The child is gone when spawn_finish() returns; process 1 is the host's own child. It dies when
 * the control socket's other end is closed, however the host ends.
 */
#pragma once

#include <sys/types.h>

#include "cause.h"
#include "plan.h"

struct spawn {
    const struct plan *plan;
    int userns;
    int mntns;          /* to start from, or -1 */
    int namespaces;     /* CLONE_NEW… flags of process 1; a new network is made on the side, for
                           OP_NETWORK */
    const int *cgroups; /* files to join control groups by writing "0" (version 1) */
    size_t n_cgroups;
    int birthplace;  /* the control group to be born in (version 2), or -1 */
    double cpus;     /* without a cgroup: run on that many processors only; 0: all */
    int control;     /* the guest's end */
    bool outer_proc; /* process 1 may not mount its procfs: a helper does (outer_proc.h) */
};

/* A process 1 that is on its way. */
struct spawning {
    pid_t child;
    int report;
};

/* Starts it and returns at once; the plan must live until spawn_finish. */
int spawn_begin(const struct spawn *s, struct spawning *ret, struct error *err);

/* Waits until process 1 has become the guest, or tells which operation of the plan failed. */
int spawn_finish(struct spawning *s, const struct plan *plan, pid_t *ret_pid, struct error *err);

/* "the box did not start: cannot WHAT", the error of the call, and what to do about it. Returns
 * -code. */
int spawn_error(struct error *err, enum cause_step step, int code, const char *what);

/* Both. */
int spawn(const struct spawn *s, pid_t *ret_pid, struct error *err);
