#include <limits.h>
#include <time.h>

#include "clock.h"
#include "banned.h"

int64_t clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

int clock_poll_ms(int64_t deadline)
{
    if (deadline == 0)
        return -1;
    int64_t left = deadline - clock_now();
    if (left <= 0)
        return 0;
    int64_t ms = (left + NS_PER_MS - 1) / NS_PER_MS;
    return ms > INT_MAX ? INT_MAX : (int)ms;
}
