#include <errno.h>
#include <string.h>

#include "capture.h"
#include "banned.h"

/*
 * The tail's buffer is twice as large as what is kept of it: when it is full the older half is
 * dropped at once, so a byte is moved at most once however long the stream is.
 */
void capture_init(struct box_capture *c, uint64_t limit)
{
    size_t half = (size_t)(limit / 2);
    *c = (struct box_capture){.head = BUF_INIT(limit - half), .tail = BUF_INIT(2 * half)};
}

void capture_init_tail(struct box_capture *c, uint64_t limit)
{
    size_t kept = limit < SIZE_MAX / 2 ? (size_t)limit : SIZE_MAX / 2;
    *c = (struct box_capture){.head = BUF_INIT(0), .tail = BUF_INIT(2 * kept)};
}

static size_t tail_kept(const struct box_capture *c)
{
    return c->tail.max / 2;
}

static int add_tail(struct box_capture *c, const char *data, size_t n)
{
    size_t keep = tail_kept(c);
    if (keep == 0)
        return 0;
    if (n > keep) {
        data += n - keep;
        n = keep;
    }
    if (c->tail.len + n > c->tail.max)
        buf_consume(&c->tail, c->tail.len + n - keep);
    return buf_append(&c->tail, data, n);
}

int capture_add(struct box_capture *c, const void *data, size_t n)
{
    c->total += n;
    size_t room = c->head.max - c->head.len;
    size_t first = n < room ? n : room;
    int r = buf_append(&c->head, data, first);
    if (r < 0 || first == n)
        return r;
    return add_tail(c, (const char *)data + first, n - first);
}

void capture_finish(struct box_capture *c)
{
    size_t keep = tail_kept(c);
    if (c->tail.len > keep)
        buf_consume(&c->tail, c->tail.len - keep);
}
