/*
 * The difference of two sequences of numbers, after Myers ("An O(ND) difference algorithm and its
 * variations", 1986): the middle of a shortest way from one to the other is searched from both ends
 * at once, and both halves are then done the same way, in space linear in the sequences.
 *
 * Time is bounded: a search that gets too costly is cut at the point it came furthest to, and once
 * the work allowed is used up, what is left is marked as changed wholesale. The result is always
 * right, only not always the shortest.
 */
#pragma once

#include <stdint.h>

struct linemyers_side {
    const uint32_t *items;
    uint8_t
        *changed; /* set to 1 for each item that the other side lacks; the caller clears it first */
    uint32_t count;
};

/* `work` is the number of steps allowed. 0 or -ENOMEM. */
int linemyers(struct linemyers_side *a, struct linemyers_side *b, int64_t work);
