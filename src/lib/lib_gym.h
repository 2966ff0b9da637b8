/* The handles of arenas, environments and vectors. */
#pragma once

#include <stdatomic.h>

#include "entry.h"
#include "vector.h"

/* A task made ready. Its environments hold it: the caller's close only lets go of it. */
struct hutch_arena {
    struct handle handle;
    atomic_uint refs;
    struct task *task;
    struct gym_arena *arena;
};
hutch_arena *arena_ref(hutch_arena *a);
void arena_unref(hutch_arena *a);

/* A task as hutch_tasks() lists it. */
json_t *task_describe(const struct task *t);

/* What a step's pointers point to. */
struct step_texts {
    char *observation, *info;
    int64_t *features;
};
void step_texts_free(struct step_texts *t);

/* Makes `s` what a caller sees; `e` is the environment right after it. */
int step_show(const struct gym_step *s, const struct gym_env *e, struct step_texts *texts,
              struct hutch_step *ret, struct error *err);
