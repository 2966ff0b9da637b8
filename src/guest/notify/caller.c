#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "caller.h"
#include "cleanup.h"
#include "banned.h"

#define PAGE 4096u /* or a multiple: only where to split a read that may end at unmapped memory */

bool caller_waits(const struct caller *c)
{
    return ioctl(c->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &c->call->id) == 0;
}

int caller_read_path(const struct caller *c, uint64_t address, char ret[PATH_MAX])
{
    for (size_t have = 0; have < PATH_MAX;) {
        size_t take = PAGE - (size_t)((address + have) % PAGE);
        if (take > PATH_MAX - have)
            take = PATH_MAX - have;
        struct iovec to = {.iov_base = ret + have, .iov_len = take};
        void *theirs = (void *)(uintptr_t)(address + have); /* NOLINT(performance-no-int-to-ptr) */
        struct iovec from = {.iov_base = theirs, .iov_len = take};
        ssize_t n = process_vm_readv((pid_t)c->call->pid, &to, 1, &from, 1, 0);
        if (n <= 0)
            return n < 0 ? -errno : -EFAULT;
        if (memchr(ret + have, 0, (size_t)n))
            return 0;
        have += (size_t)n;
    }
    return -ENAMETOOLONG;
}

static int caller_open_proc(const struct caller *c, const char *link, int number, int flags,
                            int *ret_fd)
{
    char path[64];
    if (number >= 0)
        snprintf(path, sizeof path, "/proc/%u/%s/%d", c->call->pid, link, number);
    else
        snprintf(path, sizeof path, "/proc/%u/%s", c->call->pid, link);
    _cleanup_fd_ int fd = open(path, O_PATH | O_CLOEXEC | flags);
    if (fd < 0)
        return errno == ENOENT ? -EBADF : -errno;
    if (!caller_waits(c)) /* its id may be another process's by now */
        return -ESRCH;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int caller_open_fd(const struct caller *c, int fd, int *ret_fd)
{
    return fd < 0 ? -EBADF : caller_open_proc(c, "fd", fd, 0, ret_fd);
}

int caller_open_base(const struct caller *c, int dir, const char *path, int *ret_fd)
{
    if (*path == '/') { /* all processes of a box have the same root */
        int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            return -errno;
        *ret_fd = fd;
        return 0;
    }
    if (dir == AT_FDCWD)
        return caller_open_proc(c, "cwd", -1, O_DIRECTORY, ret_fd);
    return dir < 0 ? -EBADF : caller_open_proc(c, "fd", dir, O_DIRECTORY, ret_fd);
}

int caller_open(int base, const char *path, int flags, int *ret_fd)
{
    struct open_how how = {.flags = (uint64_t)(O_PATH | O_CLOEXEC | flags),
                           .resolve = RESOLVE_NO_MAGICLINKS};
    long fd = syscall(SYS_openat2, base, path, &how, sizeof how);
    if (fd < 0)
        return -errno;
    *ret_fd = (int)fd;
    return 0;
}
