/* How large JSON is before anything is built of it: text of a stranger may be small and its values
 * many. */
#pragma once

#include <stddef.h>

/* The number of values, as far as `max` + 1. Exact for JSON; anything else is refused by the parser
 * anyway.
 */
size_t jsonsize_values(const char *text, size_t n, size_t max);
