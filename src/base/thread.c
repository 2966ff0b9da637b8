#include <signal.h>
#include <stddef.h>

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
