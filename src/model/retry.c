#include <curl/curl.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "clock.h"
#include "retry.h"
#include "banned.h"

#define LONGEST 5u /* the try before which the wait is the longest */

bool retry_wanted(const struct transport_answer *a)
{
    if (strcasecmp(a->should_retry, "true") == 0)
        return true;
    if (strcasecmp(a->should_retry, "false") == 0)
        return false;
    return a->status == 408 || a->status == 409 || a->status == 429 || a->status >= 500;
}

/* A number that is not negative, with or without a fraction, and nothing else. */
static bool parse_number(const char *text, double *ret)
{
    char *end;
    if (*text == 0 || text[strspn(text, "0123456789.")] != 0)
        return false;
    *ret = strtod(text, &end);
    return *end == 0;
}

int64_t retry_told_ms(const struct transport_answer *a, time_t now)
{
    double number;
    if (parse_number(a->retry_ms, &number))
        return number < 1e12 ? (int64_t)number : -1;
    if (parse_number(a->retry_after, &number))
        return number < 1e9 ? (int64_t)(number * 1000) : -1;
    time_t date = a->retry_after[0] ? curl_getdate(a->retry_after, NULL) : -1;
    if (date == -1)
        return -1;
    return date > now ? (int64_t)(date - now) * 1000 : 0;
}

int retry_delay_ms(unsigned attempt, int base_ms, int64_t told_ms, uint32_t random)
{
    if (told_ms >= 0 && told_ms <= RETRY_TOLD_MAX_MS)
        return (int)told_ms;
    unsigned step = attempt < 1 ? 1 : attempt > LONGEST ? LONGEST : attempt;
    int64_t delay = (int64_t)base_ms << (step - 1);
    if (delay > INT32_MAX)
        delay = INT32_MAX;
    return (int)(delay - delay * (random % 1024) / 4096);
}

int retry_wait(int ms, int cancel)
{
    struct pollfd p = {.fd = cancel, .events = POLLIN};
    int64_t until = clock_now() + ms * NS_PER_MS;
    for (;;) {
        int n = poll(&p, 1, clock_poll_ms(until)); /* a negative descriptor is passed over */
        if (n > 0)
            return -ECANCELED;
        if (clock_now() >= until)
            return 0;
    }
}
