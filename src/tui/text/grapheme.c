#include <ctype.h>
#include <stdint.h>
#include <wchar.h>
#include <wctype.h>

#include "clean.h"
#include "grapheme.h"
#include "banned.h"

#define ZWJ 0x200d

/* Bytes that grapheme_before() looks back at most: a longer sequence is not a real character. */
#define LOOK_BACK 128

static uint32_t code_at(const char *text, size_t n, size_t at, size_t *ret_size)
{
    if (at < n)
        return clean_decode(text + at, n - at, ret_size);
    *ret_size = 0;
    return 0xfffd;
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
    if (c < 0x300)
        return false;
    return c == ZWJ || (c >= 0xfe00 && c <= 0xfe0f) || (c >= 0x1f3fb && c <= 0x1f3ff) ||
           (c >= 0xe0020 && c <= 0xe007f) || wcwidth((wchar_t)c) == 0;
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
        if (!extends_grapheme(next) && c != ZWJ)
            break;
        if (c == ZWJ && (next == '\n' || next == ' '))
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
    while (begin < at) {
        size_t next = grapheme_next(text, n, begin);
        if (next >= at)
            break;
        begin = next;
    }
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

size_t grapheme_blank_begin(const char *text, size_t n, size_t at)
{
    while (at > 0 && isspace((unsigned char)text[at - 1]))
        at--;
    while (at > 0 && !isspace((unsigned char)text[at - 1]))
        at--;
    return at;
}
