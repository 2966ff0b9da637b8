#include <errno.h>

#include "utf16.h"
#include "banned.h"

#define REPLACEMENT 0xfffdu
#define MARK        0xfeffu

static uint32_t unit(const uint8_t *s, bool big)
{
    return big ? (uint32_t)s[0] << 8 | s[1] : (uint32_t)s[1] << 8 | s[0];
}

/* The character at the start of n >= 2 bytes; *ret_used is how many it takes. */
static uint32_t character(const uint8_t *s, size_t n, bool big, size_t *ret_used)
{
    uint32_t high = unit(s, big);
    *ret_used = 2;
    if (high < 0xd800 || high > 0xdfff)
        return high;
    uint32_t low = high < 0xdc00 && n >= 4 ? unit(s + 2, big) : 0;
    if (low < 0xdc00 || low > 0xdfff)
        return REPLACEMENT;
    *ret_used = 4;
    return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
}

static void put(struct buf *out, uint32_t c)
{
    uint8_t b[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        b[i] = (uint8_t)(0x80 | (c & 0x3f));
    b[0] = (uint8_t)(n == 1 ? c : (0xf00u >> n & 0xffu) | c);
    buf_append(out, b, n);
}

int utf16_append(struct buf *out, const uint8_t *s, size_t n, bool big_endian)
{
    size_t at = n >= 2 && unit(s, big_endian) == MARK ? 2 : 0;
    while (at + 2 <= n) {
        size_t used;
        put(out, character(s + at, n - at, big_endian, &used));
        at += used;
    }
    if (at < n)
        put(out, REPLACEMENT);
    return out->failed ? -ENOBUFS : 0;
}
