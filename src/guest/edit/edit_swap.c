#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "edit.h"
#include "io.h"
#include "place.h"
#include "swap.h"
#include "../diff/content.h"
#include "sys.h"
#include "banned.h"

/* Has anybody opened the file for writing? What they write later would go to a file without a name.
 * The kernel gives a lease on reading only if nobody has; where it gives none at all, nobody knows.
 * As long as the descriptor is open, who opens the file for writing waits, and no further lease is
 * given. */
static bool is_being_written(int fd)
{
    return fcntl(fd, F_SETLEASE, F_RDLCK) < 0 && errno == EAGAIN;
}

/* 0 if the file at that name is still what was read, and nobody is about to change it; -EBUSY, or
 * -ETXTBSY if somebody is. The lease lasts as long as *ret_fd. */
static int check_same(int dir, const char *name, struct bytes before, int *ret_fd)
{
    struct stat st;
    int fd = *ret_fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return -EBUSY;
    if (is_being_written(fd))
        return -ETXTBSY;
    /* Its times are too coarse to tell. */
    return content_holds(fd, before.data, before.n) ? 0 : -EBUSY;
}

/* Puts the new file, which has a name beside, in the place of the old one. On success the name
 * beside is gone; else the caller removes it. Where two names cannot be exchanged, checking before
 * has to do. */
static int exchange(const struct place *p, const char *name, struct bytes before)
{
    struct swap s = {p->dir, p->name, p->dir, name};
    _cleanup_held_ struct held ours = HELD_INIT;
    _cleanup_fd_ int old = -1, out = -1;
    int r = check_same(p->dir, p->name, before, &old);
    if (r >= 0)
        r = held_begin(&ours, p->dir, name);
    if (r < 0)
        return r;
    r = swap_do(&s);
    if (r == -EINVAL || r == -ENOSYS)
        return sys_renameat2(p->dir, name, p->dir, p->name, 0) < 0 ? -errno : 0;
    if (r < 0)
        return r == -ENOENT ? -EBUSY : r;
    r = check_same(p->dir, name, before, &out);
    if (r == 0)
        return unlinkat(p->dir, name, 0) < 0 ? -errno : 0;
    int back = swap_back(&s, &ours);
    return back < 0 ? back : r;
}

int edit_swap(struct file_call *c, mode_t mode, struct bytes before, struct bytes after,
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
    if (r >= 0 && fchmod(fd, mode & 07777) < 0)
        r = -errno;
    if (r >= 0)
        r = exchange(&p, name, before);
    if (r < 0)
        unlinkat(p.dir, name, 0);
    return r < 0 && r != -EBUSY && r != -ETXTBSY ? file_error(c, -r, c->path, err) : r;
}
