/*
 * Where our own control group is in the filesystem.
 *
 * /proc/self/cgroup names it from the root of its hierarchy; what is mounted may begin further
 * down. A container of version 1 sees /docker/ID/a mounted from /docker/ID, so its folder is
 * MOUNT/a.
 */
#pragma once

#include <limits.h>
#include <stddef.h>

struct cgroup_path {
    char folder[PATH_MAX];
    size_t mount_len; /* the part of folder that is the mount point */
};

/* For one controller of version 1, or "" for version 2. -ENOENT if it is not mounted or we are not
 * below what is. */
int cgroup_path_find(const char *controller, struct cgroup_path *ret);

/* The same from the texts of /proc/self/cgroup and /proc/self/mountinfo. */
int cgroup_path_parse(const char *groups, const char *mounts, const char *controller,
                      struct cgroup_path *ret);
