#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "streams.h"
#include "banned.h"

#define SPLICE_MOST (1u << 20)

struct pollfd pump_poll(const struct pump *p)
{
    if (p->full)
        return (struct pollfd){.fd = p->to, .events = POLLOUT};
    return (struct pollfd){.fd = p->from, .events = POLLIN};
}

void pump_close(struct pump *p)
{
    cleanup_close(&p->from);
    p->from = -1;
    p->full = false;
    buf_free(&p->pending);
}

/*
 * "Try again" means that the source is empty or the target full. When the target's reader is gone
 * for good, the command is to learn it from its own pipe, as it would without a box: so the pump
 * ends.
 */
static bool pump_splice(struct pump *p)
{
    ssize_t n = splice(p->from, NULL, p->to, NULL, SPLICE_MOST, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    p->full = false;
    if (n > 0) {
        *p->total += (uint64_t)n;
        return true;
    }
    if (n < 0 && errno == EINVAL) {
        p->no_splice = true;
        return pump_out(p);
    }
    int waiting = 0;
    if (n < 0 && errno == EAGAIN)
        p->full = ioctl(p->from, FIONREAD, &waiting) == 0 && waiting > 0;
    else if (n == 0 || errno != EINTR) {
        p->error = n < 0 ? errno : 0;
        pump_close(p);
    }
    return false;
}

/* Writes what is pending. False while some of it is left, or when the reader is gone. */
static bool pump_flush(struct pump *p)
{
    while (p->pending.len) {
        ssize_t n = write(p->to, p->pending.data, p->pending.len);
        p->full = n < 0 && errno == EAGAIN;
        if (p->full)
            return false;
        if (n < 0 && errno != EINTR) {
            p->error = errno;
            pump_close(p);
            return false;
        }
        if (n > 0)
            buf_consume(&p->pending, (size_t)n);
    }
    return true;
}

bool pump_out(struct pump *p)
{
    if (p->to >= 0 && !p->capture && !p->no_splice && !p->is_terminal)
        return pump_splice(p);
    if (!pump_flush(p))
        return false;
    char data[PUMP_CHUNK];
    ssize_t n = read(p->from, data, sizeof data);
    if (n <= 0) {
        if (n == 0 || (errno != EAGAIN && errno != EINTR))
            pump_close(p);
        return false;
    }
    *p->total += (uint64_t)n;
    if (p->capture)
        return capture_add(p->capture, data, (size_t)n) == 0;
    if (p->to < 0)
        return true;
    p->pending.max = HARMLESS_GROWTH * (PUMP_CHUNK + 4);
    int r = p->is_terminal ? harmless_append(&p->cut, data, (size_t)n, &p->pending)
                           : buf_append(&p->pending, data, (size_t)n);
    return r == 0 && pump_flush(p);
}

void feed_step(struct feed *f, bool readable)
{
    if (readable && f->from >= 0 && f->pending.len == 0) {
        void *at = buf_reserve(&f->pending, f->pending.max);
        ssize_t n = at ? read(f->from, at, f->pending.max) : -1;
        if (n > 0)
            f->pending.len = (size_t)n;
        else if (n == 0 || !at || (errno != EAGAIN && errno != EINTR))
            f->from = -1; /* the caller's descriptor: not ours to close */
    }
    if (f->pending.len) {
        ssize_t n = write(f->to, f->pending.data, f->pending.len);
        if (n > 0)
            buf_consume(&f->pending, (size_t)n);
        else if (n < 0 && errno != EAGAIN && errno != EINTR)
            f->from = -1, f->pending.len = 0;
    }
    if (f->from < 0 && f->pending.len == 0)
        close(TAKE_FD(f->to));
}

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

static size_t capture_tail_kept(const struct box_capture *c)
{
    return c->tail.max / 2;
}

static int capture_add_tail(struct box_capture *c, const char *data, size_t n)
{
    size_t keep = capture_tail_kept(c);
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
    return capture_add_tail(c, (const char *)data + first, n - first);
}

void capture_finish(struct box_capture *c)
{
    size_t keep = capture_tail_kept(c);
    if (c->tail.len > keep)
        buf_consume(&c->tail, c->tail.len - keep);
}
