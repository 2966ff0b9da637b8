#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <time.h>

#include "hush.h"
#include "banned.h"

static sigset_t only_pipe(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    return set;
}

void hush_begin(struct hush *ret)
{
    const sigset_t pipe = only_pipe();
    pthread_sigmask(SIG_BLOCK, &pipe, &ret->before);
}

void hush_end(struct hush *h)
{
    static const struct timespec NOW = {0};
    const sigset_t pipe = only_pipe();
    if (sigismember(&h->before, SIGPIPE))
        return;
    while (sigtimedwait(&pipe, NULL, &NOW) < 0 && errno == EINTR)
        ;
    pthread_sigmask(SIG_SETMASK, &h->before, NULL);
}
