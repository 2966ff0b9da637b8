/*
 * From a plan to a running process 1. Two processes execute it:
 *
 *     the host ── clone ──> the launcher's child: joins the cgroup, enters the user namespace,
 *                           executes stage 0 (if there is one), enters the mount namespace it
 *                           starts from, executes stage 1
 *                              ├─ clone ──> makes the network (plan.h)
 *                              └─ clone(CLONE_PARENT, new namespaces) ──> process 1: executes
 *                                         stage 2, becomes the guest
 *
 * The child is gone when spawn_finish() returns; process 1 is the host's own child. It dies when
 * the control socket's other end is closed, however the host ends.
 */
#pragma once

#include <sys/types.h>

#include "plan.h"

struct spawn {
    const struct plan *plan;
    int userns;
    int mntns;          /* to start from, or -1 */
    int namespaces;     /* CLONE_NEW… flags of process 1; OP_NETWORK enters a new network */
    const int *cgroups; /* files to join control groups by writing "0" (version 1) */
    size_t n_cgroups;
    int birthplace;  /* the control group to be born in (version 2), or -1 */
    double cpus;     /* without a cgroup: run on that many processors only; 0: all */
    int control;     /* the guest's end */
    bool outer_proc; /* process 1 may not mount its procfs: a helper does (plan.h) */
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

/* Both. */
int spawn(const struct spawn *s, pid_t *ret_pid, struct error *err);

enum enter_step { ENTER_CGROUP, ENTER_GROUPS, ENTER_USER, ENTER_ID, ENTER_MOUNTS, ENTER_STEPS };

/* What each step is for a person, as in "cannot enter the user namespace". */
extern const char *const ENTER_WORDS[ENTER_STEPS];

/*
 * The way of a child of the host's into a family of boxes: leaves root's groups, enters the
 * family's user namespace, becomes the box's user by that namespace's own right, and enters the
 * mount namespace (unless it is -1). Async-signal-safe. 0, or a negative errno with the step that
 * failed.
 */
int enter_family(int userns, int mntns, enum enter_step *ret_step);
