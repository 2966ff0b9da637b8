/* Sizes, times, counts and decimals: what is taken is in range, and what it was written as says the
 * same number again. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compose.h"
#include "options.h"
#include "thread.h"
#include "banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_size(const char *s)
{
    uint64_t v = 7, again;
    char text[32];
    int r = units_parse_size(s, &v);
    require(r == 0 || ((r == -EINVAL || r == -ERANGE) && v == 7));
    if (r < 0)
        return;
    snprintf(text, sizeof text, "%" PRIu64, v);
    require(v <= INT64_MAX && units_parse_size(text, &again) == 0 && again == v);
}

static void check_time(const char *s)
{
    int64_t v = 7, again;
    char text[32];
    int r = units_parse_time(s, &v);
    require(r == 0 || ((r == -EINVAL || r == -ERANGE) && v == 7));
    if (r < 0)
        return;
    snprintf(text, sizeof text, "%" PRId64 "ns", v);
    require(v >= 0 && units_parse_time(text, &again) == 0 && again == v);
    require(v + clock_now() > 0);
}

static void check_numbers(const char *s)
{
    uint64_t count = 7;
    double decimal = 7;
    int r = units_parse_count(s, &count), r2 = units_parse_decimal(s, &decimal);
    require(r == 0 || count == 7);
    require(r2 == 0 || decimal == 7);
    require(r2 < 0 || decimal >= 0);
    require(r < 0 || (r2 == 0 && decimal == (double)count));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char *s = malloc(n + 1);
    require(s != NULL);
    if (n)
        memcpy(s, data, n);
    s[n] = 0;
    check_size(s);
    check_time(s);
    check_numbers(s);
    free(s);
    return 0;
}
