/*
 * Binary patches of git: bytes deflated, in base 85; either a whole content, or a delta, which
 * makes it from another one by pieces to copy and pieces to insert.
 */
#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

#include "diff.h"
#include "encoding.h"
#include "banned.h"

int diff_binary_decode(const struct diff_binary *b, uint8_t **ret, size_t *ret_size)
{
    if (b->size > DIFF_BINARY_MAX)
        return -EFBIG;
    /* One byte more than the patch claims, so that an excess shows and inflate has room to end. */
    _cleanup_free_ uint8_t *data = malloc((size_t)b->size + 1);
    z_stream z = {.next_out = data, .avail_out = (uInt)b->size + 1};
    struct cursor c = {b->text.at, b->text.at + b->text.size, 1};
    uint8_t line[BASE85_LINE];
    int status = Z_OK;
    if (!data || inflateInit(&z) != Z_OK)
        return -ENOMEM;
    for (; !cursor_done(&c) && status == Z_OK; cursor_next(&c)) {
        /* A line's first character says how many bytes it holds; five digits hold four bytes. */
        struct slice s = cursor_line(&c);
        char first = s.size ? s.at[0] : 0;
        size_t n = first >= 'A' && first <= 'Z'   ? (size_t)(first - 'A') + 1
                   : first >= 'a' && first <= 'z' ? (size_t)(first - 'a') + 27
                                                  : 0;
        bool valid = n > 0 && s.size - 1 == (n + 3) / 4 * 5;
        for (size_t i = 0; valid && i < n; i += 4) {
            uint64_t v = 0;
            for (const char *at = s.at + 1 + i / 4 * 5, *end = at + 5; valid && at < end; at++) {
                const char *digit = *at ? strchr(BASE85_DIGITS, *at) : NULL;
                valid = digit != NULL;
                v = v * 85 + (valid ? (uint64_t)(digit - BASE85_DIGITS) : 0);
            }
            valid = valid && v <= UINT32_MAX;
            for (size_t k = 0; k < 4; k++)
                line[i + k] = (uint8_t)(v >> (24 - 8 * k));
        }
        if (!valid) {
            status = Z_DATA_ERROR;
            break;
        }
        z.next_in = line;
        z.avail_in = (uInt)n;
        while (z.avail_in > 0 && status == Z_OK)
            status = inflate(&z, Z_NO_FLUSH);
    }
    bool complete = status == Z_STREAM_END && cursor_done(&c) && z.avail_in == 0;
    inflateEnd(&z);
    if (!complete || z.total_out != b->size)
        return -EBADMSG;
    *ret = TAKE_PTR(data);
    *ret_size = (size_t)b->size;
    return 0;
}

struct delta_reader {
    const uint8_t *at, *end;
    bool failed;
};

static uint8_t delta_byte(struct delta_reader *r)
{
    if (r->at < r->end)
        return *r->at++;
    r->failed = true;
    return 0;
}

/* A number in groups of seven bits, the lowest first. */
static uint64_t delta_size(struct delta_reader *r)
{
    uint64_t v = 0;
    uint8_t byte = 0x80;
    for (unsigned shift = 0; byte & 0x80 && !r->failed; shift += 7) {
        byte = delta_byte(r);
        if (shift > 56)
            r->failed = true;
        else
            v |= (uint64_t)(byte & 0x7f) << shift;
    }
    return v;
}

/* The bytes of a number that the bits of `present` name; the others are 0. */
static uint64_t delta_number(struct delta_reader *r, unsigned present, unsigned n)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < n; i++)
        if (present & 1u << i)
            v |= (uint64_t)delta_byte(r) << (8 * i);
    return v;
}

int diff_binary_apply_delta(const uint8_t *base, size_t base_size, const uint8_t *delta,
                            size_t delta_bytes, uint8_t **ret, size_t *ret_size)
{
    struct delta_reader r = {delta, delta + delta_bytes, false};
    uint64_t from = delta_size(&r), size = delta_size(&r);
    size_t done = 0;
    if (r.failed || from != base_size)
        return -EBADMSG;
    if (size > DIFF_BINARY_MAX)
        return -EFBIG;
    _cleanup_free_ uint8_t *data = malloc((size_t)size + 1);
    if (!data)
        return -ENOMEM;
    while (r.at < r.end) {
        uint8_t op = delta_byte(&r);
        const uint8_t *piece = r.at;
        uint64_t n = op;
        if (op & 0x80) { /* copy from the base */
            uint64_t offset = delta_number(&r, op, 4);
            n = delta_number(&r, (unsigned)op >> 4 & 7, 3);
            n = n ? n : 0x10000;
            if (r.failed || n > base_size || offset > base_size - n)
                return -EBADMSG;
            piece = base + offset;
        } else if (op == 0 || (size_t)(r.end - r.at) < op) {
            return -EBADMSG;
        } else { /* insert what follows */
            r.at += op;
        }
        if (n > size - done)
            return -EBADMSG;
        memcpy(data + done, piece, (size_t)n);
        done += (size_t)n;
    }
    if (done != size)
        return -EBADMSG;
    *ret = TAKE_PTR(data);
    *ret_size = done;
    return 0;
}
