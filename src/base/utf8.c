#include <errno.h>

#include "buf.h"
#include "utf8.h"
#include "banned.h"

/* What may follow a first byte: how long the character is, and the range of its second byte, which
 * is narrower than 80..BF where an overlong form, a surrogate or too high a number would begin. */
struct lead {
    uint8_t first, last, length, low, high;
};

static const struct lead LEADS[] = {
    {0x00, 0x7f, 1, 0, 0},       {0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf},
    {0xe1, 0xec, 3, 0x80, 0xbf}, {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf},
    {0xf0, 0xf0, 4, 0x90, 0xbf}, {0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f},
};

static const struct lead *lead_of(uint8_t byte)
{
    for (size_t i = 0; i < sizeof LEADS / sizeof LEADS[0]; i++)
        if (byte >= LEADS[i].first && byte <= LEADS[i].last)
            return &LEADS[i];
    return NULL;
}

static bool is_continuation(uint8_t byte)
{
    return (byte & 0xc0) == 0x80;
}

/* Are the n bytes, fewer than or as many as the character needs, right as far as they go? */
static bool lead_fits(const struct lead *lead, const uint8_t *s, size_t n)
{
    if (n > 1 && (s[1] < lead->low || s[1] > lead->high))
        return false;
    for (size_t i = 2; i < n; i++)
        if (!is_continuation(s[i]))
            return false;
    return true;
}

size_t utf8_character(const uint8_t *s, size_t n)
{
    if (n == 0)
        return 0;
    const struct lead *lead = lead_of(s[0]);
    if (!lead || lead->length > n || !lead_fits(lead, s, lead->length))
        return 0;
    return lead->length;
}

bool utf8_valid(const uint8_t *s, size_t n)
{
    while (n > 0) {
        size_t size = *s < 0x80 ? 1 : utf8_character(s, n);
        if (size == 0)
            return false;
        s += size;
        n -= size;
    }
    return true;
}

size_t utf8_cut_end(const uint8_t *s, size_t n)
{
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        const uint8_t *at = s + n - back;
        if (is_continuation(*at))
            continue;
        const struct lead *lead = lead_of(*at);
        return lead && lead->length > back && lead_fits(lead, at, back) ? back : 0;
    }
    return 0;
}

size_t utf8_cut_start(const uint8_t *s, size_t n)
{
    size_t i = 0;
    while (i < n && i < 4 && is_continuation(s[i]))
        i++;
    return i < 4 ? i : 0;
}

/* The number of a valid character. */
static uint32_t utf8_decode(const uint8_t *s, size_t n)
{
    uint32_t code = n == 1 ? s[0] : s[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++)
        code = code << 6 | (s[i] & 0x3f);
    return code;
}

bool utf8_is_control(const uint8_t *s, size_t n)
{
    uint32_t code = utf8_decode(s, n);
    bool plain_control = code < 0x20 || (code >= 0x7f && code < 0xa0);
    bool separator = code == 0x2028 || code == 0x2029;
    bool direction = (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) ||
                     code == 0x200e || code == 0x200f || code == 0x061c;
    return plain_control || separator || direction;
}

#define REPLACEMENT 0xfffdu
#define MARK        0xfeffu

static uint32_t utf16_unit(const uint8_t *s, bool big)
{
    return big ? (uint32_t)s[0] << 8 | s[1] : (uint32_t)s[1] << 8 | s[0];
}

/* The character at the start of n >= 2 bytes; *ret_used is how many it takes. */
static uint32_t utf16_character(const uint8_t *s, size_t n, bool big, size_t *ret_used)
{
    uint32_t high = utf16_unit(s, big);
    *ret_used = 2;
    if (high < 0xd800 || high > 0xdfff)
        return high;
    uint32_t low = high < 0xdc00 && n >= 4 ? utf16_unit(s + 2, big) : 0;
    if (low < 0xdc00 || low > 0xdfff)
        return REPLACEMENT;
    *ret_used = 4;
    return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
}

static void utf8_put(struct buf *out, uint32_t c)
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
    size_t at = n >= 2 && utf16_unit(s, big_endian) == MARK ? 2 : 0;
    while (at + 2 <= n) {
        size_t used;
        utf8_put(out, utf16_character(s + at, n - at, big_endian, &used));
        at += used;
    }
    if (at < n)
        utf8_put(out, REPLACEMENT);
    return out->failed ? -ENOBUFS : 0;
}
