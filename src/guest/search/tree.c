/*
 * TREE: the names beneath a folder, in the order of a walk.
 *
 * If there are more than asked for, those nearer to the folder come first: all of a depth before
 * any that lie deeper, so that the list gives a picture of the whole. The rest is counted.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "relpath.h"
#include "search.h"
#include "tree_walk.h"
#include "banned.h"

#define KEEP_MAX      2000000u
#define LIMIT_DEFAULT 1000
#define DEPTHS        (RELPATH_MAX / 2 + 2) /* more levels do not fit a path */

static const struct tree_walk_ops OPS = {.keeps = true, .everything = true};

struct tree {
    struct file_call *call;
    const struct tree_walk *walk;
    bool sizes;
    unsigned depth; /* all entries of this depth and above are listed, */
    uint64_t more;  /* and so many of the next */
    uint64_t listed;
    struct buf path;
};

/* A folder that is being listed, with its descriptor once one of its entries must be examined. */
struct level {
    const struct folder *folder;
    size_t entry, child;
    int fd;
};

/* Up to which depth all entries fit in the limit, and how many of the next do. */
static void tree_choose_depth(struct tree *t, uint64_t limit, uint64_t *counts, struct level *stack)
{
    size_t n = 0;
    stack[n++] = (struct level){.folder = t->walk->top};
    while (n > 0) {
        struct level *l = &stack[n - 1];
        const struct folder *f = l->folder;
        if (l->child == 0)
            for (size_t i = 0; i < f->count; i++)
                counts[f->depth + 1] += !f->entries[i].unlisted;
        if (l->child == f->n_children || n == DEPTHS)
            n--;
        else
            stack[n++] = (struct level){.folder = f->children[l->child++]};
    }
    while (t->depth + 1 < DEPTHS && counts[t->depth + 1] <= limit)
        limit -= counts[++t->depth];
    t->more = limit;
}

static int tree_put_entry(struct tree *t, struct level *l, const struct entry *e)
{
    struct buf *b = &t->call->out;
    const char *name = folder_name(l->folder, e);
    char target[PATH_MAX];
    struct stat st;
    size_t at = wire_begin(b, WIRE_ENTRY);
    t->path.len = folder_base(l->folder);
    buf_append(&t->path, name, e->n);
    wire_put(b, WIRE_K_PATH, t->path.data, t->path.len);
    wire_put_u64(b, WIRE_K_KIND, e->type);
    /* The fields that need a system call for the entry: none, if it is gone. */
    if ((t->sizes || e->type == ENTRY_LINK) &&
        (l->fd >= 0 || tree_walk_open_folder(t->walk, l->folder, &l->fd) >= 0)) {
        ssize_t n = e->type == ENTRY_LINK ? readlinkat(l->fd, name, target, sizeof target) : -1;
        if (n >= 0)
            wire_put(b, WIRE_K_TARGET, target, (size_t)n);
        if (t->sizes && fstatat(l->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            file_put_stat(b, &st);
    }
    wire_end(b, at);
    t->listed++;
    return b->len > WIRE_DATA_MAX ? file_send(t->call) : 0;
}

/* Entries of the folder on top, up to and with the next folder in it; that one is put on top. */
static int tree_step(struct tree *t, struct level *stack, size_t *n)
{
    struct level *l = &stack[*n - 1];
    const struct folder *f = l->folder;
    t->path.len = 0;
    if (f->n_path > 0) {
        buf_append(&t->path, f->path, f->n_path);
        buf_append_str(&t->path, "/");
    }
    while (l->entry < f->count) {
        const struct entry *e = &f->entries[l->entry++];
        bool next = f->depth == t->depth; /* it is of the depth that does not fit as a whole */
        bool listed = !e->unlisted && (f->depth < t->depth || (next && t->more > 0));
        t->more -= listed && next;
        int r = listed ? tree_put_entry(t, l, e) : 0;
        if (r < 0)
            return r;
        if (e->type == ENTRY_FOLDER && l->child < f->n_children && *n < DEPTHS &&
            f->depth <= t->depth) {
            stack[(*n)++] = (struct level){.folder = f->children[l->child++], .fd = -1};
            return 0;
        }
    }
    cleanup_close(&l->fd);
    (*n)--;
    return 0;
}

static int tree_answer(struct tree *t, uint64_t limit)
{
    const struct tree_walk *w = t->walk;
    _cleanup_free_ struct level *stack = calloc(DEPTHS, sizeof *stack);
    _cleanup_free_ uint64_t *counts = calloc(DEPTHS + 2, sizeof *counts);
    if (!stack || !counts)
        return -ENOMEM;
    tree_choose_depth(t, limit, counts, stack);
    stack[0] = (struct level){.folder = w->top, .fd = -1};
    for (size_t n = 1; n > 0;) {
        int r = tree_step(t, stack, &n);
        if (r < 0)
            return r;
    }
    uint64_t count = w->kept + w->unkept;
    struct buf *b = &t->call->out;
    size_t at = wire_begin(b, WIRE_RESULT);
    wire_put_u64(b, WIRE_K_COUNT, count);
    wire_put_u64(b, WIRE_K_REST, count - t->listed);
    wire_put_u64(b, WIRE_K_UNREADABLE, w->unreadable);
    if (count > t->listed)
        wire_put_u64(b, WIRE_K_TOO_MANY, 1);
    wire_end(b, at);
    return 0;
}

int search_tree(struct file_call *c, struct error *err)
{
    uint64_t limit = wire_find_u64(&c->request, WIRE_K_LIMIT_ENTRIES, LIMIT_DEFAULT);
    struct tree_walk w = {.ops = &OPS, .keep_max = KEEP_MAX};
    struct tree t = {.call = c, .walk = &w, .path = BUF_INIT(2 * RELPATH_MAX)};
    t.sizes = wire_find_u64(&c->request, WIRE_K_SIZES, 0);
    int r = tree_walk_open(&w, c, err);
    if (r >= 0)
        r = tree_walk_run(&w, c, err);
    if (r >= 0 && tree_answer(&t, limit) < 0)
        r = error_errno(err, ENOMEM, "%.400s", c->path);
    return r;
}
