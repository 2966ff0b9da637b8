/*
 * Many environments at once, on threads. send() gives actions and returns at once; recv() gives the
 * steps that are done, in the order in which they were done. An episode's end is followed by a
 * reset of that environment with the next action (as Gymnasium's NEXT_STEP autoreset): the action
 * is not carried out.
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
struct gym_vector *vector_close(struct gym_vector *v); /* what is under way is ended */
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
    /* 0, or a negative errno with the text: this environment cannot go on until it is reset */
    int code;
    char text[256];
    bool reset; /* this is a reset's step (asked for, or an autoreset) */
    struct gym_step step;
    struct gym_episode episode; /* the sums after it */
};
void vector_result_free(struct vector_result *r);

/* -EBUSY, and nothing was sent, if an environment still works on its last action. */
int vector_send(struct gym_vector *v, const struct vector_action *a, size_t n, struct error *err);

/* Waits until `min` results are there (or none is under way), and takes at most `max`. Returns how
 * many. timeout_ms -1: none. */
ssize_t vector_recv(struct gym_vector *v, size_t min, size_t max, int timeout_ms,
                    struct vector_result *ret, struct error *err);

/* Ends the steps that are under way: each gives -ECANCELED. Returns once none is under way any
 * more; then the environments can be reset. */
void vector_interrupt(struct gym_vector *v);

/* From now on every step gives -ECANCELED, at once. Does not wait, and is safe in a signal
 * handler. */
void vector_cancel(struct gym_vector *v);

/* The same for good: whoever is in vector_recv or comes later is given -ECANCELED, too. What is
 * left to do then is vector_close. */
void vector_stop(struct gym_vector *v);

/* Between a result and the next send, that environment is the caller's. */
struct gym_env *vector_env(struct gym_vector *v, size_t env);
