/* One file of a diff, worked out: what plan.c does for each of them. */
#pragma once

#include "place.h"
#include "plan.h"

struct work {
    struct plan *plan;
    const struct plan_options *options;
    struct place_options how;
    uint64_t left; /* comparisons that may still be made */
    void (*reject)(void *data, const struct plan_reject *r); /* NULL: nobody wants to know */
    void *data;
};

/* 0 with the outcome; -ENOENT if it does not apply, which was reported; other failures with words.
 */
int work_file(struct work *w, const struct diff_file *f, struct plan_outcome *ret,
              struct error *err);

/* Marks what the diff deletes or renames away: for a file that takes its name that is no obstacle.
 */
void work_doom(struct work *w);

/* Reports what is wrong with a file as a whole; -ENOENT. */
int work_reject(struct work *w, const char *path, const char *reason);

/* The new content of a file, out of `old`. As work_file. `ret` belongs to the world. */
struct work_content {
    const uint8_t *data;
    size_t size;
};

int work_content(struct work *w, const struct diff_file *f, const char *path,
                 struct work_content old, struct work_content *ret, struct plan_outcome *outcome,
                 struct error *err);
