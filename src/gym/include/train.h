/* Training: episodes in a row, a checkpoint to continue from, a table of the episodes, a curve. */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "curve.h"
#include "error.h"
#include "policy.h"

#define TRAIN_EPISODES_MAX 1000000u
#define TRAIN_EVERY        500 /* episodes from one checkpoint to the next */

struct train_sink {
    void (*episode)(void *data, const struct train_point *p);
    void (*searching)(
        void *data); /* the episodes are over; the search for the best sequence begins */
    void *data;
};

struct train_options {
    uint64_t episodes; /* of all runs together, at most TRAIN_EPISODES_MAX */
    uint64_t seed;
    /* folder for checkpoint.json, episodes.csv, curve.svg; made if it is not there */
    const char *out;
    /* the policy continues from out/checkpoint.json, and the table there with it */
    bool resume;
    uint64_t every; /* a checkpoint after so many episodes; 0: TRAIN_EVERY */
    bool no_search; /* no search for the best sequence */
};

/* One way to play the task. */
struct train_sequence {
    struct gym_episode episode;
    struct task_list actions; /* as people call them */
};

struct train_result {
    uint64_t episodes;            /* of all runs together */
    uint64_t played;              /* of this run */
    struct train_sequence greedy; /* one episode of the learned policy, without exploring */
    struct train_sequence best;   /* of an exhaustive search, where that was feasible */
    bool greedy_known, best_known;
    double seconds;             /* that the episodes of this run took */
    bool cancelled;             /* it ended early; an unfinished episode does not count */
    struct train_point *points; /* one for each known episode, in order */
    size_t n_points;
};
void train_result_free(struct train_result *r);

/* When it is cancelled (env_cancel_on), everything is saved as of the last whole episode. */
int train(struct gym_env *e, struct policy *p, const struct train_options *o,
          const struct train_sink *sink, struct train_result *ret, struct error *err);

/* A sequence's actions in one line: "apply fix-sign, submit". A new string; NULL without memory. */
char *train_actions_text(const struct train_sequence *s);

/* The table of a training: a CSV file that grows by a line per episode. */

#define TRAIN_TABLE_HEAD "episode,return,pass_rate,calls,seconds,epsilon\n"

/* Begins a new table; or resumes one after its first `keep` episodes, which are returned (the
 * caller frees them) as far as they can be read. */
int train_table_begin(const char *path, FILE **ret, struct error *err);
int train_table_resume(const char *path, uint64_t keep, FILE **ret, struct train_point **ret_points,
                       size_t *ret_n, struct error *err);
void train_table_add(FILE *f, const struct train_point *p);

/* One line as a point; false if it is none. Pure. */
bool train_table_parse(const char *line, struct train_point *ret);

/* Replaces a file at once: readers see the old one or the new one, never a part. */

int put_file(const char *path, const void *data, size_t n, struct error *err);
