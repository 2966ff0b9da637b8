/* The names in one or more folders, each once. */
#pragma once

#include <stddef.h>

#include "buf.h"

struct names {
    struct buf text; /* names, each with its NUL */
    size_t *at;      /* where each starts */
    size_t count, room;
};

/* Adds the names of a folder just opened. 0 or a negative errno. */
int names_read(struct names *n, int dir);

/* Puts them in order and drops what is there twice; needed once names of more than one folder were
 * read. */
void names_unite(struct names *n);

const char *names_get(const struct names *n, size_t i);
void names_free(struct names *n);
