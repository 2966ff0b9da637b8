/* The parts of the store process; store.c tells how they work together. */
#pragma once

#include <stdint.h>

struct store_usage {
    uint64_t bytes, inodes;
};

/* Counts what the folder holds, while its box may be changing it. -EMFILE: folders are nested too
 * deeply. */
int store_usage_count(int folder, struct store_usage *ret);

/* Removes the folder `name` of `parent` with everything in it. */
int store_remove(int parent, const char *name);

/* Removes every store in `parent` that no process holds the lock of, those that a crash left
 * behind: each in a child, which has the lock meanwhile. */
void store_sweep(int parent);

int store_main(int control);
