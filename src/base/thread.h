/* Time, threads, and how work in them is cancelled. */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "error.h"

/* Time is in nanoseconds of the monotonic clock. */
#define NS_PER_MS 1000000LL
#define NS_PER_S  1000000000LL

int64_t clock_now(void);

/* Milliseconds from now until `deadline` for poll(): 0 when past, -1 when deadline is 0 (none),
 * rounded up. */
int clock_poll_ms(int64_t deadline);

/* Holds a mutex until the end of the block. */
#define LOCKED(mutex)                                                                              \
    _cleanup_(mutex_unlockp) __attribute__((unused)) pthread_mutex_t *locked_ = mutex_lock(mutex)

static inline pthread_mutex_t *mutex_lock(pthread_mutex_t *m)
{
    pthread_mutex_lock(m);
    return m;
}

static inline void mutex_unlockp(pthread_mutex_t **m)
{
    pthread_mutex_unlock(*m);
}

/* Like pthread_create; returns 0 or a negative errno. The thread blocks all signals: in a program
 * that uses libhutch, handlers must run in that program's own threads. */
int thread_start(pthread_t *ret, const pthread_attr_t *how, void *(*run)(void *), void *data);

/* A cancel descriptor, such as an eventfd, becomes readable when the work should stop, and stays
 * readable. Code that waits polls it, too; code that computes checks it now and then. It is
 * borrowed; -1: none. */
bool cancel_asked(int cancel);

/* 0, or -ECANCELED with "interrupted". */
int cancel_check(int cancel, struct error *err);

/* Waits until `fd` has one of poll's events: 1; 0 after timeout_ms (-1: no timeout); -ECANCELED; or
 * another negative errno. */
int cancel_wait(int fd, short events, int timeout_ms, int cancel);

/* A lock whose waiters can be cancelled: an eventfd that counts 1 while it is free. Returns its
 * descriptor, which the caller closes, or a negative errno. */
int cancel_lock_open(void);

/* 0, or -ECANCELED, or another negative errno. */
int cancel_lock_take(int lock, int cancel);
void cancel_lock_give(int lock);
