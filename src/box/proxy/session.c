/*
 * A session reads one request, checks its target, connects to the server (through the host's own
 * proxy where it has one), and passes bytes both ways until both directions have ended, nothing
 * moved for IDLE_NS, or the proxy stops. An end in one direction is passed on as such (half-close).
 *
 * getaddrinfo() cannot be interrupted and may take half a minute. It runs in a thread of its own,
 * which is left behind when its session stops waiting, so that a box can end although a name server
 * is slow. Threads left behind use nothing of the proxy, are bounded in number, and end by
 * themselves.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "session.h"
#include "thread.h"
#include "banned.h"

#define HEAD_NS       (10 * NS_PER_S)
#define CONNECT_NS    (10 * NS_PER_S)
#define ANSWER_NS     (5 * NS_PER_S)
#define LINGER_NS     (1 * NS_PER_S)
#define IDLE_NS       (300 * NS_PER_S)
#define ANSWER_MAX    2048u
#define ADDRESSES_MAX 16
#define LOOKUPS_MAX   64 /* of one box under way: getaddrinfo() cannot be cancelled */
#define LOOKUP_STACK  (256u << 10)

/* The forwarded head is the received one with our own Host, version and Connection: close. */
#define FORWARD_MAX (PROXY_HEAD_MAX + 2048u)

struct exchange {
    struct proxy *proxy;
    int client;
    size_t n_read, n_head;
    char head[PROXY_HEAD_MAX];
    struct proxy_request request;
    char where[PROXY_TARGET_TEXT];         /* the request's target, for messages */
    const struct proxy_upstream *upstream; /* the host's proxy for it; NULL: none */
};

/* Shared by the session and the thread that looks up; the last one frees it. */
struct lookup {
    atomic_uint refs;
    atomic_uint *of; /* the proxy's */
    int done_fd;
    atomic_int result; /* number of addresses or negative errno, once done_fd is readable */
    struct proxy_address addresses[ADDRESSES_MAX];
    char name[PROXY_NAME_MAX + 1];
};

socklen_t proxy_socket_address(const struct proxy_address *a, uint16_t port, void *ret)
{
    if (a->family == AF_INET) {
        struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
        memcpy(&v4.sin_addr, a->bytes, sizeof v4.sin_addr);
        memcpy(ret, &v4, sizeof v4);
        return sizeof v4;
    }
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    memcpy(&v6.sin6_addr, a->bytes, sizeof v6.sin6_addr);
    memcpy(ret, &v6, sizeof v6);
    return sizeof v6;
}

/* Sends all of it on a non-blocking socket. Returns as proxy_wait(), or send()'s negative errno. */
static int send_all(const struct proxy *p, int fd, const void *data, size_t n, int64_t deadline)
{
    for (const char *at = data; n > 0;) {
        ssize_t sent = send(fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0) {
            at += sent;
            n -= (size_t)sent;
            continue;
        }
        if (errno != EAGAIN && errno != EINTR)
            return -errno;
        int r = proxy_wait(p, fd, POLLOUT, deadline);
        if (r < 0)
            return r;
    }
    return 0;
}

static void lookup_unref(struct lookup *l)
{
    if (--l->refs)
        return;
    close(l->done_fd);
    if (--*l->of == 0)
        free(l->of);
    free(l);
}

static void *lookup_thread(void *data)
{
    struct lookup *l = data;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    int n = 0;

    /* In the system's order of preference (RFC 6724). */
    if (getaddrinfo(l->name, NULL, &hints, &list) == 0) {
        for (struct addrinfo *i = list; i && n < ADDRESSES_MAX; i = i->ai_next)
            if (i->ai_family == AF_INET)
                l->addresses[n++] = proxy_address_make(
                    AF_INET, &((const struct sockaddr_in *)(const void *)i->ai_addr)->sin_addr);
            else if (i->ai_family == AF_INET6)
                l->addresses[n++] = proxy_address_make(
                    AF_INET6, &((const struct sockaddr_in6 *)(const void *)i->ai_addr)->sin6_addr);
        freeaddrinfo(list);
    }
    l->result = n ? n : -ENOENT;
    eventfd_write(l->done_fd, 1);
    lookup_unref(l);
    return NULL;
}

/* The host's addresses; returns how many. -ENOENT: no such name; -EAGAIN: too many lookups under
 * way; else as proxy_wait(). */
