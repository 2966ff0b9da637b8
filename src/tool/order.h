/*
 * The order of calls in a session: those that only read go together, any other goes alone, nobody
 * overtakes.
 *
 * Whoever receives calls takes a ticket for each, in the order they came; the threads that carry
 * them out wait for their turn. A call may begin when all before it have ended, or when it and all
 * of those only read.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct order_ticket {
    bool reads;
    struct order_ticket *next; /* those that came later */
};

struct order {
    pthread_mutex_t lock;
    pthread_cond_t left;
    struct order_ticket *first; /* the oldest call that has not ended */
    struct order_ticket **last;
};

void order_init(struct order *o);
void order_destroy(struct order *o);

/* The ticket is the caller's memory, from here until order_leave. */
void order_take(struct order *o, struct order_ticket *t, bool reads);
/* Says of a call that was taken as one that changes something that it only reads. */
void order_reads(struct order *o, struct order_ticket *t);
/* Waits for its turn; with patience_ms not longer than that, and then it is its turn. */
void order_wait(struct order *o, struct order_ticket *t, int patience_ms);
void order_leave(struct order *o, struct order_ticket *t);
