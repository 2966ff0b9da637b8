/*
 * The answer to COPY: the box's changes as a new layer, in the overlay's `copy` folder or in a new
 * snapshot.
 *
 * Plain, it is l0 as it is, with whiteouts, overlay's marks, links among files and holes kept.
 * Flattened, it is all layers in one: what the merged view shows at each candidate, a whiteout
 * where it shows nothing but the base has something, and an opaque mark on each folder that hides
 * what the base has there.
 *
 * Files that did not change since the snapshot before become hard links to the copies there.
 * Snapshots are never written again, so a file can be in any number of them. Beside each snapshot
 * lies an index: for every file that was copied its inode and change time in the box's own layer,
 * and the inode of the copy. The kernel changes the time with every write, link, rename and chmod.
 * It does not for a page that a process had mapped and dirtied before the last snapshot, and on a
 * tmpfs for mapped pages in general; there the contents are compared.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/limits.h>
#include <linux/magic.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/statfs.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "content.h"
#include "diff_worker.h"
#include "io.h"
#include "relpath.h"
#include "thread.h"
#include "banned.h"

#define OVERLAY   "user.overlay."
#define INDEX_MAX (256u << 20) /* ten million files */

/* The user attributes of an open file or folder. What looks like overlay's own marks through a
 * mounted overlay was set by the agent: with `escape` it is written such that overlay shows it
 * again and does not obey it. */
static int copy_attributes(int from, int to, bool escape)
{
    char few[256], escaped[2 * XATTR_NAME_MAX];
    _cleanup_free_ char *many = NULL;
    char *list = few;
    ssize_t size = flistxattr(from, few, sizeof few);
    if (size < 0 && errno == ERANGE) {
        list = many = malloc(XATTR_LIST_MAX);
        if (!many)
            return -ENOMEM;
        size = flistxattr(from, many, XATTR_LIST_MAX);
    }
    if (size < 0)
        return errno == EOPNOTSUPP ? 0 : -errno;
    for (const char *name = list; name < list + size; name += strlen(name) + 1) {
        if (strncmp(name, "user.", 5) != 0)
            continue;
        ssize_t n = fgetxattr(from, name, NULL, 0);
        if (n < 0)
            return -errno;
        _cleanup_free_ char *value = malloc((size_t)n + 1);
        if (!value)
            return -ENOMEM;
        n = fgetxattr(from, name, value, (size_t)n);
        if (n < 0)
            return -errno;
        const char *as = name;
        if (escape && strncmp(name, OVERLAY, strlen(OVERLAY)) == 0) {
            snprintf(escaped, sizeof escaped, OVERLAY "overlay.%s", name + strlen(OVERLAY));
            as = escaped;
        }
        if (fsetxattr(to, as, value, (size_t)n, 0) < 0)
            return -errno;
    }
    return 0;
}

/* Mode and times of an open file or folder; the last thing done to it. Set-user-id is not kept: it
 * has no effect in a box, and the diff worker's own system call filter refuses it. */
static int copy_metadata(int to, const struct stat *st)
{
    const struct timespec times[2] = {st->st_atim, st->st_mtim};
    return fchmod(to, st->st_mode & 07777 & ~(mode_t)S_ISUID) < 0 || futimens(to, times) < 0
               ? -errno
               : 0;
}

