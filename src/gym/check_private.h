/* What the files of a task's check share. */
#pragma once

#include "arena.h"
#include "check.h"
#include "grade.h"
#include "task_private.h"

struct check {
    const struct task *task;
    const struct check_options *options;
    struct gym_arena *arena;
    struct check_result result;
    struct error *err;
};

/* What came of some patches in a fresh box. */
struct check_played {
    size_t stopped;    /* how many of them were applied */
    char trouble[512]; /* why the next was not; or what became of the solution's script */
    struct grade grade;
};
void check_played_free(struct check_played *p);

int check_find(struct check *c, const char *fmt, ...) PRINTF(2, 3);
int check_note(struct check *c, const char *fmt, ...) PRINTF(2, 3);

/* Applies patches in a fresh box and grades it; a patch that does not apply is told in ret. */
int check_play(struct check *c, const size_t *patches, size_t n, struct check_played *ret);
int check_play_script(struct check *c, struct check_played *ret);
bool check_passes(const struct check_played *p);

/* check_box.c: in one box. */
int check_apply(struct check *c, struct box *b, const size_t *patches, size_t n,
                struct check_played *p);
int check_read(struct check *c, struct box *b, size_t i);

/* check_patches.c: patches alone, and parts of the solution. */
int check_patches(struct check *c);
int check_subsets(struct check *c);
