/*
 * A warm process from the host's side (warm.h): what warm.c keeps of it, and how it starts.
 *
 *     the host ── clone ──> enters the family's user namespace and a copy of the mounts, in which
 *                           nothing can be written; keeps the rights to enter boxes of the family;
 *                           executes python3
 *
 * It stays in the host's pid namespace, since a process can only enter those that descend from its
 * own; no box can see it there. It has a network, an IPC and a UTS namespace of its own, in which
 * nothing is.
 */
#pragma once

#include <pthread.h>

#include "ns_machine.h"
#include "warm.h"

struct warm {
    struct ns_machine *machine; /* of the family's snapshot */
    int program, setup;         /* files */
    char **env;                 /* NULL-terminated */
    int reviving;               /* cancel_lock (thread.h): held while another process is started */
    pthread_mutex_t lock;       /* of the rest */
    struct guest process;
    unsigned generation; /* counts the processes that there were */
};

/* `control` and `output` are the warm process's ends of a socket, and of a pipe for what it prints.
 * Returns when python3 was executed. -EOPNOTSUPP where there is none. */
int warm_start(const struct warm *w, int control, int output, pid_t *ret_pid, struct error *err);
