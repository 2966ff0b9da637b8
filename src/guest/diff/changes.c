#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "content.h"
#include "diff_worker.h"
#include "relpath.h"
#include "banned.h"

/* Bytes of one change, beside its path. */
#define OVERHEAD (sizeof(struct change) + sizeof(struct change *) + 16)

void changes_free(struct changes *c)
{
    for (size_t i = 0; i < c->count; i++) {
        free(c->items[i]->target);
        free(c->items[i]);
    }
    free(c->items);
    *c = (struct changes){0};
}

/* An entry on one of the two sides: the name in dir, which `st` is of. */
static int changes_add(struct walk *w, struct changes *list, const struct change *what,
                       const char *path, size_t path_len, int dir, const struct stat *st)
{
    if (list->count == CHANGES_MAX || list->bytes + path_len + OVERHEAD > CHANGES_BYTES_MAX ||
        path_len > RELPATH_MAX) {
        list->left_out++;
        return 0;
    }
    if (list->count == list->room) {
        size_t room = list->room ? list->room * 2 : 64;
        struct change **items = realloc(list->items, room * sizeof *items);
        if (!items)
            return error_errno(w->err, ENOMEM, "cannot list the changes");
        list->items = items;
        list->room = room;
    }
    struct change *c = malloc(sizeof *c + path_len + 1);
    if (!c)
        return error_errno(w->err, ENOMEM, "cannot list the changes");
    *c = *what;
    c->mode = st->st_mode;
    if (c->kind != WIRE_DELETED && S_ISREG(c->mode) && st->st_nlink > 1)
        c->link = st->st_ino;
    if (S_ISREG(c->mode) || S_ISLNK(c->mode))
        c->size = (uint64_t)st->st_size;
    memcpy(c->path, path, path_len + 1);
    list->items[list->count++] = c;
    list->bytes += path_len + OVERHEAD;
    /* A link of the base may be gone by now; then it has no target. */
    int r = S_ISLNK(c->mode) ? content_read_link(dir, relpath_name(path), &c->target) : 0;
    return r == -ENOMEM ? error_errno(w->err, ENOMEM, "cannot list the changes") : 0;
}

static bool changes_is_same(struct walk *w, const struct walk_entry *e)
{
    const struct stat *m = &e->merged, *b = &e->base;
    if ((m->st_mode & S_IFMT) != (b->st_mode & S_IFMT))
        return false;
    if (S_ISLNK(m->st_mode)) {
        _cleanup_free_ char *now = NULL, *before = NULL;
        return content_read_link(walk_dir(w, WALK_MERGED), e->name, &now) >= 0 &&
               content_read_link(walk_dir(w, WALK_BASE), e->name, &before) >= 0 &&
               strcmp(now, before) == 0;
    }
    if ((m->st_mode & 07777) != (b->st_mode & 07777) || m->st_rdev != b->st_rdev)
        return false;
    if (!S_ISREG(m->st_mode) || m->st_size != b->st_size)
        return !S_ISREG(m->st_mode);
    /* Files that cannot be read to compare them are taken to differ: they are in a layer, so the
     * box had them open. */
    _cleanup_fd_ int now = -1, before = -1;
    return content_open(walk_dir(w, WALK_MERGED), e->name, &now) >= 0 &&
           content_open(walk_dir(w, WALK_BASE), e->name, &before) >= 0 &&
           content_same(now, before) > 0;
}

static int changes_visit(struct walk *w, const struct walk_entry *e, void *data)
{
    bool dir_merged = e->in_merged && S_ISDIR(e->merged.st_mode);
    bool dir_base = e->in_base && S_ISDIR(e->base.st_mode);
    bool file_merged = e->in_merged && !dir_merged, file_base = e->in_base && !dir_base;
    int r = 0;
    if (file_merged && !(file_base && changes_is_same(w, e)))
        r = changes_add(w, data, &(struct change){.kind = file_base ? WIRE_MODIFIED : WIRE_ADDED},
                        e->path, e->path_len, walk_dir(w, WALK_MERGED), &e->merged);
    else if (file_base && !file_merged)
        r = changes_add(w, data, &(struct change){.kind = WIRE_DELETED}, e->path, e->path_len,
                        walk_dir(w, WALK_BASE), &e->base);
    if (r < 0)
        return r;
    if (e->path_len > RELPATH_MAX) /* nothing below could be listed either */
        return 0;
    return dir_merged || dir_base;
}

