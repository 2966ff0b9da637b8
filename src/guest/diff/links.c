#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "links.h"
#include "banned.h"

struct link {
    dev_t dev;
    ino_t ino;
    char path[];
};

static int compare(const void *a, const void *b)
{
    const struct link *x = a, *y = b;
    if (x->dev != y->dev)
        return x->dev < y->dev ? -1 : 1;
    return x->ino < y->ino ? -1 : x->ino > y->ino;
}

const char *links_find(const struct links *l, const struct stat *st)
{
    const struct link key = {.dev = st->st_dev, .ino = st->st_ino};
    struct link **found = tfind(&key, &l->tree, compare);
    return found ? (*found)->path : NULL;
}

int links_add(struct links *l, const struct stat *st, const char *path)
{
    size_t n = strlen(path) + 1;
    struct link *link = malloc(sizeof *link + n);
    if (!link)
        return -ENOMEM;
    *link = (struct link){.dev = st->st_dev, .ino = st->st_ino};
    memcpy(link->path, path, n);
    if (!tsearch(link, &l->tree, compare)) {
        free(link);
        return -ENOMEM;
    }
    return 0;
}

void links_free(struct links *l)
{
    tdestroy(l->tree, free);
    l->tree = NULL;
}
