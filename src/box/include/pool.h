/*
 * A few boxes made in advance, for callers that need many one after another.
 *
 * One box is opened as a template and never used; all others are forks of it, which a thread in the
 * background makes and closes. A box is used once: one that is given back is closed.
 */
#pragma once

#include "box.h"

struct pool;

/* Keeps `size` boxes ready, of these options or of this snapshot, which must outlive the pool. */
int pool_open(const struct box_options *o, size_t size, struct pool **ret, struct error *err);
int pool_open_snapshot(struct snapshot *s, size_t size, struct pool **ret, struct error *err);

/* A fresh box, ready or made now. The caller gives it back or closes it. */
int pool_take(struct pool *p, struct box **ret, struct error *err);

/* Ends a box in the background. */
void pool_give(struct pool *p, struct box *b);

/* Ends everything; takes NULL, returns NULL. */
struct pool *pool_close(struct pool *p);
