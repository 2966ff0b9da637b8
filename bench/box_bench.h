/* The measurements of box_bench that are not contests; each prints one JSON value. All return 0 or
 * a negative errno. */
#pragma once

#include "contest.h"

/* Snapshot and fork of boxes: `empty` and `large` workspaces, with 1 and with 100 changed files in
 * each. */
int fork_bench(const char *large, unsigned rounds);

/* Runs per second with `in_flight` threads; contestants take turns in slices of time. */
int rate_print(const struct contestant *list, size_t n, unsigned in_flight, unsigned rounds,
               unsigned slice_ms);

/* Many boxes in a row, with what the process holds on the way. */
int leftover_bench(unsigned boxes);

/* What a box costs while nothing happens in it. */
int idle_bench(unsigned boxes);
