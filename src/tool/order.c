#include <time.h>

#include "order.h"
#include "banned.h"

void order_init(struct order *o)
{
    pthread_mutex_init(&o->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&o->left, &attr);
    pthread_condattr_destroy(&attr);
    o->first = NULL;
    o->last = &o->first;
}

void order_destroy(struct order *o)
{
    pthread_mutex_destroy(&o->lock);
    pthread_cond_destroy(&o->left);
}

void order_take(struct order *o, struct order_ticket *t, bool reads)
{
    *t = (struct order_ticket){.reads = reads};
    pthread_mutex_lock(&o->lock);
    *o->last = t;
    o->last = &t->next;
    pthread_mutex_unlock(&o->lock);
}

void order_reads(struct order *o, struct order_ticket *t)
{
    pthread_mutex_lock(&o->lock);
    t->reads = true;
    pthread_cond_broadcast(&o->left);
    pthread_mutex_unlock(&o->lock);
}

static bool may_begin(const struct order *o, const struct order_ticket *t)
{
    const struct order_ticket *before = o->first;
    while (before != t && before->reads)
        before = before->next;
    return before == t && (t->reads || t == o->first);
}

static struct timespec from_now(int ms)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += ms / 1000;
    at.tv_nsec += ms % 1000 * 1000000L;
    if (at.tv_nsec >= 1000000000L) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000L;
    }
    return at;
}

void order_wait(struct order *o, struct order_ticket *t, int patience_ms)
{
    const struct timespec until = from_now(patience_ms);
    int r = 0;
    pthread_mutex_lock(&o->lock);
    while (r == 0 && !may_begin(o, t))
        r = patience_ms ? pthread_cond_timedwait(&o->left, &o->lock, &until)
                        : pthread_cond_wait(&o->left, &o->lock);
    pthread_mutex_unlock(&o->lock);
}

void order_leave(struct order *o, struct order_ticket *t)
{
    struct order_ticket **at = &o->first;
    pthread_mutex_lock(&o->lock);
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    if (!t->next)
        o->last = at;
    pthread_cond_broadcast(&o->left);
    pthread_mutex_unlock(&o->lock);
}
