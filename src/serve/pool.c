/*
 * The threads of routes' functions. They are made on demand and end after a while without work.
 * There is no queue: when all are busy, the request is refused.
 */
#include <errno.h>
#include <stdlib.h>

#include "server.h"
#include "banned.h"

#define STACK_SIZE   (1u << 20) /* JSON may be 2,048 levels deep */
#define IDLE_SECONDS 10
#define END_SECONDS  15

struct pool_worker {
    pthread_cond_t wake;
    void (*run)(void *data);
    void *data;
    struct pool_worker *next_idle;
};

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    struct pool_worker
        *idle; /* the last that became so is the first to work: its caches are warm */
    unsigned threads, busy;
    bool closing;
};

static struct timespec pool_deadline(int seconds)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += seconds;
    return t;
}

static void pool_cond_init(pthread_cond_t *c)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(c, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

struct pool *pool_new(void)
{
    struct pool *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    pthread_mutex_init(&p->lock, NULL);
    pool_cond_init(&p->ended);
    return p;
}

struct pool_start {
    struct pool *pool;
    void (*run)(void *data);
    void *data;
};

/* Waits for work, under the lock; false: it came none. */
static bool pool_wait(struct pool *p, struct pool_worker *w)
{
    struct timespec until = pool_deadline(IDLE_SECONDS);
    w->run = NULL;
    w->next_idle = p->idle;
    p->idle = w;
    while (!w->run && !p->closing)
        if (pthread_cond_timedwait(&w->wake, &p->lock, &until) == ETIMEDOUT)
            break;
    if (w->run)
        return true;
    struct pool_worker **at = &p->idle;
    while (*at != w)
        at = &(*at)->next_idle;
    *at = w->next_idle;
    return false;
}

static void *pool_thread(void *data)
{
    struct pool_start *start = data;
    struct pool *p = start->pool;
    struct pool_worker w = {.run = start->run, .data = start->data};
    pool_cond_init(&w.wake);
    free(start);
    do {
        w.run(w.data);
        pthread_mutex_lock(&p->lock);
        p->busy--;
        bool more = pool_wait(p, &w);
        if (!more) {
            p->threads--;
            pthread_cond_broadcast(&p->ended);
        }
        pthread_mutex_unlock(&p->lock);
        if (!more)
            break;
    } while (true);
    pthread_cond_destroy(&w.wake);
    return NULL;
}

int pool_submit(struct pool *p, bool reserved, void (*run)(void *data), void *data)
{
    LOCKED(&p->lock);
    if (p->closing || p->busy >= (reserved ? HANDLERS_MAX : HANDLERS_MAX - HANDLERS_RESERVED))
        return -EAGAIN;
    struct pool_worker *w = p->idle;
    if (w) {
        p->idle = w->next_idle;
        w->run = run;
        w->data = data;
        p->busy++;
        pthread_cond_signal(&w->wake);
        return 0;
    }
    struct pool_start *start = malloc(sizeof *start);
    if (!start)
        return -EAGAIN;
    *start = (struct pool_start){p, run, data};
    pthread_attr_t how;
    pthread_t thread;
    pthread_attr_init(&how);
    pthread_attr_setstacksize(&how, STACK_SIZE);
    pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
    int r = thread_start(&thread, &how, pool_thread, start);
    pthread_attr_destroy(&how);
    if (r < 0) {
        free(start);
        return -EAGAIN;
    }
    p->threads++;
    p->busy++;
    return 0;
}

unsigned pool_busy(struct pool *p)
{
    LOCKED(&p->lock);
    return p->busy;
}

bool pool_end(struct pool *p)
{
    struct timespec until = pool_deadline(END_SECONDS);
    LOCKED(&p->lock);
    p->closing = true;
    for (struct pool_worker *w = p->idle; w; w = w->next_idle)
        pthread_cond_signal(&w->wake);
    while (p->threads > 0)
        if (pthread_cond_timedwait(&p->ended, &p->lock, &until) == ETIMEDOUT)
            return false;
    return true;
}

void pool_free(struct pool *p)
{
    if (!p)
        return;
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->ended);
    free(p);
}
