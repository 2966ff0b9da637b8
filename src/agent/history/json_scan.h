/*
 * JSON, looked at rather than parsed: is there a whole valid value at the start of these bytes, how
 * long is it, and where in it are the members that somebody wants? Makes nothing, so that millions
 * of tokens are indexed in the time that reading them takes.
 *
 * What is valid here is what jansson reads, with one reservation: where its answer depends on more
 * than syntax (numbers that overflow, escaped NULs and surrogates, an escaped name), `doubt` is
 * set, and jansson itself is to be asked.
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

/* One value at the start of the n bytes (no white space in front). 0, -EAGAIN (it is right as far
 * as it goes and goes on behind the end) or -EBADMSG; *ret_length says after a failure how far it
 * got. Members are looked for if the value is an object; of two with one name, the last counts. */
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
