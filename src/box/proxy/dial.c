/*
 * getaddrinfo() cannot be interrupted and may take half a minute. It runs in a thread of its own,
 * which is left behind when its caller stops waiting, so that a box can end although a name server
 * is slow. Threads left behind use nothing of the proxy, are bounded in number, and end by
 * themselves.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "cleanup.h"
#include "dial.h"
#include "thread.h"
#include "banned.h"

#define LOOKUPS_MAX  64
#define LOOKUP_STACK (256u << 10)
#define ANY_PORT     9 /* connecting a datagram socket needs one; nothing is sent to it */

struct proxy_resolver {
    atomic_uint refs; /* the proxy's, and one per lookup */
};

/* Shared by the caller and the thread that looks up; the last one frees it. */
struct lookup {
    atomic_uint refs;
    struct proxy_resolver *resolver;
    int done_fd;
    atomic_int result; /* number of addresses or negative errno, once done_fd is readable */
    struct proxy_address addresses[PROXY_ADDRESSES_MAX];
    char name[PROXY_NAME_MAX + 1];
};

union socket_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

int proxy_wait(int fd, short events, int stop_fd, int64_t deadline)
{
    int n = cancel_wait(fd, events, clock_poll_ms(deadline), stop_fd);
    return n == 0 ? -ETIMEDOUT : n < 0 ? n : 0;
}

int proxy_send_all(int fd, const void *data, size_t n, int stop_fd, int64_t deadline)
{
    const char *p = data;
    while (n > 0) {
        ssize_t sent = send(fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0) {
            p += sent;
            n -= (size_t)sent;
            continue;
        }
        if (errno != EAGAIN && errno != EINTR)
            return -errno;
        int r = proxy_wait(fd, POLLOUT, stop_fd, deadline);
        if (r < 0)
            return r;
    }
    return 0;
}

struct proxy_resolver *proxy_resolver_new(void)
{
    struct proxy_resolver *r = calloc(1, sizeof *r);
    if (r)
        atomic_init(&r->refs, 1);
    return r;
}

void proxy_resolver_unref(struct proxy_resolver *r)
{
    if (r && atomic_fetch_sub(&r->refs, 1) == 1)
        free(r);
}

static void lookup_unref(struct lookup *l)
{
    if (atomic_fetch_sub(&l->refs, 1) != 1)
        return;
    close(l->done_fd);
    proxy_resolver_unref(l->resolver);
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
        for (struct addrinfo *i = list; i && n < PROXY_ADDRESSES_MAX; i = i->ai_next) {
            const union socket_address *a = (const void *)i->ai_addr;
            if (i->ai_family == AF_INET)
                l->addresses[n++] = proxy_address_make(AF_INET, &a->v4.sin_addr);
            else if (i->ai_family == AF_INET6)
                l->addresses[n++] = proxy_address_make(AF_INET6, &a->v6.sin6_addr);
        }
        freeaddrinfo(list);
    }
    atomic_store(&l->result, n ? n : -ENOENT);
    eventfd_write(l->done_fd, 1);
    lookup_unref(l);
    return NULL;
}

static struct lookup *lookup_start(struct proxy_resolver *r, const char *name)
{
    pthread_attr_t attr;
    pthread_t thread;
    struct lookup *l = calloc(1, sizeof *l);
    int fd = eventfd(0, EFD_CLOEXEC);

    if (!l || fd < 0 || pthread_attr_init(&attr) != 0) {
        if (fd >= 0)
            close(fd);
        free(l);
        return NULL;
    }
    atomic_init(&l->refs, 2);
    atomic_fetch_add(&r->refs, 1);
    l->resolver = r;
    l->done_fd = fd;
    memccpy(l->name, name, '\0', sizeof l->name - 1);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, LOOKUP_STACK);
    int failed = thread_start(&thread, &attr, lookup_thread, l);
    pthread_attr_destroy(&attr);
    if (!failed)
        return l;
    lookup_unref(l);
    lookup_unref(l);
    return NULL;
}

int proxy_resolve(struct proxy_resolver *r, const struct proxy_host *host, int stop_fd,
                  int64_t deadline, struct proxy_address *ret_addresses)
{
    if (host->kind == PROXY_HOST_ADDRESS) {
        ret_addresses[0] = host->address;
        return 1;
    }
    struct lookup *l = atomic_load(&r->refs) <= LOOKUPS_MAX ? lookup_start(r, host->text) : NULL;
    if (!l)
        return -EAGAIN;
    int n = proxy_wait(l->done_fd, POLLIN, stop_fd, deadline);
    if (n == 0) {
        n = atomic_load(&l->result);
        if (n > 0)
            memcpy(ret_addresses, l->addresses, (size_t)n * sizeof *ret_addresses);
    }
    lookup_unref(l);
    return n;
}

static socklen_t to_socket_address(const struct proxy_address *a, uint16_t port,
                                   union socket_address *ret)
{
    memset(ret, 0, sizeof *ret);
    if (a->family == AF_INET) {
        ret->v4.sin_family = AF_INET;
        ret->v4.sin_port = htons(port);
        memcpy(&ret->v4.sin_addr, a->bytes, sizeof ret->v4.sin_addr);
        return sizeof ret->v4;
    }
    ret->v6.sin6_family = AF_INET6;
    ret->v6.sin6_port = htons(port);
    memcpy(&ret->v6.sin6_addr, a->bytes, sizeof ret->v6.sin6_addr);
    return sizeof ret->v6;
}

bool proxy_address_is_own(const struct proxy_address *a)
{
    union socket_address peer, self = {.any.sa_family = AF_UNSPEC};
    socklen_t peer_len = to_socket_address(a, ANY_PORT, &peer), self_len = sizeof self;

    _cleanup_fd_ int fd = socket(a->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return true; /* fail closed: it may be ours */
    if (connect(fd, &peer.any, peer_len) < 0 || getsockname(fd, &self.any, &self_len) < 0)
        return false;
    struct proxy_address own = a->family == AF_INET
                                   ? proxy_address_make(AF_INET, &self.v4.sin_addr)
                                   : proxy_address_make(AF_INET6, &self.v6.sin6_addr);
    return proxy_address_equal(&own, a);
}

static int dial_address(const struct proxy_address *a, uint16_t port, int stop_fd, int64_t deadline,
                        int *ret_fd)
{
    union socket_address peer;
    socklen_t len = to_socket_address(a, port, &peer);
    int error = 0, on = 1;
    socklen_t error_len = sizeof error;

    _cleanup_fd_ int fd = socket(a->family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, &peer.any, len) < 0) {
        if (errno != EINPROGRESS)
            return -errno;
        int r = proxy_wait(fd, POLLOUT, stop_fd, deadline);
        if (r < 0)
            return r;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_len) < 0)
            return -errno;
        if (error)
            return -error;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* One after the other, each with a fair share of the time that is left. */
int proxy_dial(const struct proxy_address *addresses, size_t n, uint16_t port, int stop_fd,
               int64_t deadline, int *ret_fd)
{
    int r = -EHOSTUNREACH;
    for (size_t i = 0; i < n; i++) {
        int64_t now = clock_now();
        int64_t share = now + (deadline - now) / (int64_t)(n - i);
        r = dial_address(&addresses[i], port, stop_fd, share, ret_fd);
        if (r == 0 || r == -ECANCELED)
            return r;
    }
    return r;
}
