#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "cleanup.h"
#include "relay.h"
#include "banned.h"

/* One direction. Bytes lie in data[start, end); more are read only when all of them are gone. */
struct flow {
    int from, to;
    struct proxy_body *body; /* or NULL */
    bool ended;              /* nothing more comes */
    bool closed;             /* and that has been passed on */
    size_t start, end;
    char data[PROXY_RELAY_BUFFER];
};

/* Takes note of n new bytes at the front of the buffer, cut to what may be passed on. */
static int flow_accept(struct flow *f, size_t n)
{
    ssize_t use = (ssize_t)n;
    if (f->body) {
        use = proxy_body_scan(f->body, f->data, n);
        if (use < 0)
            return (int)use;
        f->ended = f->body->done;
    }
    f->start = 0;
    f->end = (size_t)use;
    return 0;
}

static int flow_read(struct flow *f)
{
    ssize_t n = recv(f->from, f->data, sizeof f->data, MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    if (n == 0) {
        f->ended = true;
        return 0;
    }
    return flow_accept(f, (size_t)n);
}

static int flow_write(struct flow *f)
{
    ssize_t n = send(f->to, f->data + f->start, f->end - f->start, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    f->start += (size_t)n;
    return 0;
}

/* A request whose body is complete does not end the connection: some servers take that for "no
 * longer interested". */
static void flow_close(struct flow *f)
{
    if (f->closed || !f->ended || f->start < f->end)
        return;
    if (!f->body)
        shutdown(f->to, SHUT_WR);
    f->closed = true;
}

static bool flow_wants_read(const struct flow *f)
{
    return !f->ended && f->start == f->end;
}

static bool flow_wants_write(const struct flow *f)
{
    return f->start < f->end;
}

/* Moves what can be moved. Writes at once what was just read: it seldom has to wait. */
static int flow_move(struct flow *f, short from_events, short to_events)
{
    const short troubled = POLLERR | POLLHUP;
    int r = 0;

    if (flow_wants_read(f) && (from_events & (POLLIN | troubled))) {
        r = flow_read(f);
        to_events |= POLLOUT;
    }
    if (r == 0 && flow_wants_write(f) && (to_events & (POLLOUT | troubled)))
        r = flow_write(f);
    if (r == 0)
        flow_close(f);
    return r;
}

/* A socket that nothing is wanted of is left out, or its hang-up would be reported again and again.
 */
static void prepare_poll(struct pollfd *p, int fd, bool in, bool out)
{
    p->events = (short)((in ? POLLIN : 0) | (out ? POLLOUT : 0));
    p->revents = 0;
    p->fd = p->events ? fd : -1;
}

/* Returns whether to go on. */
static bool relay_step(const struct proxy_relay *r, struct flow *up, struct flow *down)
{
    struct pollfd fds[3] = {{.fd = r->stop_fd, .events = POLLIN}};

    prepare_poll(&fds[1], r->client, flow_wants_read(up), flow_wants_write(down));
    prepare_poll(&fds[2], r->server, flow_wants_read(down), flow_wants_write(up));
    int n = poll(fds, 3, clock_poll_ms(clock_now() + PROXY_IDLE_NS));
    if (n < 0 && errno == EINTR)
        return true;
    if (n <= 0 || fds[0].revents)
        return false;
    if (flow_move(up, fds[1].revents, fds[2].revents) < 0 ||
        flow_move(down, fds[2].revents, fds[1].revents) < 0)
        return false;
    return !(down->closed && (up->closed || r->body));
}

void proxy_relay_run(const struct proxy_relay *r, const char *first, size_t n)
{
    struct flow up = {
        .from = r->client, .to = r->server, .body = r->body, .ended = r->body && r->body->done};
    struct flow down = {.from = r->server, .to = r->client};

    memcpy(up.data, first, n);
    if (n > 0 && flow_accept(&up, n) < 0)
        return;
    flow_close(&up);
    while (relay_step(r, &up, &down))
        ;
}
