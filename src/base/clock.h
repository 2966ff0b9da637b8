/* Time, in nanoseconds of the monotonic clock. */
#pragma once

#include <stdint.h>

#define NS_PER_MS 1000000LL
#define NS_PER_S  1000000000LL

int64_t clock_now(void);

/* Milliseconds from now until `deadline` for poll(): 0 when past, -1 when deadline is 0 (none),
 * rounded up. */
int clock_poll_ms(int64_t deadline);
