#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io.h"
#include "wire.h"
#include "banned.h"

#define FIELD_HEADER 8u

static uint32_t get_u32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return le32toh(v);
}

static uint16_t get_u16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return le16toh(v);
}

ssize_t wire_parse(const uint8_t *data, size_t n, struct wire_frame *ret)
{
    if (n < WIRE_HEADER)
        return 0;
    size_t size = get_u32(data);
    if (size > WIRE_BODY_MAX || data[5] || data[6] || data[7])
        return -EPROTO;
    if (n - WIRE_HEADER < size)
        return 0;
    /* Every field lies within the body and its padding is zero: later walks need no checks. */
    const uint8_t *body = data + WIRE_HEADER;
    for (size_t left = size, field; left > 0; body += field, left -= field) {
        if (left < FIELD_HEADER || get_u16(body + 2) != 0 ||
            get_u32(body + 4) > left - FIELD_HEADER)
            return -EPROTO;
        field = FIELD_HEADER + get_u32(body + 4);
    }
    *ret = (struct wire_frame){.type = data[4], .body = data + WIRE_HEADER, .size = size};
    return (ssize_t)(WIRE_HEADER + size);
}

bool wire_next(const struct wire_frame *f, size_t *at, struct wire_field *ret)
{
    if (*at >= f->size)
        return false;
    const uint8_t *p = f->body + *at;
    *ret = (struct wire_field){.key = get_u16(p), .data = p + FIELD_HEADER, .size = get_u32(p + 4)};
    *at += FIELD_HEADER + ret->size;
    return true;
}

bool wire_find(const struct wire_frame *f, uint16_t key, struct wire_field *ret)
{
    struct wire_field field;
    for (size_t at = 0; wire_next(f, &at, &field);)
        if (field.key == key) {
            *ret = field;
            return true;
        }
    return false;
}

uint64_t wire_u64(const struct wire_field *f, uint64_t fallback)
{
    uint64_t v;
    if (f->size != sizeof v)
        return fallback;
    memcpy(&v, f->data, sizeof v);
    return le64toh(v);
}

uint64_t wire_find_u64(const struct wire_frame *f, uint16_t key, uint64_t fallback)
{
    struct wire_field field;
    return wire_find(f, key, &field) ? wire_u64(&field, fallback) : fallback;
}

char *wire_find_str(const struct wire_frame *f, uint16_t key)
{
    struct wire_field field;
    if (!wire_find(f, key, &field) || memchr(field.data, 0, field.size))
        return NULL;
    return strndup((const char *)field.data, field.size);
}

size_t wire_begin(struct buf *b, enum wire_type type)
{
    size_t begin = b->len;
    const uint8_t header[WIRE_HEADER] = {0, 0, 0, 0, (uint8_t)type};
    buf_append(b, header, sizeof header);
    return begin;
}

void wire_put(struct buf *b, uint16_t key, const void *data, size_t n)
{
    uint8_t header[FIELD_HEADER] = {0};
    uint16_t k = htole16(key);
    uint32_t size = htole32((uint32_t)n);
    memcpy(header, &k, sizeof k);
    memcpy(header + 4, &size, sizeof size);
    if (n > WIRE_BODY_MAX) {
        b->failed = true;
        return;
    }
    buf_append(b, header, sizeof header);
    buf_append(b, data, n);
}

void wire_put_str(struct buf *b, uint16_t key, const char *s)
{
    wire_put(b, key, s, strlen(s));
}

void wire_put_u64(struct buf *b, uint16_t key, uint64_t v)
{
    v = htole64(v);
    wire_put(b, key, &v, sizeof v);
}

void wire_end(struct buf *b, size_t begin)
{
    if (b->failed)
        return;
    size_t size = b->len - begin - WIRE_HEADER;
    if (size > WIRE_BODY_MAX) {
        b->failed = true;
        return;
    }
    uint32_t le = htole32((uint32_t)size);
    memcpy(b->data + begin, &le, sizeof le);
}

void wire_reader_free(struct wire_reader *r)
{
    for (size_t i = 0; i < r->n_fds; i++)
        cleanup_close(&r->fds[i]);
    r->n_fds = 0;
    buf_free(&r->in);
}

ssize_t wire_fill(struct wire_reader *r)
{
    buf_consume(&r->in, r->used);
    r->used = 0;
    size_t room = r->in.max - r->in.len;
    size_t want = room < WIRE_DATA_MAX ? room : WIRE_DATA_MAX;
    void *at = buf_reserve(&r->in, want);
    if (!at)
        return -ENOMEM;
    size_t n_fds = 0;
    ssize_t got =
        io_recv_fds(r->fd, at, want, r->fds + r->n_fds, WIRE_FDS_MAX - r->n_fds, &n_fds, 0);
    if (got < 0)
        return got;
    r->n_fds += n_fds;
    r->in.len += (size_t)got;
    return got;
}

/* What was taken is dropped by wire_fill, once for all frames that one read brought. */
int wire_take(struct wire_reader *r, struct wire_frame *ret)
{
    size_t left = r->in.len - r->used;
    ssize_t n = left ? wire_parse(r->in.data + r->used, left, ret) : 0;
    if (n < 0)
        return (int)n;
    r->used += (size_t)n;
    return n > 0;
}

int wire_read(struct wire_reader *r, struct wire_frame *ret)
{
    for (;;) {
        int r1 = wire_take(r, ret);
        if (r1 != 0)
            return r1;
        ssize_t got = wire_fill(r);
        if (got < 0)
            return (int)got;
        if (got == 0)
            return r->in.len ? -EPROTO : 0;
    }
}

int wire_send(int fd, struct buf *b, const int *fds, size_t n_fds)
{
    if (b->failed)
        return -ENOBUFS;
    do {
        ssize_t done = io_send_fds(fd, b->data, b->len, fds, n_fds);
        if (done < 0)
            return (int)done;
        buf_consume(b, (size_t)done);
        n_fds = 0; /* they went with the first byte */
    } while (b->len);
    return 0;
}

int wire_end_send(int fd, struct buf *b, size_t begin)
{
    wire_end(b, begin);
    return wire_send(fd, b, NULL, 0);
}

int wire_error(const struct wire_frame *f, const char *fallback, struct error *err)
{
    _cleanup_free_ char *text = wire_find_str(f, WIRE_K_TEXT);
    uint64_t code = wire_find_u64(f, WIRE_K_CODE, EIO);
    return error_set(err, code > 0 && code < 4096 ? (int)code : EIO, "%s",
                     text && *text ? text : fallback);
}
