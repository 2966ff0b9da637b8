/*
 * The overlay of a box, the walk over everything that may differ between its base and its merged
 * view, and the list of changes that the walk finds. diff_worker.h says how the walk works.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "content.h"
#include "diff_worker.h"
#include "relpath.h"
#include "sys.h"
#include "banned.h"

#define FOLDER    (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define NOWHERE   SIZE_MAX
#define NAMES_MAX ((size_t)1 << 32) /* a folder may hold a million names; memory is the limit */

/* Bytes of one change, beside its path. */
#define OVERHEAD (sizeof(struct change) + sizeof(struct change *) + 16)

int overlay_open(int root, const char *name, struct overlay *ret, struct error *err)
{
    static const char *const parts[] = {"merged", "base", "copy"};
    struct overlay t = OVERLAY_INIT;
    int *const folders[] = {&t.merged, &t.base, &t.copy};
    char path[32];
    int code = 0;
    t.name = name;
    for (size_t i = 0; !code && i < ARRAY_SIZE(parts); i++) {
        snprintf(path, sizeof path, "%s/%s", name, parts[i]);
        *folders[i] = openat(root, path, FOLDER);
        code = *folders[i] < 0 && errno != ENOENT ? errno : 0;
    }
    while (!code && t.n_layers < OVERLAY_LAYERS_MAX) {
        snprintf(path, sizeof path, "%s/l%zu", name, t.n_layers);
        int fd = openat(root, path, FOLDER);
        code = fd < 0 && errno != ENOENT ? errno : 0;
        if (fd < 0)
            break;
        t.layers[t.n_layers++] = fd;
    }
    if (code) {
        overlay_close(&t);
        return error_errno(err, code, "cannot open /%s", path);
    }
    *ret = t;
    return 0;
}

void overlay_close(struct overlay *t)
{
    cleanup_close(&t->merged);
    cleanup_close(&t->base);
    cleanup_close(&t->copy);
    for (size_t i = 0; i < t->n_layers; i++)
        cleanup_close(&t->layers[i]);
    *t = OVERLAY_INIT;
}

bool overlay_is_opaque(int dir)
{
    char value;
    return fgetxattr(dir, "user.overlay.opaque", &value, 1) == 1 && value == 'y';
}

int walk_dir(const struct walk *w, enum walk_side side)
{
    const struct walk_cursor *c = &w->sides[side];
    return c->depth == w->depth ? c->fd : -1;
}

static int walk_fail(struct walk *w, int code, const char *what)
{
    return error_errno(w->err, code, "cannot %s a folder of the box, %zu deep", what, w->depth);
}

static int walk_set_path_end(struct walk *w, size_t len)
{
    w->path.len = len;
    return buf_cstr(&w->path) ? 0 : error_errno(w->err, ENOMEM, "cannot remember a path");
}

/* Adds the names of a folder just opened. */
static int level_read_names(struct walk_level *l, int dir)
{
    _Alignas(struct dirent64) char space[16384];
    for (;;) {
        ssize_t got = sys_getdents64(dir, space, sizeof space);
        if (got <= 0)
            return got < 0 ? -errno : 0;
        for (ssize_t at = 0; at < got;) {
            const struct dirent64 *entry = (const struct dirent64 *)(space + at);
            at += entry->d_reclen;
            if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                continue;
            size_t at_name = l->names.len;
            if (!ARRAY_GROW(l->at, l->count, l->room) ||
                buf_append(&l->names, entry->d_name, strlen(entry->d_name) + 1) < 0)
                return -ENOMEM;
            l->at[l->count++] = at_name;
        }
    }
}

static int level_compare_names(const void *a, const void *b, void *text)
{
    return strcmp((const char *)text + *(const size_t *)a, (const char *)text + *(const size_t *)b);
}

/* Fills in the level of the folder that the cursors were just moved to: what it hides, which folder
 * of the base it is, and its candidates, each once. */
static int walk_read_level(struct walk *w)
{
    struct walk_level *l = &w->levels[w->depth];
    struct stat st = {0};
    size_t sources = 0;
    int base = walk_dir(w, WALK_BASE);
    if (base >= 0 && fstat(base, &st) < 0)
        return walk_fail(w, errno, "look at");
    l->base_dev = st.st_dev;
    l->base_ino = st.st_ino;
    l->hidden |= l->replaced;
    for (size_t i = 0; i < w->n_sides; i++) {
        int dir = walk_dir(w, (enum walk_side)i);
        if (dir < 0 || !(i >= WALK_LAYERS || (i == WALK_BASE && l->hidden)))
            continue;
        int r = level_read_names(l, dir);
        if (r < 0)
            return walk_fail(w, -r, "list");
        sources++;
    }
    if (sources < 2 || l->count == 0)
        return 0;
    qsort_r(l->at, l->count, sizeof *l->at, level_compare_names, l->names.data);
    size_t kept = 1;
    for (size_t i = 1; i < l->count; i++)
        if (level_compare_names(&l->at[i], &l->at[kept - 1], l->names.data) != 0)
            l->at[kept++] = l->at[i];
    l->count = kept;
    return 0;
}

