#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "cleanup.h"
#include "notify.h"
#include "rename.h"
#include "weaken.h"
#include "banned.h"

#define NOTIFY_TID 2
#define STACK_SIZE (1u << 20) /* a deep tree is walked by recursion */

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS /* since Linux 6.6 */
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS      SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

#define FCHMODAT2 452 /* younger than the headers */

static int chmod_open_target(const struct caller *c, int dir, uint64_t address, int flags,
                             int *ret_fd)
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

/*
 * chmod with a set-user-id bit. A box must not leave such a program in a folder of the host's, but
 * archives hold them, and tar and install fail if the call does: so the mode is set without the
 * bit.
 * `path` 0: what the descriptor `dir` is open on. The kernel never goes on with the call: the mode
 * could be another one by then.
 */
static int chmod_decide(const struct caller *c, int dir, uint64_t path, mode_t mode, int flags)
{
    _cleanup_fd_ int fd = -1;
    struct stat st;
    struct statfs fs;
    char own[32];
    if (flags & ~(AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW))
        return -EINVAL;
    int r = chmod_open_target(c, dir, path, flags, &fd);
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

static void notify_serve_one(struct notify *n)
{
    struct seccomp_notif call = {0};
    if (ioctl(n->listener, SECCOMP_IOCTL_NOTIF_RECV, &call) < 0)
        return; /* the caller was killed meanwhile, or a signal came */
    n->busy = true;
    const struct caller c = {.listener = n->listener, .call = &call};
    int r = notify_decide(n, &c);
    struct seccomp_notif_resp answer = {.id = call.id};
    if (r == CALL_GOES_ON)
        answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    else
        answer.error = r;
    ioctl(n->listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    n->busy = false;
}

/* The filter refuses to limit or to slow down task 2, as process 1. Under another number the
 * thread, and with it the whole guest, would be open to the box's processes: then there is no box.
 */
static void *notify_thread(void *data)
{
    if (syscall(SYS_gettid) != NOTIFY_TID && !weakened("pid"))
        syscall(SYS_exit_group, 1);
    /* Caller and thread take turns: the kernel may then keep them on one processor. */
    ioctl(((struct notify *)data)->listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS,
          SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
    for (;;)
        notify_serve_one(data);
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
