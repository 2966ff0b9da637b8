/* The best sequence of discrete actions (policy_search.c). Under CLOCK_VIRTUAL it is exact. */
#pragma once

#include "env.h"

#define SEARCH_STATES_MAX 20000u

struct search_result {
    size_t *actions; /* by number; the caller frees them */
    size_t count;
    struct gym_episode episode; /* what playing them gives */
    bool whole;                 /* nothing was left out: no sequence is better */
    size_t states;              /* that were expanded */
};
void search_result_free(struct search_result *r);

/* Plays in this environment, whose episode is lost. -ECANCELED: see env_cancel_on. */
int search_best(struct gym_env *e, size_t max_states, struct search_result *ret, struct error *err);
