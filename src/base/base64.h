/* Base64 (RFC 4648, with padding), for bytes that must pass through JSON. */
#pragma once

#include <stddef.h>

struct buf;

/* Returns 0, or -ENOBUFS when it does not fit. */
int base64_append(struct buf *b, const void *data, size_t n);
