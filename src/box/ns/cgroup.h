/*
 * Control groups: memory, processes and CPU of one box, counted and limited by the kernel.
 *
 * Version 2 where a part of the tree is ours to use (root, or delegated to the user), version 1 as
 * root, or none: then rlimits and the guest's own sampling serve, and `hutch doctor` says so.
 *
 * Making a group is slow on some kernels, and removing one waits for its last page. So groups are
 * kept: a bounded pool of folders hutch/0, hutch/1, … each locked (flock) by the process whose box
 * is in it. A lock ends with its holder, so a crash leaves nothing to repair, and what is kept is
 * no leftover: the next box takes it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "box.h"

#define CGROUP_POOL_MAX 256

struct cgroup;

/* A free group, for the box's first process to be in. 0 with *ret NULL: there are no usable control
 * groups here. */
int cgroup_acquire(const struct box_limits *limits, bool one_shot, struct cgroup **ret,
                   struct error *err);

/* Sets its limits and begins to count: before the first process of the box joins it. Takes NULL. */
int cgroup_begin(struct cgroup *g, const struct box_limits *limits, struct error *err);
/* Process 1 is there and what started it is gone: from now on the limit on processes is that of the
 * box alone. */
int cgroup_started(struct cgroup *g, const struct box_limits *limits, struct error *err);
/* One limit (enum box_field) of a box that runs. -EBUSY: version 1 does not go below what is in
 * use. */
int cgroup_change(struct cgroup *g, const struct box_limits *limits, unsigned field,
                  struct error *err);
struct cgroup *cgroup_release(struct cgroup *g);

/* Which version the host offers us, and why not a better one. */
int cgroup_version(char *why, size_t size);

/* Files that a process joins by writing "0"; valid while g lives. */
const int *cgroup_joins(const struct cgroup *g, size_t *ret_n);

/* The group's folder for clone3(CLONE_INTO_CGROUP), where that is the way in (version 2); otherwise
 * -1. */
int cgroup_birthplace(const struct cgroup *g);

/* Files that a process joins it by, whatever the version, by writing "0"; none for NULL. */
struct cgroup_entrance {
    int joins[4]; /* valid while g lives, but: */
    size_t n_joins;
    int own; /* one of the joins, which the caller closes; or -1 */
};
int cgroup_entrance(const struct cgroup *g, struct cgroup_entrance *ret);
bool cgroup_limits_cpus(const struct cgroup *g);

/* What happened since it was acquired. */
struct cgroup_usage {
    int64_t cpu_ns;
    uint64_t memory;
    uint64_t sockets; /* of processes: what is not file content */
    uint64_t oom_kills;
    uint64_t pids_hits; /* times that a process could not be made */
};

void cgroup_read(const struct cgroup *g, bool with_memory, struct cgroup_usage *ret);
