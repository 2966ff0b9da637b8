/* Figures of `hutch gym bench`. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Times of one kind of call; the last of them if there are many. */
#define BENCH_TIMES_MAX 100000u

struct bench_times {
    int64_t *ns; /* room for BENCH_TIMES_MAX */
    size_t n;    /* all of them */
};

/* Sorts them; a share of 0.5 is the median. In milliseconds; 0 if there is none. */
double bench_percentile(struct bench_times *t, double share);
void bench_time(struct bench_times *t, int64_t ns);

struct bench_memory {
    int64_t own;   /* KiB of this process that nobody else has a part in, or its part of it; -1: not
                      known */
    int64_t boxes; /* the same of all processes in boxes; -1: an ordinary user may not look there */
};
void bench_memory(struct bench_memory *ret);
