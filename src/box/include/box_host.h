/*
 * The host as boxes meet it: the folders that a user names for a box, hutch's own files and runtime
 * folder, and how much memory there is.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

/* The kernel's own name of a folder: absolute, without links, '.', '..' and doubled slashes.
 * -errno. */
int host_folder_resolve(const char *given, char **ret_path);

/* The same for a folder or a regular file. -EINVAL: it is something else (a socket, a device, a
 * FIFO). */
int host_share_resolve(const char *given, char **ret_path, bool *ret_is_file);

/* Why a resolved folder or file must not be shown in a box, as the end of a sentence; NULL if it
 * may be. */
const char *host_folder_refuse(const char *path, bool writable);

/* Opens hutch's runtime folder, or a folder below one that only we can enter; with `make`, makes
 * it. Fails if it is not the caller's alone. -ENOENT, without a text, when it is not there. */
int host_open_runtime(bool make, int *ret_folder, struct error *err);
int host_open_private(int parent, const char *name, bool make, int *ret_folder, struct error *err);

/*
 * Files that belong to hutch beside the program: hutch-guest, hutch-skeleton, hutch-warm.so,
 * hutch-agent. They are in the folder of the program in a build, in ../libexec/hutch when
 * installed.
 */
#define LIBEXEC_PATH_MAX    (PATH_MAX + 64)
#define LIBEXEC_FOLDERS_MAX 4

int libexec_find(const char *name, char path[LIBEXEC_PATH_MAX], struct error *err);

/* The folders to look in, best first. libhutch.so replaces this (weak) function by its own, because
 * the program is another one there. */
int libexec_folders(char folders[LIBEXEC_FOLDERS_MAX][LIBEXEC_PATH_MAX], size_t *ret_count,
                    struct error *err);

/* Our own control group in the filesystem. */
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

/* What a box and its files in memory may use of a limited one: the rest is for the container's
 * other processes. */
#define HOST_MEMORY_FOR_BOX(total) ((total) / 4 * 3)
