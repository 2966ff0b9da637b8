#include <errno.h>
#include <poll.h>

#include "cancel.h"
#include "banned.h"

bool cancel_asked(int cancel)
{
    struct pollfd p = {.fd = cancel, .events = POLLIN};
    return cancel >= 0 && poll(&p, 1, 0) > 0;
}

int cancel_check(int cancel, struct error *err)
{
    return cancel_asked(cancel) ? error_set(err, ECANCELED, "interrupted") : 0;
}

int cancel_wait(int fd, short events, int timeout_ms, int cancel)
{
    struct pollfd p[] = {{.fd = fd, .events = events}, {.fd = cancel, .events = POLLIN}};
    int n;
    do
        n = poll(p, ARRAY_SIZE(p), timeout_ms);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    return p[1].revents ? -ECANCELED : n;
}
