/*
 * The best sequence of discrete actions, by exhaustive search: what learners are measured against.
 *
 * States are gone through from the cheapest on (uniform-cost search), each once: a state is what
 * the features say, so two orders of the same patches are one. A state is not gone on from when
 * even all tests passing right after it would not be better than the best that was found. Reading a
 * file and running the tests change nothing and are paid for, so no best sequence has them: they
 * are left out. Under CLOCK_VIRTUAL the result is exact.
 */
#pragma once

#include "env.h"

#define SEARCH_STATES_MAX 20000u

struct search_result {
    size_t *actions; /* by number; to be freed */
    size_t count;
    struct gym_episode episode; /* what playing them gives */
    bool whole;                 /* nothing was left out: no sequence is better */
    size_t states;              /* that were gone through */
};
void search_result_free(struct search_result *r);

/* Plays in this environment, whose episode is lost. -ECANCELED when it is told to end
 * (env_cancel_on). */
int search_best(struct gym_env *e, size_t max_states, struct search_result *ret, struct error *err);
