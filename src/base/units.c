#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "units.h"
#include "banned.h"

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit SIZE_UNITS[] = {
    {"", 1},           {"B", 1},          {"K", 1ULL << 10}, {"M", 1ULL << 20},
    {"G", 1ULL << 30}, {"T", 1ULL << 40}, {NULL, 0},
};

static const struct unit TIME_UNITS[] = {
    {"ns", 1},
    {"us", 1000},
    {"ms", NS_PER_MS},
    {"s", NS_PER_S},
    {"m", 60 * NS_PER_S},
    {"h", 3600 * NS_PER_S},
    {"d", 86400 * NS_PER_S},
    {NULL, 0},
};

/* Digits only: strtoull alone would take signs, blanks and hexadecimal. */
static int parse_digits(const char **s, uint64_t *ret)
{
    if (!isdigit((unsigned char)**s))
        return -EINVAL;
    uint64_t v = 0;
    for (; isdigit((unsigned char)**s); (*s)++)
        if (__builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(**s - '0'), &v))
            return -ERANGE;
    *ret = v;
    return 0;
}

static int parse_with_unit(const char *s, const struct unit *units, uint64_t *ret)
{
    uint64_t v;
    int r = parse_digits(&s, &v);
    if (r < 0)
        return r;
    for (; units->name; units++)
        if (strcmp(s, units->name) == 0)
            return __builtin_mul_overflow(v, units->factor, ret) ? -ERANGE : 0;
    return -EINVAL;
}

int units_parse_size(const char *s, uint64_t *ret_bytes)
{
    uint64_t v;
    int r = parse_with_unit(s, SIZE_UNITS, &v);
    if (r < 0)
        return r;
    if (v > INT64_MAX)
        return -ERANGE;
    *ret_bytes = v;
    return 0;
}

int units_parse_time(const char *s, int64_t *ret_ns)
{
    uint64_t v;
    int r = parse_with_unit(s, TIME_UNITS, &v);
    if (r < 0)
        return r;
    if (v > INT64_MAX / 2)
        return -ERANGE;
    *ret_ns = (int64_t)v;
    return 0;
}

int units_parse_count(const char *s, uint64_t *ret)
{
    uint64_t v;
    int r = parse_digits(&s, &v);
    if (r < 0)
        return r;
    if (*s)
        return -EINVAL;
    *ret = v;
    return 0;
}

int units_parse_decimal(const char *s, double *ret)
{
    uint64_t whole, part = 0;
    double scale = 1;
    int r = parse_digits(&s, &whole);
    if (r < 0)
        return r;
    if (*s == '.') {
        const char *first = ++s;
        r = parse_digits(&s, &part);
        if (r < 0)
            return r;
        for (const char *p = first; p < s; p++)
            scale *= 10;
    }
    if (*s)
        return -EINVAL;
    *ret = (double)whole + (double)part / scale;
    return 0;
}

const char *units_rough_time(int64_t ns, char *out, size_t size)
{
    int64_t s = ns / NS_PER_S;
    if (ns < 0)
        snprintf(out, size, "-");
    else if (s < 120)
        snprintf(out, size, "%" PRId64 "s", s);
    else if (s < 120 * 60)
        snprintf(out, size, "%" PRId64 "m", s / 60);
    else if (s < 48 * 3600)
        snprintf(out, size, "%" PRId64 "h", s / 3600);
    else
        snprintf(out, size, "%" PRId64 "d", s / 86400);
    return out;
}
