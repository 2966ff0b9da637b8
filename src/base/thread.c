#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <time.h>

#include "thread.h"
#include "banned.h"

int64_t clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

int clock_poll_ms(int64_t deadline)
{
    if (deadline == 0)
        return -1;
    int64_t left = deadline - clock_now();
    if (left <= 0)
        return 0;
    int64_t ms = (left + NS_PER_MS - 1) / NS_PER_MS;
    return ms > INT_MAX ? INT_MAX : (int)ms;
}

/* A new thread inherits the signal mask of the thread that starts it. */
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
