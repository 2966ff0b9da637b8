/* UTF-16 to UTF-8. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"

/* Appends n bytes of UTF-16 as UTF-8, without a byte order mark at their start. What is no
 * character becomes U+FFFD. 0 or -ENOBUFS. */
int utf16_append(struct buf *out, const uint8_t *s, size_t n, bool big_endian);