/* Anything but a folder: content with its holes, mode, times, user attributes. */
static int copy_entry(int from, int to, const char *name, const struct stat *st, bool escape)
{
    if (S_ISREG(st->st_mode)) {
        uint64_t size = (uint64_t)st->st_size, end = size;
        bool has_holes = (uint64_t)st->st_blocks * 512 < size;
        _cleanup_fd_ int in = -1, out = -1;
        int r = content_open(from, name, &in);
        if (r < 0)
            return r;
        out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (out < 0)
            return -errno;
        /* On btrfs and xfs two files share blocks until one is written to. */
        bool shared = size && ioctl(out, FICLONE, in) == 0;
        for (uint64_t offset = 0; !shared && offset < size; offset = end) {
            r = has_holes ? content_next_data(in, size, &offset, &end) : 0;
            if (r < 0)
                return r;
            if (lseek(out, (off_t)offset, SEEK_SET) < 0)
                return -errno;
            for (off_t at = (off_t)offset; (uint64_t)at < end;) {
                ssize_t done = sendfile(out, in, &at, end - (uint64_t)at);
                if (done < 0 && errno == EINTR)
                    continue;
                if (done <= 0)
                    return done < 0 ? -errno : -EIO;
            }
        }
        if (!shared && has_holes && ftruncate(out, st->st_size) < 0)
            return -errno;
        r = copy_attributes(in, out, escape);
        return r < 0 ? r : copy_metadata(out, st);
    }
    if (S_ISLNK(st->st_mode)) {
        _cleanup_free_ char *target = NULL;
        int r = content_read_link(from, name, &target);
        if (r < 0)
            return r;
        if (symlinkat(target, to, name) < 0)
            return -errno;
    } else if (mknodat(to, name, st->st_mode, st->st_rdev) < 0) {
        return -errno;
    }
    const struct timespec times[2] = {st->st_atim, st->st_mtim};
    return utimensat(to, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* What a new snapshot shares with the one before. */
struct share_record {
    uint64_t inode;
    int64_t changed_ns;
    uint64_t copy;
};

struct share {
    int previous;               /* the tree of the snapshot before, or -1: nothing to share */
    bool trusted;               /* every change since has set a new change time */
    struct share_record *known; /* of the snapshot before, by inode */
    size_t n_known;
    struct share_record *made; /* of this one */
    size_t n_made, room;
    int64_t now_ns; /* a file changed since may change again without a new time */
};

struct index_head {
    char magic[8];
    uint64_t mapped;
};

static const char MAGIC[8] = "hutchix1";

static int64_t share_time_ns(const struct timespec *t)
{
    return (int64_t)t->tv_sec * NS_PER_S + t->tv_nsec;
}

static int share_record_compare(const void *a, const void *b)
{
    const struct share_record *x = a, *y = b;
    return x->inode < y->inode ? -1 : x->inode > y->inode;
}

/* Without a readable index everything is copied. */
static void share_open(struct share *s, int snapshots, unsigned previous, const char *tree)
{
    _cleanup_buf_ struct buf b = BUF_INIT(INDEX_MAX);
    char path[64];
    struct index_head head;
    struct timespec now;
    struct statfs fs;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    s->now_ns = share_time_ns(&now);
    if (!previous)
        return;
    snprintf(path, sizeof path, "%u/%s.index", previous, tree);
    if (io_read_file(snapshots, path, &b) < 0 || b.len < sizeof head)
        return;
    memcpy(&head, b.data, sizeof head);
    size_t n = (b.len - sizeof head) / sizeof *s->known;
    if (n == 0 || memcmp(head.magic, MAGIC, sizeof MAGIC) != 0 ||
        !(s->known = calloc(n, sizeof *s->known)))
        return;
    memcpy(s->known, b.data + sizeof head, n * sizeof *s->known);
    s->n_known = n;
    qsort(s->known, n, sizeof *s->known, share_record_compare);
    snprintf(path, sizeof path, "%u/%s", previous, tree);
    s->previous = openat(snapshots, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    s->trusted = !head.mapped && fstatfs(snapshots, &fs) == 0 && fs.f_type != TMPFS_MAGIC;
}

static void share_close(struct share *s)
{
    cleanup_close(&s->previous);
    free(s->known);
    free(s->made);
}

/* Makes to/name a link to the earlier copy of the file from/name. False: it must be copied. */
static bool share_link(struct share *s, int from, const char *path, const struct stat *st, int to)
{
    const struct share_record key = {.inode = st->st_ino}, *found;
    const char *name = relpath_name(path);
    _cleanup_fd_ int dir = -1;
    struct stat earlier;
    if (s->previous < 0 || st->st_size == 0)
        return false;
    found = bsearch(&key, s->known, s->n_known, sizeof key, share_record_compare);
    if (!found || found->changed_ns != share_time_ns(&st->st_ctim))
        return false;
    if (beneath_open_parent(s->previous, path, &dir) < 0 ||
        fstatat(dir, name, &earlier, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(earlier.st_mode) ||
        earlier.st_ino != found->copy || earlier.st_size != st->st_size)
        return false;
    if (!s->trusted) {
        _cleanup_fd_ int now = -1, before = -1;
        if (content_open(from, name, &now) < 0 || content_open(dir, name, &before) < 0 ||
            content_same(now, before) != 1)
            return false;
    }
    return linkat(dir, name, to, name, 0) == 0; /* fails where a file can have no more names */
}

/* A copy of one overlay. */
struct copy {
    int root; /* the folder copied to */
    bool flatten;
    uint64_t *room;      /* bytes that may still be written */
    struct share *share; /* files of the last snapshot; NULL: everything is copied */
    void *links;         /* struct link, a binary tree */
};

/* A file with several names: which it is, and where its first copy is. */
struct link {
    dev_t dev;
    ino_t ino;
    char path[];
};

static int link_compare(const void *a, const void *b)
{
    const struct link *x = a, *y = b;
    if (x->dev != y->dev)
        return x->dev < y->dev ? -1 : 1;
    return x->ino < y->ino ? -1 : x->ino > y->ino;
}

static int copy_file(struct walk *w, const struct walk_entry *e, struct copy *c)
{
    const struct stat *st = &e->merged;
    struct stat made;
    int from = walk_dir(w, WALK_MERGED), to = walk_dir(w, WALK_COPY);

    /* Another name of a file that was copied already. A filesystem may allow fewer names than the
     * one copied from; then it is a file of its own. */
    const struct link key = {.dev = st->st_dev, .ino = st->st_ino};
    struct link **first = st->st_nlink > 1 ? tfind(&key, &c->links, link_compare) : NULL;
    if (first) {
        _cleanup_fd_ int dir = -1;
        if (beneath_open_parent(c->root, (*first)->path, &dir) == 0 &&
            linkat(dir, relpath_name((*first)->path), to, e->name, 0) == 0)
            return 0;
    }

    struct share *share = S_ISREG(st->st_mode) ? c->share : NULL;
    if (!share || !share_link(share, from, e->path, st, to)) {
        uint64_t bytes = (uint64_t)st->st_blocks * 512;
        if (bytes > *c->room)
            return -ENOSPC;
        *c->room -= bytes;
        int r = copy_entry(from, to, e->name, st, c->flatten);
        if (r < 0)
            return r;
    }
    /* Remember the copy for the next snapshot. Failure only means that it will not be shared. */
    int64_t changed_ns = share_time_ns(&st->st_ctim);
    if (share && changed_ns < share->now_ns &&
        fstatat(to, e->name, &made, AT_SYMLINK_NOFOLLOW) == 0 &&
        ARRAY_GROW(share->made, share->n_made, share->room))
        share->made[share->n_made++] = (struct share_record){st->st_ino, changed_ns, made.st_ino};
    if (st->st_nlink > 1 && !first) {
        struct link *link = malloc(sizeof *link + e->path_len + 1);
        if (!link)
            return -ENOMEM;
        *link = key;
        memcpy(link->path, e->path, e->path_len + 1);
        if (!tsearch(link, &c->links, link_compare)) {
            free(link);
            return -ENOMEM;
        }
    }
    return 0;
}

static int copy_visit(struct walk *w, const struct walk_entry *e, void *data)
{
    bool folder = e->in_merged && S_ISDIR(e->merged.st_mode);
    int to = walk_dir(w, WALK_COPY), r = 0;
    if (folder)
        r = mkdirat(to, e->name, 0700) < 0 ? -errno : 0;
    else if (e->in_merged)
        r = copy_file(w, e, data);
    else if (e->in_base && !walk_level(w)->hidden)
        r = mknodat(to, e->name, S_IFCHR, 0) < 0 ? -errno : 0;
    return r < 0 ? error_errno(w->err, -r, "cannot copy the box's files") : folder;
}

static int copy_leave(struct walk *w, void *data)
{
    const struct copy *c = data;
    int from = walk_dir(w, WALK_MERGED), to = walk_dir(w, WALK_COPY);
    struct stat st;
    int r = fstat(from, &st) < 0 ? -errno : copy_attributes(from, to, c->flatten);
    if (r >= 0 && c->flatten && walk_level(w)->replaced &&
        fsetxattr(to, "user.overlay.opaque", "y", 1, 0) < 0)
        r = -errno;
    if (r >= 0)
        r = copy_metadata(to, &st);
    return r < 0 ? error_errno(w->err, -r, "cannot copy the box's files") : 0;
}

/* All of a box's snapshots are shown as one folder, /s. */
int copy_snapshot(int root, struct overlay *workspace, const struct wire_frame *request,
                  struct error *err)
{
    static const struct walk_ops OPS = {.visit = copy_visit, .leave = copy_leave};
    _cleanup_overlay_ struct overlay root_fs = OVERLAY_INIT;
    struct overlay *const overlays[] = {workspace, &root_fs};
    unsigned number = (unsigned)wire_find_u64(request, WIRE_K_SNAPSHOT, 0);
    unsigned previous = (unsigned)wire_find_u64(request, WIRE_K_PREVIOUS, 0);
    bool mapped = wire_find_u64(request, WIRE_K_MAPPED, 1) != 0;
    uint64_t room = wire_find_u64(request, WIRE_K_ROOM, UINT64_MAX);
    _cleanup_fd_ int folder = number ? openat(root, "s", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (number && folder < 0)
        return error_errno(err, errno, "cannot open /s");
    int r = overlay_open(root, "r", &root_fs, err);
    for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(overlays); i++) {
        struct overlay *o = overlays[i];
        _cleanup_(share_close) struct share share = {.previous = -1};
        struct copy c = {.flatten = wire_find_u64(request, WIRE_K_FLATTEN, 0) != 0, .room = &room};
        char path[64];
        if (number) {
            snprintf(path, sizeof path, "%u/%s", number, o->name);
            cleanup_close(&o->copy);
            o->copy = openat(folder, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (o->copy < 0 && errno != ENOENT)
                return error_errno(err, errno, "cannot open /s/%s", path);
            share_open(&share, folder, previous, o->name);
            c.share = &share;
        }
        if (o->copy < 0 || o->n_layers == 0) /* nothing to copy, or nowhere */
            continue;
        if (c.flatten && o->merged < 0) {
            r = error_set(err, EINVAL, "the overlay '%s' has no merged view to flatten", o->name);
            continue;
        }
        struct overlay view = *o;
        if (!c.flatten) { /* the same walk over l0 alone, taken as it is */
            view.merged = o->layers[0];
            view.base = -1;
            view.n_layers = 1;
        }
        c.root = o->copy;
        r = walk_run(&view, &OPS, &c, err);
        tdestroy(c.links, free);
        if (r < 0)
            empty_dir(o->copy);
        if (r < 0 || !number)
            continue;
        struct index_head head = {.mapped = mapped};
        memcpy(head.magic, MAGIC, sizeof MAGIC);
        snprintf(path, sizeof path, "%u/%s.index", number, o->name);
        _cleanup_fd_ int fd = openat(folder, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0 || io_write_all(fd, &head, sizeof head) < 0 ||
            io_write_all(fd, share.made, share.n_made * sizeof *share.made) < 0)
            unlinkat(folder, path, 0);
    }
    if (r < 0 && workspace->copy >= 0) /* both overlays or none: half a copy is useless */
        empty_dir(workspace->copy);
    return r;
}
