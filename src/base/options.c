#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "text.h"
#include "thread.h"
#include "banned.h"

struct unit {
    const char *name;
    uint64_t factor;
};

/* Digits only: strtoull alone would accept signs, blanks and hexadecimal. */
static int units_parse_digits(const char **s, uint64_t *ret)
{
    uint64_t v = 0;
    if (!isdigit((unsigned char)**s))
        return -EINVAL;
    for (; isdigit((unsigned char)**s); (*s)++)
        if (__builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(**s - '0'), &v))
            return -ERANGE;
    *ret = v;
    return 0;
}

/* A number and one of the units, at most `max` in all. */
static int units_parse(const char *s, const struct unit *units, uint64_t max, uint64_t *ret)
{
    uint64_t v;
    int r = units_parse_digits(&s, &v);
    if (r < 0)
        return r;
    while (units->name && strcmp(s, units->name) != 0)
        units++;
    if (!units->name)
        return -EINVAL;
    if (__builtin_mul_overflow(v, units->factor, &v) || v > max)
        return -ERANGE;
    *ret = v;
    return 0;
}

int units_parse_size(const char *s, uint64_t *ret_bytes)
{
    static const struct unit UNITS[] = {
        {"", 1},           {"B", 1},          {"K", 1ULL << 10}, {"M", 1ULL << 20},
        {"G", 1ULL << 30}, {"T", 1ULL << 40}, {NULL, 0},
    };
    return units_parse(s, UNITS, INT64_MAX, ret_bytes);
}

int units_parse_time(const char *s, int64_t *ret_ns)
{
    static const struct unit UNITS[] = {
        {"ns", 1},
        {"us", 1000},
        {"ms", NS_PER_MS},
        {"s", NS_PER_S},
        {"m", 60 * NS_PER_S},
        {"h", 3600 * NS_PER_S},
        {"d", 86400 * NS_PER_S},
        {NULL, 0},
    };
    uint64_t ns;
    int r = units_parse(s, UNITS, INT64_MAX / 2, &ns);
    if (r == 0)
        *ret_ns = (int64_t)ns;
    return r;
}

int units_parse_count(const char *s, uint64_t *ret)
{
    static const struct unit UNITS[] = {{"", 1}, {NULL, 0}};
    return units_parse(s, UNITS, UINT64_MAX, ret);
}

