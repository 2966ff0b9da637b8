#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "clock.h"
#include "wait.h"
#include "banned.h"

int proxy_wait(int fd, short events, int stop_fd, int64_t deadline)
{
    struct pollfd fds[] = {{.fd = stop_fd, .events = POLLIN}, {.fd = fd, .events = events}};

    for (;;) {
        int n = poll(fds, 2, clock_poll_ms(deadline));
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n < 0)
            continue;
        if (fds[0].revents)
            return -ECANCELED;
        if (fds[1].revents)
            return 0;
        if (deadline && clock_now() >= deadline)
            return -ETIMEDOUT;
    }
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
