/*
 * Scans JSON without building values: is there a whole valid value at the start of these bytes, how
 * long is it, and where are certain members? Written by hand because jansson takes about ten times
 * as long, which a session of millions of tokens would feel at each start.
 *
 * Valid is what jansson reads, with one exception: where its answer depends on more than syntax
 * (numbers that overflow, escaped NULs and surrogates, an escaped name), `doubt` is set, and the
 * caller must ask jansson.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCAN_DEPTH_MAX 1000

/* A member of the outermost object: `at` is its value as it stands there, NULL if there is none. */
struct scan_member {
    const char *name;
    const char *at;
    size_t n;
};

/* One value at the start of the n bytes (no white space in front). 0, -EAGAIN (valid so far,
 * but incomplete) or -EBADMSG; *ret_length is, after a failure, how far it got. Members are looked
 * for if the value is an object; of two with one name, the last counts. */
int scan_value(const char *text, size_t n, struct scan_member *members, size_t n_members,
               size_t *ret_length, bool *ret_doubt);

static inline bool scan_is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* The member as a count; false if it is none. */
bool scan_count(const struct scan_member *m, uint64_t max, uint64_t *ret);

/* Is it this string, written without escapes? */
bool scan_is(const struct scan_member *m, const char *text);
