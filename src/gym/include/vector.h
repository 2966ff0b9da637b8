/*
 * Many environments at once, on threads. send() queues actions and returns at once; recv() returns
 * finished steps, in the order in which they finished. With autoreset, the action after an
 * episode's end resets the environment instead of being carried out (Gymnasium's NEXT_STEP mode).
 */
#pragma once

#include "env.h"

struct gym_vector;

struct vector_options {
    size_t n;       /* environments, 1 … VECTOR_MAX */
    size_t threads; /* 0: as many as processors, and one more */
    bool autoreset;
};
#define VECTOR_MAX 4096

int vector_open(struct gym_arena *a, const struct vector_options *o, struct gym_vector **ret,
                struct error *err);
struct gym_vector *vector_close(struct gym_vector *v); /* cancels what is under way */
size_t vector_size(const struct gym_vector *v);

/* What one environment is to do. tool NULL: the action with that number. reset: begin an
 * episode. */
struct vector_action {
    size_t env;
    bool reset;
    uint64_t seed;
    size_t number;
    const char *tool; /* copied */
    json_t *input;    /* the vector takes a reference */
};

struct vector_result {
    size_t env;
    /* 0, or a negative errno with the text: this environment must be reset */
    int code;
    char text[256];
    bool reset; /* this is a reset's step (asked for, or an autoreset) */
    struct gym_step step;
    struct gym_episode episode; /* the sums after it */
};
void vector_result_free(struct vector_result *r);

/* -EBUSY, and nothing was sent, if an environment still works on its last action. */
int vector_send(struct gym_vector *v, const struct vector_action *a, size_t n, struct error *err);

/* Waits for `min` results (or until no action is under way) and takes at most `max`. Returns how
 * many. timeout_ms -1: none. */
ssize_t vector_recv(struct gym_vector *v, size_t min, size_t max, int timeout_ms,
                    struct vector_result *ret, struct error *err);

/* Cancels the steps that are under way: each gives -ECANCELED. Returns when all have ended; then
 * the environments can be reset. */
void vector_interrupt(struct gym_vector *v);

/* From now on every step gives -ECANCELED, at once. Does not wait, and is safe in a signal
 * handler. */
void vector_cancel(struct gym_vector *v);

/* The same for good: calls of vector_recv, current and later ones, give -ECANCELED, too. Only
 * vector_close may follow. */
void vector_stop(struct gym_vector *v);

/* Between a result and the next send, that environment is the caller's. */
struct gym_env *vector_env(struct gym_vector *v, size_t env);
