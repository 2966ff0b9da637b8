/* Ways to run one `true` in a box, as contestants. */
#pragma once

#include "box.h"
#include "contest.h"

/* Options for fresh boxes, a live box, a pool; each contestant uses one of them. */
struct subject {
    struct box_options options;
    struct box *live;
    struct pool *pool;
};

/* The defaults of `hutch run`, with this workspace (NULL: an empty one). */
void subject_init(struct subject *s, const char *workspace);
void subject_free(struct subject *s);

/* Both exit on failure. */
void subject_open_live(struct subject *s);
void subject_open_pool(struct subject *s, size_t size);

/* Runs a shell script, or `true` if it is NULL; -EIO unless its status is 0. Prints errors to
 * stderr. */
int subject_exec(struct box *b, const char *script);

struct contestant subject_fresh(struct subject *s);  /* opened, used and closed */
struct contestant subject_pooled(struct subject *s); /* taken from the pool, used and given back */
struct contestant subject_live(struct subject *s);   /* one command in a box that runs already */
