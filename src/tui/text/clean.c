#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>

#include "lines.h"
#include "text.h"
#include "banned.h"

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */
#define ZWJ         0x200d

/* Bytes that grapheme_before() looks back at most: a longer sequence is not a real character. */
#define LOOK_BACK 128

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

int clean_append(struct buf *out, const void *text, size_t n, bool output)
{
    /* Invisible, and terminals disagree about what they do to their neighbours. */
    static const uint32_t LEFT_OUT[][2] = {
        {0xad, 0xad},     {0x34f, 0x34f},   {0x200b, 0x200d},   {0x2060, 0x2064},
        {0xfeff, 0xfeff}, {0xfe00, 0xfe0f}, {0x1f3fb, 0x1f3ff}, {0xe0100, 0xe01ef},
    };
    const uint8_t *at = text, *end = at + n;
    while (at < end) {
        size_t left = (size_t)(end - at), plain = 0, skip = 0;
        while (plain < left &&
               ((at[plain] >= 0x20 && at[plain] < 0x7f) || at[plain] == '\n' || at[plain] == '\t'))
            plain++;
        buf_append(out, at, plain);
        at += plain;
        left -= plain;
        if (!left)
            break;
        /* ESC [ digits and separators m; and the CR before a newline */
        if (output && left > 2 && at[0] == 0x1b && at[1] == '[') {
            size_t i = 2;
            while (i < left && i < 63 && (isdigit(at[i]) || at[i] == ';' || at[i] == ':'))
                i++;
            skip = i < left && at[i] == 'm' ? i + 1 : 0;
        } else if (left > 1 && at[0] == '\r' && at[1] == '\n') {
            skip = 1;
        }
        if (skip) {
            at += skip;
            continue;
        }
        size_t size;
        const uint8_t *c = at;
        uint32_t code = clean_decode((const char *)c, left, &size);
        bool valid = utf8_character(c, left), left_out = false;
        at += size;
        for (size_t i = 0; i < ARRAY_SIZE(LEFT_OUT); i++)
            left_out = left_out || (code >= LEFT_OUT[i][0] && code <= LEFT_OUT[i][1]);
        if (left_out)
            continue;
        /* Only a locale that knows all characters can tell that one does not exist. */
        bool unknown = MB_CUR_MAX > 1 && wcwidth((wchar_t)code) < 0;
        const char picture[] = {'\xe2', '\x90', (char)(code == 0x7f ? 0xa1 : 0x80 + code)};
        if (code < 0x20 || code == 0x7f)
            buf_append(out, picture, sizeof picture);
        else if (!valid || unknown || utf8_is_control(c, size))
            buf_append(out, REPLACEMENT, 3);
        else
            buf_append(out, c, size);
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

/* Graphemes. */

static uint32_t code_at(const char *text, size_t n, size_t at, size_t *ret_size)
{
    *ret_size = 0;
    return at < n ? clean_decode(text + at, n - at, ret_size) : 0xfffd;
}

static size_t code_before(const char *text, size_t at)
{
    while (at > 0 && ((uint8_t)text[--at] & 0xc0) == 0x80)
        ;
    return at;
}

static bool is_flag_letter(uint32_t c)
{
    return c >= 0x1f1e6 && c <= 0x1f1ff;
}

/* Belongs to the character before it: accents, variation selectors, skin tones, tags, joiners. */
static bool extends_grapheme(uint32_t c)
{
    return c >= 0x300 &&
           (c == ZWJ || (c >= 0xfe00 && c <= 0xfe0f) || (c >= 0x1f3fb && c <= 0x1f3ff) ||
            (c >= 0xe0020 && c <= 0xe007f) || wcwidth((wchar_t)c) == 0);
}

size_t grapheme_next(const char *text, size_t n, size_t at)
{
    size_t size, more;
    uint32_t c = code_at(text, n, at, &size);
    at += size;
    if (is_flag_letter(c) && is_flag_letter(code_at(text, n, at, &more)) && more)
        return at + more;
    while (at < n && c != '\n') {
        uint32_t next = code_at(text, n, at, &more);
        if (c == ZWJ ? next == '\n' || next == ' ' : !extends_grapheme(next))
            break;
        at += more;
        c = next;
    }
    return at;
}

/* Goes back to a point where a grapheme certainly begins, and from there forward. */
size_t grapheme_before(const char *text, size_t n, size_t at)
{
    size_t begin = code_before(text, at), size;
    for (size_t steps = 0; begin > 0 && at - begin < LOOK_BACK && steps < LOOK_BACK; steps++) {
        uint32_t c = code_at(text, n, begin, &size);
        size_t earlier = code_before(text, begin);
        uint32_t previous = code_at(text, n, earlier, &size);
        if (!extends_grapheme(c) && !is_flag_letter(c) && previous != ZWJ)
            break;
        if (is_flag_letter(c) && !is_flag_letter(previous))
            break;
        begin = earlier;
    }
    for (size_t next; begin < at && (next = grapheme_next(text, n, begin)) < at;)
        begin = next;
    return begin;
}

static bool is_word_code(uint32_t c)
{
    return c < 0x80 ? isalnum((int)c) || c == '_' : iswalnum((wint_t)c) || extends_grapheme(c);
}

size_t grapheme_word_end(const char *text, size_t n, size_t at)
{
    size_t size;
    while (at < n && !is_word_code(code_at(text, n, at, &size)))
        at += size;
    while (at < n && is_word_code(code_at(text, n, at, &size)))
        at += size;
    return at;
}

size_t grapheme_word_begin(const char *text, size_t n, size_t at)
{
    size_t size;
    while (at > 0 && !is_word_code(code_at(text, n, code_before(text, at), &size)))
        at = code_before(text, at);
    while (at > 0 && is_word_code(code_at(text, n, code_before(text, at), &size)))
        at = code_before(text, at);
    return at;
}
