/*
 * The event loop: descriptors that become ready and timers that fire, one after the other, in one thread.
 *
 * One event is taken from the kernel at a time, so a handler may free any source or timer, its own included,
 * without an event for it still being in hand. Level-triggered: what a handler leaves unread is told again.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/queue.h>

/* The struct that holds `member` at `ptr`. */
#define CONTAINER_OF(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

struct loop_source {
    int fd;
    uint32_t events; /* what is watched now; 0: nothing, not even a hang-up */
    void (*ready)(struct loop_source *s, uint32_t events);
};

struct loop_timer {
    int64_t at; /* clock_now() time; 0: not set */
    void (*fire)(struct loop_timer *t);
    LIST_ENTRY(loop_timer) link;
};

LIST_HEAD(loop_timers, loop_timer);

struct loop {
    int epoll;
    struct loop_timers timers;
};

int loop_init(struct loop *l);

/* Changes what is watched of a source; 0 forgets it. Fails only when the kernel has no memory for it. */
int loop_watch(struct loop *l, struct loop_source *s, uint32_t events);

/* Forgets the source and closes its descriptor (which may be -1 already). */
void loop_close(struct loop *l, struct loop_source *s);

/* Lets the timer fire once at that time; 0 takes it back. */
void loop_timer_set(struct loop *l, struct loop_timer *t, int64_t at);

/* Waits for one event or timer and handles it. */
void loop_step(struct loop *l);
