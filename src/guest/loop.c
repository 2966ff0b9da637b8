#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "clock.h"
#include "loop.h"
#include "banned.h"

void loop_init(struct loop *l)
{
    *l = (struct loop){0};
    LIST_INIT(&l->timers);
}

static int loop_grow(struct loop *l)
{
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
    return 0;
}

/* The last one takes the place of the one that goes. */
static void loop_forget(struct loop *l, const struct loop_source *s)
{
    size_t last = --l->count;
    l->polls[s->index] = l->polls[last];
    l->sources[s->index] = l->sources[last];
    l->sources[s->index]->index = s->index;
}

int loop_watch(struct loop *l, struct loop_source *s, short events)
{
    if (events && !s->events) {
        if (l->count == l->room && loop_grow(l) < 0)
            return -ENOMEM;
        s->index = l->count++;
        l->sources[s->index] = s;
    }
    if (!events && s->events)
        loop_forget(l, s);
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

/* The next source in turn that poll found ready, NULL if there is none. */
static struct loop_source *loop_next_ready(struct loop *l, short *ret_events)
{
    for (size_t i = 0; i < l->count; i++) {
        size_t at = (l->turn + i) % l->count;
        if (!l->polls[at].revents)
            continue;
        l->turn = at + 1;
        *ret_events = l->polls[at].revents;
        return l->sources[at];
    }
    return NULL;
}

void loop_step(struct loop *l)
{
    struct loop_timer *next = earliest(l);
    short events = 0;
    int n = poll(l->polls, l->count, clock_poll_ms(next ? next->at : 0));
    struct loop_source *s = n > 0 ? loop_next_ready(l, &events) : NULL;
    if (s)
        s->ready(s, events);
    fire_due(l);
}
