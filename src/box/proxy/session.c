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

/* The forwarded head is the received one with a Host, the version and Connection: close of our own. */
#define FORWARD_MAX (PROXY_HEAD_MAX + 1024u)

struct session {
    const struct proxy_context *context;
    int client;
    size_t n_read, n_head;
    char head[PROXY_HEAD_MAX];
    struct proxy_request request;
};

/* Lets the client read the answer: closing with its bytes unread would reset the connection under it. */
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
    int r = buf_printf(&out,
                       "HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\n"
                       "Connection: close\r\n\r\nhutch: %s\n",
                       status, strlen("hutch: \n") + strlen(text), text);
    if (r == 0 &&
        proxy_send_all(s->client, out.data, out.len, s->context->stop_fd, clock_now() + ANSWER_NS) == 0)
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
        answer(s, "408 Request Timeout", "the request did not come within 10 seconds");
    if (r == -EMSGSIZE)
        answer(s, "431 Request Header Fields Too Large", "the request's head is larger than 32 KiB");
    if (r < 0)
        return r;
    r = proxy_request_parse(s->head, s->n_head, &s->request, &why);
    if (r < 0)
        answer(s, "400 Bad Request", "%s", why);
    return r;
}

static int find_addresses(const struct session *s, int64_t deadline, struct proxy_address *ret)
{
    const struct proxy_host *host = &s->request.target.host;

    if (host->kind == PROXY_HOST_NAME)
        return proxy_resolve(s->context->resolver, host->text, s->context->stop_fd, deadline, ret);
    ret[0] = host->address;
    return 1;
}

/* Public and not this machine's, or on the list as it stands. */
static bool may_reach(const struct session *s, const struct proxy_address *a)
{
    if (proxy_list_names(&s->context->list, a, s->request.target.port))
        return true;
    return proxy_address_is_public(a) && !proxy_address_is_own(a);
}

static size_t keep_reachable(const struct session *s, struct proxy_address *addresses, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (may_reach(s, &addresses[i]))
            addresses[kept++] = addresses[i];
    return kept;
}

/* One after the other, each with a fair share of the time that is left. */
static int dial_any(const struct session *s, const struct proxy_address *addresses, size_t n,
                    int64_t deadline, int *ret_fd)
{
    int r = -EHOSTUNREACH;
    for (size_t i = 0; i < n; i++) {
        int64_t now = clock_now();
        int64_t share = now + (deadline - now) / (int64_t)(n - i);
        r = proxy_dial(&addresses[i], s->request.target.port, s->context->stop_fd, share, ret_fd);
        if (r == 0 || r == -ECANCELED)
            return r;
    }
    return r;
}

/* The addresses that may be connected to; says to the client why there are none. */
static int choose_addresses(const struct session *s, const char *where, int64_t deadline,
                            struct proxy_address *ret)
{
    if (!proxy_list_allows(&s->context->list, &s->request.target)) {
        answer(s, "403 Forbidden", "%s is not allowed from this box; allow it with --net allow:%s", where,
               where);
        return -EACCES;
    }
    int n = find_addresses(s, deadline, ret);
    if (n < 0) {
        answer(s, "502 Bad Gateway", "%s: %s", where,
               n == -ENOENT ? "the host knows no such name" : "its address could not be found in time");
        return n;
    }
    size_t kept = keep_reachable(s, ret, (size_t)n);
    if (kept == 0) {
        answer(s, "403 Forbidden",
               "%s is not allowed from this box: the name leads to a private or local address; if that is "
               "meant, name "
               "the address itself: --net allow:ADDRESS:%u",
               where, s->request.target.port);
        return -EACCES;
    }
    return (int)kept;
}

static int reach_server(const struct session *s, int *ret_fd)
{
    struct proxy_address addresses[PROXY_ADDRESSES_MAX];
    char where[PROXY_TARGET_TEXT];
    int64_t deadline = clock_now() + CONNECT_NS;

    proxy_target_format(&s->request.target, where);
    int n = choose_addresses(s, where, deadline, addresses);
    if (n < 0)
        return n;
    int r = dial_any(s, addresses, (size_t)n, deadline, ret_fd);
    if (r < 0 && r != -ECANCELED)
        answer(s, r == -ETIMEDOUT ? "504 Gateway Timeout" : "502 Bad Gateway", "%s: %s", where, strerror(-r));
    return r;
}

static void tunnel(const struct session *s, int server)
{
    static const char established[] = "HTTP/1.1 200 Connection established\r\n\r\n";
    const struct proxy_relay relay = {.client = s->client, .server = server, .stop_fd = s->context->stop_fd};

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
    if (proxy_request_forward(&s->request, &head) < 0 ||
        proxy_send_all(server, head.data, head.len, s->context->stop_fd, clock_now() + CONNECT_NS) < 0) {
        answer(s, "502 Bad Gateway", "the server did not take the request");
        return;
    }
    proxy_relay_run(&relay, s->head + s->n_head, s->n_read - s->n_head);
}

void proxy_session_run(const struct proxy_context *c, int client)
{
    struct session s = {.context = c, .client = client};
    _cleanup_fd_ int server = -1;

    if (read_request(&s) < 0 || reach_server(&s, &server) < 0)
        return;
    if (s.request.connect)
        tunnel(&s, server);
    else
        forward(&s, server);
}
