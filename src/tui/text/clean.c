#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "clean.h"
#include "utf8.h"
#include "banned.h"

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

uint32_t clean_decode(const char *s, size_t n, size_t *ret_size)
{
    const uint8_t *at = (const uint8_t *)s;
    size_t size = utf8_character(at, n);
    uint32_t code = size <= 1 ? at[0] : at[0] & (0xffu >> (size + 1));
    for (size_t i = 1; i < size; i++)
        code = code << 6 | (at[i] & 0x3f);
    *ret_size = size ? size : 1;
    return size ? code : 0xfffd;
}

size_t clean_encode(uint32_t code, char out[4])
{
    static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(lead[n] | code);
    return n;
}

/* Invisible, and terminals disagree about what it does to its neighbours. */
static bool is_left_out(uint32_t c)
{
    return c == 0xad || c == 0x34f || (c >= 0x200b && c <= 0x200d) ||
           (c >= 0x2060 && c <= 0x2064) || c == 0xfeff || (c >= 0xfe00 && c <= 0xfe0f) ||
           (c >= 0x1f3fb && c <= 0x1f3ff) || (c >= 0xe0100 && c <= 0xe01ef);
}

/* ESC [ digits and separators m: how many bytes, or 0. */
static size_t sgr_length(const uint8_t *s, size_t n)
{
    if (n < 3 || s[0] != 0x1b || s[1] != '[')
        return 0;
    for (size_t i = 2; i < n && i < 64; i++) {
        if (s[i] == 'm')
            return i + 1;
        if (!strchr("0123456789;:", s[i]) || !s[i])
            return 0;
    }
    return 0;
}

static void append_character(struct buf *out, const uint8_t *at, size_t size)
{
    size_t decoded;
    uint32_t code = clean_decode((const char *)at, size, &decoded);
    /* Only a locale that knows all characters can tell that one does not exist. */
    bool unknown = MB_CUR_MAX > 1 && wcwidth((wchar_t)code) < 0;
    if (code < 0x20 || code == 0x7f) {
        const char picture[] = {'\xe2', '\x90', (char)(code == 0x7f ? 0xa1 : 0x80 + code)};
        buf_append(out, picture, sizeof picture);
        return;
    }
    if (is_left_out(code))
        return;
    if (utf8_is_control(at, size) || unknown)
        buf_append(out, REPLACEMENT, 3);
    else
        buf_append(out, at, size);
}

int clean_append(struct buf *out, const void *text, size_t n, bool output)
{
    const uint8_t *at = text, *end = at + n;
    while (at < end) {
        size_t left = (size_t)(end - at), plain = 0;
        while (plain < left &&
               ((at[plain] >= 0x20 && at[plain] < 0x7f) || at[plain] == '\n' || at[plain] == '\t'))
            plain++;
        buf_append(out, at, plain);
        at += plain;
        left -= plain;
        if (!left)
            break;
        size_t skip = output ? sgr_length(at, left) : 0;
        if (!skip && left > 1 && at[0] == '\r' && at[1] == '\n')
            skip = 1;
        size_t size = skip ? 0 : utf8_character(at, left);
        if (size)
            append_character(out, at, size);
        else if (!skip)
            buf_append(out, REPLACEMENT, 3);
        at += skip ? skip : size ? size : 1;
    }
    return out->failed ? -ENOBUFS : 0;
}

char *clean_string(const char *text, size_t n, size_t most)
{
    _cleanup_buf_ struct buf b = BUF_INIT(most * CLEAN_GROWTH + 8);
    clean_append(&b, text, n < most ? n : most, true);
    char *s = buf_cstr(&b);
    return strdup(s ? s : "");
}

static int character_width(uint32_t code)
{
    int w = code < 0x7f ? 1 : wcwidth((wchar_t)code);
    return w < 0 ? 1 : w; /* unknown to the locale: drawn as a substitute */
}

size_t clean_next(const char *s, size_t n, int *ret_width)
{
    size_t size, more;
    int width = character_width(clean_decode(s, n, &size));
    while (size < n && (uint8_t)s[size] >= 0xcc) {
        uint32_t code = clean_decode(s + size, n - size, &more);
        if (character_width(code) != 0)
            break;
        size += more;
    }
    *ret_width = width ? width : 1;
    return size;
}

int clean_width(const char *s, size_t n)
{
    int total = 0, width;
    for (size_t i = 0; i < n; total += width)
        i += clean_next(s + i, n - i, &width);
    return total;
}

size_t clean_fit(const char *s, size_t n, int width, int *ret_width)
{
    size_t i = 0;
    int total = 0, one;
    while (i < n) {
        size_t size = clean_next(s + i, n - i, &one);
        if (total + one > width)
            break;
        total += one;
        i += size;
    }
    *ret_width = total;
    return i;
}
