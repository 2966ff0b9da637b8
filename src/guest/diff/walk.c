#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "names.h"
#include "walk.h"
#include "banned.h"

#define SIDES_MAX (WALK_LAYERS + TREE_LAYERS_MAX)
#define NOWHERE   SIZE_MAX

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

static int set_path_end(struct walk *w, size_t len)
{
    w->path.len = len;
    return buf_cstr(&w->path) ? 0 : error_errno(w->err, ENOMEM, "cannot remember a path");
}

static int push_name(struct walk *w, const char *name)
{
    w->path.len = w->levels[w->depth].path_len;
    if (w->path.len)
        buf_append(&w->path, "/", 1);
    buf_append_str(&w->path, name);
    return set_path_end(w, w->path.len);
}

static int fail(struct walk *w, int code, const char *what)
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
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 : fail(w, errno, "open");
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
        return fail(w, errno, "go back from");
    close(c->fd);
    c->fd = fd;
    c->depth--;
    return 0;
}

/* Collects the candidates of the folder that the cursors were just moved to. */
static int read_level(struct walk *w, struct level *l)
{
    size_t sources = 0;
    for (size_t i = 0; i < w->n_sides; i++) {
        bool wanted = i >= WALK_LAYERS || (i == WALK_BASE && l->full);
        int dir = walk_dir(w, (enum walk_side)i);
        if (!wanted || dir < 0)
            continue;
        int r = names_read(&l->names, dir);
        if (r < 0)
            return fail(w, -r, "list");
        sources++;
    }
    if (sources > 1)
        names_unite(&l->names);
    return 0;
}

static int remember_base(struct walk *w, struct level *l)
{
    struct stat st = {0};
    int base = walk_dir(w, WALK_BASE);
    if (base >= 0 && fstat(base, &st) < 0)
        return fail(w, errno, "look at");
    l->base_dev = st.st_dev;
    l->base_ino = st.st_ino;
    return 0;
}

static int add_level(struct walk *w, size_t depth, const struct level *l)
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

/* Is the older content of the folder hidden: does a layer say so, or is there no such folder in the
 * merged view? */
static bool hides_older(const struct walk *w)
{
    for (size_t i = WALK_LAYERS; i < w->n_sides; i++) {
        int dir = walk_dir(w, (enum walk_side)i);
        if (dir >= 0 && tree_is_opaque(dir))
            return true;
    }
    return walk_dir(w, WALK_MERGED) < 0;
}

static int enter(struct walk *w, const char *name)
{
    struct level l = {.path_len = w->path.len, .full = w->levels[w->depth].full};
    for (size_t i = 0; i < w->n_sides; i++) {
        bool no_folder = false;
        int r = cursor_enter(w, &w->sides[i], name, &no_folder);
        if (r < 0)
            return r;
        l.replaced |= no_folder && i >= WALK_LAYERS;
    }
    int r = add_level(w, w->depth + 1, &l);
    if (r < 0)
        return r;
    w->depth++;
    struct level *now = &w->levels[w->depth];
    now->replaced |= hides_older(w);
    now->full |= now->replaced;
    r = remember_base(w, now);
    return r < 0 ? r : read_level(w, now);
}

/* The base may be moved about by others while it is read; then ".." is not where the walk came
 * from. */
static int check_base(struct walk *w)
{
    struct stat st;
    const struct level *l = &w->levels[w->depth];
    int base = walk_dir(w, WALK_BASE);
    if (base < 0)
        return 0;
    if (fstat(base, &st) < 0)
        return fail(w, errno, "look at");
    if (st.st_dev != l->base_dev || st.st_ino != l->base_ino)
        return error_set(w->err, ESTALE, "the folder was rearranged while it was read; try again");
    return 0;
}

static int leave(struct walk *w)
{
    for (size_t i = 0; i < w->n_sides; i++) {
        int r = cursor_leave(w, &w->sides[i]);
        if (r < 0)
            return r;
    }
    names_free(&w->levels[w->depth].names);
    w->depth--;
    int r = check_base(w);
    return r < 0 ? r : set_path_end(w, w->levels[w->depth].path_len);
}

static int look(struct walk *w, enum walk_side side, const char *name, bool *ret_there,
                struct stat *ret)
{
    int dir = walk_dir(w, side);
    *ret_there = dir >= 0 && fstatat(dir, name, ret, AT_SYMLINK_NOFOLLOW) == 0;
    if (dir >= 0 && !*ret_there && errno != ENOENT)
        return error_errno(w->err, errno, "cannot look at a file %zu folders deep", w->depth);
    return 0;
}

static int visit(struct walk *w, const char *name)
{
    struct walk_entry e;
    int r = push_name(w, name);
    if (r >= 0)
        r = look(w, WALK_MERGED, name, &e.in_merged, &e.merged);
    if (r >= 0)
        r = look(w, WALK_BASE, name, &e.in_base, &e.base);
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
        return enter(w, name);
    return r < 0 ? r : set_path_end(w, l->path_len);
}

static int walk_all(struct walk *w)
{
    for (;;) {
        struct level *l = &w->levels[w->depth];
        if (l->next < l->names.count) {
            int r = visit(w, names_get(&l->names, l->next++));
            if (r < 0)
                return r;
            continue;
        }
        int r = w->ops->leave(w, w->data);
        if (r < 0 || w->depth == 0)
            return r;
        r = leave(w);
        if (r < 0)
            return r;
    }
}

/* A cursor owns its descriptor, and a folder's position is shared by duplicates of one: so it is
 * opened anew.
 */
static int start(struct walk *w, int dir)
{
    struct cursor *c = &w->sides[w->n_sides++];
    *c = (struct cursor){.fd = -1, .depth = NOWHERE};
    if (dir < 0)
        return 0;
    c->fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (c->fd < 0)
        return fail(w, errno, "open");
    c->depth = 0;
    return 0;
}

static int start_all(struct walk *w, const struct tree *t)
{
    int r = start(w, t->merged);
    if (r >= 0)
        r = start(w, t->base);
    if (r >= 0)
        r = start(w, t->copy);
    for (size_t i = 0; r >= 0 && i < t->n_layers; i++)
        r = start(w, t->layers[i]);
    if (r >= 0)
        r = add_level(w, 0, &(struct level){0});
    if (r >= 0)
        r = remember_base(w, &w->levels[0]);
    if (r >= 0)
        r = read_level(w, &w->levels[0]);
    return r < 0 ? r : set_path_end(w, 0);
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

int walk_run(const struct tree *t, const struct walk_ops *ops, void *data, struct error *err)
{
    _cleanup_(walk_free) struct walk w = {
        .path = BUF_INIT(UINT32_MAX), .ops = ops, .data = data, .err = err};
    int r = start_all(&w, t);
    return r < 0 ? r : walk_all(&w);
}
