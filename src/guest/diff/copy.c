#include <errno.h>
#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "relpath.h"
#include "copy.h"
#include "copyfile.h"
#include "empty.h"
#include "links.h"
#include "share.h"
#include "walk.h"
#include "banned.h"

struct copy {
    int root; /* the folder copied to */
    const struct copy_options *options;
    struct links links;
};

static int fail(struct walk *w, int code)
{
    return error_errno(walk_error(w), code, "cannot copy the box's files");
}

/* Another name of a file that was copied already. */
static int link_again(const struct copy *c, const char *first, int to, const char *name)
{
    _cleanup_fd_ int dir = -1;
    int r = beneath_open_parent(c->root, first, &dir);
    if (r < 0)
        return r;
    return linkat(dir, relpath_name(first), to, name, 0) < 0 ? -errno : 0;
}

static int copy_new(const struct copy *c, const struct walk_entry *e, int from, int to)
{
    uint64_t *room = c->options->room, bytes = (uint64_t)e->merged.st_blocks * 512;
    if (room && bytes > *room)
        return -ENOSPC;
    if (room)
        *room -= bytes;
    return copyfile_entry(from, to, e->name, &e->merged, c->options->flatten);
}

static int copy_file(struct walk *w, const struct walk_entry *e, struct copy *c)
{
    int from = walk_dir(w, WALK_MERGED), to = walk_dir(w, WALK_COPY);
    const char *first = e->merged.st_nlink > 1 ? links_find(&c->links, &e->merged) : NULL;
    /* A filesystem may allow fewer names than the one copied from; then it is a file of its own. */
    if (first && link_again(c, first, to, e->name) == 0)
        return 0;
    struct share *share = S_ISREG(e->merged.st_mode) ? c->options->share : NULL;
    int r =
        share && share_link(share, from, e->path, &e->merged, to) ? 0 : copy_new(c, e, from, to);
    if (r >= 0 && share)
        share_note(share, &e->merged, to, e->name);
    if (r >= 0 && e->merged.st_nlink > 1 && !first)
        r = links_add(&c->links, &e->merged, e->path);
    return r;
}

static int visit(struct walk *w, const struct walk_entry *e, void *data)
{
    int r = 0;
    if (e->in_merged && S_ISDIR(e->merged.st_mode)) {
        if (mkdirat(walk_dir(w, WALK_COPY), e->name, 0700) < 0)
            return fail(w, errno);
        return 1;
    }
    if (e->in_merged)
        r = copy_file(w, e, data);
    else if (e->in_base && !walk_is_hidden(w))
        r = mknodat(walk_dir(w, WALK_COPY), e->name, S_IFCHR, 0) < 0 ? -errno : 0;
    return r < 0 ? fail(w, -r) : 0;
}

static int leave(struct walk *w, void *data)
{
    const struct copy *c = data;
    int from = walk_dir(w, WALK_MERGED), to = walk_dir(w, WALK_COPY);
    struct stat st;
    if (fstat(from, &st) < 0)
        return fail(w, errno);
    int r = copyfile_attributes(from, to, c->options->flatten);
    if (r >= 0 && c->options->flatten && walk_is_replaced(w) &&
        fsetxattr(to, "user.overlay.opaque", "y", 1, 0) < 0)
        r = -errno;
    if (r >= 0)
        r = copyfile_finish(to, &st);
    return r < 0 ? fail(w, -r) : 0;
}

/* A plain copy is the same walk over l0 alone, taken as it is. */
static struct tree view_of(const struct tree *t, bool flatten)
{
    struct tree view = *t;
    if (!flatten) {
        view.merged = t->layers[0];
        view.base = -1;
        view.n_layers = 1;
    }
    return view;
}

int copy_tree(const struct tree *t, const struct copy_options *o, struct error *err)
{
    static const struct walk_ops OPS = {.visit = visit, .leave = leave};
    if (t->copy < 0 || t->n_layers == 0)
        return 0;
    if (o->flatten && t->merged < 0)
        return error_set(err, EINVAL, "the tree '%s' has no merged view to flatten", t->name);
    struct tree view = view_of(t, o->flatten);
    struct copy c = {.root = t->copy, .options = o};
    int r = walk_run(&view, &OPS, &c, err);
    links_free(&c.links);
    if (r < 0)
        empty_dir(t->copy);
    return r;
}
