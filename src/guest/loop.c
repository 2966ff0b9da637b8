#include <errno.h>
#include <stdbool.h>
#include <unistd.h>

#include "clock.h"
#include "loop.h"
#include "banned.h"

int loop_init(struct loop *l)
{
    LIST_INIT(&l->timers);
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    return l->epoll < 0 ? -errno : 0;
}

int loop_watch(struct loop *l, struct loop_source *s, uint32_t events)
{
    if (events == s->events)
        return 0;
    int op = !s->events ? EPOLL_CTL_ADD : !events ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
    struct epoll_event e = {.events = events, .data.ptr = s};
    if (epoll_ctl(l->epoll, op, s->fd, &e) < 0)
        return -errno;
    s->events = events;
    return 0;
}

void loop_close(struct loop *l, struct loop_source *s)
{
    if (s->fd < 0)
        return;
    loop_watch(l, s, 0);
    close(s->fd);
    s->fd = -1;
}

void loop_timer_set(struct loop *l, struct loop_timer *t, int64_t at)
{
    if (t->at)
        LIST_REMOVE(t, link);
    t->at = at;
    if (at)
        LIST_INSERT_HEAD(&l->timers, t, link);
}

static struct loop_timer *earliest(struct loop *l)
{
    struct loop_timer *best = LIST_FIRST(&l->timers), *t;
    LIST_FOREACH(t, &l->timers, link)
    if (t->at < best->at)
        best = t;
    return best;
}

/* Fires what is due. A handler may set timers again; those lie after `now`, so this ends. */
static void fire_due(struct loop *l)
{
    if (LIST_EMPTY(&l->timers))
        return;
    int64_t now = clock_now();
    for (struct loop_timer *t; (t = earliest(l)) && t->at <= now;) {
        loop_timer_set(l, t, 0);
        t->fire(t);
    }
}

void loop_step(struct loop *l)
{
    struct loop_timer *next = earliest(l);
    struct epoll_event e;
    if (epoll_wait(l->epoll, &e, 1, clock_poll_ms(next ? next->at : 0)) == 1) {
        struct loop_source *s = e.data.ptr;
        s->ready(s, e.events);
    }
    fire_due(l);
}
