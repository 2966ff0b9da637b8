#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "encoding.h"
#include "literal.h"
#include "banned.h"

#define CHUNK (64u << 10)

/* Deflated bytes on their way into lines. */
struct encoder {
    struct answer *a;
    z_stream z;
    uint8_t line[BASE85_LINE];
    size_t len;
};

static char length_digit(size_t n)
{
    return (char)(n <= 26 ? 'A' + n - 1 : 'a' + n - 27);
}

static int write_line(struct encoder *e)
{
    char text[1 + BASE85_LINE / 4 * 5 + 1];
    size_t at = 0;
    text[at++] = length_digit(e->len);
    memset(e->line + e->len, 0, BASE85_LINE - e->len);
    for (size_t i = 0; i < e->len; i += 4, at += 5) {
        uint32_t v = (uint32_t)e->line[i] << 24 | (uint32_t)e->line[i + 1] << 16 |
                     (uint32_t)e->line[i + 2] << 8 | e->line[i + 3];
        for (size_t digit = 5; digit-- > 0; v /= 85)
            text[at + digit] = BASE85_DIGITS[v % 85];
    }
    text[at++] = '\n';
    e->len = 0;
    return answer_write(e->a, text, at);
}

static int put(struct encoder *e, const uint8_t *bytes, size_t n)
{
    int r = 0;
    while (n > 0 && r >= 0) {
        size_t take = BASE85_LINE - e->len < n ? BASE85_LINE - e->len : n;
        memcpy(e->line + e->len, bytes, take);
        e->len += take;
        bytes += take;
        n -= take;
        if (e->len == BASE85_LINE)
            r = write_line(e);
    }
    return r;
}

/* Deflates what z.next_in holds, all of it. */
static int squeeze(struct encoder *e, int flush)
{
    int status;
    do {
        uint8_t space[16384];
        e->z.next_out = space;
        e->z.avail_out = sizeof space;
        status = deflate(&e->z, flush);
        int r = put(e, space, sizeof space - e->z.avail_out);
        if (r < 0)
            return r;
    } while (e->z.avail_out == 0 || (flush == Z_FINISH && status == Z_OK));
    return status == Z_STREAM_ERROR ? -EIO : 0;
}

static int encode(struct encoder *e, const struct blob *b)
{
    for (uint64_t at = 0; at < b->size;) {
        uint8_t space[CHUNK];
        size_t want = b->size - at < CHUNK ? (size_t)(b->size - at) : CHUNK;
        ssize_t got = blob_read(b, space, want, at);
        if (got < 0 || (size_t)got < want)
            return got < 0 ? (int)got : -ESTALE;
        e->z.next_in = space;
        e->z.avail_in = (uInt)want;
        int r = squeeze(e, Z_NO_FLUSH);
        if (r < 0)
            return r;
        at += want;
    }
    e->z.avail_in = 0;
    int r = squeeze(e, Z_FINISH);
    return r >= 0 && e->len ? write_line(e) : r;
}

static int write_literal(struct answer *a, const struct blob *b)
{
    struct encoder e = {.a = a};
    answer_printf(a, "literal %llu\n", (unsigned long long)b->size);
    if (deflateInit(&e.z, Z_BEST_SPEED) != Z_OK)
        return -ENOMEM;
    int r = encode(&e, b);
    deflateEnd(&e.z);
    return r < 0 ? r : answer_write(a, "\n", 1);
}

int literal_write(struct answer *a, const struct blob *old, const struct blob *new)
{
    answer_printf(a, "GIT binary patch\n");
    int r = write_literal(a, new);
    return r < 0 ? r : write_literal(a, old);
}
