#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "diff_worker.h"
#include "sys.h"
#include "banned.h"

#define FOLDER    (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define NOWHERE   SIZE_MAX
#define NAMES_MAX ((size_t)1 << 32) /* a folder may hold a million names; memory is the limit */

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
            if (l->count == l->room) {
                size_t room = l->room ? l->room * 2 : 16;
                size_t *grown = realloc(l->at, room * sizeof *grown);
                if (!grown)
                    return -ENOMEM;
                l->at = grown;
                l->room = room;
            }
            l->at[l->count++] = l->names.len;
            if (buf_append(&l->names, entry->d_name, strlen(entry->d_name) + 1) < 0)
                return -ENOMEM;
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

static int walk_add_level(struct walk *w, size_t depth, const struct walk_level *l)
{
    if (depth == w->room) {
        size_t room = w->room ? w->room * 2 : 16;
        struct walk_level *levels = realloc(w->levels, room * sizeof *levels);
        if (!levels)
            return error_errno(w->err, ENOMEM, "cannot walk a tree %zu folders deep", depth);
        w->levels = levels;
        w->room = room;
    }
    w->levels[depth] = *l;
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
    int r = walk_add_level(w, w->depth + 1, &l);
    if (r < 0)
        return r;
    w->depth++;
    /* A layer may hide the older content, or there is no such folder in the merged view. */
    struct walk_level *now = &w->levels[w->depth];
    for (size_t i = WALK_LAYERS; i < w->n_sides; i++) {
        int dir = walk_dir(w, (enum walk_side)i);
        now->replaced |= dir >= 0 && overlay_is_opaque(dir);
    }
    now->replaced |= walk_dir(w, WALK_MERGED) < 0;
    return walk_read_level(w);
}

static void level_free(struct walk_level *l)
{
    buf_free(&l->names);
    free(l->at);
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
    level_free(&w->levels[w->depth]);
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
    for (size_t i = 0; w->levels && i <= w->depth; i++)
        level_free(&w->levels[i]);
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
    int r = walk_add_level(&w, 0, &(struct walk_level){.names = BUF_INIT(NAMES_MAX)});
    if (r >= 0)
        r = walk_read_level(&w);
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
