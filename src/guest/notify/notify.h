/*
 * System calls of the box's processes that the guest decides on (POLICY_NOTIFY in
 * seccomp/policy.c):
 *
 * - rename, renameat, renameat2: an overlay answers EXDEV for a folder of a lower layer; the guest
 *   moves it piece by piece (rename.c). The kernel carries out all other renames.
 * - chmod, fchmod, fchmodat, fchmodat2 with S_ISUID: the guest sets the mode without the bit.
 * - landlock_restrict_self: the kernel carries it out. From then on the guest moves no folders,
 *   because the rules that the caller has set for itself do not bind the guest.
 *
 * A thread of the guest serves them one after the other, so that a slow one delays only other
 * renames of the box. It is the first task that the guest creates, so its number is 2, which the
 * filter protects as it does process 1. The callers' bytes are hostile: whatever a path leads to,
 * the guest has the rights of the box's own processes and no more, but must not be made to follow
 * links of its own folder of /proc, which those cannot follow.
 */
#pragma once

#include <limits.h>
#include <linux/seccomp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct notify {
    int listener;           /* -1: none */
    atomic_bool busy;       /* a call is being served */
    atomic_bool landlocked; /* a process of the box has set itself rules */
};

/* Before any other task is made. `listener` is the filter's, or -1. 0 or a negative errno. */
int notify_start(struct notify *n, int listener);

/* Whether a call is being carried out: files may be on their way from one folder to another. */
bool notify_is_busy(const struct notify *n);

/* The process whose system call is being decided on: its memory, its folders, and what became of
 * it. */
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

/* Opens what a path leads to, by O_PATH and `flags`. Links of /proc that lead into processes are
 * not followed (-ELOOP): here they would lead into the guest. */
int caller_open(int base, const char *path, int flags, int *ret_fd);

#define CALL_GOES_ON 1 /* the kernel carries out the call as if the guest had not been asked */

struct rename_call {
    int from_dir, to_dir;
    uint64_t from, to; /* addresses of paths */
    unsigned flags;
};

/* rename.c: what the caller of a rename gets: 0, a negative errno, or CALL_GOES_ON. */
int rename_decide(const struct caller *c, const struct rename_call *r);
