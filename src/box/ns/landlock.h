/*
 * Landlock: a second wall behind the mounts. Whatever path or descriptor a process in the box
 * finds, it may write only beneath the places named here; and it can neither signal nor reach
 * through abstract sockets what is outside.
 *
 * Network rights are not handled, on purpose: the box's network namespace is empty but for its
 * loopback, on which servers and their tests must work.
 *
 * All functions are async-signal-safe and allocate nothing: they run in a freshly cloned child.
 */
#pragma once

#include <stddef.h>

enum landlock_class {
    LANDLOCK_READ,  /* read, list and execute */
    LANDLOCK_WRITE, /* everything but making devices (an overlay takes one of them for "deleted") */
    LANDLOCK_DEVICES, /* use what is there: read, write, list, ioctl; make and remove nothing */
};

/* Beneath path, the class holds beside those of other rules: rights add up. */
struct landlock_rule {
    const char *path;
    enum landlock_class class;
};

/*
 * Version 1 (Linux 5.13 to 5.18) refuses every rename and link from one folder to another, whatever
 * the rules say: git, package managers and compilers do not work under it. Such a kernel counts as
 * one without Landlock.
 */
#define LANDLOCK_OLDEST 2

/*
 * Signals are not scoped. The child of a warm process has rules of its own, the same but not the
 * box's, and the kernel takes it for an outsider: under a scope the guest could neither stop nor
 * end it. Nobody who is really outside has a process id in the box.
 */
#define LANDLOCK_SIGNALS (1u << 0)

/* The version of Landlock in the running kernel, 1 or more; -ENOSYS (not built in) or -EOPNOTSUPP
 * (not switched on); another negative errno where a container's filter refuses the question. */
int landlock_abi(void);

/*
 * Puts the calling thread, and all it becomes and starts, under the rules for good. no_new_privs
 * must be set already. Returns the version in force; -ENOSYS or -EOPNOTSUPP when there is no
 * Landlock of use (see above), and nothing was done; or another negative errno, with *culprit set
 * to the rule that it is about, or NULL.
 */
int landlock_apply(const struct landlock_rule *rules, size_t n, unsigned flags,
                   const struct landlock_rule **culprit);
