/* Why a text is not found in another: where it nearly is, and what differs there. */
#pragma once

#include "match.h"

#define EXPLAIN_MAX (32u << 10) /* bytes of an explanation */

/* Where the nearest text is: lines from 1; a count of 0 if there is none. */
struct explain_place {
    uint64_t line, count;
};

/* Explains to `out`, in a few lines, why e->old is not in the text. */
void explain_missing(struct bytes text, const struct edit *e, struct buf *out,
                     struct explain_place *ret);
