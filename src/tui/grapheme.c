#include <ctype.h>
#include <stdint.h>
#include <wchar.h>
#include <wctype.h>

#include "grapheme.h"
#include "utf8.h"
#include "banned.h"

#define ZWJ 0x200d

/* A grapheme is looked for no further back than this; what is longer is no character. */
#define LOOK_BACK 128

unsigned grapheme_decode(const char *text, size_t n, size_t at, size_t *ret_size)
{
    static const uint8_t lead[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    const uint8_t *s = (const uint8_t *)text + at;
    size_t size = at < n ? utf8_character(s, n - at) : 0;
    if (size == 0) {
        *ret_size = at < n;
        return 0xfffd;
    }
    unsigned c = s[0] & lead[size];
    for (size_t i = 1; i < size; i++)
        c = c << 6 | (s[i] & 0x3f);
    *ret_size = size;
    return c;
}

static size_t before(const char *text, size_t at)
{
    while (at > 0 && ((uint8_t)text[--at] & 0xc0) == 0x80)
        ;
    return at;
}

static bool is_flag_letter(unsigned c)
{
    return c >= 0x1f1e6 && c <= 0x1f1ff;
}

/* What belongs to the character before it: accents, variation selectors, skin tones, tags, a
 * joiner. */
static bool extends(unsigned c)
{
    if (c < 0x300)
        return false;
    return c == ZWJ || (c >= 0xfe00 && c <= 0xfe0f) || (c >= 0x1f3fb && c <= 0x1f3ff) ||
           (c >= 0xe0020 && c <= 0xe007f) || wcwidth((wchar_t)c) == 0;
}

size_t grapheme_next(const char *text, size_t n, size_t at)
{
    size_t size, more;
    unsigned c = grapheme_decode(text, n, at, &size);
    at += size;
    if (is_flag_letter(c) && is_flag_letter(grapheme_decode(text, n, at, &more)) && more)
        return at + more;
    while (at < n && c != '\n') {
        unsigned next = grapheme_decode(text, n, at, &more);
        if (!extends(next) && c != ZWJ)
            break;
        if (c == ZWJ && (next == '\n' || next == ' '))
            break;
        at += more;
        c = next;
    }
    return at;
}

/* Goes back to where a grapheme surely begins, and from there forward. */
size_t grapheme_before(const char *text, size_t n, size_t at)
{
    size_t begin = before(text, at), size;
    for (size_t steps = 0; begin > 0 && at - begin < LOOK_BACK && steps < LOOK_BACK; steps++) {
        unsigned c = grapheme_decode(text, n, begin, &size);
        size_t earlier = before(text, begin);
        unsigned previous = grapheme_decode(text, n, earlier, &size);
        if (!extends(c) && !is_flag_letter(c) && previous != ZWJ)
            break;
        if (is_flag_letter(c) && !is_flag_letter(previous))
            break;
        begin = earlier;
    }
    while (begin < at) {
        size_t next = grapheme_next(text, n, begin);
        if (next >= at)
            break;
        begin = next;
    }
    return begin;
}

static bool in_word(unsigned c)
{
    return c < 0x80 ? isalnum((int)c) || c == '_' : iswalnum((wint_t)c) || extends(c);
}

size_t grapheme_word_end(const char *text, size_t n, size_t at)
{
    size_t size;
    while (at < n && !in_word(grapheme_decode(text, n, at, &size)))
        at += size;
    while (at < n && in_word(grapheme_decode(text, n, at, &size)))
        at += size;
    return at;
}

size_t grapheme_word_begin(const char *text, size_t n, size_t at)
{
    size_t size;
    while (at > 0 && !in_word(grapheme_decode(text, n, before(text, at), &size)))
        at = before(text, at);
    while (at > 0 && in_word(grapheme_decode(text, n, before(text, at), &size)))
        at = before(text, at);
    return at;
}

size_t grapheme_blank_begin(const char *text, size_t n, size_t at)
{
    while (at > 0 && isspace((unsigned char)text[at - 1]))
        at--;
    while (at > 0 && !isspace((unsigned char)text[at - 1]))
        at--;
    return at;
}
