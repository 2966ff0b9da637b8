#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <unistd.h>

#include "edit.h"
#include "io.h"
#include "place.h"
#include "sys.h"
#include "banned.h"

/* Does the file hold exactly these bytes? Its times are too coarse to tell. */
static bool holds(int fd, struct bytes what)
{
    static uint8_t block[64u << 10];
    for (size_t at = 0;;) {
        ssize_t n = read(fd, block, sizeof block);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0 && at == what.n;
        if ((size_t)n > what.n - at || memcmp(block, what.data + at, (size_t)n) != 0)
            return false;
        at += (size_t)n;
    }
}

/* Has anybody opened the file for writing? What they write later would go to a file without a name. The
 * kernel gives a lease on reading only if nobody has; where it gives none at all, nobody knows. */
static bool is_being_written(int fd)
{
    return fcntl(fd, F_SETLEASE, F_RDLCK) < 0 && errno == EAGAIN;
}

/* 0 if the file at that name is still what was read, and nobody is about to change it; -EBUSY, or -ETXTBSY if
 * somebody is. */
static int check_same(int dir, const char *name, struct bytes before)
{
    _cleanup_fd_ int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return -EBUSY;
    if (is_being_written(fd))
        return -ETXTBSY;
    return holds(fd, before) ? 0 : -EBUSY;
}

/* Puts the new file, which has a name beside, in the place of the old one. On success the name beside is
 * gone; else the caller removes it. Where two names cannot be exchanged, checking before has to do. */
static int exchange(const struct place *p, const char *name, struct bytes before)
{
    int r = check_same(p->dir, p->name, before);
    if (r < 0)
        return r;
    if (sys_renameat2(p->dir, name, p->dir, p->name, RENAME_EXCHANGE) < 0) {
        if (errno == EINVAL || errno == ENOSYS)
            return renameat(p->dir, name, p->dir, p->name) < 0 ? -errno : 0;
        return errno == ENOENT ? -EBUSY : -errno;
    }
    r = check_same(p->dir, name, before);
    if (r == 0)
        return unlinkat(p->dir, name, 0) < 0 ? -errno : 0;
    /* What was written meanwhile goes back, whatever becomes of ours. */
    if (sys_renameat2(p->dir, name, p->dir, p->name, RENAME_EXCHANGE) < 0)
        renameat(p->dir, name, p->dir, p->name);
    return r;
}

int edit_swap(struct file_call *c, mode_t mode, struct bytes before, struct bytes after, struct error *err)
{
    _cleanup_place_ struct place p = PLACE_INIT;
    _cleanup_fd_ int fd = -1;
    char name[PLACE_BESIDE_MAX];
    int r = place_find(c, &p);
    if (r >= 0 && (r = place_need_writable(&p, c->path, err)) < 0)
        return r;
    if (r >= 0)
        r = place_open_beside(&p, name, &fd);
    if (r < 0)
        return file_error(c, -r, c->path, err);
    r = io_write_all(fd, after.data, after.n);
    if (r >= 0 && fchmod(fd, mode & 07777) < 0)
        r = -errno;
    if (r >= 0)
        r = exchange(&p, name, before);
    if (r < 0)
        unlinkat(p.dir, name, 0);
    return r < 0 && r != -EBUSY && r != -ETXTBSY ? file_error(c, -r, c->path, err) : r;
}
