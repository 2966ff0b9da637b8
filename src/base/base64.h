/* Base64 (RFC 4648, with padding), for bytes that must pass through JSON. */
#pragma once

#include <stddef.h>

struct buf;

/* Returns 0, or -ENOBUFS when it does not fit. */
int base64_append(struct buf *b, const void *data, size_t n);

/* The bytes that n characters stand for; spaces and line ends between them are passed over. -EINVAL
 * if they are no base64, -ENOBUFS when it does not fit; b may then hold a part. */
int base64_decode(struct buf *b, const char *text, size_t n);