static int host_resolve(const struct proxy *p, const struct proxy_host *host, int64_t deadline,
                        struct proxy_address ret[ADDRESSES_MAX])
{
    if (host->kind == PROXY_HOST_ADDRESS) {
        ret[0] = host->address;
        return 1;
    }
    struct lookup *l = *p->lookups <= LOOKUPS_MAX ? calloc(1, sizeof *l) : NULL;
    if (!l)
        return -EAGAIN;
    pthread_attr_t attr;
    pthread_t thread;
    ++*p->lookups;
    l->of = p->lookups;
    l->refs = 2;
    l->done_fd = eventfd(0, EFD_CLOEXEC);
    memccpy(l->name, host->text, '\0', sizeof l->name - 1);
    int r = l->done_fd < 0 || pthread_attr_init(&attr) != 0 ? -EAGAIN : 0;
    if (r == 0) {
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        pthread_attr_setstacksize(&attr, LOOKUP_STACK);
        r = thread_start(&thread, &attr, lookup_thread, l);
        pthread_attr_destroy(&attr);
    }
    if (r < 0) {
        lookup_unref(l);
        r = -EAGAIN;
    } else if ((r = proxy_wait(p, l->done_fd, POLLIN, deadline)) == 0 && (r = l->result) > 0) {
        memcpy(ret, l->addresses, (size_t)r * sizeof *ret);
    }
    lookup_unref(l);
    return r;
}

/* Connects to the first address that accepts, one after the other, each with a fair share of the
 * time that is left; the socket is non-blocking. Returns 0, or as proxy_wait(), or why the last one
 * failed. */
static int dial(const struct proxy *p, const struct proxy_address *addresses, size_t n,
                uint16_t port, int64_t deadline, int *ret_fd)
{
    int r = -EHOSTUNREACH, on = 1;
    for (size_t i = 0; i < n; i++) {
        union {
            struct sockaddr any;
            struct sockaddr_in6 v6;
        } peer;
        int64_t now = clock_now(), share = now + (deadline - now) / (int64_t)(n - i);
        socklen_t len = proxy_socket_address(&addresses[i], port, &peer), size = sizeof r;
        _cleanup_fd_ int fd =
            socket(addresses[i].family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        r = fd < 0 || connect(fd, &peer.any, len) < 0 ? -errno : 0;
        if (r == -EINPROGRESS) {
            r = proxy_wait(p, fd, POLLOUT, share);
            if (r == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &r, &size) < 0)
                r = errno;
            r = r > 0 ? -r : r;
        }
        if (r == 0) {
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            *ret_fd = TAKE_FD(fd);
        }
        if (r == 0 || r == -ECANCELED)
            return r;
    }
    return r;
}

PRINTF(3, 4)
static void session_answer(const struct exchange *s, const char *status, const char *fmt, ...)
{
    _cleanup_buf_ struct buf out = BUF_INIT(ANSWER_MAX);
    char text[ANSWER_MAX / 2], rest[4096];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    int r = buf_printf(&out,
                       "HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
                       "Content-Length: %zu\r\nConnection: close\r\n\r\nhutch: %s\n",
                       status, strlen("hutch: \n") + strlen(text), text);
    if (r < 0 || send_all(s->proxy, s->client, out.data, out.len, clock_now() + ANSWER_NS) < 0)
        return;

    /* Closing with the client's bytes unread would reset the connection before it read the
     * answer. */
    int64_t deadline = clock_now() + LINGER_NS;
    shutdown(s->client, SHUT_WR);
    while (proxy_wait(s->proxy, s->client, POLLIN, deadline) == 0)
        if (recv(s->client, rest, sizeof rest, MSG_DONTWAIT) <= 0)
            return;
}

static int session_read_request(struct exchange *s)
{
    int64_t deadline = clock_now() + HEAD_NS;
    const char *why;

    while (!s->n_head) {
        if (s->n_read == sizeof s->head) {
            session_answer(s, "431 Request Header Fields Too Large",
                           "the request's head is larger than 32 KiB");
            return -EMSGSIZE;
        }
        int r = proxy_wait(s->proxy, s->client, POLLIN, deadline);
        if (r == -ETIMEDOUT)
            session_answer(s, "408 Request Timeout",
                           "the request did not arrive within 10 seconds");
        if (r < 0)
            return r;
        ssize_t n = recv(s->client, s->head + s->n_read, sizeof s->head - s->n_read, MSG_DONTWAIT);
        if (n == 0)
            return -ECONNRESET;
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return -errno;
        s->n_read += n > 0 ? (size_t)n : 0;
        s->n_head = proxy_head_end(s->head, s->n_read);
    }
    int r = proxy_request_parse(s->head, s->n_head, &s->request, &why);
    if (r < 0)
        session_answer(s, "400 Bad Request", "%s", why);
    else
        proxy_target_format(&s->request.target, s->where);
    return r;
}

/* Connects to the upstream proxy; for CONNECT, asks it for a tunnel to the target. Answers the
 * client if there is no connection. */
