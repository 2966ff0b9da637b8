/* What the backend `ns` keeps of one box: shared by ns.c and the warm processes (warm/). */
#pragma once

#include <pthread.h>

#include "backend.h"
#include "cgroup.h"
#include "idmap.h"
#include "layout.h"
#include "spawn.h"
#include "store.h"

/* A process 1 that is being started: what is needed to wait for it and to say what went wrong. */
struct ns_start {
    struct plan plan;
    struct spawning spawning;
};

struct ns_machine {
    struct machine base;
    pthread_mutex_t lock; /* of the next two */
    struct ns_start *start;
    struct error failure;
    struct guest guest;
    struct idmap ids;
    struct box_limits limits;
    struct layout layout;
    struct cgroup *cgroup;
    struct store *disk; /* the store's folder on disk; NULL: the store is memory */
    uint64_t looks;
    int userns, mntns, store, listener;
};

/* NULL if it is a machine of another backend. */
struct ns_machine *ns_machine(struct machine *m);

/* CLONE_NEW… flags of a box's process 1. */
int ns_namespaces(const struct layout *l);
