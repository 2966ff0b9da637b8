#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "conn.h"
#include "error.h"
#include "banned.h"

#define QUEUE_FULL (256u << 10)
#define QUEUE_ROOM (128u << 10)
#define QUEUE_MAX  (1u << 20)

/*
 * A stream that is closed with bytes unread shows its peer a reset instead of an end. The peer may
 * have sent input that the command did not read; after the shutdown it cannot send more, so reading
 * the rest makes a clean end.
 */
static void conn_hang_up(int fd)
{
    char waste[4096];
    shutdown(fd, SHUT_RDWR);
    while (recv(fd, waste, sizeof waste, MSG_DONTWAIT) > 0)
        ;
}

static size_t conn_pending(const struct conn *c)
{
    return c->out.len - c->sent;
}

static void conn_flush(struct conn *c)
{
    if (c->out.failed)
        c->dead = true;
    while (!c->dead && conn_pending(c)) {
        ssize_t n =
            send(c->source.fd, c->out.data + c->sent, conn_pending(c), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0)
            c->dead = true;
        else
            c->sent += (size_t)n;
    }
    /* Moving the rest to the front only now and then keeps long queues cheap. */
    if (c->sent == c->out.len || c->sent >= QUEUE_FULL) {
        buf_consume(&c->out, c->sent);
        c->sent = 0;
    }
}

static void conn_watch(struct conn *c)
{
    short events = 0;
    if (!c->closing)
        events |= c->paused ? POLLRDHUP : POLLRDHUP | POLLIN;
    if (conn_pending(c) || c->resumed)
        events |= POLLOUT;
    if (loop_watch(c->owner->loop, &c->source, events) < 0)
        c->dead = true;
}

/* Sends what it can; frees the connection if it is over. */
static void conn_settle(struct conn *c)
{
    conn_flush(c);
    bool over = c->dead || (c->closing && !conn_pending(c));
    if (!over)
        conn_watch(c);
    if (!over && !c->dead)
        return;
    if (c->user && c->user->closed)
        c->user->closed(c);
    if (c->source.fd >= 0)
        conn_hang_up(c->source.fd);
    loop_close(c->owner->loop, &c->source);
    wire_reader_free(&c->in);
    buf_free(&c->out);
    c->owner->n_open--;
    free(c);
}

static void conn_take_frames(struct conn *c)
{
    while (!c->dead && !c->closing && !c->paused) {
        struct wire_frame f;
        int r = wire_take(&c->in, &f);
        if (r == 0)
            break;
        if (r < 0 || !c->user->frame || c->user->frame(c, &f) < 0)
            c->dead = true;
    }
}

static void conn_ready(struct loop_source *s, short events)
{
    struct conn *c = CONTAINER_OF(s, struct conn, source);
    bool readable = !c->paused && !c->closing;
    c->busy = true;
    c->resumed = false;
    conn_take_frames(c);
    if (!c->dead && readable && events & (POLLIN | POLLRDHUP | POLLHUP | POLLERR)) {
        /* Reads once; the loop reports what is left again, after others had their turn. */
        ssize_t n = wire_fill(&c->in);
        if (n > 0)
            conn_take_frames(c);
        else if (n != -EAGAIN)
            c->dead = true;
    } else if (events & (POLLRDHUP | POLLHUP | POLLERR))
        c->dead = true;
    conn_flush(c);
    if (!c->dead && c->full && conn_pending(c) < QUEUE_ROOM) {
        c->full = false;
        if (c->user && c->user->room)
            c->user->room(c);
    }
    c->busy = false;
    conn_settle(c);
}

void conn_open(struct guest *g, struct conn_owner *owner, int fd, const struct conn_user *user)
{
    struct conn *c = owner->n_open < CONNS_MAX ? calloc(1, sizeof *c) : NULL;
    if (!c || fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK) < 0) {
        free(c);
        conn_hang_up(fd);
        close(fd);
        return;
    }
    owner->n_open++;
    c->source = (struct loop_source){.fd = fd, .ready = conn_ready};
    c->guest = g;
    c->owner = owner;
    c->user = user;
    c->in = WIRE_READER_INIT(fd);
    c->out = BUF_INIT(QUEUE_MAX);
    conn_ready(&c->source, POLLIN);
}

void conn_push(struct conn *c)
{
    if (c->busy)
        return;
    conn_flush(c);
    if (!c->dead)
        conn_watch(c);
    /* Freed by our own handler, which the hang-up brings about: the caller may go on using it. */
    if (c->dead)
        shutdown(c->source.fd, SHUT_RDWR);
}

bool conn_is_full(struct conn *c)
{
    c->full = conn_pending(c) >= QUEUE_FULL;
    return c->full;
}

void conn_pause(struct conn *c, bool on)
{
    /* Whole frames may wait in the reader, which the loop does not report: being writable calls our
     * handler. */
    c->resumed = c->paused && !on;
    c->paused = on;
    conn_push(c);
}

void conn_finish(struct conn *c)
{
    c->user = NULL;
    c->closing = true;
    if (!c->busy)
        conn_settle(c);
}

int conn_take_fd(struct conn *c)
{
    loop_watch(c->owner->loop, &c->source, 0);
    int fd = TAKE_FD(c->source.fd);
    c->user = NULL;
    c->dead = true;
    return fd;
}

void conn_put_error(struct buf *b, int code, const char *text)
{
    size_t at = wire_begin(b, WIRE_ERROR);
    wire_put_u64(b, WIRE_K_CODE, (uint64_t)code);
    wire_put_str(b, WIRE_K_TEXT, text);
    wire_end(b, at);
}

void conn_error(struct conn *c, int code, const char *fmt, ...)
{
    char text[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    conn_put_error(&c->out, code, text);
    conn_finish(c);
}
