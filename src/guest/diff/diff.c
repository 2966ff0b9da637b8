#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "blob.h"
#include "changes.h"
#include "diff.h"
#include "patch.h"
#include "relpath.h"
#include "renames.h"
#include "banned.h"

/* Bytes that one diff may read of all files together: sparse files could claim any number. */
#define READ_MAX ((uint64_t)8 << 30)

struct diff {
    const struct tree *t;
    const struct changes *list;
    struct answer *a;
    bool stat;
    uint64_t budget;
    size_t *partner;
    struct patch_totals totals;
};

static int write_rename(struct diff *d, size_t gone, size_t new)
{
    const struct change *from = d->list->items[gone], *to = d->list->items[new];
    d->totals.files++;
    if (d->stat)
        return patch_count_rename(d->a, from->path, to->path);
    mode_t old_mode = from->mode & S_IXUSR ? 0100755 : 0100644,
           new_mode = to->mode & S_IXUSR ? 0100755 : 0100644;
    return patch_write_rename(d->a, from->path, to->path, old_mode, new_mode);
}

static int write_change(struct diff *d, const struct change *c)
{
    _cleanup_blob_ struct blob old = BLOB_NONE, new = BLOB_NONE;
    int r = 0;
    if (c->kind != WIRE_ADDED && d->t->base >= 0)
        r = blob_load(d->t->base, c->path, &d->budget, &old);
    if (r >= 0 && c->kind != WIRE_DELETED)
        r = blob_load(d->t->merged, c->path, &d->budget, &new);
    if (r < 0)
        return r;
    if (d->stat)
        return patch_count(d->a, c->path, &old, &new, &d->totals);
    return patch_write(d->a, c->path, &old, &new, &d->totals);
}

static int write_all(struct diff *d, const bool *wanted)
{
    int r = 0;
    for (size_t i = 0; i < d->list->count && r >= 0; i++) {
        const struct change *c = d->list->items[i];
        if (!wanted[i])
            continue;
        if (d->partner[i] == RENAME_NONE)
            r = write_change(d, c);
        else if (c->kind == WIRE_ADDED)
            r = write_rename(d, d->partner[i], i);
    }
    return r;
}

static void write_summary(struct diff *d)
{
    const struct patch_totals *n = &d->totals;
    if (!d->stat || n->files == 0)
        return;
    answer_printf(d->a, " %llu file%s changed, %llu insertion%s(+), %llu deletion%s(-)\n",
                  (unsigned long long)n->files, n->files == 1 ? "" : "s",
                  (unsigned long long)n->added, n->added == 1 ? "" : "s",
                  (unsigned long long)n->deleted, n->deleted == 1 ? "" : "s");
}

/* Which changes the diff tells of; counts those it leaves out because git would not take them. */
static bool *choose(const struct changes *list, size_t *ret_under_git)
{
    bool *wanted = calloc(list->count + 1, sizeof *wanted);
    if (!wanted)
        return NULL;
    for (size_t i = 0; i < list->count; i++) {
        const struct change *c = list->items[i];
        if (relpath_touches_git(c->path))
            ++*ret_under_git;
        else
            wanted[i] = !S_ISDIR(c->mode);
    }
    return wanted;
}

static int answer_result(const struct diff *d, size_t under_git)
{
    answer_flush(d->a);
    answer_begin(d->a, WIRE_RESULT);
    wire_put_u64(&d->a->frame, WIRE_K_COUNT, under_git);
    if (d->totals.untold + d->list->left_out)
        wire_put_u64(&d->a->frame, WIRE_K_TOO_MANY, d->totals.untold + d->list->left_out);
    answer_end(d->a);
    return answer_flush(d->a);
}

int diff_answer(const struct tree *t, bool stat, struct answer *a, struct error *err)
{
    _cleanup_changes_ struct changes list = {0};
    int r = changes_collect(t, false, &list, err);
    if (r < 0)
        return r;
    size_t under_git = 0;
    _cleanup_free_ bool *wanted = choose(&list, &under_git);
    _cleanup_free_ size_t *partner = NULL;
    struct diff d = {.t = t, .list = &list, .a = a, .stat = stat, .budget = READ_MAX};
    r = wanted ? renames_find(t, &list, wanted, &d.budget, &partner) : -ENOMEM;
    d.partner = partner;
    if (r >= 0)
        r = write_all(&d, wanted);
    if (r < 0)
        return error_errno(err, -r, "cannot write the diff");
    write_summary(&d);
    return answer_result(&d, under_git);
}
