/*
 * Many environments on a few threads. One queue of environments that have something to do;
 * whichever thread is free takes the first, does it, and puts the environment at the end of another
 * queue, of those that are done. Each environment is in one of them at most: it gets its next
 * action when its last result was taken.
 *
 *     send ──> waiting ──> a thread: env_step ──> done ──> recv
 *
 * Only the queues are under the lock. What an environment does concerns no other: a box that died
 * or an error is in that environment's result.
 */
#pragma once

#include <pthread.h>

#include "vector.h"

enum slot_state { SLOT_IDLE, SLOT_WAITING, SLOT_WORKING, SLOT_DONE };

struct slot {
    struct gym_env *env;
    enum slot_state state;
    struct slot *next; /* in the queue that it is in */
    struct vector_action action;
    char *tool;
    struct vector_result result; /* once it is done */
    bool over;                   /* the episode: what comes next is a reset */
    uint64_t seed;               /* of the episode */
};

struct slots {
    struct slot *first, **last;
    size_t count;
};

struct gym_vector {
    pthread_mutex_t lock;
    pthread_cond_t sent, changed; /* somebody waits for work; for results */
    struct slots waiting, done;
    size_t under_way; /* waiting or at work */
    struct slot *slots;
    size_t n;
    pthread_t *threads;
    size_t n_threads;
    bool autoreset;
    bool closing;
    int cancel; /* eventfd: readable while no step is wanted */
};

void slots_init(struct slots *q);
void slots_put(struct slots *q, struct slot *s);
struct slot *slots_take(struct slots *q); /* NULL: it is empty */

void slot_drop_action(struct slot *s);

/* What each thread does until the vector is closed. */
void *vector_work(void *vector);
