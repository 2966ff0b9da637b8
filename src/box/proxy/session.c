#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>

#include "clock.h"
#include "dial.h"
#include "relay.h"
#include "request.h"
#include "session.h"
#include "wait.h"
#include "banned.h"

#define HEAD_NS    (10 * NS_PER_S)
#define CONNECT_NS (10 * NS_PER_S)
#define ANSWER_NS  (5 * NS_PER_S)
#define LINGER_NS  (1 * NS_PER_S)
#define ANSWER_MAX 2048u

/* The forwarded head is the received one with a Host, the version and Connection: close of our own.
 */
#define FORWARD_MAX (PROXY_HEAD_MAX + 2048u)

struct session {
    const struct proxy_context *context;
    int client;
    size_t n_read, n_head;
    char head[PROXY_HEAD_MAX];
    struct proxy_request request;
    const struct proxy_upstream
        *upstream; /* the proxy that the server is reached through; NULL: none */
};

/* Lets the client read the answer: closing with its bytes unread would reset the connection under
 * it. */
static void linger(const struct session *s)
{
    char rest[4096];
    int64_t deadline = clock_now() + LINGER_NS;

    shutdown(s->client, SHUT_WR);
    while (proxy_wait(s->client, POLLIN, s->context->stop_fd, deadline) == 0)
        if (recv(s->client, rest, sizeof rest, MSG_DONTWAIT) <= 0)
            return;
}

PRINTF(3, 4) static void answer(const struct session *s, const char *status, const char *fmt, ...)
{
    _cleanup_buf_ struct buf out = BUF_INIT(ANSWER_MAX);
    char text[ANSWER_MAX / 2];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    int r = buf_printf(
        &out,
        "HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\n"
        "Connection: close\r\n\r\nhutch: %s\n",
        status, strlen("hutch: \n") + strlen(text), text);
    if (r == 0 && proxy_send_all(s->client, out.data, out.len, s->context->stop_fd,
                                 clock_now() + ANSWER_NS) == 0)
        linger(s);
}

static int read_head(struct session *s)
{
    int64_t deadline = clock_now() + HEAD_NS;

    while (s->n_read < sizeof s->head) {
        int r = proxy_wait(s->client, POLLIN, s->context->stop_fd, deadline);
        if (r < 0)
            return r;
        ssize_t n = recv(s->client, s->head + s->n_read, sizeof s->head - s->n_read, MSG_DONTWAIT);
        if (n == 0)
            return -ECONNRESET;
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return -errno;
        s->n_read += n > 0 ? (size_t)n : 0;
        s->n_head = proxy_head_end(s->head, s->n_read);
        if (s->n_head)
            return 0;
    }
    return -EMSGSIZE;
}

static int read_request(struct session *s)
{
    const char *why;
    int r = read_head(s);

    if (r == -ETIMEDOUT)
        answer(s, "408 Request Timeout", "the request did not arrive within 10 seconds");
    if (r == -EMSGSIZE)
        answer(s, "431 Request Header Fields Too Large",
               "the request's head is larger than 32 KiB");
    if (r < 0)
        return r;
    r = proxy_request_parse(s->head, s->n_head, &s->request, &why);
    if (r < 0)
        answer(s, "400 Bad Request", "%s", why);
    return r;
}

static int find_addresses(const struct session *s, const struct proxy_host *host, int64_t deadline,
                          struct proxy_address *ret)
{
    if (host->kind == PROXY_HOST_NAME)
        return proxy_resolve(s->context->resolver, host->text, s->context->stop_fd, deadline, ret);
    ret[0] = host->address;
    return 1;
}

/* One after the other, each with a fair share of the time that is left. */
static int dial_any(const struct session *s, const struct proxy_address *addresses, size_t n,
                    uint16_t port, int64_t deadline, int *ret_fd)
{
    int r = -EHOSTUNREACH;
    for (size_t i = 0; i < n; i++) {
        int64_t now = clock_now();
        int64_t share = now + (deadline - now) / (int64_t)(n - i);
        r = proxy_dial(&addresses[i], port, s->context->stop_fd, share, ret_fd);
        if (r == 0 || r == -ECANCELED)
            return r;
    }
    return r;
}