static int upstream_connect(const struct exchange *s, int64_t deadline, int *ret_fd)
{
    const struct proxy_upstream *u = s->upstream;
    struct proxy_address addresses[ADDRESSES_MAX];
    _cleanup_buf_ struct buf request = BUF_INIT(ANSWER_MAX);
    _cleanup_fd_ int fd = -1;
    char head[4096];
    int status = 200;

    int r = u->unusable ? -EPROTONOSUPPORT
                        : host_resolve(s->proxy, &u->target.host, deadline, addresses);
    if (r > 0)
        r = dial(s->proxy, addresses, (size_t)r, u->target.port, deadline, &fd);
    if (r < 0 && r != -ECANCELED)
        session_answer(
            s, "502 Bad Gateway",
            "%s: cannot reach the proxy of this host (http_proxy, https_proxy): %s", s->where,
            u->unusable ? "only proxies with an http:// URL are supported" : strerror(-r));
    if (r < 0)
        return r;

    if (s->request.connect) {
        buf_printf(&request, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n", s->where, s->where);
        if (u->authorization[0])
            buf_printf(&request, "Proxy-Authorization: %s\r\n", u->authorization);
        r = buf_append_str(&request, "\r\n");
        if (r == 0)
            r = send_all(s->proxy, fd, request.data, request.len, deadline);
        /* Its answer, and not a byte of what follows: that is the server's. */
        for (size_t n = 0, end = 0; r == 0 && !(end && n == end);) {
            r = n < sizeof head - 1 ? proxy_wait(s->proxy, fd, POLLIN, deadline) : -EMSGSIZE;
            if (r < 0)
                break;
            ssize_t seen = recv(fd, head + n, sizeof head - 1 - n, MSG_PEEK | MSG_DONTWAIT);
            if (seen == 0 || (seen < 0 && errno != EAGAIN && errno != EINTR))
                r = seen == 0 ? -ECONNRESET : -errno;
            size_t have = n + (seen > 0 ? (size_t)seen : 0);
            end = proxy_head_end(head, have);
            ssize_t got = seen > 0 ? recv(fd, head + n, (end ? end : have) - n, MSG_DONTWAIT) : 0;
            n += got > 0 ? (size_t)got : 0;
            head[n] = 0;
        }
        if (r == 0 && sscanf(head, "HTTP/1.%*1[01] %3d", &status) != 1)
            r = -EPROTO;
    }
    if (r < 0 && r != -ECANCELED)
        session_answer(s, "502 Bad Gateway",
                       "%s: the proxy of this host (https_proxy) did not answer: %s", s->where,
                       strerror(-r));
    if (r < 0)
        return r;
    if (status / 100 != 2) {
        session_answer(s, "502 Bad Gateway",
                       "%s: the proxy of this host (https_proxy) refused it with status %d",
                       s->where, status);
        return -EACCES;
    }
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* Checks the target and connects to one of the very addresses that were checked. Answers the client
 * if there is no connection. */
static int session_connect(struct exchange *s, struct proxy_session *session, int *ret_fd)
{
    const struct proxy_target *target = &s->request.target;
    struct proxy_address addresses[ADDRESSES_MAX];
    size_t kept = 0;
    int64_t deadline = clock_now() + CONNECT_NS;

    if (!proxy_session_may_begin(session, target)) {
        proxy_refuse(s->proxy, s->where, false);
        session_answer(s, "403 Forbidden",
                       "%s is not allowed from this box; allow it with --net allow:%s; in a chat, "
                       "the user types /net allow:%s, and an agent calls the tool request_network",
                       s->where, s->where, s->where);
        return -EACCES;
    }

    /* A name that only the upstream proxy can resolve has no addresses here; that is no error. */
    s->upstream = proxy_upstreams_find(&s->proxy->upstreams, target, s->request.connect);
    int n = host_resolve(s->proxy, &target->host, deadline, addresses);
    if (n < 0 && !s->upstream) {
        session_answer(s, "502 Bad Gateway", "%s: %s", s->where,
                       n == -ENOENT ? "the host cannot resolve the name"
                                    : "its address could not be found in time");
        return n;
    }
    for (int i = 0; i < n; i++)
        if (proxy_may_reach(s->proxy, target, &addresses[i]))
            addresses[kept++] = addresses[i];
    if (n > 0 && kept == 0) {
        proxy_refuse(s->proxy, s->where, true);
        session_answer(s, "403 Forbidden",
                       "%s is not allowed from this box: the name resolves to a private or local "
                       "address; to allow it, name the address itself: --net allow:ADDRESS:%u",
                       s->where, target->port);
        return -EACCES;
    }

    if (s->upstream)
        return upstream_connect(s, deadline, ret_fd);
    int r = dial(s->proxy, addresses, kept, target->port, deadline, ret_fd);
    if (r < 0 && r != -ECANCELED)
        session_answer(s, r == -ETIMEDOUT ? "504 Gateway Timeout" : "502 Bad Gateway", "%s: %s",
                       s->where, strerror(-r));
    return r;
}

/* One direction. Bytes lie in data[start, end); more are read only when all of them are gone. */
struct flow {
    int from, to;
    struct proxy_body *body; /* only its bytes are passed on; NULL: all */
    bool ended;              /* nothing more comes */
    bool closed;             /* and that has been passed on */
    size_t start, end;
    char data[PROXY_HEAD_MAX]; /* what was read behind a head is the first that is passed on */
};

/* Takes n new bytes at the front of the buffer, cut to what may be passed on. */
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

/* Moves what can be moved. Writes at once what was just read: it seldom has to wait. */
static int flow_move(struct flow *f, short from_events, short to_events)
{
    const short troubled = POLLERR | POLLHUP;

    if (!f->ended && f->start == f->end && (from_events & (POLLIN | troubled))) {
        ssize_t n = recv(f->from, f->data, sizeof f->data, MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return -errno;
        if (n == 0)
            f->ended = true;
        if (n > 0 && flow_accept(f, (size_t)n) < 0)
            return -EBADMSG;
        to_events |= POLLOUT;
    }
    if (f->start < f->end && (to_events & (POLLOUT | troubled))) {
        ssize_t n = send(f->to, f->data + f->start, f->end - f->start, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return -errno;
        f->start += n > 0 ? (size_t)n : 0;
    }
    /* A complete request body does not close the connection: some servers would drop the answer. */
    if (!f->closed && f->ended && f->start == f->end) {
        if (!f->body)
            shutdown(f->to, SHUT_WR);
        f->closed = true;
    }
    return 0;
}

/* With a body, only its bytes go to the server, and the server's end ends all. NULL: a tunnel. */
static void session_relay(const struct exchange *s, int server, struct proxy_body *body)
{
    struct flow up = {.from = s->client, .to = server, .body = body, .ended = body && body->done};
    struct flow down = {.from = server, .to = s->client};
    size_t n = s->n_read - s->n_head;

    memcpy(up.data, s->head + s->n_head, n);
    if (n > 0 && flow_accept(&up, n) < 0)
        return;
    if (flow_move(&up, 0, 0) < 0)
        return;
    while (!(down.closed && (up.closed || body))) {
        short client = (short)((!up.ended && up.start == up.end ? POLLIN : 0) |
                               (down.start < down.end ? POLLOUT : 0));
        short remote = (short)((!down.ended && down.start == down.end ? POLLIN : 0) |
                               (up.start < up.end ? POLLOUT : 0));
        /* A socket that nothing is wanted of is left out: its hang-up would wake us again and
         * again. */
        struct pollfd fds[] = {{.fd = s->proxy->stop_fd, .events = POLLIN},
                               {.fd = client ? s->client : -1, .events = client},
                               {.fd = remote ? server : -1, .events = remote}};
        int ready = poll(fds, ARRAY_SIZE(fds), clock_poll_ms(clock_now() + IDLE_NS));
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0 || fds[0].revents || flow_move(&up, fds[1].revents, fds[2].revents) < 0 ||
            flow_move(&down, fds[2].revents, fds[1].revents) < 0)
            return;
    }
}

void proxy_session_run(struct proxy_session *session)
{
    static const char established[] = "HTTP/1.1 200 Connection established\r\n\r\n";
    struct exchange s = {.proxy = session->proxy, .client = session->client};
    _cleanup_buf_ struct buf head = BUF_INIT(FORWARD_MAX);
    _cleanup_fd_ int server = -1;
    struct proxy_body body;

    if (session_read_request(&s) < 0 || session_connect(&s, session, &server) < 0)
        return;
    if (s.request.connect) {
        if (send_all(s.proxy, s.client, established, sizeof established - 1,
                     clock_now() + ANSWER_NS) == 0)
            session_relay(&s, server, NULL);
        return;
    }
    proxy_body_begin(&body, &s.request);
    int r = proxy_request_forward(&s.request, s.upstream != NULL,
                                  s.upstream ? s.upstream->authorization : NULL, &head);
    if (r == 0)
        r = send_all(s.proxy, server, head.data, head.len, clock_now() + CONNECT_NS);
    if (r < 0)
        session_answer(&s, "502 Bad Gateway", "the server did not accept the request");
    else
        session_relay(&s, server, &body);
}
