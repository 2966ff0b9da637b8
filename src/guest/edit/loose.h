/*
 * Finds text that is the same once both sides are folded (fold.h): whatever differs is blanks, line
 * breaks, quotes and the like. In time linear in the text, and memory linear in what is looked for.
 */
#pragma once

#include "bytes.h"

#define LOOSE_OLD_MAX (64u << 10) /* bytes of what is looked for, folded */

struct loose_span {
    size_t begin, end;
};

/* Fills in up to `max` places that do not overlap, and returns how many there are of these. 0 also
 * if `old` is too long or nothing but blanks; -ENOMEM. */
int loose_find(struct bytes text, struct bytes old, struct loose_span *ret, int max);
