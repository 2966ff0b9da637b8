#include <errno.h>
#include <string.h>

#include "decode.h"
#include "banned.h"

#define MENDED_GROWTH 4 /* a byte becomes at most so many */
#define REPLACEMENT   "\xef\xbf\xbd"

/* The broken byte as a character of its own: U+10FE00 + byte. */
static void buf_put_broken(struct buf *out, uint8_t byte)
{
    uint8_t c[4] = {0xf4, 0x8f, 0xb8 | byte >> 6, 0x80 | (byte & 0x3f)};
    buf_append(out, c, sizeof c);
}

/* The number of an escape \uXXXX at s, or -1. */
static int escape_at(const char *s, size_t n)
{
    char hex[5] = "";
    if (n < 6 || s[0] != '\\' || s[1] != 'u')
        return -1;
    memcpy(hex, s + 2, 4);
    return strspn(hex, "0123456789abcdefABCDEF") == 4 ? (int)strtol(hex, NULL, 16) : -1;
}

/* Outside of strings only bytes that are not UTF-8 are mended; in a string also a surrogate without
 * its other half, which becomes the three bytes that UTF-8 would have for it. */
static void json_mend(const char *s, size_t n, struct buf *out)
{
    bool in_string = false;
    for (size_t size; n > 0; s += size, n -= size) {
        size = (uint8_t)*s < 0x80 ? 1 : utf8_character((const uint8_t *)s, n);
        if (in_string && *s == '\\') {
            int code = escape_at(s, n);
            bool high = code >= 0xd800 && code < 0xdc00, low = code >= 0xdc00 && code < 0xe000;
            int next = high ? escape_at(s + 6, n - 6) : -1;
            bool alone = low || (high && (next < 0xdc00 || next > 0xdfff));
            size = alone ? 6 : high ? 12 : n < 2 ? n : 2;
            if (alone) {
                buf_put_broken(out, 0xe0 | code >> 12);
                buf_put_broken(out, 0x80 | (code >> 6 & 0x3f));
                buf_put_broken(out, 0x80 | (code & 0x3f));
            } else {
                buf_append(out, s, size);
            }
        } else if (size > 0) {
            in_string ^= *s == '"';
            buf_append(out, s, size);
        } else {
            buf_put_broken(out, (uint8_t)*s);
            size = 1;
        }
    }
}

/* Integers that do not fit are read as reals. */
static json_t *json_load_lenient(const char *text, size_t n, bool *ret_no_memory)
{
    static const size_t FLAGS[] = {0, JSON_DECODE_INT_AS_REAL};
    json_t *value = NULL;
    json_error_t at;
    *ret_no_memory = false;
    for (size_t i = 0; i < ARRAY_SIZE(FLAGS) && !value && !*ret_no_memory; i++) {
        value = json_loadb(text, n, JSON_DECODE_ANY | JSON_ALLOW_NUL | FLAGS[i], &at);
        *ret_no_memory = !value && json_error_code(&at) == json_error_out_of_memory;
    }
    return value;
}

int lenient_json_parse(const char *text, size_t n, struct lenient_json *ret)
{
    size_t values = json_count_values(text, n, LENIENT_JSON_VALUES_MAX);
    if (values > LENIENT_JSON_VALUES_MAX)
        return -E2BIG;
    bool no_memory, mended = false;
    json_t *value = json_load_lenient(text, n, &no_memory);
    if (!value && !no_memory) {
        _cleanup_buf_ struct buf whole = BUF_INIT(MENDED_GROWTH * n + 1);
        json_mend(text, n, &whole);
        if (whole.failed)
            return -ENOMEM;
        mended = true;
        value = json_load_lenient(whole.len ? (char *)whole.data : "", whole.len, &no_memory);
    }
    if (!value)
        return no_memory ? -ENOMEM : -EBADMSG;
    *ret = (struct lenient_json){.value = value, .values = values, .mended = mended};
    return 0;
}

/* The byte that a character of the private range stands for, or -1. */
static int broken_byte_at(const char *s, size_t n)
{
    const uint8_t *c = (const uint8_t *)s;
    bool ours = n >= 4 && c[0] == 0xf4 && c[1] == 0x8f && c[2] >= 0xb8 && c[2] <= 0xbb;
    return ours ? (c[2] & 3) << 6 | (c[3] & 0x3f) : -1;
}

/* Do the n bytes begin as the three of a surrogate, of the high ones (0xa0) or the low ones
 * (0xb0)? */
static bool is_surrogate(const uint8_t *s, size_t n, uint8_t which)
{
    return n >= 2 && s[0] == 0xed && (s[1] & 0xf0) == which && (n < 3 || (s[2] & 0xc0) == 0x80);
}

