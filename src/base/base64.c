#include <errno.h>
#include <stdint.h>

#include "base64.h"
#include "buf.h"
#include "banned.h"

int base64_append(struct buf *b, const void *data, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *s = data;
    if (n > SIZE_MAX / 2)
        return -ENOBUFS;
    size_t size = (n + 2) / 3 * 4;
    char *out = buf_reserve(b, size);
    if (!out)
        return -ENOBUFS;
    for (size_t i = 0; i < n; i += 3) {
        uint32_t group = (uint32_t)s[i] << 16;
        group |= i + 1 < n ? (uint32_t)s[i + 1] << 8 : 0;
        group |= i + 2 < n ? s[i + 2] : 0;
        *out++ = digits[group >> 18];
        *out++ = digits[group >> 12 & 63];
        *out++ = i + 1 < n ? digits[group >> 6 & 63] : '=';
        *out++ = i + 2 < n ? digits[group & 63] : '=';
    }
    b->len += size;
    return 0;
}
