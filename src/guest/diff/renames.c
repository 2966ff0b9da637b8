#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "blob.h"
#include "renames.h"
#include "banned.h"

struct candidate {
    uint64_t size;
    bool gone;
    size_t index; /* in the list of changes */
    char name[BLOB_NAME];
};

static int by_size(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    return x->size < y->size ? -1 : x->size > y->size;
}

static int by_content(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    if (order)
        return order;
    return x->index < y->index ? -1 : x->index > y->index;
}

static size_t pick(const struct changes *list, const bool *wanted, struct candidate *ret)
{
    size_t n = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct change *c = list->items[i];
        if (wanted[i] && c->kind != WIRE_MODIFIED && S_ISREG(c->mode) && c->size > 0)
            ret[n++] =
                (struct candidate){.size = c->size, .gone = c->kind == WIRE_DELETED, .index = i};
    }
    return n;
}

/* Keeps those whose size occurs on both sides. */
static size_t keep_pairs(struct candidate *c, size_t n)
{
    size_t kept = 0;
    qsort(c, n, sizeof *c, by_size);
    for (size_t i = 0, end; i < n; i = end) {
        size_t gone = 0;
        for (end = i; end < n && c[end].size == c[i].size; end++)
            gone += c[end].gone;
        if (gone == 0 || gone == end - i)
            continue;
        memmove(c + kept, c + i, (end - i) * sizeof *c);
        kept += end - i;
    }
    return kept;
}

static int name_all(const struct tree *t, const struct changes *list, struct candidate *c,
                    size_t *n, uint64_t *budget)
{
    size_t kept = 0;
    for (size_t i = 0; i < *n; i++) {
        _cleanup_blob_ struct blob b = BLOB_NONE;
        int r =
            blob_load(c[i].gone ? t->base : t->merged, list->items[c[i].index]->path, budget, &b);
        if (r < 0)
            return r;
        if (b.untold || !S_ISREG(b.mode))
            continue;
        c[kept] = c[i];
        memcpy(c[kept++].name, b.name, sizeof b.name);
    }
    *n = kept;
    return 0;
}

/* Of the files with the same content, the first that is gone became the first that is new, and so
 * on: where a whole folder was moved, that is the right one. */
static void pair(const struct candidate *c, size_t n, size_t *partner)
{
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && strcmp(c[end].name, c[i].name) == 0; end++)
            ;
        for (size_t g = i, a = i;; g++, a++) {
            while (g < end && !c[g].gone)
                g++;
            while (a < end && c[a].gone)
                a++;
            if (g >= end || a >= end)
                break;
            partner[c[g].index] = c[a].index;
            partner[c[a].index] = c[g].index;
        }
    }
}

int renames_find(const struct tree *t, const struct changes *list, const bool *wanted,
                 uint64_t *budget, size_t **ret_partner)
{
    _cleanup_free_ size_t *partner = malloc((list->count + 1) * sizeof *partner);
    _cleanup_free_ struct candidate *c = malloc((list->count + 1) * sizeof *c);
    if (!partner || !c)
        return -ENOMEM;
    for (size_t i = 0; i < list->count; i++)
        partner[i] = RENAME_NONE;
    size_t n = keep_pairs(c, pick(list, wanted, c));
    int r = name_all(t, list, c, &n, budget);
    if (r < 0)
        return r;
    qsort(c, n, sizeof *c, by_content);
    pair(c, n, partner);
    *ret_partner = TAKE_PTR(partner);
    return 0;
}
