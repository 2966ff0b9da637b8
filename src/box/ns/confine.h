/*
 * Giving privileges away, each step one that cannot be undone. Process 1 of a box and the child of
 * a warm process both end with these functions, so what one may do and the other may not cannot
 * drift apart.
 *
 * All are async-signal-safe, allocate nothing and need nothing but a C library's system calls: they
 * run in freshly cloned children, and in warm/module.c in a program that is not ours. They return 0
 * or a negative errno, if nothing else is said.
 */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The seccomp filters of a box. They are made of policy.c when hutch is built (generate.c), so that
 * nothing but one system call is left to do when a box starts.
 */

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

/* Lowers a limit for good; one that is lower already stays. */
int confine_rlimit(int which, uint64_t value);

/* Clears every set but of the capabilities in `keep`, which then pass through exec. */
int confine_capabilities(uint64_t keep);

/* setuid and file-capability programs mean nothing from now on; also what lets us install
 * filters. */
int confine_new_privileges(void);

/*
 * Landlock is a second wall behind the mounts. Whatever path or descriptor a process in the box
 * finds, it may write only beneath the places named here; and it can neither signal nor reach
 * through abstract sockets what is outside. Network rights are not handled, on purpose: the box's
 * network namespace is empty but for its loopback, on which servers and their tests must work.
 */
enum landlock_class {
    LANDLOCK_READ,    /* read, list and execute */
    LANDLOCK_WRITE,   /* everything but making devices (an overlay takes one for "deleted") */
    LANDLOCK_DEVICES, /* read, write, list, ioctl what is there; make and remove nothing */
};

/* Beneath path, the class holds beside those of other rules: rights add up. */
struct landlock_rule {
    const char *path;
    enum landlock_class class;
};

/* Version 1 (Linux 5.13 to 5.18) refuses every rename and link from one folder to another, whatever
 * the rules say: git, package managers and compilers do not work under it. Such a kernel counts as
 * one without Landlock. */
#define LANDLOCK_OLDEST 2

/* Signals are not scoped. The child of a warm process has rules of its own, the same but not the
 * box's, and the kernel takes it for an outsider: under a scope the guest could neither stop nor
 * end it. No process that is really outside has a process id in the box. */
#define LANDLOCK_SIGNALS (1u << 0)

/* The version of Landlock in the running kernel, 1 or more; -ENOSYS (not built in) or -EOPNOTSUPP
 * (not switched on); another negative errno where a container's filter refuses the question. */
int landlock_abi(void);

/* Puts the calling thread, and all it becomes and starts, under the rules for good. no_new_privs
 * must be set already. Returns the version in force, or 0 when there is no Landlock of use: `hutch
 * doctor` reports that, and every other protection is still there. */
int confine_landlock(const struct landlock_rule *rules, size_t n, unsigned flags);

/* Last, since it forbids most of the above. See seccomp_install(); without `allocates`, also
 * seccomp_refuse_allocation(). */
int confine_system_calls(enum seccomp_role role, bool allocates, int *ret_listener);
