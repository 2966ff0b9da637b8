/* Sizes (`512M`, `2G`), times (`250ms`, `30s`, `5m`) and counts as people write and read them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* All return 0 or -EINVAL (not of that form) or -ERANGE (too large), and leave *ret alone on
 * failure. */
int units_parse_size(const char *s, uint64_t *ret_bytes);
int units_parse_time(const char *s, int64_t *ret_ns);
int units_parse_count(const char *s, uint64_t *ret);
int units_parse_decimal(const char *s, double *ret); /* digits with at most one point: `1.5` */

/* `42s`, `5m`, `3h`, `2d`: about how long; `-` for a negative time. Returns `out`. */
const char *units_rough_time(int64_t ns, char *out, size_t size);