static int walk_enter(struct walk *w, const char *name)
{
    struct walk_level l = {.names = BUF_INIT(NAMES_MAX),
                           .path_len = w->path.len,
                           .hidden = w->levels[w->depth].hidden};
    /* A cursor whose side has no such folder waits; something else there takes its place. */
    for (size_t i = 0; i < w->n_sides; i++) {
        struct walk_cursor *c = &w->sides[i];
        if (c->depth != w->depth)
            continue;
        int fd = openat(c->fd, name, FOLDER);
        if (fd >= 0) {
            close(c->fd);
            *c = (struct walk_cursor){.fd = fd, .depth = w->depth + 1};
        } else if (errno == ENOTDIR || errno == ELOOP) {
            l.replaced |= i >= WALK_LAYERS;
        } else if (errno != ENOENT) {
            return walk_fail(w, errno, "open");
        }
    }
    if (!ARRAY_GROW(w->levels, w->depth + 1, w->room))
        return error_errno(w->err, ENOMEM, "cannot walk a tree %zu folders deep", w->depth + 1);
    w->depth++;
    /* A layer may hide the older content, or there is no such folder in the merged view. */
    for (size_t i = WALK_LAYERS; i < w->n_sides; i++) {
        int dir = walk_dir(w, (enum walk_side)i);
        l.replaced |= dir >= 0 && overlay_is_opaque(dir);
    }
    l.replaced |= walk_dir(w, WALK_MERGED) < 0;
    w->levels[w->depth] = l;
    return walk_read_level(w);
}

static int walk_leave(struct walk *w)
{
    for (size_t i = 0; i < w->n_sides; i++) {
        struct walk_cursor *c = &w->sides[i];
        if (c->depth != w->depth)
            continue;
        int fd = openat(c->fd, "..", FOLDER);
        if (fd < 0)
            return walk_fail(w, errno, "go back from");
        close(c->fd);
        *c = (struct walk_cursor){.fd = fd, .depth = w->depth - 1};
    }
    buf_free(&w->levels[w->depth].names);
    free(w->levels[w->depth].at);
    w->depth--;
    /* Other programs may move the base's folders; then ".." is not where the walk came from. */
    const struct walk_level *l = &w->levels[w->depth];
    int base = walk_dir(w, WALK_BASE);
    struct stat st;
    if (base >= 0 && fstat(base, &st) < 0)
        return walk_fail(w, errno, "look at");
    if (base >= 0 && (st.st_dev != l->base_dev || st.st_ino != l->base_ino))
        return error_set(w->err, ESTALE, "the folder was rearranged while it was read; try again");
    return walk_set_path_end(w, l->path_len);
}

static int walk_visit(struct walk *w, const struct walk_ops *ops, const char *name, void *data)
{
    struct walk_level *l = &w->levels[w->depth];
    struct walk_entry e = {.name = name};
    w->path.len = l->path_len;
    if (w->path.len)
        buf_append(&w->path, "/", 1);
    buf_append_str(&w->path, name);
    int r = walk_set_path_end(w, w->path.len);
    if (r < 0)
        return r;
    int merged = walk_dir(w, WALK_MERGED), base = walk_dir(w, WALK_BASE);
    e.in_merged = merged >= 0 && fstatat(merged, name, &e.merged, AT_SYMLINK_NOFOLLOW) == 0;
    if (merged >= 0 && !e.in_merged && errno != ENOENT)
        return walk_fail(w, errno, "look into");
    e.in_base = base >= 0 && fstatat(base, name, &e.base, AT_SYMLINK_NOFOLLOW) == 0;
    if (base >= 0 && !e.in_base && errno != ENOENT)
        return walk_fail(w, errno, "look into");
    l->found_merged += e.in_merged;
    l->found_base += e.in_base;
    e.path = (const char *)w->path.data;
    e.path_len = w->path.len;
    r = ops->visit(w, &e, data);
    if (r > 0)
        return walk_enter(w, name);
    return r < 0 ? r : walk_set_path_end(w, l->path_len);
}

static void walk_free(struct walk *w)
{
    for (size_t i = 0; i < w->n_sides; i++)
        cleanup_close(&w->sides[i].fd);
    for (size_t i = 0; w->levels && i <= w->depth; i++) {
        buf_free(&w->levels[i].names);
        free(w->levels[i].at);
    }
    free(w->levels);
    buf_free(&w->path);
}

int walk_run(const struct overlay *o, const struct walk_ops *ops, void *data, struct error *err)
{
    _cleanup_(walk_free) struct walk w = {.path = BUF_INIT(UINT32_MAX), .err = err};
    const int own[WALK_LAYERS] = {o->merged, o->base, o->copy};
    for (size_t i = 0; i < WALK_LAYERS + o->n_layers; i++) {
        int dir = i < WALK_LAYERS ? own[i] : o->layers[i - WALK_LAYERS];
        /* Opened anew: a cursor owns its descriptor, and duplicates share a folder's position. */
        int fd = dir < 0 ? -1 : openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir >= 0 && fd < 0)
            return walk_fail(&w, errno, "open");
        w.sides[w.n_sides++] = (struct walk_cursor){.fd = fd, .depth = fd < 0 ? NOWHERE : 0};
    }
    if (!ARRAY_GROW(w.levels, 0, w.room))
        return error_errno(err, ENOMEM, "cannot walk a tree");
    w.levels[0] = (struct walk_level){.names = BUF_INIT(NAMES_MAX)};
    int r = walk_read_level(&w);
    if (r >= 0)
        r = walk_set_path_end(&w, 0);
    while (r >= 0) {
        struct walk_level *l = &w.levels[w.depth];
        if (l->next < l->count) {
            r = walk_visit(&w, ops, (const char *)l->names.data + l->at[l->next++], data);
            continue;
        }
        r = ops->leave(&w, data);
        if (r < 0 || w.depth == 0)
            break;
        r = walk_leave(&w);
    }
    return r;
}

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
    struct change *c = malloc(sizeof *c + path_len + 1);
    if (!c || !ARRAY_GROW(list->items, list->count, list->room)) {
        free(c);
        return error_errno(w->err, ENOMEM, "cannot list the changes");
    }
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
