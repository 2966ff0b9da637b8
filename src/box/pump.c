#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "capture.h"
#include "io.h"
#include "pump.h"
#include "banned.h"

#define CHUNK (1u << 20)

static void end_pump(struct pump *p)
{
    close(TAKE_FD(p->from));
}

/* What the reader of the command's output is gone, the command learns it from its pipe, as it would without a box. */
static int spliced(struct pump *p, ssize_t n)
{
    if (n > 0) {
        *p->total += (uint64_t)n;
        return 1;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n < 0 && errno == EINVAL) {
        p->no_splice = true;
        return pump_out(p);
    }
    end_pump(p);
    return 0;
}

static int pass_on(struct pump *p, const char *data, size_t n)
{
    *p->total += n;
    if (p->capture)
        return capture_add(p->capture, data, n);
    return p->to >= 0 ? io_write_all(p->to, data, n) : 0;
}

int pump_out(struct pump *p)
{
    if (p->to >= 0 && !p->capture && !p->no_splice)
        return spliced(p, splice(p->from, NULL, p->to, NULL, CHUNK, SPLICE_F_MOVE | SPLICE_F_NONBLOCK));
    char data[65536];
    ssize_t n = read(p->from, data, sizeof data);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0 || pass_on(p, data, (size_t)n) < 0) {
        end_pump(p);
        return 0;
    }
    return 1;
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
