#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apply.h"
#include "relpath.h"
#include "banned.h"

/* What makes a folder a git directory. */
enum { HAS_HEAD = 1, HAS_OBJECTS = 2, HAS_REFS = 4, HAS_COMMONDIR = 8 };

/* The names that git reads in one; those without a bit only matter where the others are. */
static const struct {
    const char *name;
    unsigned bit;
} GIT_NAMES[] = {
    {"head", HAS_HEAD}, {"objects", HAS_OBJECTS}, {"refs", HAS_REFS}, {"commondir", HAS_COMMONDIR},
    {"config", 0},      {"config.worktree", 0},   {"hooks", 0},       {"info", 0},
    {"packed-refs", 0}, {"modules", 0},           {"worktrees", 0},   {"reftable", 0},
};

/* One folder of the list, with what the box has in it. The path is that of some change, of which
 * the folder is the first n bytes. */
struct git_folder {
    char *path;
    size_t n;
    unsigned bits;
    bool is_git;
};

struct git_dirs {
    struct git_folder *items;
    size_t count;
};

struct git_dirs *git_dirs_new(void)
{
    return calloc(1, sizeof(struct git_dirs));
}

struct git_dirs *git_dirs_free(struct git_dirs *g)
{
    for (size_t i = 0; g && i < g->count; i++)
        free(g->items[i].path);
    if (g)
        free(g->items);
    free(g);
    return NULL;
}

/* Walks along a path: the next component that is one of GIT_NAMES. *at is NULL at the end; the
 * folder that holds the component is the first *ret_n bytes of the path. */
static bool git_name_next(const char *path, const char **at, size_t *ret_n, unsigned *ret_bit)
{
    while (*at) {
        const char *name = *at;
        size_t length = strcspn(name, "/");
        *at = name[length] ? name + length + 1 : NULL;
        /* The shortest name has four letters, and what folds to one is not shorter: a deep tree has
         * many others. */
        for (size_t i = 0; length >= 4 && i < ARRAY_SIZE(GIT_NAMES); i++)
            if (relpath_component_folds_to(name, length, GIT_NAMES[i].name)) {
                *ret_n = name > path ? (size_t)(name - path - 1) : 0;
                *ret_bit = GIT_NAMES[i].bit;
                return true;
            }
    }
    return false;
}

int git_dirs_add(struct git_dirs *g, const char *path)
{
    size_t n;
    unsigned bit;
    for (const char *at = path; git_name_next(path, &at, &n, &bit);) {
        /* Changes come in order of their paths: most are in the folder of the one before. */
        struct git_folder *last = g->count ? &g->items[g->count - 1] : NULL;
        if (last && last->n == n && memcmp(last->path, path, n) == 0) {
            last->bits |= bit;
            continue;
        }
        char *copy = strndup(path, n);
        if (!copy || !list_grow(&g->items, g->count, sizeof *g->items)) {
            free(copy);
            return -ENOMEM;
        }
        g->items[g->count++] = (struct git_folder){.path = copy, .n = n, .bits = bit};
    }
    return 0;
}

static int git_folder_compare(const void *a, const void *b)
{
    return strcmp(((const struct git_folder *)a)->path, ((const struct git_folder *)b)->path);
}

static bool git_folder_has(const struct git_folder *f, const char *name,
                           bool (*has)(void *data, const char *path), void *data)
{
    _cleanup_free_ char *path = NULL;
    if (asprintf(&path, "%s%s%s", f->path, f->n ? "/" : "", name) < 0) {
        path = NULL;
        return true; /* no memory: better refused */
    }
    return has(data, path);
}

void git_dirs_settle(struct git_dirs *g, bool (*has)(void *data, const char *path), void *data)
{
    size_t kept = 0;
    if (g->count)
        qsort(g->items, g->count, sizeof *g->items, git_folder_compare);
    for (size_t i = 0; i < g->count; i++) {
        if (kept && git_folder_compare(&g->items[kept - 1], &g->items[i]) == 0) {
            g->items[kept - 1].bits |= g->items[i].bits;
            free(g->items[i].path);
        } else
            g->items[kept++] = g->items[i];
    }
    g->count = kept;
    for (size_t i = 0; i < g->count; i++) {
        struct git_folder *f = &g->items[i];
        if (!(f->bits & HAS_HEAD) && !git_folder_has(f, "HEAD", has, data))
            continue;
        bool common = f->bits & HAS_COMMONDIR || git_folder_has(f, "commondir", has, data);
        bool objects = f->bits & HAS_OBJECTS || git_folder_has(f, "objects", has, data);
        bool refs = f->bits & HAS_REFS || git_folder_has(f, "refs", has, data);
        f->is_git = common || (objects && refs);
    }
}

bool git_dirs_refuse(const struct git_dirs *g, const char *path)
{
    size_t n;
    unsigned bit;
    for (const char *at = path; git_name_next(path, &at, &n, &bit);) {
        _cleanup_free_ char *name = strndup(path, n);
        const struct git_folder key = {.path = name};
        const struct git_folder *f =
            name && g->count ? bsearch(&key, g->items, g->count, sizeof key, git_folder_compare)
                             : NULL;
        if (!name || (f && f->is_git))
            return true; /* no memory: better refused */
    }
    return false;
}
