#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "overlay.h"
#include "sys.h"
#include "banned.h"

#define SIDES_MAX (WALK_LAYERS + OVERLAY_LAYERS_MAX)
#define NOWHERE   SIZE_MAX
#define NAMES_MAX ((size_t)1 << 32) /* a folder may hold a million names; memory is the limit */

static int overlay_open_part(int root, const char *name, const char *part, int *ret_fd,
                             struct error *err)
{
    char path[32];
    snprintf(path, sizeof path, "%s/%s", name, part);
    int fd = openat(root, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno != ENOENT)
        return error_errno(err, errno, "cannot open /%s", path);
    *ret_fd = fd;
    return 0;
}

int overlay_open(int root, const char *name, struct overlay *ret, struct error *err)
{
    _cleanup_overlay_ struct overlay t = OVERLAY_INIT;
    t.name = name;
    int r = overlay_open_part(root, name, "merged", &t.merged, err);
    if (r >= 0)
        r = overlay_open_part(root, name, "base", &t.base, err);
    if (r >= 0)
        r = overlay_open_part(root, name, "copy", &t.copy, err);
    for (size_t i = 0; r >= 0 && i < OVERLAY_LAYERS_MAX; i++) {
        char part[8];
        int fd = -1;
        snprintf(part, sizeof part, "l%u", (unsigned)i);
        r = overlay_open_part(root, name, part, &fd, err);
        if (fd < 0)
            break;
        t.layers[t.n_layers++] = fd;
    }
    if (r < 0)
        return r;
    *ret = t;
    t = OVERLAY_INIT;
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

/* The names in one or more folders, each once. */
struct names {
    struct buf text; /* names, each with its NUL */
    size_t *at;      /* where each starts */
    size_t count, room;
};

static int names_add(struct names *n, const char *name)
{
    if (n->count == n->room) {
        size_t room = n->room ? n->room * 2 : 16;
        size_t *at = realloc(n->at, room * sizeof *at);
        if (!at)
            return -ENOMEM;
        n->at = at;
        n->room = room;
    }
    n->text.max = NAMES_MAX;
    n->at[n->count] = n->text.len;
    int r = buf_append(&n->text, name, strlen(name) + 1);
    if (r < 0)
        return -ENOMEM;
    n->count++;
    return 0;
}

/* Adds the names of a folder just opened. */
static int names_read(struct names *n, int dir)
{
    _Alignas(struct dirent64) char space[16384];
    for (;;) {
        ssize_t got = sys_getdents64(dir, space, sizeof space);
        if (got <= 0)
            return got < 0 ? -errno : 0;
        for (ssize_t at = 0; at < got;) {
            const struct dirent64 *entry = (const struct dirent64 *)(space + at);
            bool dots = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
            int r = dots ? 0 : names_add(n, entry->d_name);
            if (r < 0)
                return r;
            at += entry->d_reclen;
        }
    }
}

static int names_compare(const void *a, const void *b, void *text)
{
    return strcmp((const char *)text + *(const size_t *)a, (const char *)text + *(const size_t *)b);
}

/* Sorts them and drops duplicates: needed once names of more than one folder were read. */
static void names_unite(struct names *n)
{
    if (n->count == 0)
        return;
    qsort_r(n->at, n->count, sizeof *n->at, names_compare, n->text.data);
    size_t kept = 1;
    for (size_t i = 1; i < n->count; i++)
        if (names_compare(&n->at[i], &n->at[kept - 1], n->text.data) != 0)
            n->at[kept++] = n->at[i];
    n->count = kept;
}

static void names_free(struct names *n)
{
    buf_free(&n->text);
    free(n->at);
}

/* On a side where the present folder does not exist, the cursor waits in the deepest one above it
 * that does.
 */
struct cursor {
    int fd;
    size_t depth;
};

/* A folder that was entered. */
struct level {
    struct names names;
    size_t next;
    size_t path_len;
    size_t found_merged, found_base;
    bool full;     /* the base's names count too */
    bool replaced; /* because of this folder itself */
    dev_t base_dev;
    ino_t base_ino;
};

struct walk {
    struct cursor sides[SIDES_MAX];
    size_t n_sides;
    struct level *levels;
    size_t depth; /* of the present folder: levels[depth] */
    size_t room;
    struct buf path;
    const struct walk_ops *ops;
    void *data;
    struct error *err;
};

int walk_dir(const struct walk *w, enum walk_side side)
{
    const struct cursor *c = &w->sides[side];
    return c->depth == w->depth ? c->fd : -1;
}

const char *walk_path(const struct walk *w)
{
    return (const char *)w->path.data;
}

size_t walk_path_len(const struct walk *w)
{
    return w->levels[w->depth].path_len;
}

size_t walk_found_merged(const struct walk *w)
{
    return w->levels[w->depth].found_merged;
}

size_t walk_found_base(const struct walk *w)
{
    return w->levels[w->depth].found_base;
}

bool walk_is_replaced(const struct walk *w)
{
    return w->levels[w->depth].replaced;
}

bool walk_is_hidden(const struct walk *w)
{
    return w->levels[w->depth].full;
}

struct error *walk_error(struct walk *w)
{
    return w->err;
}

static int walk_set_path_end(struct walk *w, size_t len)
{
    w->path.len = len;
    return buf_cstr(&w->path) ? 0 : error_errno(w->err, ENOMEM, "cannot remember a path");
}

static int walk_fail(struct walk *w, int code, const char *what)
{
    return error_errno(w->err, code, "cannot %s a folder of the box, %zu deep", what, w->depth);
}

/* Moves a cursor that stands in the present folder into a child. What is not there, or no folder,
 * leaves it waiting; something that is no folder makes *replaced true. */
static int cursor_enter(struct walk *w, struct cursor *c, const char *name, bool *replaced)
{
    if (c->depth != w->depth)
        return 0;
    int fd = openat(c->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
        *replaced = true;
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0
                                                                     : walk_fail(w, errno, "open");
    close(c->fd);
    c->fd = fd;
    c->depth++;
    return 0;
}

static int cursor_leave(struct walk *w, struct cursor *c)
{
    if (c->depth != w->depth)
        return 0;
    int fd = openat(c->fd, "..", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return walk_fail(w, errno, "go back from");
    close(c->fd);
    c->fd = fd;
    c->depth--;
    return 0;
}

/* Collects the candidates of the folder that the cursors were just moved to. */
static int walk_read_level(struct walk *w, struct level *l)
{
    size_t sources = 0;
    for (size_t i = 0; i < w->n_sides; i++) {
        bool wanted = i >= WALK_LAYERS || (i == WALK_BASE && l->full);
        int dir = walk_dir(w, (enum walk_side)i);
        if (!wanted || dir < 0)
            continue;
        int r = names_read(&l->names, dir);
        if (r < 0)
            return walk_fail(w, -r, "list");
        sources++;
    }
    if (sources > 1)
        names_unite(&l->names);
    return 0;
}

static int walk_remember_base(struct walk *w, struct level *l)
{
    struct stat st = {0};
    int base = walk_dir(w, WALK_BASE);
    if (base >= 0 && fstat(base, &st) < 0)
        return walk_fail(w, errno, "look at");
    l->base_dev = st.st_dev;
    l->base_ino = st.st_ino;
    return 0;
}

static int walk_add_level(struct walk *w, size_t depth, const struct level *l)
{
    if (depth == w->room) {
        size_t room = w->room ? w->room * 2 : 16;
        struct level *levels = realloc(w->levels, room * sizeof *levels);
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
    struct level l = {.path_len = w->path.len, .full = w->levels[w->depth].full};
    for (size_t i = 0; i < w->n_sides; i++) {
        bool no_folder = false;
        int r = cursor_enter(w, &w->sides[i], name, &no_folder);
        if (r < 0)
            return r;
        l.replaced |= no_folder && i >= WALK_LAYERS;
    }
    int r = walk_add_level(w, w->depth + 1, &l);
    if (r < 0)
        return r;
    w->depth++;
    struct level *now = &w->levels[w->depth];
    /* A layer may hide the older content, or there is no such folder in the merged view. */
    for (size_t i = WALK_LAYERS; i < w->n_sides; i++) {
        int dir = walk_dir(w, (enum walk_side)i);
        now->replaced |= dir >= 0 && overlay_is_opaque(dir);
    }
    now->replaced |= walk_dir(w, WALK_MERGED) < 0;
    now->full |= now->replaced;
    r = walk_remember_base(w, now);
    return r < 0 ? r : walk_read_level(w, now);
}

static int walk_leave(struct walk *w)
{
    for (size_t i = 0; i < w->n_sides; i++) {
        int r = cursor_leave(w, &w->sides[i]);
        if (r < 0)
            return r;
    }
    names_free(&w->levels[w->depth].names);
    w->depth--;
    /* Other programs may move the base's folders; then ".." is not where the walk came from. */
    const struct level *l = &w->levels[w->depth];
    int base = walk_dir(w, WALK_BASE);
    struct stat st;
    if (base >= 0 && fstat(base, &st) < 0)
        return walk_fail(w, errno, "look at");
    if (base >= 0 && (st.st_dev != l->base_dev || st.st_ino != l->base_ino))
        return error_set(w->err, ESTALE, "the folder was rearranged while it was read; try again");
    return walk_set_path_end(w, l->path_len);
}

static int walk_stat(struct walk *w, enum walk_side side, const char *name, bool *ret_there,
                     struct stat *ret)
{
    int dir = walk_dir(w, side);
    *ret_there = dir >= 0 && fstatat(dir, name, ret, AT_SYMLINK_NOFOLLOW) == 0;
    if (dir >= 0 && !*ret_there && errno != ENOENT)
        return error_errno(w->err, errno, "cannot look at a file %zu folders deep", w->depth);
    return 0;
}

static int walk_visit(struct walk *w, const char *name)
{
    struct walk_entry e;
    w->path.len = w->levels[w->depth].path_len;
    if (w->path.len)
        buf_append(&w->path, "/", 1);
    buf_append_str(&w->path, name);
    int r = walk_set_path_end(w, w->path.len);
    if (r >= 0)
        r = walk_stat(w, WALK_MERGED, name, &e.in_merged, &e.merged);
    if (r >= 0)
        r = walk_stat(w, WALK_BASE, name, &e.in_base, &e.base);
    if (r < 0)
        return r;
    struct level *l = &w->levels[w->depth];
    l->found_merged += e.in_merged;
    l->found_base += e.in_base;
    e.path = walk_path(w);
    e.path_len = w->path.len;
    e.name = name;
    r = w->ops->visit(w, &e, w->data);
    if (r > 0)
        return walk_enter(w, name);
    return r < 0 ? r : walk_set_path_end(w, l->path_len);
}

/* A cursor owns its descriptor, and a folder's position is shared by duplicates of one: so it is
 * opened anew.
 */
static int walk_open_side(struct walk *w, int dir)
{
    struct cursor *c = &w->sides[w->n_sides++];
    *c = (struct cursor){.fd = -1, .depth = NOWHERE};
    if (dir < 0)
        return 0;
    c->fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (c->fd < 0)
        return walk_fail(w, errno, "open");
    c->depth = 0;
    return 0;
}

static void walk_free(struct walk *w)
{
    for (size_t i = 0; i < w->n_sides; i++)
        cleanup_close(&w->sides[i].fd);
    for (size_t i = 0; w->levels && i <= w->depth; i++)
        names_free(&w->levels[i].names);
    free(w->levels);
    buf_free(&w->path);
}

int walk_run(const struct overlay *o, const struct walk_ops *ops, void *data, struct error *err)
{
    _cleanup_(walk_free) struct walk w = {
        .path = BUF_INIT(UINT32_MAX), .ops = ops, .data = data, .err = err};
    int r = walk_open_side(&w, o->merged);
    if (r >= 0)
        r = walk_open_side(&w, o->base);
    if (r >= 0)
        r = walk_open_side(&w, o->copy);
    for (size_t i = 0; r >= 0 && i < o->n_layers; i++)
        r = walk_open_side(&w, o->layers[i]);
    if (r >= 0)
        r = walk_add_level(&w, 0, &(struct level){0});
    if (r >= 0)
        r = walk_remember_base(&w, &w.levels[0]);
    if (r >= 0)
        r = walk_read_level(&w, &w.levels[0]);
    if (r >= 0)
        r = walk_set_path_end(&w, 0);
    while (r >= 0) {
        struct level *l = &w.levels[w.depth];
        if (l->next < l->names.count) {
            r = walk_visit(&w, (const char *)l->names.text.data + l->names.at[l->next++]);
            continue;
        }
        r = ops->leave(&w, data);
        if (r < 0 || w.depth == 0)
            break;
        r = walk_leave(&w);
    }
    return r;
}
