/*
 * Globs, as gitignore(5) has them: * and ? stay within a component, [...] is a set (! or ^ negates,
 * ranges, POSIX classes, backslash), `**` as a whole component is any number of components. A
 * backslash takes away a character's meaning. A malformed pattern (an open bracket, a backslash at
 * the end) matches nothing.
 *
 * Bytes are compared, not characters, as git does it. Time is bounded by pattern × text, whatever
 * the pattern.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "text.h"

bool glob_match(const char *pattern, size_t n_pattern, const char *text, size_t n_text);

/* True if no character of it has a special meaning. */
bool glob_is_plain(const char *pattern, size_t n);

#define GLOB_ALTERNATIVES_MAX 256

/*
 * Calls `each` with every pattern that `{a,b}` stands for: nested, and escaped by a backslash or
 * brackets. A brace that is not closed stands for itself, as does a pair without a comma. -E2BIG
 * for too many, or what `each` returned.
 */
int glob_expand(const char *pattern, size_t n,
                int (*each)(void *data, const char *pattern, size_t n), void *data);
