/*
 * A few prepared boxes, for whoever needs many: taking one costs nothing but the command that is
 * then run in it.
 *
 * One box is opened as a template and never used; all others are forks of it, made and ended by a
 * thread in the background. A box is used once: what was taken is given back to be ended, never to
 * be taken again.
 */
#pragma once

#include "box.h"

struct pool;

/* Keeps `size` boxes ready, of these options or (the second) of this snapshot, which must outlive
 * the pool.
 */
int pool_open(const struct box_options *o, size_t size, struct pool **ret, struct error *err);
int pool_open_snapshot(struct snapshot *s, size_t size, struct pool **ret, struct error *err);

/* A fresh box, ready or made now. It is the caller's, to be given back or closed. */
int pool_take(struct pool *p, struct box **ret, struct error *err);

/* Ends a box in the background. */
void pool_give(struct pool *p, struct box *b);

/* Ends everything; takes NULL, returns NULL. */
struct pool *pool_close(struct pool *p);
