/*
 * Several ways to do the same thing, measured in one interleaved run.
 *
 * Every round runs each contestant once, in an order that is shuffled anew, so that what one leaves
 * to the kernel to clean up does not always burden the same other one, and noise from elsewhere
 * meets them all. The result is printed as one JSON object of raw values; bench.py makes the
 * numbers of them.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define CONTEST_PARTS_MAX 4
#define CONTEST_MAX       16

struct contestant {
    const char *name;
    const char *const
        *parts; /* names of what one run measures, NULL-terminated; NULL: one value, its time */
    int (*run)(void *data, int64_t *ret_values); /* says itself on stderr why it failed */
    void *data;
};

/* Runs all of them `rounds` times after a few to warm up, and prints {"name": [values…], …};
 * "name/part" if it has parts. Returns 0 or a negative errno. */
int contest_print(const struct contestant *list, size_t n, unsigned rounds);
