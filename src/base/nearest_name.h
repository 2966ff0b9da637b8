/* The known name that a mistyped one most likely meant: for commands, options and whatever else has
 * names. */
#pragma once

#include <stddef.h>

struct nearest {
    const char *wanted;
    size_t size;
    const char *best; /* NULL while nothing offered is near enough */
    size_t distance;
};

struct nearest nearest_to(const char *wanted, size_t size);
void nearest_offer(struct nearest *n, const char *name);
