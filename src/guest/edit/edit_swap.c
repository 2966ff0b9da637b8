#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <unistd.h>

#include "edit.h"
#include "io.h"
#include "place.h"
#include "sys.h"
#include "banned.h"

/* Is the file at that name the one that was read, and untouched since as far as its times tell? */
static bool is_untouched(int dir, const char *name, const struct stat *read)
{
    struct stat now;
    return fstatat(dir, name, &now, AT_SYMLINK_NOFOLLOW) == 0 && now.st_ino == read->st_ino &&
           now.st_dev == read->st_dev && now.st_size == read->st_size &&
           now.st_mtim.tv_sec == read->st_mtim.tv_sec && now.st_mtim.tv_nsec == read->st_mtim.tv_nsec;
}

/* Does the file at that name hold exactly these bytes? Times are too coarse to tell. */
static bool holds(int dir, const char *name, struct bytes what)
{
    static uint8_t block[64u << 10];
    _cleanup_fd_ int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    size_t at = 0;
    if (fd < 0)
        return false;
    for (;;) {
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

/* Where two names cannot be exchanged, the old file is compared before it is replaced. */
static int put_over(const struct place *p, const char *name, struct bytes before)
{
    if (!holds(p->dir, p->name, before))
        return -EBUSY;
    return renameat(p->dir, name, p->dir, p->name) < 0 ? -errno : 0;
}

/* On success the name beside is gone; else the caller removes it. */
static int exchange(const struct place *p, const char *name, const struct stat *read, struct bytes before)
{
    if (!is_untouched(p->dir, p->name, read))
        return -EBUSY;
    if (sys_renameat2(p->dir, name, p->dir, p->name, RENAME_EXCHANGE) < 0) {
        if (errno == EINVAL || errno == ENOSYS)
            return put_over(p, name, before);
        return errno == ENOENT ? -EBUSY : -errno;
    }
    if (holds(p->dir, name, before))
        return unlinkat(p->dir, name, 0) < 0 ? -errno : 0;
    if (sys_renameat2(p->dir, name, p->dir, p->name, RENAME_EXCHANGE) < 0)
        return -errno;
    return -EBUSY;
}

int edit_swap(struct file_call *c, const struct stat *read, struct bytes before, struct bytes after,
              struct error *err)
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
    if (r >= 0 && fchmod(fd, read->st_mode & 07777) < 0)
        r = -errno;
    if (r >= 0)
        r = exchange(&p, name, read, before);
    if (r < 0)
        unlinkat(p.dir, name, 0);
    return r < 0 && r != -EBUSY ? file_error(c, -r, c->path, err) : r;
}
