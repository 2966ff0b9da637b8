/* Training: episodes in a row, a checkpoint that can be gone on from, a table of what happened, a curve. */
#pragma once

#include "policy.h"

struct train_point {
    uint64_t episode;
    double ret, pass_rate, epsilon;
    unsigned calls;
    double seconds;
};

struct train_sink {
    void (*episode)(void *data, const struct train_point *p, double episodes_per_second);
    void *data;
};

struct train_options {
    uint64_t episodes, seed;
    const char *out; /* folder for checkpoint.json, episodes.csv, curve.svg; made if it is not there */
    bool resume;     /* goes on from out/checkpoint.json */
    uint64_t every;  /* a checkpoint after so many episodes; 0: 500 */
    int cancel;      /* readable: ends after the episode, with everything saved */
};

struct train_result {
    uint64_t episodes;         /* of all runs together */
    struct gym_episode greedy; /* one episode of the learnt policy, without exploring */
    struct gym_episode best;   /* what exhaustive search finds, where that was feasible */
    bool best_known;
    double seconds;
    bool cancelled;
};

int train(struct gym_env *e, struct policy *p, const struct train_options *o, const struct train_sink *sink,
          struct train_result *ret, struct error *err);
