/*
 * Binary patches of git: bytes deflated, in base 85; either a content as it is, or the way to it
 * from another one (a delta: pieces to copy and pieces to insert).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "encoding.h"
#include "diff_text.h"
#include "banned.h"

/* One line: its first character says how many bytes it holds, five digits hold four bytes. */
static int decode_line(struct slice s, uint8_t ret[BASE85_LINE], size_t *ret_n)
{
    char c = s.size ? s.at[0] : 0;
    size_t n = c >= 'A' && c <= 'Z'   ? (size_t)(c - 'A') + 1
               : c >= 'a' && c <= 'z' ? (size_t)(c - 'a') + 27
                                      : 0;
    if (n == 0 || s.size - 1 != (n + 3) / 4 * 5)
        return -EBADMSG;
    for (size_t i = 0; i < n; i += 4) {
        uint64_t v = 0;
        for (const char *at = s.at + 1 + i / 4 * 5, *end = at + 5; at < end; at++) {
            const char *digit = *at ? strchr(BASE85_DIGITS, *at) : NULL;
            if (!digit)
                return -EBADMSG;
            v = v * 85 + (uint64_t)(digit - BASE85_DIGITS);
        }
        if (v > UINT32_MAX)
            return -EBADMSG;
        for (size_t k = 0; k < 4; k++)
            ret[i + k] = (uint8_t)(v >> (24 - 8 * k));
    }
    *ret_n = n;
    return 0;
}

/* Feeds the lines to z, whose output is as large as it must become. */
static int inflate_lines(z_stream *z, struct slice text)
{
    struct cursor c = {text.at, text.at + text.size, 1};
    int status = Z_OK;
    uint8_t line[BASE85_LINE];
    size_t n;
    for (; !cursor_done(&c) && status == Z_OK; cursor_next(&c)) {
        if (decode_line(cursor_line(&c), line, &n) < 0) {
            status = Z_DATA_ERROR;
            break;
        }
        z->next_in = line;
        z->avail_in = (uInt)n;
        while (z->avail_in > 0 && status == Z_OK)
            status = inflate(z, Z_NO_FLUSH);
    }
    z->next_in = NULL;
    return status == Z_STREAM_END && cursor_done(&c) && z->avail_in == 0 ? 0 : -EBADMSG;
}

int diff_binary_decode(const struct diff_binary *b, uint8_t **ret, size_t *ret_size)
{
    if (b->size > DIFF_BINARY_MAX)
        return -EFBIG;
    /* One byte more than it says, so that too much is noticed and inflate always has room to end.
     */
    _cleanup_free_ uint8_t *data = malloc((size_t)b->size + 1);
    z_stream z = {.next_out = data, .avail_out = (uInt)b->size + 1};
    if (!data || inflateInit(&z) != Z_OK)
        return -ENOMEM;
    int r = inflate_lines(&z, b->text);
    inflateEnd(&z);
    if (r >= 0 && z.total_out != b->size)
        r = -EBADMSG;
    if (r < 0)
        return r;
    *ret = TAKE_PTR(data);
    *ret_size = (size_t)b->size;
    return 0;
}

struct reader {
    const uint8_t *at, *end;
    bool failed;
};

static uint8_t next_byte(struct reader *r)
{
    if (r->at < r->end)
        return *r->at++;
    r->failed = true;
    return 0;
}

/* A number in groups of seven bits, the lowest first. */
static uint64_t next_size(struct reader *r)
{
    uint64_t v = 0;
    uint8_t byte = 0x80;
    for (unsigned shift = 0; byte & 0x80 && !r->failed; shift += 7) {
        byte = next_byte(r);
        if (shift > 56)
            r->failed = true;
        else
            v |= (uint64_t)(byte & 0x7f) << shift;
    }
    return v;
}

/* The bytes of a number that the bits of `which` say are there; the others are 0. */
static uint64_t next_parts(struct reader *r, unsigned which, unsigned n)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < n; i++)
        if (which & 1u << i)
            v |= (uint64_t)next_byte(r) << (8 * i);
    return v;
}

/* One piece: where it comes from and how long it is. */
static struct slice next_piece(struct reader *r, const uint8_t *base, size_t base_size)
{
    uint8_t op = next_byte(r);
    if (op & 0x80) {
        uint64_t offset = next_parts(r, op, 4), size = next_parts(r, (unsigned)op >> 4 & 7, 3);
        size = size ? size : 0x10000;
        if (r->failed || size > base_size || offset > base_size - size)
            goto broken;
        return (struct slice){(const char *)base + offset, (size_t)size};
    }
    if (op == 0 || r->failed || (size_t)(r->end - r->at) < op)
        goto broken;
    r->at += op;
    return (struct slice){(const char *)r->at - op, op};
broken:
    r->failed = true;
    return (struct slice){NULL, 0};
}

int diff_binary_apply_delta(const uint8_t *base, size_t base_size, const uint8_t *delta,
                            size_t delta_size, uint8_t **ret, size_t *ret_size)
{
    struct reader r = {delta, delta + delta_size, false};
    uint64_t from = next_size(&r), size = next_size(&r);
    size_t done = 0;
    if (r.failed || from != base_size)
        return -EBADMSG;
    if (size > DIFF_BINARY_MAX)
        return -EFBIG;
    _cleanup_free_ uint8_t *data = malloc((size_t)size + 1);
    if (!data)
        return -ENOMEM;
    while (r.at < r.end) {
        struct slice piece = next_piece(&r, base, base_size);
        if (r.failed || piece.size > size - done)
            return -EBADMSG;
        memcpy(data + done, piece.at, piece.size);
        done += piece.size;
    }
    if (done != size)
        return -EBADMSG;
    *ret = TAKE_PTR(data);
    *ret_size = done;
    return 0;
}
