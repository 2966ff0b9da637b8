/* The process whose system call is being decided on: its memory, its folders, and what became of
 * it. */
#pragma once

#include <limits.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>

struct caller {
    int listener;
    const struct seccomp_notif *call;
};

/* It still waits for the answer: what was opened by its process id was its own. */
bool caller_waits(const struct caller *c);

/* Copies a path out of its memory. -EFAULT, -ENAMETOOLONG, or -EPERM for a process that is not
 * dumpable. */
int caller_read_path(const struct caller *c, uint64_t address, char ret[PATH_MAX]);

/* The folder that a path of it starts from, as a descriptor to be closed. */
int caller_open_base(const struct caller *c, int dir, const char *path, int *ret_fd);

/* What one of its descriptors is open on, by O_PATH. */
int caller_open_fd(const struct caller *c, int fd, int *ret_fd);

/*
 * Opens what a path leads to, by O_PATH and `flags`. Links of /proc that lead into processes are
 * not followed (-ELOOP): here they would lead into the guest.
 */
int caller_open(int base, const char *path, int flags, int *ret_fd);
