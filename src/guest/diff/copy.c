#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/limits.h>
#include <linux/magic.h>
#include <search.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/statfs.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "relpath.h"
#include "clock.h"
#include "content.h"
#include "copy.h"
#include "empty.h"
#include "io.h"
#include "banned.h"

#define OVERLAY   "user.overlay."
#define INDEX_MAX (256u << 20) /* ten million files */

static int copy_attribute(int from, int to, const char *name, bool escape)
{
    char as[2 * XATTR_NAME_MAX], *use = NULL;
    _cleanup_free_ char *value = NULL;
    ssize_t size = fgetxattr(from, name, NULL, 0);
    if (size < 0)
        return -errno;
    value = malloc((size_t)size + 1);
    if (!value)
        return -ENOMEM;
    size = fgetxattr(from, name, value, (size_t)size);
    if (size < 0)
        return -errno;
    if (escape && strncmp(name, OVERLAY, strlen(OVERLAY)) == 0) {
        snprintf(as, sizeof as, OVERLAY "overlay.%s", name + strlen(OVERLAY));
        use = as;
    }
    return fsetxattr(to, use ? use : name, value, (size_t)size, 0) < 0 ? -errno : 0;
}

/* The user attributes of an open file or folder. What looks like overlay's own marks through a
 * mounted overlay was set by the agent: with `escape` it is written such that overlay shows it
 * again and does not obey it. */
