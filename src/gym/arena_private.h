/* What the files of the arena and of the environments share. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "arena.h"
#include "cache.h"

struct gym_arena {
    const struct task *task;
    struct arena_options options;
    struct snapshot *origin; /* what every reset starts from */
    struct pool *pool;       /* of boxes forked from it */
    struct task_list expected;
    struct tool_cache *cache; /* NULL: off */
    int warming;              /* turn.h: whoever starts the warm runner has it */
    pthread_mutex_t lock;     /* of the next three */
    bool warm_tried;
    struct warm *warm;
    struct error no_warm; /* why there is none */
    atomic_uint_fast64_t resets, steps, test_runs, cache_hits, boxes;
};

/* What runs the tests of the task is there, in a box with its files. */
int arena_check_runner(const struct task *t, struct box *template, int cancel, struct error *err);

/* Fills a->expected from the task, or by running the tests on its solution. */
int arena_find_expected(struct gym_arena *a, int cancel, struct error *err);

/* Runs the task's set-up script, if it has one, in the box that all others are forked from. */
int arena_setup(const struct task *t, struct box *template, int cancel, struct error *err);
