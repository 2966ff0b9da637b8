/* Untrusted text, made safe to show to people and models. */
#pragma once

#include <stddef.h>

/* Returns a new string: valid UTF-8 without control characters (newline and tab stay) and without
 * characters that are invisible or change the writing direction, cut to at most `max` bytes plus an
 * ellipsis. NULL: out of memory. */
char *foreign_text(const char *text, size_t n, size_t max);