int units_parse_decimal(const char *s, double *ret)
{
    uint64_t whole, part = 0;
    double scale = 1;
    int r = units_parse_digits(&s, &whole);
    if (r == 0 && *s == '.') {
        const char *first = ++s;
        r = units_parse_digits(&s, &part);
        for (const char *p = first; p < s; p++)
            scale *= 10;
    }
    if (r < 0)
        return r;
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

#define OPTION_FIELD(type) (type *)((char *)target + self->field)

int option_parse_flag(void *target, const struct option *self, const char *value, struct error *err)
{
    *OPTION_FIELD(bool) = true;
    return 0;
}

int option_parse_size(void *target, const struct option *self, const char *value, struct error *err)
{
    int r = units_parse_size(value, OPTION_FIELD(uint64_t));
    if (r == -ERANGE)
        return error_set(err, EINVAL, "'%s' is too large", value);
    if (r < 0)
        return error_set(err, EINVAL, "'%s' is not a size like 512M or 2G", value);
    return 0;
}

int option_parse_count(void *target, const struct option *self, const char *value,
                       struct error *err)
{
    uint64_t n;
    int r = units_parse_count(value, &n);
    if (r == -ERANGE || (r == 0 && n > INT32_MAX))
        return error_set(err, EINVAL, "'%s' is too large", value);
    if (r < 0 || n == 0)
        return error_set(err, EINVAL, "'%s' is not a number of 1 or more", value);
    *OPTION_FIELD(uint64_t) = n;
    return 0;
}

int option_parse_time(void *target, const struct option *self, const char *value, struct error *err)
{
    int64_t *field = OPTION_FIELD(int64_t);
    if (strcmp(value, "none") == 0) {
        *field = 0;
        return 0;
    }
    int r = units_parse_time(value, field);
    if (r == -ERANGE)
        return error_set(err, EINVAL, "'%s' is too long", value);
    if (r < 0)
        return error_set(err, EINVAL, "'%s' is not a time like 250ms, 30s or 5m", value);
    return 0;
}

int option_parse_string(void *target, const struct option *self, const char *value,
                        struct error *err)
{
    if (!*value)
        return error_set(err, EINVAL, "the value is empty");
    *OPTION_FIELD(const char *) = value;
    return 0;
}

const struct option *option_next(const struct option_set *sets, const struct option *last)
{
    const struct option_set *set = sets;
    const struct option *o = set->table;
    if (last) {
        /* The set that holds `last`: tables are arrays that end with a row without a name. */
        for (; set->table; set++) {
            for (o = set->table; o->name && o != last; o++)
                ;
            if (o == last)
                break;
        }
        o++;
    }
    while (set->table) {
        for (; o->name; o++)
            if (o->where & set->mask)
                return o;
        set++;
        o = set->table;
    }
    return NULL;
}

const struct option *option_find(const struct option_set *sets, const char *name, size_t n)
{
    for (const struct option *o = NULL; (o = option_next(sets, o));)
        if (strncmp(o->name, name, n) == 0 && !o->name[n])
            return o;
    return NULL;
}

/* One word that begins with `--`. `next` is the word after it or NULL; *ret_took_next says whether
 * it was the value. */
static int options_parse_long(const struct option_set *sets, const char *word, const char *next,
                              void *target, bool *ret_took_next, struct error *err)
{
    size_t n = strcspn(word, "=");
    const char *value = word[n] ? word + n + 1 : NULL;
    const struct option *o = option_find(sets, word + 2, n - 2);
    if (!o) {
        struct nearest near = nearest_to(word + 2, n - 2);
        while ((o = option_next(sets, o)))
            nearest_offer(&near, o->name);
        return near.best ? error_set(err, EINVAL, "unknown option '%.*s'; did you mean '--%s'?",
                                     (int)n, word, near.best)
                         : error_set(err, EINVAL, "unknown option '%.*s'", (int)n, word);
    }
    if (!o->arg && value)
        return error_set(err, EINVAL, "--%s takes no value", o->name);
    *ret_took_next = o->arg && !value;
    if (*ret_took_next && !next)
        return error_set(err, EINVAL, "--%s needs a value: --%s %s", o->name, o->name, o->arg);
    int r = o->parse(target, o, *ret_took_next ? next : value, err);
    return r < 0 ? error_wrap(err, "--%s", o->name) : 0;
}

/* One word of short options: flags may stand together, a value follows its letter or is the next
 * word. */
static int options_parse_short(const struct option_set *sets, const char *word, const char *next,
                               void *target, bool *ret_took_next, struct error *err)
{
    for (const char *at = word + 1; *at; at++) {
        const struct option *o = NULL;
        while ((o = option_next(sets, o)) && o->letter != *at)
            ;
        if (!o)
            return error_set(err, EINVAL, "unknown option '-%c'", *at);
        *ret_took_next = o->arg && !at[1];
        if (*ret_took_next && !next)
            return error_set(err, EINVAL, "-%c needs a value: -%c %s", *at, *at, o->arg);
        int r = o->parse(target, o, !o->arg ? NULL : at[1] ? at + 1 : next, err);
        if (r < 0)
            return error_wrap(err, "--%s", o->name);
        if (o->arg)
            return 0;
    }
    return 0;
}

/* Parses up to the first word that is no option, or past `--`; *ret_ended: there was a `--`. */
static int options_parse_some(const struct option_set *sets, int argc, char *const *argv,
                              void *target, int *ret_used, bool *ret_ended, struct error *err)
{
    int i = 0;
    bool ended = false;
    while (i < argc && !ended && argv[i][0] == '-' && argv[i][1]) {
        const char *word = argv[i];
        const char *next = i + 1 < argc ? argv[i + 1] : NULL;
        bool took_next = false;
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
            return OPTIONS_HELP;
        ended = strcmp(word, "--") == 0;
        int r = 0;
        if (word[1] != '-')
            r = options_parse_short(sets, word, next, target, &took_next, err);
        else if (!ended)
            r = options_parse_long(sets, word, next, target, &took_next, err);
        if (r < 0)
            return r;
        i += took_next ? 2 : 1;
    }
    *ret_used = i;
    *ret_ended = ended;
    return 0;
}

int options_parse(const struct option_set *sets, int argc, char *const *argv, void *target,
                  int *ret_used, struct error *err)
{
    bool ended;
    return options_parse_some(sets, argc, argv, target, ret_used, &ended, err);
}

int options_parse_mixed(const struct option_set *sets, int argc, char **argv, void *target,
                        int *ret_n_words, struct error *err)
{
    int n_words = 0;
    bool ended = false;
    for (int i = 0; i < argc;) {
        int used = 0;
        int r =
            ended ? 0 : options_parse_some(sets, argc - i, argv + i, target, &used, &ended, err);
        if (r != 0)
            return r;
        i += used;
        if (i < argc)
            argv[n_words++] = argv[i++];
    }
    *ret_n_words = n_words;
    return 0;
}
