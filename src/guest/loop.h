/*
 * The event loop: descriptors that become ready and timers that fire, one after the other, in one
 * thread.
 *
 * Each step handles one event, so a handler may free any source or timer, its own included, without
 * an event for it being pending. Level-triggered: what a handler leaves unread is reported again.
 * Sources take turns.
 *
 * It is built on poll and not on epoll, whose watches the kernel counts per user: another box of
 * the same user could use them all up, and no guest would start any more.
 */
#pragma once

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

/* The struct that holds `member` at `ptr`. */
#define CONTAINER_OF(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

struct loop_source {
    int fd;
    short events; /* what is watched now; 0: nothing, not even a hang-up */
    size_t index; /* in the loop's lists, while something is watched */
    void (*ready)(struct loop_source *s, short events);
};

struct loop_timer {
    int64_t at; /* clock_now() time; 0: not set */
    void (*fire)(struct loop_timer *t);
    LIST_ENTRY(loop_timer) link;
};

LIST_HEAD(loop_timers, loop_timer);

struct loop {
    struct pollfd *polls;         /* what poll is asked, */
    struct loop_source **sources; /* and for whom: the same order */
    size_t count, room;
    size_t turn; /* where the search for the next ready source starts */
    struct loop_timers timers;
};

void loop_init(struct loop *l);

/* Changes what is watched of a source; 0 forgets it. Fails only when there is no memory for it. */
int loop_watch(struct loop *l, struct loop_source *s, short events);

/* Forgets the source and closes its descriptor (which may be -1 already). */
void loop_close(struct loop *l, struct loop_source *s);

/* Lets the timer fire once at that time; 0 takes it back. */
void loop_timer_set(struct loop *l, struct loop_timer *t, int64_t at);

/* Waits for one event or timer and handles it. */
void loop_step(struct loop *l);
