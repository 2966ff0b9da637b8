/* The files of a folder as a source for world.h. Nothing is followed, nothing but files and links
 * is read. */
#pragma once

#include "world.h"

/* `root` points to the folder's descriptor and outlives the source. */
struct source disk_source(int *root);

int disk_look(int root, const char *path, struct seen *ret);

/* Is it what it was, and has it not been touched? */
bool disk_is_same(const struct seen *a, const struct seen *b);
