/*
 * Values of options as people write them, whichever door they came through, with the words that say
 * what is wrong with one. `shown` is what the option is called there: "--memory", "memory".
 *
 * All return 0 or -EINVAL, and leave *ret alone on failure.
 */
#pragma once

#include <stdint.h>

#include "error.h"

int optval_size(const char *shown, const char *value, uint64_t *ret_bytes, struct error *err);
int optval_count(const char *shown, const char *value, uint64_t *ret,
                 struct error *err); /* 1 or more */

/* `none`, or a time of zero, switches the limit off: both are 0. */
int optval_time(const char *shown, const char *value, int64_t *ret_ns, struct error *err);

/* Any text but the empty one; *ret is the value itself. */
int optval_string(const char *shown, const char *value, const char **ret, struct error *err);
