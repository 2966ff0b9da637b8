/* The table of qlearn, and the map of feature vectors that it and the search use. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "policy.h"

/* Vectors of features, each once, numbered in the order of their first appearance. */
struct feature_map {
    size_t width; /* numbers in a vector, at least 1 */
    int64_t *keys;
    size_t count, room;
    uint32_t *slots; /* 1 + the number of a vector; 0: free */
    size_t n_slots;  /* a power of two, more than twice `count` */
};
#define FEATURE_MAP_MAX (1u << 28)

void feature_map_free(struct feature_map *m);

/* The number of a vector, or -1. */
ssize_t feature_map_find(const struct feature_map *m, const int64_t *key);

/* The same; one that is not there is added. -ENOMEM, -ENOSPC: there are FEATURE_MAP_MAX. */
ssize_t feature_map_add(struct feature_map *m, const int64_t *key);

/* Drops all but the first `count`. */
void feature_map_cut(struct feature_map *m, size_t count);

const int64_t *feature_map_key(const struct feature_map *m, size_t number);

/*
 * A table of what actions are worth: tabular Q-learning, with experience replay and optimism. Pure.
 *
 * A state is a vector of features. For each action that was tried in a state the table knows the
 * reward and where it led, and two estimates of the return from there on, both updated by
 * Q-learning's rule
 *
 *     Q(s, a) ← Q(s, a) + α · (reward + γ · max Q(s', ·) − Q(s, a))
 *
 *     value   counts only what was tried, a lower bound. An agent that does not explore follows it.
 *     hope    counts an untried action as the best that is possible: all tests pass right after it,
 *             and it costs what it cost elsewhere. An upper bound.
 *
 * An agent that explores takes an action whose hope exceeds the value of the state ("optimism in
 * the face of uncertainty"); without such an action there is nothing left to find from here. Random
 * exploration would hardly ever find three right patches out of ten; this visits what may still be
 * better, and nothing twice.
 *
 * The first time, α is 1: there is nothing to average with. After an episode all experience is
 * replayed once, last first, so that new results reach all states that depend on them. An action
 * that leads back to its own state costs and gains nothing: it is never worth taking.
 */

#define QTABLE_BYTES_MAX (256u << 20)
#define QTABLE_END       (-1) /* the state after the last step */
#define QTABLE_UNTRIED   (-2)

struct qtable_entry {
    double reward;
    double value; /* NaN: unknown */
    double hope;  /* minus infinity: it leads back to its state */
    int32_t next; /* a state, QTABLE_END or QTABLE_UNTRIED */
};

struct qtable {
    size_t actions; /* the last one ends the episode */
    double alpha, gamma;
    double price; /* of any step, at least: hopes that differ by less are alike */
    /* of each action: the least that it cost so far; before it was tried, `price` */
    double *prices;
    uint32_t *rank; /* of each action: ties go to the higher one */
    struct feature_map states;
    struct qtable_entry *entries; /* `actions` for each state */
    struct qtable_sum {
        double value, hope; /* the best of its actions */
        bool known;         /* there is a value */
    } * sums;
    size_t room;     /* of both, in states */
    uint32_t *tried; /* state · actions + action, in the order in which they were tried first */
    size_t n_tried, room_tried;
};

struct qtable_options {
    size_t features, actions;
    double alpha, gamma, price;
    /* for the order in which equal actions are tried; the last action comes first */
    struct dice *dice;
};
int qtable_init(struct qtable *q, const struct qtable_options *o);
void qtable_free(struct qtable *q);

/* The number of a state, which is added if it is new: -ENOMEM, or -ENOSPC when the table is
 * full. */
ssize_t qtable_state(struct qtable *q, const int64_t *features);

const struct qtable_entry *qtable_entry(const struct qtable *q, size_t state, size_t action);

/* The best action by value, or -1 if nothing is known; and the one that an explorer takes, which
 * then is always one. */
ssize_t qtable_best(const struct qtable *q, size_t state);
ssize_t qtable_explore(const struct qtable *q, size_t state);

/* What came of an action, and what of that was its price; its estimates follow with the next
 * update. */
int qtable_note(struct qtable *q, size_t state, size_t action, double reward, double price,
                int32_t next);
void qtable_update(struct qtable *q, size_t state, size_t action);
void qtable_replay(struct qtable *q);

/*
 * For an episode that is given up: takes its last note back (what the entry and the action's price
 * were before it), note by note; and then drops the states that it added, all from `from` on.
 */
void qtable_take_back(struct qtable *q, size_t state, size_t action, const struct qtable_entry *was,
                      double price);
void qtable_drop_states(struct qtable *q, size_t from);

/* For loading: an entry as it was saved. Prices are set before. */
int qtable_restore(struct qtable *q, size_t state, size_t action, const struct qtable_entry *as);
