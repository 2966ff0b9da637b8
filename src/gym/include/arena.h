/*
 * An arena: one task made ready for any number of environments. It holds what they share: the
 * snapshot that every reset starts from, a pool of boxes forked from it, the warm runner, what is
 * already known (the cache). Any number of threads.
 */
#pragma once

#include "pool.h"
#include "task.h"
#include "warm.h"

enum gym_clock {
    /* seconds are those that the call took (or took when its result was found, if it is known) */
    CLOCK_WALL,
    CLOCK_VIRTUAL /* each action costs a fixed number of seconds: same seed and actions, same
                     rewards */
};

struct arena_options {
    bool no_cache;
    size_t cache_bytes; /* 0: 64 MiB */
    size_t pool;        /* boxes kept ready; 0: as many as processors, at least 2 */
    enum gym_clock clock;
    bool cold; /* no warm runner: every run starts its interpreter */
};

struct gym_arena;

/* The task is borrowed. Finds out the expected tests if the task does not say (by running its
 * solution): that may take long, and is given up with -ECANCELED once `cancel` (-1: none;
 * base/thread.h) is readable. */
int arena_open(const struct task *t, const struct arena_options *o, int cancel,
               struct gym_arena **ret, struct error *err);
struct gym_arena *arena_close(struct gym_arena *a); /* after all of its environments; takes NULL */

const struct task *arena_task(const struct gym_arena *a);
enum gym_clock arena_clock(const struct gym_arena *a);
const struct task_list *arena_expected(const struct gym_arena *a);

/* A fresh box as reset gives it; and back, to be ended in the background. */
int arena_take(struct gym_arena *a, struct box **ret, struct error *err);
void arena_give(struct gym_arena *a, struct box *b);

/* The warm runner, started at the first call. Where it cannot be had that is always the same error;
 * -ECANCELED is the caller's own. */
int arena_warm(struct gym_arena *a, int cancel, struct warm **ret, struct error *err);

struct arena_counts {
    uint64_t resets, steps, test_runs, cache_hits, boxes; /* boxes: taken so far */
    bool warm;
};
void arena_counts(struct gym_arena *a, struct arena_counts *ret);
