/* Files with several names, remembered by what they are and where their first copy was put. */
#pragma once

#include <sys/stat.h>

struct links {
    void *tree;
};

/* The path of the first copy of this file, or NULL. */
const char *links_find(const struct links *l, const struct stat *st);

/* 0 or -ENOMEM. */
int links_add(struct links *l, const struct stat *st, const char *path);
void links_free(struct links *l);
