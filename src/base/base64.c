#include <errno.h>
#include <stdbool.h>
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

static int digit_of(uint8_t c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

/* Four digits, of which the last ones may be padding where the text ends: how many bytes they are, or 0. */
static size_t decode_group(const uint8_t *s, bool last, uint8_t ret[3])
{
    size_t digits = !last || s[3] != '=' ? 4 : s[2] != '=' ? 3 : 2;
    uint32_t group = 0;
    for (size_t i = 0; i < 4; i++) {
        int d = i < digits ? digit_of(s[i]) : 0;
        if (d < 0)
            return 0;
        group = group << 6 | (uint32_t)d;
    }
    for (size_t i = 0; i < 3; i++)
        ret[i] = (uint8_t)(group >> (16 - 8 * i));
    return digits - 1;
}

int base64_decode(struct buf *b, const char *text, size_t n)
{
    const uint8_t *s = (const uint8_t *)text;
    if (n % 4)
        return -EINVAL;
    for (size_t i = 0; i < n; i += 4) {
        uint8_t bytes[3];
        size_t size = decode_group(s + i, i + 4 == n, bytes);
        if (size == 0)
            return -EINVAL;
        if (buf_append(b, bytes, size) < 0)
            return -ENOBUFS;
    }
    return 0;
}
