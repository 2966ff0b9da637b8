/* A box that is being looked at from outside: its processes are stopped, a diff worker reads its
 * layers. */
#pragma once

#include "backend.h"

struct box_view {
    struct box *box;
    int frozen; /* the connection that keeps the processes stopped; -1: there are none */
    struct guest diff_worker;
    int64_t began_ns; /* of box_time() */
    bool alone;       /* the box has no processes that could have files open */
    bool mapped;      /* a process has files mapped to write to them */
};

/* With snapshot > 0 the worker may write that snapshot; else the overlay forgets the names it
 * looked up. */
int box_view_open(struct box *b, unsigned snapshot, int cancel, struct box_view *ret,
                  struct error *err);
void box_view_close(struct box_view *v);

/* Records what the folder has where the box touched it (note.h). */
int box_view_note(struct box_view *v, struct error *err);

/* Fails for a box that writes to its folder directly, or not at all. */
int box_require_cow(const struct box *b, struct error *err);