/* A folder that is only on one side is listed if it is empty there, or implied by what is in it;
 * one that is on both sides if its permissions differ. */
static int changes_leave(struct walk *w, void *data)
{
    int merged = walk_dir(w, WALK_MERGED), base = walk_dir(w, WALK_BASE);
    const struct walk_level *l = walk_level(w);
    const struct changes *list = data;
    struct stat st, base_st;
    if (l->path_len == 0 || (merged < 0 && base < 0))
        return 0;
    bool found = merged >= 0 ? l->found_merged : l->found_base;
    if (fstat(merged >= 0 ? merged : base, &st) < 0 || (base >= 0 && fstat(base, &base_st) < 0))
        return error_errno(w->err, errno, "cannot look at a folder");
    struct change c = {.kind = merged < 0 ? WIRE_DELETED : base < 0 ? WIRE_ADDED : WIRE_MODIFIED};
    c.implied = c.kind != WIRE_MODIFIED && found;
    if (c.kind == WIRE_MODIFIED ? (st.st_mode & 0777) == (base_st.st_mode & 0777)
                                : found && !list->folders)
        return 0;
    return changes_add(w, data, &c, (const char *)w->path.data, l->path_len, -1, &st);
}

/* By path; where a folder replaced a file or the reverse, the deletion comes first. */
static int change_compare(const void *a, const void *b)
{
    const struct change *x = *(struct change *const *)a, *y = *(struct change *const *)b;
    int order = strcmp(x->path, y->path);
    return order ? order : (int)y->kind - (int)x->kind;
}

int changes_collect(const struct overlay *t, bool folders, struct changes *ret, struct error *err)
{
    static const struct walk_ops OPS = {.visit = changes_visit, .leave = changes_leave};
    _cleanup_changes_ struct changes list = {.folders = folders};
    struct overlay view = *t;
    view.copy = -1;
    if (t->n_layers && t->merged < 0)
        return error_set(err, EINVAL, "the overlay '%s' has layers but no merged view", t->name);
    int r = walk_run(&view, &OPS, &list, err);
    if (r < 0)
        return r;
    if (list.count)
        qsort(list.items, list.count, sizeof *list.items, change_compare);
    *ret = list;
    list = (struct changes){0};
    return 0;
}

int changes_answer(const struct overlay *t, bool folders, struct answer *a, struct error *err)
{
    _cleanup_changes_ struct changes list = {0};
    int r = changes_collect(t, folders, &list, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < list.count && a->status == 0; i++) {
        const struct change *c = list.items[i];
        answer_begin(a, WIRE_ENTRY);
        wire_put_str(&a->frame, WIRE_K_PATH, c->path);
        wire_put_u64(&a->frame, WIRE_K_KIND, c->kind);
        wire_put_u64(&a->frame, WIRE_K_MODE, c->mode);
        wire_put_u64(&a->frame, WIRE_K_SIZE, c->size);
        if (c->target)
            wire_put_str(&a->frame, WIRE_K_TARGET, c->target);
        if (c->implied)
            wire_put_u64(&a->frame, WIRE_K_IMPLIED, 1);
        if (c->link)
            wire_put_u64(&a->frame, WIRE_K_LINK, c->link);
        answer_end(a);
    }
    answer_begin(a, WIRE_RESULT);
    wire_put_u64(&a->frame, WIRE_K_COUNT, list.count);
    if (list.left_out)
        wire_put_u64(&a->frame, WIRE_K_TOO_MANY, list.left_out);
    return answer_end(a);
}
