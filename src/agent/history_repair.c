/*
 * Repair, of a file that is opened for writing.
 *
 * The torn last write is cut off where it stands. Anything else means another file: the readable
 * messages are copied to a new one, the original keeps its bytes under another name, and the new
 * one takes its place.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "history_private.h"
#include "banned.h"

#define PIECE    (256u << 10)
#define KEPT_MAX 100

static int copy_bytes(int from, uint64_t offset, size_t n, int to, uint64_t *at)
{
    _cleanup_free_ char *piece = malloc(PIECE);
    while (piece && n > 0) {
        ssize_t got = pread(from, piece, n < PIECE ? n : PIECE, (off_t)offset);
        if (got <= 0)
            return got < 0 ? -errno : -ESTALE;
        int r = history_write_at(to, piece, (size_t)got, *at);
        if (r < 0)
            return r;
        offset += (uint64_t)got;
        *at += (uint64_t)got;
        n -= (size_t)got;
    }
    return piece ? 0 : -ENOMEM;
}

static int copy_messages(struct history *h, int to, uint64_t *at)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < h->index.count; i++) {
        struct history_entry *e = &h->index.entries[i];
        r = history_write_at(to, i ? ",\n" : "\n", i ? 2 : 1, *at);
        *at += i ? 2 : 1;
        uint64_t place = *at;
        if (r == 0)
            r = copy_bytes(h->fd, e->offset, e->length, to, at);
        e->offset = place;
    }
    return r;
}

/* The original under a name that nothing has: ID.json.kept, then .kept-2, … */
static int set_aside(struct history *h, char *ret, size_t size)
{
    for (int i = 1; i < KEPT_MAX; i++) {
        if (i == 1)
            snprintf(ret, size, "%s.kept", h->name);
        else
            snprintf(ret, size, "%s.kept-%d", h->name, i);
        if (linkat(h->folder, h->name, h->folder, ret, 0) == 0)
            return 0;
        if (errno != EEXIST)
            return -errno;
    }
    return -EEXIST;
}

static int write_new(struct history *h, int fd)
{
    _cleanup_buf_ struct buf head = BUF_INIT(8u << 20);
    int r = history_put_head(h->head, &head);
    uint64_t at = head.len;
    if (r == 0)
        r = history_write_at(fd, head.data, head.len, 0);
    if (r == 0)
        r = copy_messages(h, fd, &at);
    if (r < 0)
        return r;
    int old = h->fd;
    h->fd = fd;
    h->end = at;
    r = history_close_file(h);
    h->fd = old;
    return r == 0 && fsync(fd) < 0 ? -errno : r;
}

static int replace(struct history *h, const char *fresh, char *ret_kept, size_t size)
{
    int r = set_aside(h, ret_kept, size);
    if (r == 0 && renameat(h->folder, fresh, h->folder, h->name) < 0)
        r = -errno;
    return r == 0 && fsync(h->folder) < 0 ? -errno : r;
}

static int rewrite(struct history *h, char *ret_kept, size_t size, struct error *err)
{
    char fresh[HISTORY_ID_MAX + 16];
    snprintf(fresh, sizeof fresh, ".%s.rewrite", h->id);
    unlinkat(h->folder, fresh, 0); /* of an attempt that a crash ended: the lock is ours */
    _cleanup_fd_ int fd =
        openat(h->folder, fresh, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    int r = fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 ? -errno : write_new(h, fd);
    if (r == 0)
        r = replace(h, fresh, ret_kept, size);
    if (r < 0) {
        if (fd >= 0)
            unlinkat(h->folder, fresh, 0);
        return error_errno(err, -r, "%s is damaged, and cannot be rewritten", h->path);
    }
    close(h->fd);
    h->fd = TAKE_FD(fd);
    return 0;
}

static int say_trouble(struct history *h, const struct loaded *l, uint64_t cut, const char *kept)
{
    struct buf b = BUF_INIT(2048);
    if (l->gaps)
        buf_printf(&b,
                   "%s was damaged: %" PRIu64 " bytes in %u place%s, the first at byte %" PRIu64
                   ", cannot be read and are left out",
                   h->path, l->gap_bytes, l->gaps, l->gaps == 1 ? "" : "s", l->gap);
    if (l->torn)
        buf_printf(&b,
                   "%s%s%" PRIu64
                   " bytes of a message that was being written when the program or the machine"
                   " ended %s left out",
                   l->gaps ? "; also " : h->path, l->gaps ? "" : ": ", cut,
                   h->read_only ? "are" : "were");
    if (!l->gaps && !l->torn)
        buf_printf(&b, "%s was laid out by another program and is written anew", h->path);
    if (kept[0])
        buf_printf(&b, "; the file as it was is %s beside it", kept);
    free(h->trouble);
    h->trouble = buf_cstr(&b);
    if (!h->trouble)
        buf_free(&b);
    return h->trouble ? 0 : -ENOMEM;
}

/* Does a program that has the session write to it right now? Then what looks torn is under way. */
static bool is_being_written(int fd)
{
    if (flock(fd, LOCK_SH | LOCK_NB) < 0)
        return errno == EWOULDBLOCK;
    flock(fd, LOCK_UN);
    return false;
}

int history_repair(struct history *h, const struct loaded *l, struct error *err)
{
    char kept[HISTORY_ID_MAX + 64] = "";
    struct stat st;
    bool rewritten = l->gaps || l->members;
    if (!rewritten && !l->torn)
        return 0;
    if (fstat(h->fd, &st) < 0)
        return error_errno(err, errno, "cannot look at %s", h->path);
    uint64_t cut = (uint64_t)st.st_size > l->end ? (uint64_t)st.st_size - l->end : 0;
    if (h->read_only)
        return (l->gaps || l->torn) && !is_being_written(h->fd) ? say_trouble(h, l, cut, kept) : 0;
    int r = rewritten ? rewrite(h, kept, sizeof kept, err) : history_close_file(h);
    if (r == 0 && fsync(h->fd) < 0)
        r = -errno;
    if (r < 0)
        return err && err->code ? r : error_errno(err, -r, "cannot repair %s", h->path);
    return say_trouble(h, l, cut, kept);
}
