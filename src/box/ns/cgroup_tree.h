/* Where in the host's control group tree hutch may make groups, and what the two versions call
 * things. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { CGROUP_MEMORY, CGROUP_PIDS, CGROUP_CPU, CGROUP_CPUACCT, CGROUP_CONTROLLERS };

struct cgroup_names {
    const char *memory_now, *memory_max, *stat_files, *oom_events;
    const char *stat_slab;              /* NULL: not told apart from what cannot be reclaimed */
    const char *reclaim, *reclaim_text; /* makes the kernel drop what an empty group has cached */
    const char *sockets_max;            /* version 1: a limit of their own, outside of memory_now */
    const char *stat_sockets;           /* version 2: they count as memory */
    const char *cpu_max, *cpu_format, *cpu_none;
    const char *cpu_usage, *cpu_usage_key;
    int64_t cpu_usage_ns; /* nanoseconds per unit */
};

const struct cgroup_names *cgroup_names(int version);

struct cgroup_tree {
    int version;
    int roots[CGROUP_CONTROLLERS]; /* the folder hutch/ of each hierarchy; only the first in version
                                      2; -1: none */
    unsigned controllers;          /* bits of those that are there */
};

/* `wanted` are bits of controllers; of version 1 only those are looked for. Negative if neither
 * version can be used; then `why` says what is missing. */
int cgroup_tree_open(struct cgroup_tree *ret, unsigned wanted, char *why, size_t size);
/*
 * All boxes together leave a quarter of the memory to the host: what they write is kept in memory
 * too, and each alone may be within its limits while their sum is not.
 */
void cgroup_tree_limit(const struct cgroup_tree *t);

void cgroup_tree_close(struct cgroup_tree *t);
