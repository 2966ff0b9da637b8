/* Our own control group on the host: where it is in the filesystem, and how much memory it leaves
 * to boxes. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cgroup_path {
    char folder[PATH_MAX];
    size_t mount_len; /* the part of folder that is the mount point */
};

/*
 * For one controller of version 1, or "" for version 2. /proc/self/cgroup names our group from the
 * root of its hierarchy; what is mounted may begin further down. A container of version 1 sees
 * /docker/ID/a mounted from /docker/ID, so its folder is MOUNT/a. -ENOENT if it is not mounted or
 * we are not below what is.
 */
int cgroup_path_find(const char *controller, struct cgroup_path *ret);

/* The same from the texts of /proc/self/cgroup and /proc/self/mountinfo. */
int cgroup_path_parse(const char *groups, const char *mounts, const char *controller,
                      struct cgroup_path *ret);

/* Bytes of memory that there are: the machine's, or less where a control group limits us, as that
 * of a container does; UINT64_MAX if nothing is known. *ret_limited (which may be NULL): whether
 * one does. */
uint64_t host_memory(bool *ret_limited);

/* What a box and its files in memory may use of a limited one: the rest of the container goes on
 * living. */
#define HOST_MEMORY_FOR_BOX(total) ((total) / 4 * 3)
