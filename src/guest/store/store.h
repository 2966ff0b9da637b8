/* The store process: see store.c. */
#pragma once

/* Removes the folder `name` of `parent` with everything in it. */
int store_remove(int parent, const char *name);

/* Removes every store in `parent` that no process has locked, left by a crash: each in a child,
 * which holds its lock. */
void store_sweep(int parent);

int store_main(int control);
