#pragma once

#include <stdint.h>

#include "caller.h"

#define CALL_GOES_ON 1 /* the kernel carries out the call as if the guest had not been asked */

struct rename_call {
    int from_dir, to_dir;
    uint64_t from, to; /* addresses of paths */
    unsigned flags;
};

/* What the caller gets: 0, a negative errno, or CALL_GOES_ON. */
int rename_decide(const struct caller *c, const struct rename_call *r);
