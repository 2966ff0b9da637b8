/* Base64 (RFC 4648, with padding), for bytes that must pass through JSON. */
#pragma once

#include <stddef.h>

struct buf;

/* Returns 0, or -ENOBUFS when it does not fit. */
int base64_append(struct buf *b, const void *data, size_t n);

/* Appends the bytes. -EINVAL if it is no base64, with padding and nothing else in it; -ENOBUFS. */
int base64_decode(struct buf *b, const char *text, size_t n);
