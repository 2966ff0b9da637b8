/*
 * Giving privileges away, each step one that cannot be undone. Process 1 of a box and the child of
 * a warm process both end with these functions, so what one may do and the other may not cannot
 * drift apart.
 *
 * All are async-signal-safe, allocate nothing and need nothing but a C library's system calls: they
 * run in freshly cloned children, and in warm/module.c in a program that is not ours. 0 or a negative
 * errno.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "landlock.h"
#include "seccomp/filter.h"

/* Lowers a limit for good; one that is lower already stays. */
int confine_rlimit(int which, uint64_t value);

/* Clears every set but of the capabilities in `keep`, which then pass through exec. */
int confine_capabilities(uint64_t keep);

/* setuid and file-capability programs mean nothing from now on; also what lets us install filters.
 */
int confine_new_privileges(void);

/* A kernel without Landlock is told by `hutch doctor`; every other protection is still there. */
int confine_landlock(const struct landlock_rule *rules, size_t n, unsigned flags);

/* Last, since it forbids most of the above. See seccomp_install(); without `allocates`, also
 * seccomp_refuse_allocation(). */
int confine_system_calls(enum seccomp_role role, bool allocates, int *ret_listener);