static int refuse_unlisted(const struct session *s, const char *where)
{
    proxy_policy_refuse(s->context->policy, where, false);
    answer(
        s, "403 Forbidden",
        "%s is not allowed from this box; allow it with --net allow:%s; in a chat, the user types"
        " /net allow:%s, and an agent calls the tool request_network",
        where, where, where);
    return -EACCES;
}

static int refuse_private(const struct session *s, const char *where)
{
    proxy_policy_refuse(s->context->policy, where, true);
    answer(s, "403 Forbidden",
           "%s is not allowed from this box: the name resolves to a private or local address; to "
           "allow it, name the address itself: --net allow:ADDRESS:%u",
           where, s->request.target.port);
    return -EACCES;
}

/* Drops the addresses that must not be connected to. Returns how many are left; says to the client
 * why there are none. A name that only the upstream proxy can look up has none here, and that is no
 * error. */
static int choose_addresses(const struct session *s, const char *where, bool upstream,
                            int64_t deadline, struct proxy_address *ret)
{
    size_t kept = 0;
    int n = find_addresses(s, &s->request.target.host, deadline, ret);
    if (n < 0 && upstream)
        return 0;
    if (n < 0) {
        answer(s, "502 Bad Gateway", "%s: %s", where,
               n == -ENOENT ? "the host cannot resolve the name"
                            : "its address could not be found in time");
        return n;
    }
    for (int i = 0; i < n; i++)
        if (proxy_policy_may_reach(s->context->policy, &s->request.target, &ret[i]))
            ret[kept++] = ret[i];
    return kept ? (int)kept : refuse_private(s, where);
}

/* The answer of an upstream proxy to CONNECT, and not a byte of what follows it: that is the
 * server's. */
static int upstream_read_status(const struct session *s, int fd, int64_t deadline, int *ret_status)
{
    char head[4096];
    size_t n = 0;
    while (n < sizeof head - 1) {
        int r = proxy_wait(fd, POLLIN, s->context->stop_fd, deadline);
        if (r < 0)
            return r;
        ssize_t seen = recv(fd, head + n, sizeof head - 1 - n, MSG_PEEK | MSG_DONTWAIT);
        if (seen == 0)
            return -ECONNRESET;
        if (seen < 0 && errno != EAGAIN && errno != EINTR)
            return -errno;
        size_t have = n + (seen > 0 ? (size_t)seen : 0), end = proxy_head_end(head, have);
        ssize_t took = seen > 0 ? recv(fd, head + n, (end ? end : have) - n, MSG_DONTWAIT) : 0;
        n += took > 0 ? (size_t)took : 0;
        head[n] = 0;
        if (end && n == end)
            return sscanf(head, "HTTP/1.%*1[01] %3d", ret_status) == 1 ? 0 : -EPROTO;
    }
    return -EMSGSIZE;
}

