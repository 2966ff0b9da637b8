#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "folder.h"
#include "io.h"
#include "pour.h"
#include "banned.h"

#define PIECE (32u << 10)

void pour_close(struct pour *p)
{
    cleanup_close(&p->old);
    cleanup_close(&p->fresh);
    p->old = p->fresh = -1;
}

/* Looks before it opens: a FIFO or a device is never opened. */
static int look(struct pour *p)
{
    struct stat st;
    p->existed = fstatat(p->dir, p->name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (!p->existed)
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != p->size || (st.st_mode & 07777) != p->mode)
        return 0;
    p->linked = st.st_nlink > 1;
    p->old = openat(p->dir, p->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    return 0; /* what cannot be read is not the same */
}

static int copy_head(struct pour *p)
{
    char piece[PIECE];
    for (uint64_t at = 0; at < p->at;) {
        size_t want = p->at - at < sizeof piece ? (size_t)(p->at - at) : sizeof piece;
        ssize_t n = pread(p->old, piece, want, (off_t)at);
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        int r = io_write_all(p->fresh, piece, (size_t)n);
        if (r < 0)
            return r;
        at += (uint64_t)n;
    }
    return 0;
}

/* From here on it is written anew. */
static int renew(struct pour *p)
{
    int r = stage_remove(p->dir, p->name);
    if (r < 0)
        return r;
    p->fresh = openat(p->dir, p->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (p->fresh < 0)
        return -errno;
    r = p->old >= 0 ? copy_head(p) : 0;
    cleanup_close(&p->old);
    p->old = -1;
    return r;
}

int pour_begin(struct pour *p)
{
    int r = look(p);
    if (r < 0 || p->old >= 0)
        return r;
    p->differs = true;
    return renew(p);
}

static bool is_same(struct pour *p, const char *bytes, size_t n)
{
    char piece[PIECE];
    for (size_t done = 0; done < n;) {
        size_t want = n - done < sizeof piece ? n - done : sizeof piece;
        ssize_t got = pread(p->old, piece, want, (off_t)(p->at + done));
        if (got <= 0 || memcmp(piece, bytes + done, (size_t)got) != 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

int pour_bytes(struct pour *p, const void *bytes, size_t n)
{
    if (n > p->size - p->at)
        return -EINVAL;
    int r = 0;
    if (p->old >= 0 && !is_same(p, bytes, n)) {
        p->differs = true;
        r = renew(p);
    }
    if (r == 0 && p->old < 0)
        r = io_write_all(p->fresh, bytes, n);
    p->at += n;
    return r;
}

int pour_end(struct pour *p)
{
    int r = p->at != p->size ? -EINVAL : 0;
    if (r == 0 && p->old >= 0 && p->linked)
        r = renew(p);
    if (r == 0 && p->fresh >= 0 && fchmod(p->fresh, p->mode) < 0)
        r = -errno;
    pour_close(p);
    return r;
}

int pour_link(struct pour *p, const char *target)
{
    char there[PATH_MAX];
    struct stat st;
    p->existed = fstatat(p->dir, p->name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    ssize_t n =
        p->existed && S_ISLNK(st.st_mode) ? readlinkat(p->dir, p->name, there, sizeof there) : -1;
    if (n >= 0 && (size_t)n == strlen(target) && memcmp(there, target, (size_t)n) == 0)
        return 0;
    p->differs = true;
    int r = p->existed ? stage_remove(p->dir, p->name) : 0;
    return r < 0 ? r : symlinkat(target, p->dir, p->name) < 0 ? -errno : 0;
}
