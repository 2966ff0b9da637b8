/*
 * chmod with a set-user-id bit. A box must not leave such a program in a folder of the host's, but
 * archives hold them, and tar and install fail if the call does: so the mode is set without the
 * bit.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "calls.h"
#include "cleanup.h"
#include "banned.h"

static int open_target(const struct caller *c, int dir, uint64_t address, int flags, int *ret_fd)
{
    char path[PATH_MAX];
    if (!address)
        return caller_open_fd(c, dir, ret_fd);
    int r = caller_read_path(c, address, path);
    if (r < 0)
        return r;
    if (!*path)
        return flags & AT_EMPTY_PATH ? caller_open_fd(c, dir, ret_fd) : -ENOENT;
    _cleanup_fd_ int base = -1;
    r = caller_open_base(c, dir, path, &base);
    return r < 0 ? r
                 : caller_open(base, path, flags & AT_SYMLINK_NOFOLLOW ? O_NOFOLLOW : 0, ret_fd);
}

int chmod_decide(const struct caller *c, int dir, uint64_t path, mode_t mode, int flags)
{
    _cleanup_fd_ int fd = -1;
    struct stat st;
    struct statfs fs;
    char own[32];
    if (flags & ~(AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW))
        return -EINVAL;
    int r = open_target(c, dir, path, flags, &fd);
    if (r < 0)
        return r == -ELOOP ? -EPERM : r;
    if (fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
        return -errno;
    if (S_ISLNK(st.st_mode))
        return -EOPNOTSUPP;
    if (fs.f_type == PROC_SUPER_MAGIC)
        return -EPERM;
    /* On a folder set-group-id hands its group on to new files; on a program it is as dangerous as
     * the other.
     */
    mode &= ~(mode_t)(S_ISDIR(st.st_mode) ? S_ISUID : S_ISUID | S_ISGID);
    snprintf(own, sizeof own, "/proc/self/fd/%d", fd);
    return chmod(own, mode & 07777) < 0 ? -errno : 0;
}
