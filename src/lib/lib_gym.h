/* The handles of arenas, environments and vectors. */
#pragma once

#include <stdatomic.h>

#include "entry.h"
#include "vector.h"

/* Environments hold a reference: the caller's close drops only its own. */
struct hutch_arena {
    struct handle handle;
    atomic_uint refs;
    struct task *task;
    struct gym_arena *arena;
};
hutch_arena *arena_ref(hutch_arena *a);
void arena_unref(hutch_arena *a);
