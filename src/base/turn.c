#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "cancel.h"
#include "turn.h"
#include "banned.h"

int turn_open(void)
{
    int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
    return fd < 0 ? -errno : fd;
}

int turn_take(int turn, int cancel)
{
    eventfd_t one;
    while (eventfd_read(turn, &one) < 0) {
        int r = errno == EAGAIN ? cancel_wait(turn, POLLIN, -1, cancel) : -errno;
        if (r < 0)
            return r;
    }
    return 0;
}

void turn_give(int turn)
{
    eventfd_write(turn, 1);
}
