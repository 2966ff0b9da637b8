#include <errno.h>
#include <string.h>

#include "optval.h"
#include "units.h"
#include "banned.h"

int optval_size(const char *shown, const char *value, uint64_t *ret_bytes, struct error *err)
{
    int r = units_parse_size(value, ret_bytes);
    if (r == -ERANGE)
        return error_set(err, EINVAL, "%s: '%s' is too large", shown, value);
    if (r < 0)
        return error_set(err, EINVAL, "%s: '%s' is not a size like 512M or 2G", shown, value);
    return 0;
}

int optval_count(const char *shown, const char *value, uint64_t *ret, struct error *err)
{
    uint64_t n;
    int r = units_parse_count(value, &n);
    if (r == -ERANGE || (r == 0 && n > INT32_MAX))
        return error_set(err, EINVAL, "%s: '%s' is too large", shown, value);
    if (r < 0 || n == 0)
        return error_set(err, EINVAL, "%s: '%s' is not a number of 1 or more", shown, value);
    *ret = n;
    return 0;
}

int optval_time(const char *shown, const char *value, int64_t *ret_ns, struct error *err)
{
    if (strcmp(value, "none") == 0) {
        *ret_ns = 0;
        return 0;
    }
    int r = units_parse_time(value, ret_ns);
    if (r == -ERANGE)
        return error_set(err, EINVAL, "%s: '%s' is too long", shown, value);
    if (r < 0)
        return error_set(err, EINVAL, "%s: '%s' is not a time like 250ms, 30s or 5m", shown, value);
    return 0;
}

int optval_string(const char *shown, const char *value, const char **ret, struct error *err)
{
    if (!*value)
        return error_set(err, EINVAL, "%s: the value is empty", shown);
    *ret = value;
    return 0;
}
