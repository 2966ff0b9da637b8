/*
 * The seccomp filters of a box. They are made of policy.c when hutch is built (generate.c), so that
 * nothing but one system call is left to do when a box starts.
 */
#pragma once

#include <linux/filter.h>

extern const struct sock_filter
    seccomp_filter[]; /* with calls that wait for a listener's decision */
extern const unsigned short seccomp_filter_len;
extern const struct sock_filter seccomp_unheard_filter[];
extern const unsigned short seccomp_unheard_filter_len;
extern const struct sock_filter seccomp_diff_worker_filter[];
extern const unsigned short seccomp_diff_worker_filter_len;
extern const struct sock_filter seccomp_allocation_filter[];
extern const unsigned short seccomp_allocation_filter_len;

enum seccomp_role {
    SECCOMP_BOX, /* of process 1: the guest decides on some calls of the box's processes */
    /* the same for a process that no guest listens to: the kernel decides on those calls */
    SECCOMP_ALONE,
    SECCOMP_DIFF_WORKER, /* of the diff worker */
};

/*
 * Puts the calling thread, and all it becomes and starts, under the filter for good. no_new_privs
 * must be set already. Async-signal-safe. *ret_listener is where the guest hears of calls, or -1:
 * of another role, and where the kernel has no such thing or another listener holds it (a container
 * may have one). Returns 0 or a negative errno.
 */
int seccomp_install(enum seccomp_role role, int *ret_listener);

/*
 * A filter of its own, before the other: fallocate() and its ioctl twins that reserve space answer
 * EOPNOTSUPP. For boxes whose disk is watched and not limited by a quota: they would reserve
 * terabytes between two looks of the watcher. C libraries write zeros instead. Otherwise as
 * seccomp_install().
 */
int seccomp_refuse_allocation(void);
