#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "harmless.h"
#include "utf8.h"
#include "banned.h"

static bool passes(const uint8_t *at, size_t n)
{
    if (n > 1)
        return !utf8_is_control(at, n);
    return n == 1 && (*at >= ' ' || *at == '\n' || *at == '\t' || *at == '\r') && *at != 0x7f;
}

static void append_escaped(struct buf *out, uint8_t byte)
{
    char text[5];
    snprintf(text, sizeof text, "\\x%02x", byte);
    buf_append(out, text, 4);
}

/* One character, or one byte that is none; returns how many bytes that took. */
static size_t append_one(const uint8_t *at, size_t n, struct buf *out)
{
    size_t length = utf8_character(at, n);
    if (passes(at, length)) {
        buf_append(out, at, length);
        return length;
    }
    for (size_t i = 0; i < (length ? length : 1); i++)
        append_escaped(out, at[i]);
    return length ? length : 1;
}

static void append_whole(const uint8_t *at, size_t n, struct buf *out)
{
    for (size_t done = 0; done < n;)
        done += append_one(at + done, n - done, out);
}

/* Completes the character that was cut off, byte by byte; returns how many bytes of data that
 * took. */
static size_t append_cut(struct harmless *h, const uint8_t *data, size_t n, struct buf *out)
{
    size_t used = 0;
    while (h->n_cut && used < n) {
        h->cut[h->n_cut++] = data[used++];
        if (utf8_cut_end(h->cut, h->n_cut) == h->n_cut && h->n_cut < sizeof h->cut)
            continue;
        append_whole(h->cut, h->n_cut, out);
        h->n_cut = 0;
    }
    return used;
}

int harmless_append(struct harmless *h, const void *data, size_t n, struct buf *out)
{
    const uint8_t *at = data;
    size_t used = append_cut(h, at, n, out);
    at += used;
    n -= used;
    size_t cut = n ? utf8_cut_end(at, n) : 0;
    append_whole(at, n - cut, out);
    if (cut) {
        memcpy(h->cut, at + n - cut, cut);
        h->n_cut = cut;
    }
    return out->failed ? -ENOBUFS : 0;
}
