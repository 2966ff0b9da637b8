/* The store process: see store.c. */
#pragma once

/* Removes the folder `name` of `parent` with everything in it. */
int store_remove(int parent, const char *name);

/* Removes every store in `parent` that no process holds the lock of, those that a crash left
 * behind: each in a child, which has the lock meanwhile. */
void store_sweep(int parent);

int store_main(int control);
