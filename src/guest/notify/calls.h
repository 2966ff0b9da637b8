/* One function per kind of call. They return what the caller gets: 0, a negative errno, or
 * CALL_GOES_ON. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "caller.h"

#define CALL_GOES_ON 1 /* the kernel carries the call out as if nobody had been asked */

struct rename_call {
    int from_dir, to_dir;
    uint64_t from, to; /* addresses of paths */
    unsigned flags;
};

int rename_decide(const struct caller *c, const struct rename_call *r);

/* `path` 0: what the descriptor `dir` is open on. Never goes on: the mode could be another one by
 * then. */
int chmod_decide(const struct caller *c, int dir, uint64_t path, mode_t mode, int flags);
