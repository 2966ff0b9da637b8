/*
 * An arena: one task made ready for any number of environments. It holds what they share: the
 * snapshot that every reset starts from, a pool of boxes forked from it, the warm runner and the
 * cache of known outcomes. Any number of threads.
 */
#pragma once

#include "session.h"
#include "box.h"
#include "task.h"

enum gym_clock {
    CLOCK_WALL,    /* measured seconds; of a cached outcome, those of its first run */
    CLOCK_VIRTUAL, /* a fixed cost per action: same seed and actions, same rewards */
};

struct arena_options {
    bool no_cache;
    size_t cache_bytes; /* 0: 64 MiB */
    size_t pool;        /* boxes kept ready; 0: as many as processors, at least 2 */
    enum gym_clock clock;
    bool cold; /* no warm runner: every run of the tests starts its interpreter */
};

struct gym_arena;

/* The task is borrowed. If it does not list the expected tests, they are found by running its
 * solution, which may take long; -ECANCELED once `cancel` (base/thread.h; -1: none) is readable. */
int arena_open(const struct task *t, const struct arena_options *o, int cancel,
               struct gym_arena **ret, struct error *err);
struct gym_arena *arena_close(struct gym_arena *a); /* after all of its environments; takes NULL */

const struct task *arena_task(const struct gym_arena *a);
enum gym_clock arena_clock(const struct gym_arena *a);
const struct task_list *arena_expected(const struct gym_arena *a);
struct tool_cache *arena_cache(const struct gym_arena *a); /* NULL: off */

/* Takes a fresh box as reset gives it; gives one back (or NULL), to be ended in the background. */
int arena_take(struct gym_arena *a, struct box **ret, struct error *err);
void arena_give(struct gym_arena *a, struct box *b);

/* Runs the tests in a box (see grade_box); starts the warm runner at the first call that needs
 * it. */
struct grade;
int arena_grade(struct gym_arena *a, struct box *b, bool as_is, int cancel, struct grade *ret,
                struct error *err);

enum arena_event {
    ARENA_RESET,
    ARENA_STEP,
    ARENA_TEST_RUN,
    ARENA_CACHE_HIT,
    ARENA_BOX, /* taken or forked */
    ARENA_EVENTS
};
void arena_count(struct gym_arena *a, enum arena_event event);

struct arena_counts {
    uint64_t resets, steps, test_runs, cache_hits, boxes;
    bool warm;
};
void arena_counts(struct gym_arena *a, struct arena_counts *ret);
