/* What the backend `ns` keeps of one box: private to ns.c and ns_warm.c. */
#pragma once

#include "backend.h"
#include "cgroup.h"
#include "idmap.h"
#include "layout.h"
#include "spawn.h"
#include "store.h"

/* A box that is being made: what is needed to wait for it and to tell what went wrong. */
struct starting {
    struct plan plan;
    struct spawning spawning;
};

struct place {
    unsigned refs;
    pthread_mutex_t lock; /* of the next two */
    struct starting *starting;
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

/* CLONE_NEW… flags of a box's process 1. */
int place_namespaces(enum box_net net);

/* For the table; see backend.h. */
int ns_warm(struct place *p, const struct backend_warm *w, pid_t *ret_pid, struct error *err);
int ns_entrance(struct place *p, struct entrance *ret);
bool ns_related(const struct place *a, const struct place *b);
