/*
 * Dice: random numbers that are the same on every machine for the same seed (xoshiro256**, seeded
 * by splitmix64; both by Blackman and Vigna). For agents and for sampling, never for secrets.
 */
#pragma once

#include <stdint.h>

struct dice {
    uint64_t state[4]; /* not all zero */
};

void dice_seed(struct dice *d, uint64_t seed);
uint64_t dice_next(struct dice *d);
uint64_t dice_below(struct dice *d, uint64_t n); /* 0 … n - 1, each as likely; n > 0 */
double dice_unit(struct dice *d);                /* 0 or more, less than 1 */
