/*
 * The seccomp filter of a box. It is made of policy.c when hutch is built (generate.c), so that nothing but
 * one system call is left to do when a box starts.
 */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>

extern const struct sock_filter seccomp_filter[];
extern const unsigned short seccomp_filter_len;
extern const struct sock_filter seccomp_scribe_filter[];
extern const unsigned short seccomp_scribe_filter_len;

/*
 * Puts the calling thread, and all it becomes and starts, under the filter for good. no_new_privs must be set
 * already. Async-signal-safe. Returns 0 or a negative errno.
 */
int seccomp_install(bool scribe);
