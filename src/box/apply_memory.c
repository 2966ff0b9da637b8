/* A file is known by its inode and the time of its last change: whatever the person does to it moves that
 * time. */
#include <errno.h>
#include <search.h>
#include <stdlib.h>

#include "apply_memory.h"
#include "banned.h"

struct apply_memory {
    void *tree;
};

struct left {
    dev_t dev;
    ino_t ino;
    struct timespec changed;
};

static int compare(const void *a, const void *b)
{
    const struct left *x = a, *y = b;
    if (x->dev != y->dev)
        return x->dev < y->dev ? -1 : 1;
    return x->ino < y->ino ? -1 : x->ino > y->ino;
}

struct apply_memory *apply_memory_new(void)
{
    return calloc(1, sizeof(struct apply_memory));
}

struct apply_memory *apply_memory_free(struct apply_memory *m)
{
    if (m)
        tdestroy(m->tree, free);
    free(m);
    return NULL;
}

bool apply_memory_has(const struct apply_memory *m, const struct stat *st)
{
    const struct left key = {.dev = st->st_dev, .ino = st->st_ino};
    struct left **found = tfind(&key, &m->tree, compare);
    return found && (*found)->changed.tv_sec == st->st_ctim.tv_sec &&
           (*found)->changed.tv_nsec == st->st_ctim.tv_nsec;
}

int apply_memory_add(struct apply_memory *m, const struct stat *st)
{
    struct left *left = malloc(sizeof *left);
    if (!left)
        return -ENOMEM;
    *left = (struct left){.dev = st->st_dev, .ino = st->st_ino};
    struct left **found = tsearch(left, &m->tree, compare);
    if (!found || *found != left)
        free(left);
    if (!found)
        return -ENOMEM;
    (*found)->changed = st->st_ctim;
    return 0;
}
