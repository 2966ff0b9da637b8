#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/eventfd.h>

#include "thread.h"
#include "banned.h"

/* A thread is born with its maker's mask. */
int thread_start(pthread_t *ret, const pthread_attr_t *how, void *(*run)(void *), void *data)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int code = pthread_create(ret, how, run, data);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return -code;
}

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

int cancel_lock_open(void)
{
    int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
    return fd < 0 ? -errno : fd;
}

int cancel_lock_take(int lock, int cancel)
{
    eventfd_t one;
    while (eventfd_read(lock, &one) < 0) {
        int r = errno == EAGAIN ? cancel_wait(lock, POLLIN, -1, cancel) : -errno;
        if (r < 0)
            return r;
    }
    return 0;
}

void cancel_lock_give(int lock)
{
    eventfd_write(lock, 1);
}
