/*
 * System calls of the box's processes that the guest decides on (POLICY_NOTIFY in
 * seccomp/policy.c):
 *
 * - rename, renameat, renameat2: an overlay answers EXDEV for a folder of a lower layer; the guest
 *   moves it piece by piece (rename.c). The kernel carries out all other renames.
 * - chmod and its kin with S_ISUID: the guest sets the mode without the bit (chmod.c).
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

#include <stdatomic.h>
#include <stdbool.h>

struct notify {
    int listener;           /* -1: none */
    atomic_bool busy;       /* a call is being served */
    atomic_bool landlocked; /* a process of the box has set itself rules */
};

/* Before any other task is made. `listener` is the filter's, or -1. 0 or a negative errno. */
int notify_start(struct notify *n, int listener);

/* Whether a call is being carried out: files may be on their way from one folder to another. */
bool notify_is_busy(const struct notify *n);
