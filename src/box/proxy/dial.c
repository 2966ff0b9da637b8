#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "cleanup.h"
#include "dial.h"
#include "wait.h"
#include "banned.h"

#define ANY_PORT 9 /* connecting a datagram socket needs one; nothing is sent to it */

union socket_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

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
        return true; /* not known to be another's */
    if (connect(fd, &peer.any, peer_len) < 0 || getsockname(fd, &self.any, &self_len) < 0)
        return false;
    struct proxy_address own = a->family == AF_INET
                                   ? proxy_address_make(AF_INET, &self.v4.sin_addr)
                                   : proxy_address_make(AF_INET6, &self.v6.sin6_addr);
    return proxy_address_equal(&own, a);
}

int proxy_dial(const struct proxy_address *a, uint16_t port, int stop_fd, int64_t deadline,
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
