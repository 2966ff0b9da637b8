#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "loop.h"
#include "thread.h"
#include "banned.h"

void loop_init(struct loop *l)
{
    *l = (struct loop){0};
    LIST_INIT(&l->timers);
}

int loop_watch(struct loop *l, struct loop_source *s, short events)
{
    if (events && !s->events) {
        if (l->count == l->room) {
            size_t room = l->room ? 2 * l->room : 16;
            struct pollfd *polls = reallocarray(l->polls, room, sizeof *polls);
            if (!polls)
                return -ENOMEM;
            l->polls = polls;
            struct loop_source **sources = reallocarray(l->sources, room, sizeof *sources);
            if (!sources)
                return -ENOMEM;
            l->sources = sources;
            l->room = room;
        }
        s->index = l->count++;
        l->sources[s->index] = s;
    }
    if (!events && s->events) { /* the last source moves to its index */
        size_t last = --l->count;
        l->polls[s->index] = l->polls[last];
        l->sources[s->index] = l->sources[last];
        l->sources[s->index]->index = s->index;
    }
    if (events)
        l->polls[s->index] = (struct pollfd){.fd = s->fd, .events = events};
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

static struct loop_timer *loop_earliest_timer(struct loop *l)
{
    struct loop_timer *best = LIST_FIRST(&l->timers), *t;
    LIST_FOREACH(t, &l->timers, link)
    if (t->at < best->at)
        best = t;
    return best;
}

void loop_step(struct loop *l)
{
    struct loop_timer *t = loop_earliest_timer(l);
    int n = poll(l->polls, l->count, clock_poll_ms(t ? t->at : 0));
    for (size_t i = 0; n > 0 && i < l->count; i++) {
        size_t at = (l->turn + i) % l->count;
        short events = l->polls[at].revents;
        if (!events)
            continue;
        l->turn = at + 1;
        l->sources[at]->ready(l->sources[at], events);
        break;
    }
    /* Fires what is due. A handler may set timers again; those lie after `now`, so this ends. */
    if (LIST_EMPTY(&l->timers))
        return;
    int64_t now = clock_now();
    while ((t = loop_earliest_timer(l)) && t->at <= now) {
        loop_timer_set(l, t, 0);
        t->fire(t);
    }
}
