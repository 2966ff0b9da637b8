/*
 * From the namespaces of a family to a running warm process (warm.h):
 *
 *     the host ── clone ──> enters the family's user namespace and a copy of the mounts, in which
 *     nothing can
 *                           be written; keeps the rights to enter boxes of the family; executes
 *                           python3
 *
 * It stays in the host's pid namespace, since a process can only enter those that descend from its
 * own; no box can see it there. It has a network, an IPC and a UTS namespace of its own, in which
 * nothing is.
 */
#pragma once

#include "backend.h"

struct warm_start {
    int userns, mntns;
    int namespaces; /* CLONE_NEW… flags of the family's boxes */
    int part;       /* hutch-warm.so, to be read */
    int control,
        voice; /* the warm process's ends: of the socket, and of a pipe for what it prints */
    int rules, program, setup; /* files, see warm_part/part.h */
    char *const *env;          /* NULL-terminated */
};

/* Returns when it was executed. -EOPNOTSUPP where there is no python3. */
int warm_start(const struct warm_start *s, pid_t *ret_pid, struct error *err);