/* Could more bytes make a character of these? */
static bool surrogate_may_grow(const uint8_t *s, size_t n)
{
    if (utf8_cut_end(s, n) == n)
        return true;
    if (n <= 3)
        return is_surrogate(s, n, 0xa0) || (n == 2 && is_surrogate(s, n, 0xb0));
    return n < 6 && is_surrogate(s, n, 0xa0) && s[3] == 0xed &&
           (n == 4 || is_surrogate(s + 3, n - 3, 0xb0));
}

/* How many bytes at the front are one mistake: a surrogate, the beginning of a character, or a
 * byte. */
static size_t broken_length(const uint8_t *s, size_t n)
{
    if (n >= 3 && (is_surrogate(s, n, 0xa0) || is_surrogate(s, n, 0xb0)))
        return 3;
    for (size_t size = n < 3 ? n : 3; size > 1; size--)
        if (utf8_cut_end(s, size) == size)
            return size;
    return 1;
}

static void utf8_pieces_drain(struct utf8_pieces *b, bool ended, struct buf *out)
{
    while (b->n > 0) {
        size_t size = utf8_character(b->held, b->n);
        if (size > 0 && b->held[0] != 0) {
            buf_append(out, b->held, size);
        } else if (b->n >= 6 && is_surrogate(b->held, 6, 0xa0) &&
                   is_surrogate(b->held + 3, 3, 0xb0)) {
            const uint8_t *s = b->held; /* two surrogates of three bytes each: one character */
            uint32_t code = 0x10000 + ((s[1] & 0x0fu) << 16 | (s[2] & 0x3fu) << 10) +
                            ((s[4] & 0x0fu) << 6 | (s[5] & 0x3fu));
            uint8_t c[4] = {0xf0 | code >> 18, 0x80 | (code >> 12 & 0x3f),
                            0x80 | (code >> 6 & 0x3f), 0x80 | (code & 0x3f)};
            buf_append(out, c, sizeof c);
            size = 6;
        } else if (!ended && size == 0 && surrogate_may_grow(b->held, b->n)) {
            return;
        } else {
            buf_append_str(out, REPLACEMENT);
            size = broken_length(b->held, b->n);
        }
        b->n -= size;
        memmove(b->held, b->held + size, b->n);
    }
}

void utf8_pieces_byte(struct utf8_pieces *b, uint8_t byte, struct buf *out)
{
    b->held[b->n++] = byte;
    utf8_pieces_drain(b, false, out);
}

int utf8_pieces_append(struct utf8_pieces *b, const char *text, size_t n, bool mended,
                       struct buf *out)
{
    if (!mended && b->n == 0 && !memchr(text, 0, n))
        return buf_append(out, text, n);
    while (n > 0) {
        int byte = mended ? broken_byte_at(text, n) : -1;
        size_t size = byte >= 0 ? 4 : 1;
        utf8_pieces_byte(b, byte >= 0 ? (uint8_t)byte : (uint8_t)*text, out);
        text += size;
        n -= size;
    }
    return out->failed ? -ENOBUFS : 0;
}

int utf8_pieces_end(struct utf8_pieces *b, struct buf *out)
{
    utf8_pieces_drain(b, true, out);
    return out->failed ? -ENOBUFS : 0;
}

static json_t *settle_text(const char *text, size_t n)
{
    _cleanup_buf_ struct buf out = BUF_INIT(3 * n + sizeof(struct utf8_pieces) + 1);
    struct utf8_pieces b = {};
    utf8_pieces_append(&b, text, n, true, &out);
    utf8_pieces_end(&b, &out);
    return out.failed ? NULL : json_stringn(out.len ? (char *)out.data : "", out.len);
}

json_t *lenient_json_settle(json_t *value, bool mended)
{
    const char *name;
    json_t *one, *copy = NULL;
    size_t i;
    int failed = 0;
    if (!mended || !value)
        return json_incref(value);
    if (json_is_string(value))
        return settle_text(json_string_value(value), json_string_length(value));
    if (!json_is_array(value) && !json_is_object(value))
        return json_incref(value);
    copy = json_is_array(value) ? json_array() : json_object();
    json_array_foreach(value, i, one)
    {
        failed |= json_array_append_new(copy, lenient_json_settle(one, true));
    }
    json_object_foreach(value, name, one)
    {
        _cleanup_json_ json_t *key = settle_text(name, strlen(name));
        failed |= json_object_set_new(copy, key ? json_string_value(key) : NULL,
                                      lenient_json_settle(one, true));
    }
    if (!failed)
        return copy;
    json_decref(copy);
    return NULL;
}
