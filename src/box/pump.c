#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "capture.h"
#include "pump.h"
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

static bool has_bytes(int fd)
{
    int n = 0;
    return ioctl(fd, FIONREAD, &n) == 0 && n > 0;
}

/*
 * "Try again" means that the source is empty or the target full. When the target's reader is gone
 * for good, the command is to learn it from its own pipe, as it would without a box: so the pump
 * ends.
 */
static bool splice_out(struct pump *p)
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
    if (n < 0 && errno == EAGAIN)
        p->full = has_bytes(p->from);
    else if (n == 0 || errno != EINTR) {
        p->error = n < 0 ? errno : 0;
        pump_close(p);
    }
    return false;
}

/* Writes what is pending. False while some of it is left, or when the reader is gone. */
static bool flush(struct pump *p)
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

static bool take(struct pump *p, const char *data, size_t n)
{
    *p->total += n;
    if (p->capture)
        return capture_add(p->capture, data, n) == 0;
    if (p->to < 0)
        return true;
    p->pending.max = HARMLESS_GROWTH * (PUMP_CHUNK + 4);
    int r = p->is_terminal ? harmless_append(&p->cut, data, n, &p->pending)
                           : buf_append(&p->pending, data, n);
    return r == 0 && flush(p);
}

bool pump_out(struct pump *p)
{
    if (p->to >= 0 && !p->capture && !p->no_splice && !p->is_terminal)
        return splice_out(p);
    if (!flush(p))
        return false;
    char data[PUMP_CHUNK];
    ssize_t n = read(p->from, data, sizeof data);
    if (n > 0)
        return take(p, data, (size_t)n);
    if (n == 0 || (errno != EAGAIN && errno != EINTR))
        pump_close(p);
    return false;
}

static void read_more(struct feed *f)
{
    void *at = buf_reserve(&f->pending, f->pending.max);
    ssize_t n = at ? read(f->from, at, f->pending.max) : -1;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0)
        f->from = -1; /* the caller's descriptor: not ours to close */
    else
        f->pending.len = (size_t)n;
}

void feed_step(struct feed *f, bool readable)
{
    if (readable && f->from >= 0 && f->pending.len == 0)
        read_more(f);
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