/* Asks the upstream proxy for a tunnel to the target. */
static int upstream_connect(const struct session *s, const struct proxy_upstream *u, int fd,
                            const char *where, int64_t deadline)
{
    _cleanup_buf_ struct buf request = BUF_INIT(ANSWER_MAX);
    int status = 0;
    buf_printf(&request, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n", where, where);
    if (u->authorization[0])
        buf_printf(&request, "Proxy-Authorization: %s\r\n", u->authorization);
    int r = buf_append_str(&request, "\r\n");
    if (r == 0)
        r = proxy_send_all(fd, request.data, request.len, s->context->stop_fd, deadline);
    if (r == 0)
        r = upstream_read_status(s, fd, deadline, &status);
    if (r < 0 && r != -ECANCELED)
        answer(s, "502 Bad Gateway", "%s: the proxy of this host (https_proxy) did not answer: %s",
               where, strerror(-r));
    if (r == 0 && status / 100 != 2) {
        answer(s, "502 Bad Gateway",
               "%s: the proxy of this host (https_proxy) refused it with status %d", where, status);
        r = -EACCES;
    }
    return r;
}

static int reach_upstream(const struct session *s, const struct proxy_upstream *u,
                          const char *where, int64_t deadline, int *ret_fd)
{
    struct proxy_address addresses[PROXY_ADDRESSES_MAX];
    _cleanup_fd_ int fd = -1;
    int n =
        u->unusable ? -EPROTONOSUPPORT : find_addresses(s, &u->target.host, deadline, addresses);
    int r = n < 0 ? n : dial_any(s, addresses, (size_t)n, u->target.port, deadline, &fd);
    if (r < 0 && r != -ECANCELED)
        answer(s, "502 Bad Gateway",
               "%s: cannot reach the proxy of this host (http_proxy, https_proxy): %s", where,
               u->unusable ? "only proxies with an http:// URL are supported" : strerror(-r));
    if (r == 0 && s->request.connect)
        r = upstream_connect(s, u, fd, where, deadline);
    if (r == 0)
        *ret_fd = TAKE_FD(fd);
    return r;
}

static int reach_server(struct session *s, int *ret_fd)
{
    struct proxy_address addresses[PROXY_ADDRESSES_MAX];
    const struct proxy_target *target = &s->request.target;
    char where[PROXY_TARGET_TEXT];
    int64_t deadline = clock_now() + CONNECT_NS;

    proxy_target_format(target, where);
    if (!proxy_policy_allows(s->context->policy, target))
        return refuse_unlisted(s, where);
    s->upstream = proxy_policy_upstream(s->context->policy, target, s->request.connect);
    int n = choose_addresses(s, where, s->upstream != NULL, deadline, addresses);
    if (n < 0)
        return n;
    if (s->upstream)
        return reach_upstream(s, s->upstream, where, deadline, ret_fd);
    int r = dial_any(s, addresses, (size_t)n, target->port, deadline, ret_fd);
    if (r < 0 && r != -ECANCELED)
        answer(s, r == -ETIMEDOUT ? "504 Gateway Timeout" : "502 Bad Gateway", "%s: %s", where,
               strerror(-r));
    return r;
}

static void tunnel(const struct session *s, int server)
{
    static const char established[] = "HTTP/1.1 200 Connection established\r\n\r\n";
    const struct proxy_relay relay = {
        .client = s->client, .server = server, .stop_fd = s->context->stop_fd};

    if (proxy_send_all(s->client, established, sizeof established - 1, s->context->stop_fd,
                       clock_now() + ANSWER_NS) == 0)
        proxy_relay_run(&relay, s->head + s->n_head, s->n_read - s->n_head);
}

static void forward(const struct session *s, int server)
{
    _cleanup_buf_ struct buf head = BUF_INIT(FORWARD_MAX);
    struct proxy_body body;
    const struct proxy_relay relay = {
        .client = s->client, .server = server, .stop_fd = s->context->stop_fd, .body = &body};

    proxy_body_begin(&body, &s->request);
    int r = s->upstream
                ? proxy_request_forward_upstream(&s->request, s->upstream->authorization, &head)
                : proxy_request_forward(&s->request, &head);
    if (r < 0 || proxy_send_all(server, head.data, head.len, s->context->stop_fd,
                                clock_now() + CONNECT_NS) < 0) {
        answer(s, "502 Bad Gateway", "the server did not accept the request");
        return;
    }
    proxy_relay_run(&relay, s->head + s->n_head, s->n_read - s->n_head);
}

void proxy_session_run(const struct proxy_context *c, int client,
                       const struct proxy_session_watch *watch)
{
    struct session s = {.context = c, .client = client};
    _cleanup_fd_ int server = -1;

    if (read_request(&s) < 0)
        return;
    watch->targets(watch->data,
                   &s.request.target); /* before the list is asked: it may change meanwhile */
    if (reach_server(&s, &server) < 0)
        return;
    if (s.request.connect)
        tunnel(&s, server);
    else
        forward(&s, server);
}
