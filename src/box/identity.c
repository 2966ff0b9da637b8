#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "identity.h"
#include "banned.h"

#ifndef AT_NO_AUTOMOUNT
#define AT_NO_AUTOMOUNT 0x800
#endif

static int64_t time_ns(const struct statx_timestamp *t)
{
    return t->tv_sec * NS_PER_S + t->tv_nsec;
}

int identity_get(int dir, const char *name, struct identity *ret)
{
    struct statx x;
    unsigned flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | (*name ? 0 : AT_EMPTY_PATH);
    if (syscall(SYS_statx, dir, name, flags, STATX_BASIC_STATS | STATX_BTIME, &x) < 0)
        return -errno;
    *ret = (struct identity){
        .dev = (uint64_t)x.stx_dev_major << 32 | x.stx_dev_minor,
        .ino = x.stx_ino,
        .mode = x.stx_mode,
        .links = x.stx_nlink,
        .size = x.stx_size,
        .uid = x.stx_uid,
        .gid = x.stx_gid,
        .ctime_ns = time_ns(&x.stx_ctime),
        .mtime_ns = time_ns(&x.stx_mtime),
        .btime_ns = x.stx_mask & STATX_BTIME ? time_ns(&x.stx_btime) : 0,
    };
    return 0;
}

bool identity_same_inode(const struct identity *a, const struct identity *b)
{
    return a->dev == b->dev && a->ino == b->ino && a->btime_ns == b->btime_ns &&
           (a->mode & S_IFMT) == (b->mode & S_IFMT);
}

bool identity_same_content(const struct identity *a, const struct identity *b)
{
    return identity_same_inode(a, b) && a->mode == b->mode && a->size == b->size &&
           a->mtime_ns == b->mtime_ns;
}

bool identity_same(const struct identity *a, const struct identity *b)
{
    return identity_same_content(a, b) && a->ctime_ns == b->ctime_ns;
}