static int copy_attributes(int from, int to, bool escape)
{
    char few[256];
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
        int r = strncmp(name, "user.", 5) == 0 ? copy_attribute(from, to, name, escape) : 0;
        if (r < 0)
            return r;
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

/* Copies the bytes from `offset` up to `end`; the kernel does it, from page to page. */
static int copy_part(int from, int to, uint64_t offset, uint64_t end)
{
    if (lseek(to, (off_t)offset, SEEK_SET) < 0)
        return -errno;
    for (off_t at = (off_t)offset; (uint64_t)at < end;) {
        ssize_t done = sendfile(to, from, &at, end - (uint64_t)at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? -errno : -EIO;
    }
    return 0;
}

/* btrfs and xfs let two files share their blocks until one is written to. */
static int copy_content(int from, int to, const struct stat *st)
{
    uint64_t size = (uint64_t)st->st_size;
    if (size && ioctl(to, FICLONE, from) == 0)
        return 0;
    if ((uint64_t)st->st_blocks * 512 >= size)
        return copy_part(from, to, 0, size);
    for (uint64_t offset = 0, end; offset < size; offset = end) {
        int r = content_next_data(from, size, &offset, &end);
        if (r >= 0)
            r = copy_part(from, to, offset, end);
        if (r < 0)
            return r;
    }
    return ftruncate(to, st->st_size) < 0 ? -errno : 0;
}

static int copy_regular(int from, int to, const char *name, const struct stat *st, bool escape)
{
    _cleanup_fd_ int in = -1, out = -1;
    int r = content_open(from, name, &in);
    if (r < 0)
        return r;
    out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (out < 0)
        return -errno;
    r = copy_content(in, out, st);
    if (r >= 0)
        r = copy_attributes(in, out, escape);
    return r < 0 ? r : copy_metadata(out, st);
}

/* Anything but a folder: content with its holes, mode, times, user attributes. */
static int copy_entry(int from, int to, const char *name, const struct stat *st, bool escape)
{
    const struct timespec times[2] = {st->st_atim, st->st_mtim};
    if (S_ISREG(st->st_mode))
        return copy_regular(from, to, name, st, escape);
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
    return utimensat(to, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* Files with several names, in a binary tree: which they are, and where their first copy is. */
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

static const char *links_find(void *const *links, const struct stat *st)
{
    const struct link key = {.dev = st->st_dev, .ino = st->st_ino};
    struct link **found = tfind(&key, links, link_compare);
    return found ? (*found)->path : NULL;
}

static int links_add(void **links, const struct stat *st, const char *path)
{
    size_t n = strlen(path) + 1;
    struct link *link = malloc(sizeof *link + n);
    if (!link)
        return -ENOMEM;
    *link = (struct link){.dev = st->st_dev, .ino = st->st_ino};
    memcpy(link->path, path, n);
    if (!tsearch(link, links, link_compare)) {
        free(link);
        return -ENOMEM;
    }
    return 0;
}

static void links_free(void **links)
{
    tdestroy(*links, free);
    *links = NULL;
}

/*
 * What a new snapshot shares with the one before: files that did not change in between become hard
 * links to the copies there. Snapshots are never written again, so a file can be in any number of
 * them.
 *
 * Beside each snapshot lies an index: for every file that was copied its inode and change time in
 * the box's own layer, and the inode of the copy. The kernel changes the time with every write,
 * link, rename and chmod. It does not for a page that a process had mapped and dirtied before the
 * last snapshot, and on a tmpfs for mapped pages in general; there the contents are compared.
 */
struct share_record {
    uint64_t inode;
    int64_t changed_ns;
    uint64_t copy;
};

struct share {
    int previous;               /* the tree of the snapshot before, or -1: nothing to share */
    bool trusted;               /* the change time tells of every change since */
    struct share_record *known; /* of the snapshot before, by inode */
    size_t n_known;
    struct share_record *made; /* of this one */
    size_t n_made, room;
    int64_t now_ns; /* a file changed since may change again without a new time */
    int dir;        /* the folder of `previous` that was looked at last, and its path */
    char *dir_path;
};

#define SHARE_INIT ((struct share){.previous = -1, .dir = -1})

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

/* An index that cannot be read is none: everything is copied. */
static void share_read_index(struct share *s, int snapshots, unsigned number, const char *tree)
{
    char path[64];
    struct index_head head;
    struct buf b = BUF_INIT(INDEX_MAX);
    snprintf(path, sizeof path, "%u/%s.index", number, tree);
    if (io_read_file(snapshots, path, &b) == 0 && b.len >= sizeof head) {
        memcpy(&head, b.data, sizeof head);
        size_t n = (b.len - sizeof head) / sizeof *s->known;
        if (memcmp(head.magic, MAGIC, sizeof MAGIC) == 0)
            s->known = calloc(n + 1, sizeof *s->known);
        if (s->known) {
            memcpy(s->known, b.data + sizeof head, n * sizeof *s->known);
            s->n_known = n;
            s->trusted = !head.mapped;
            qsort(s->known, n, sizeof *s->known, share_record_compare);
        }
    }
    buf_free(&b);
}

static void share_open(struct share *s, int snapshots, unsigned previous, const char *tree)
{
    char path[64];
    struct timespec now;
    struct statfs fs;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    *s = SHARE_INIT;
    s->now_ns = share_time_ns(&now);
    if (!previous)
        return;
    share_read_index(s, snapshots, previous, tree);
    snprintf(path, sizeof path, "%u/%s", previous, tree);
    if (s->n_known)
        s->previous = openat(snapshots, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fstatfs(snapshots, &fs) < 0 || fs.f_type == TMPFS_MAGIC)
        s->trusted = false;
}

static void share_close(struct share *s)
{
    cleanup_close(&s->previous);
    cleanup_close(&s->dir);
    free(s->dir_path);
    free(s->known);
    free(s->made);
    *s = SHARE_INIT;
}

/* The folder of the earlier snapshot that holds `path`; files come folder by folder, so the last is
 * kept. */
static int share_dir(struct share *s, const char *path)
{
    size_t n = (size_t)(relpath_name(path) - path);
    if (s->dir >= 0 && s->dir_path && strlen(s->dir_path) == n && memcmp(s->dir_path, path, n) == 0)
        return s->dir;
    cleanup_close(&s->dir);
    free(s->dir_path);
    s->dir = -1;
    s->dir_path = strndup(path, n);
    return s->dir_path && beneath_open_parent(s->previous, path, &s->dir) == 0 ? s->dir : -1;
}

/* Makes to/name a link to the earlier copy of the file from/name. 1: it is one, 0: the file must be
 * copied. */
static int share_link(struct share *s, int from, const char *path, const struct stat *st, int to)
{
    const struct share_record key = {.inode = st->st_ino}, *found;
    const char *name = relpath_name(path);
    struct stat earlier;
    if (s->previous < 0 || st->st_size == 0)
        return 0;
    found = bsearch(&key, s->known, s->n_known, sizeof key, share_record_compare);
    if (!found || found->changed_ns != share_time_ns(&st->st_ctim))
        return 0;
    int dir = share_dir(s, path);
    if (dir < 0 || fstatat(dir, name, &earlier, AT_SYMLINK_NOFOLLOW) < 0 ||
        !S_ISREG(earlier.st_mode) || earlier.st_ino != found->copy ||
        earlier.st_size != st->st_size)
        return 0;
    if (!s->trusted) {
        _cleanup_fd_ int now = -1, before = -1;
        if (content_open(from, name, &now) < 0 || content_open(dir, name, &before) < 0 ||
            content_same(now, before) != 1)
            return 0;
    }
    return linkat(dir, name, to, name, 0) == 0; /* fails where a file can have no more names */
}

/* Remembers the copy to/name for the next snapshot. Failure only means that it will not be shared.
 */
static void share_note(struct share *s, const struct stat *st, int to, const char *name)
{
    struct stat copy;
    if (share_time_ns(&st->st_ctim) >= s->now_ns ||
        fstatat(to, name, &copy, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    if (s->n_made == s->room) {
        size_t room = s->room ? 2 * s->room : 256;
        struct share_record *made = realloc(s->made, room * sizeof *made);
        if (!made)
            return;
        s->made = made;
        s->room = room;
    }
    s->made[s->n_made++] = (struct share_record){
        .inode = st->st_ino, .changed_ns = share_time_ns(&st->st_ctim), .copy = copy.st_ino};
}

static void share_write(const struct share *s, int snapshots, unsigned number, const char *tree,
                        bool mapped)
{
    char path[64];
    struct index_head head = {.mapped = mapped};
    memcpy(head.magic, MAGIC, sizeof MAGIC);
    snprintf(path, sizeof path, "%u/%s.index", number, tree);
    _cleanup_fd_ int fd = openat(snapshots, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || io_write_all(fd, &head, sizeof head) < 0 ||
        io_write_all(fd, s->made, s->n_made * sizeof *s->made) < 0)
        unlinkat(snapshots, path, 0);
}

struct copy_options {
    bool flatten;
    uint64_t *room;      /* bytes that may still be written */
    struct share *share; /* files of the last snapshot; NULL: everything is copied */
};

struct copy {
    int root; /* the folder copied to */
    const struct copy_options *options;
    void *links; /* files with several names */
};

static int copy_fail(struct walk *w, int code)
{
    return error_errno(walk_error(w), code, "cannot copy the box's files");
}

/* Another name of a file that was copied already. */
static int copy_link_again(const struct copy *c, const char *first, int to, const char *name)
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
    return copy_entry(from, to, e->name, &e->merged, c->options->flatten);
}

static int copy_file(struct walk *w, const struct walk_entry *e, struct copy *c)
{
    int from = walk_dir(w, WALK_MERGED), to = walk_dir(w, WALK_COPY);
    const char *first = e->merged.st_nlink > 1 ? links_find(&c->links, &e->merged) : NULL;
    /* A filesystem may allow fewer names than the one copied from; then it is a file of its own. */
    if (first && copy_link_again(c, first, to, e->name) == 0)
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

static int copy_visit(struct walk *w, const struct walk_entry *e, void *data)
{
    int r = 0;
    if (e->in_merged && S_ISDIR(e->merged.st_mode)) {
        if (mkdirat(walk_dir(w, WALK_COPY), e->name, 0700) < 0)
            return copy_fail(w, errno);
        return 1;
    }
    if (e->in_merged)
        r = copy_file(w, e, data);
    else if (e->in_base && !walk_is_hidden(w))
        r = mknodat(walk_dir(w, WALK_COPY), e->name, S_IFCHR, 0) < 0 ? -errno : 0;
    return r < 0 ? copy_fail(w, -r) : 0;
}

static int copy_leave(struct walk *w, void *data)
{
    const struct copy *c = data;
    int from = walk_dir(w, WALK_MERGED), to = walk_dir(w, WALK_COPY);
    struct stat st;
    if (fstat(from, &st) < 0)
        return copy_fail(w, errno);
    int r = copy_attributes(from, to, c->options->flatten);
    if (r >= 0 && c->options->flatten && walk_is_replaced(w) &&
        fsetxattr(to, "user.overlay.opaque", "y", 1, 0) < 0)
        r = -errno;
    if (r >= 0)
        r = copy_metadata(to, &st);
    return r < 0 ? copy_fail(w, -r) : 0;
}

/* Copies the changes of one overlay. Without a folder to copy to there is nothing to do. On failure
 * what was written is removed again. */

static int copy_overlay(const struct overlay *o, const struct copy_options *options,
                        struct error *err)
{
    static const struct walk_ops OPS = {.visit = copy_visit, .leave = copy_leave};
    if (o->copy < 0 || o->n_layers == 0)
        return 0;
    if (options->flatten && o->merged < 0)
        return error_set(err, EINVAL, "the overlay '%s' has no merged view to flatten", o->name);
    struct overlay view = *o;
    if (!options->flatten) { /* the same walk over l0 alone, taken as it is */
        view.merged = o->layers[0];
        view.base = -1;
        view.n_layers = 1;
    }
    struct copy c = {.root = o->copy, .options = options};
    int r = walk_run(&view, &OPS, &c, err);
    links_free(&c.links);
    if (r < 0)
        empty_dir(o->copy);
    return r;
}

/* The new snapshot and the one before: all of a box's snapshots are shown as one folder, s. */
struct snapshots {
    int folder; /* -1: the overlays have folders of their own to copy to */
    unsigned number, previous;
    bool mapped;
};

static int copy_into_snapshot(struct overlay *o, const struct snapshots *s,
                              struct copy_options options, struct error *err)
{
    _cleanup_(share_close) struct share share = SHARE_INIT;
    char path[64];
    snprintf(path, sizeof path, "%u/%s", s->number, o->name);
    if (s->folder >= 0) {
        o->copy = openat(s->folder, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (o->copy < 0 && errno != ENOENT)
            return error_errno(err, errno, "cannot open /s/%s", path);
        share_open(&share, s->folder, s->previous, o->name);
        options.share = &share;
    }
    int r = copy_overlay(o, &options, err);
    if (r >= 0 && s->folder >= 0)
        share_write(&share, s->folder, s->number, o->name, s->mapped);
    return r;
}

/* Both overlays or none: half a copy is useless. */
int copy_snapshot(int root, struct overlay *w, const struct wire_frame *request, struct error *err)
{
    _cleanup_overlay_ struct overlay r = OVERLAY_INIT;
    uint64_t room = wire_find_u64(request, WIRE_K_ROOM, UINT64_MAX);
    const struct copy_options o = {.flatten = wire_find_u64(request, WIRE_K_FLATTEN, 0) != 0,
                                   .room = &room};
    struct snapshots s = {.folder = -1,
                          .number = (unsigned)wire_find_u64(request, WIRE_K_SNAPSHOT, 0),
                          .previous = (unsigned)wire_find_u64(request, WIRE_K_PREVIOUS, 0),
                          .mapped = wire_find_u64(request, WIRE_K_MAPPED, 1) != 0};
    _cleanup_fd_ int folder = s.number ? openat(root, "s", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (s.number && folder < 0)
        return error_errno(err, errno, "cannot open /s");
    s.folder = folder;
    int done = overlay_open(root, "r", &r, err);
    if (done >= 0)
        done = copy_into_snapshot(w, &s, o, err);
    if (done < 0)
        return done;
    done = copy_into_snapshot(&r, &s, o, err);
    if (done < 0 && w->copy >= 0)
        empty_dir(w->copy);
    return done;
}
