/* Which files are staged for grading, and what is told of what differed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grade_private.h"
#include "banned.h"

bool grade_is_beneath(const struct task_list *own, const char *path)
{
    for (size_t i = 0; i < own->count; i++) {
        size_t n = strlen(own->items[i]);
        if (strncmp(path, own->items[i], n) == 0 && (!path[n] || path[n] == '/'))
            return true;
    }
    return false;
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct task_file *)a)->path, ((const struct task_file *)b)->path);
}

static const struct task_file *find(const struct task_tree *tree, const char *path)
{
    struct task_file key = {.path = (char *)path};
    return tree->count ? bsearch(&key, tree->items, tree->count, sizeof key, compare) : NULL;
}

/* A hidden file takes the place of a visible one of the same path. */
int grade_tree(const struct task *t, struct task_tree *ret)
{
    struct task_tree tree = {.items =
                                 calloc(t->files.count + t->hidden.count + 1, sizeof *tree.items)};
    if (!tree.items)
        return -ENOMEM;
    for (size_t i = 0; i < t->hidden.count; i++)
        tree.items[tree.count++] = t->hidden.items[i];
    for (size_t i = 0; i < t->files.count; i++) {
        const struct task_file *f = &t->files.items[i];
        if (grade_is_beneath(&t->tests.own, f->path) && !find(&t->hidden, f->path))
            tree.items[tree.count++] = *f;
    }
    qsort(tree.items, tree.count, sizeof *tree.items, compare);
    *ret = tree;
    return 0;
}

/* Of a hidden file that the agent never saw: that it was not there is nothing, that something was
 * is an addition. */
static int take_change(const struct task *t, const char *change, struct task_list *ret)
{
    const char *path = change[0] && change[1] == ' ' ? change + 2 : "";
    bool hidden = find(&t->hidden, path) && !find(&t->files, path);
    if (!hidden)
        return task_list_add(ret, change);
    if (change[0] == 'D')
        return 0;
    _cleanup_free_ char *text = NULL;
    return asprintf(&text, "A %s", path) < 0 ? -ENOMEM : task_list_add(ret, text);
}

int grade_discarded(const struct task *t, const struct task_list *changed, struct task_list *ret)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < changed->count; i++)
        r = take_change(t, changed->items[i], ret);
    return r;
}
