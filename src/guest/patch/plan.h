/*
 * Working a diff out: from its text and the files as they are to the files as they will be.
 *
 * All of it is tried by git's rules, then all of it by patch's (place.h); and once more without the
 * carriage returns of its lines, if its headers have some, as a diff has that went through a
 * Windows program. The first that works out for every file counts. If none does, everything that
 * stands in the way is reported, as far as it is known.
 */
#pragma once

#include "diff.h"
#include "image.h"
#include "nearest.h"
#include "paths.h"
#include "world.h"

#define PLAN_REPORTS_MAX 100u

struct plan_options {
    struct paths_options paths;
    unsigned fuzz;
    bool reverse;
    bool ignore_space;
};

enum plan_kind {
    PLAN_ADDED = 1,
    PLAN_MODIFIED,
    PLAN_DELETED,
    PLAN_RENAMED,
    PLAN_COPIED,
    PLAN_MODE
};

struct plan_outcome {
    const char *path, *from; /* of entries; from is NULL unless renamed or copied */
    enum plan_kind kind;
    size_t hunks;
    int64_t offset;
    unsigned fuzz;
    uint64_t added, removed;
};

/* Something that does not apply. */
struct plan_reject {
    const char *path;
    size_t hunk;         /* from 1; 0: it is about the file as a whole */
    struct slice header; /* of the hunk */
    const char *reason;
    struct nearest near;
    const struct image *img; /* the lines of the file, and those that the hunk looks for */
    const struct image_line *want;
};

struct plan {
    struct world world;
    struct diff diff;
    struct plan_outcome *outcomes;
    size_t count;
    size_t rejects;
};

/*
 * 0 if it works out: then plan->world says what to do. -ENOENT if it does not: `reject` was told of
 * everything that stands in the way, but for more than PLAN_REPORTS_MAX; ret_rejects counts all.
 * Other failures are about the diff as a whole, with words.
 */
int plan_make(const void *text, size_t size, const struct plan_options *o, struct source source,
              void (*reject)(void *data, const struct plan_reject *r), void *data, struct plan *ret,
              size_t *ret_rejects, struct error *err);
void plan_free(struct plan *p);
#define _cleanup_plan_ _cleanup_(plan_free)
