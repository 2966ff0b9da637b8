#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "cleanup.h"
#include "notify.h"
#include "weaken.h"
#include "banned.h"

#define PAGE       4096u /* or a multiple: where a read that may end at unmapped memory is split */
#define NOTIFY_TID 2
#define STACK_SIZE (1u << 20) /* a deep tree is walked by recursion */

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS /* since Linux 6.6 */
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS      SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

#define FCHMODAT2 452 /* younger than the headers */

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

/* What a link of its /proc folder leads to: "cwd", or the descriptor `number`. */
static int caller_open_link(const struct caller *c, int number, int flags, int *ret_fd)
{
    char path[64];
    if (number == AT_FDCWD)
        snprintf(path, sizeof path, "/proc/%u/cwd", c->call->pid);
    else if (number < 0)
        return -EBADF;
    else
        snprintf(path, sizeof path, "/proc/%u/fd/%d", c->call->pid, number);
    _cleanup_fd_ int fd = open(path, O_PATH | O_CLOEXEC | flags);
    if (fd < 0)
        return errno == ENOENT ? -EBADF : -errno;
    if (!caller_waits(c)) /* its id may be another process's by now */
        return -ESRCH;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int caller_open_base(const struct caller *c, int dir, const char *path, int *ret_fd)
{
    if (*path != '/')
        return caller_open_link(c, dir, O_DIRECTORY, ret_fd);
    int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC); /* the same for all of a box */
    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    return 0;
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

/*
 * chmod with a set-user-id bit. A box must not leave such a program in a folder of the host's, but
 * archives hold them, and tar and install fail if the call does: so the guest sets the mode without
 * the bit. `address` 0: what the descriptor `dir` is open on. The kernel never goes on with the
 * call: the mode could be another one by then.
 */
static int chmod_decide(const struct caller *c, int dir, uint64_t address, mode_t mode, int flags)
{
    _cleanup_fd_ int base = -1, fd = -1;
    char path[PATH_MAX] = "", own[32];
    struct stat st;
    struct statfs fs;
    if (flags & ~(AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW))
        return -EINVAL;
    int r = address ? caller_read_path(c, address, path) : 0;
    if (r < 0)
        return r;
    if (!*path && (!address || flags & AT_EMPTY_PATH)) {
        r = dir < 0 ? -EBADF : caller_open_link(c, dir, 0, &fd);
    } else {
        r = *path ? caller_open_base(c, dir, path, &base) : -ENOENT;
        if (r == 0)
            r = caller_open(base, path, flags & AT_SYMLINK_NOFOLLOW ? O_NOFOLLOW : 0, &fd);
    }
    if (r < 0)
        return r == -ELOOP ? -EPERM : r;
    if (fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
        return -errno;
    if (S_ISLNK(st.st_mode))
        return -EOPNOTSUPP;
    if (fs.f_type == PROC_SUPER_MAGIC)
        return -EPERM;
    /* On a folder set-group-id hands its group on to new files; on a program it is as dangerous as
     * the other. */
    mode &= ~(mode_t)(S_ISDIR(st.st_mode) ? S_ISUID : S_ISUID | S_ISGID);
    snprintf(own, sizeof own, "/proc/self/fd/%d", fd);
    return chmod(own, mode & 07777) < 0 ? -errno : 0;
}

static int notify_decide(struct notify *n, const struct caller *c)
{
    const struct seccomp_data *d = &c->call->data;
    const uint64_t *a = (const uint64_t *)d->args;
    switch (d->nr) {
#ifdef SYS_rename
    case SYS_rename:
    case SYS_chmod:
        if (d->nr == SYS_chmod)
            return chmod_decide(c, AT_FDCWD, a[0], (mode_t)a[1], 0);
        if (n->landlocked)
            return CALL_GOES_ON;
        return rename_decide(c, &(struct rename_call){AT_FDCWD, AT_FDCWD, a[0], a[1], 0});
#endif
    case SYS_renameat:
    case SYS_renameat2:
        if (n->landlocked)
            return CALL_GOES_ON;
        return rename_decide(c, &(struct rename_call){(int)a[0], (int)a[2], a[1], a[3],
                                                      d->nr == SYS_renameat2 ? (unsigned)a[4] : 0});
    case SYS_fchmod:
        return chmod_decide(c, (int)a[0], 0, (mode_t)a[1], 0);
    case SYS_fchmodat:
        return chmod_decide(c, (int)a[0], a[1], (mode_t)a[2], 0);
    case FCHMODAT2:
        return chmod_decide(c, (int)a[0], a[1], (mode_t)a[2], (int)a[3]);
    case SYS_landlock_restrict_self:
        n->landlocked = true;
        return CALL_GOES_ON;
    default:
        return -ENOSYS;
    }
}

/* The filter refuses to limit or to slow down task 2, as process 1. Under another number the
 * thread, and with it the whole guest, would be open to the box's processes: then there is no
 * box. */
static void *notify_thread(void *data)
{
    struct notify *n = data;
    if (syscall(SYS_gettid) != NOTIFY_TID && !weakened("pid"))
        syscall(SYS_exit_group, 1);
    /* Caller and thread take turns: the kernel may then keep them on one processor. */
    ioctl(n->listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
    for (;;) {
        struct seccomp_notif call = {0};
        if (ioctl(n->listener, SECCOMP_IOCTL_NOTIF_RECV, &call) < 0)
            continue; /* the caller was killed, or a signal came */
        n->busy = true;
        int r = notify_decide(n, &(struct caller){.listener = n->listener, .call = &call});
        struct seccomp_notif_resp answer = {.id = call.id};
        if (r == CALL_GOES_ON)
            answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
        else
            answer.error = r;
        ioctl(n->listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
        n->busy = false;
    }
    return NULL;
}

int notify_start(struct notify *n, int listener)
{
    pthread_t thread;
    pthread_attr_t how;
    n->listener = listener;
    if (listener < 0)
        return 0;
    pthread_attr_init(&how);
    pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&how, STACK_SIZE);
    int code = pthread_create(&thread, &how, notify_thread, n); /* the guest blocks all signals */
    pthread_attr_destroy(&how);
    return -code;
}

bool notify_is_busy(const struct notify *n)
{
    return n->busy;
}
