/* Sizes (`512M`, `2G`), times (`250ms`, `30s`, `5m`) and counts as people write them on the command line. */
#pragma once

#include <stdint.h>

/* All return 0 or -EINVAL (not of that form) or -ERANGE (too large), and leave *ret alone on failure. */
int units_parse_size(const char *s, uint64_t *ret_bytes);
int units_parse_time(const char *s, int64_t *ret_ns);
int units_parse_count(const char *s, uint64_t *ret);
int units_parse_decimal(const char *s, double *ret); /* digits with at most one point: `1.5` */
