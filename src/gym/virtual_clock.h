/* What actions cost on the virtual clock: the same for the same action, whatever the machine is
 * doing. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* In nanoseconds. `expected`: how many tests a run of them has. */
int64_t virtual_clock_ns(const char *tool, size_t expected);
