/*
 * System calls of the box's processes that the guest decides on (POLICY_NOTIFY in
 * seccomp/policy.c):
 *
 * - rename, renameat, renameat2: an overlay answers EXDEV for a folder of a lower layer; the guest
 *   moves it piece by piece. The kernel carries out all other renames.
 * - chmod, fchmod, fchmodat, fchmodat2 with S_ISUID: the guest sets the mode without the bit.
 * - landlock_restrict_self: the kernel carries it out. From then on the guest moves no folders,
 *   because the rules that the caller has set for itself do not bind the guest.
 *
 * A thread of the guest serves them one after the other, so that a slow one delays only other
 * renames of the box. It is the first task that the guest creates, so its number is 2, which the
 * filter protects as it does process 1. The callers' bytes are hostile: whatever a path leads to,
 * the guest has the rights of the box's own processes and no more, but must not be made to follow
 * links of its own folder of /proc, which those cannot follow.
 *
 * A folder of a lower layer is moved by making it anew and moving what is in it: the overlay
 * renames files and links (it copies a file of a lower layer into the upper one first) and folders
 * that exist in the upper layer alone, so only the tree of lower folders is walked. Folders keep
 * mode, times and extended attributes. What differs from a rename by the kernel: the folder has
 * another inode number; a process that has it open or as its working directory stays in the old
 * one, which is deleted; and others can see the moment in between.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <linux/stat.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cleanup.h"
#include "thread.h"
#include "guest.h"
#include "sys.h"
#include "weaken.h"
#include "banned.h"

#define PAGE       4096u /* or a multiple: where a read that may end at unmapped memory is split */
#define NOTIFY_TID 2
#define STACK_SIZE (1u << 20) /* a deep tree is walked by recursion */

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS /* since Linux 6.6 */
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS      SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

#define FCHMODAT2   452 /* younger than the headers */
#define MOVE_PREFIX ".hutch-rename-"
#define DEPTH_MAX   128
#define ENTRIES     4096 /* bytes of a folder's entries read at once, on the stack of each level */
#define PASSES_MAX  8    /* over a folder that others fill while it is emptied */
#define TIME_MAX    (20 * NS_PER_S)
#define LOOK_EACH   64
#define XATTRS_MAX  4096
#define XATTR_MAX   4096
#define NAMES_TRIED 16
#define MODE_BITS   03777 /* set-user-id means nothing on a folder */

#define NOTIFY_CONTINUE 1 /* the kernel carries out the call as if the guest had not been asked */

/* The process whose system call is being decided on. */
struct caller {
    int listener;
    const struct seccomp_notif *call;
};

/* It still waits for the answer: what was opened by its process id was its own. */
static bool caller_waits(const struct caller *c)
{
    return ioctl(c->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &c->call->id) == 0;
}

/* Copies a path out of its memory. -EFAULT, -ENAMETOOLONG, or -EPERM for a process that is not
 * dumpable. */
static int caller_read_path(const struct caller *c, uint64_t address, char ret[PATH_MAX])
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

/* The folder that a path of it starts from, as a descriptor to be closed. */
static int caller_open_base(const struct caller *c, int dir, const char *path, int *ret_fd)
{
    if (*path != '/')
        return caller_open_link(c, dir, O_DIRECTORY, ret_fd);
    int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC); /* the same for all of a box */
    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    return 0;
}

/* Opens what a path leads to, by O_PATH and `flags`. Links of /proc that lead into processes are
 * not followed (-ELOOP): here they would lead into the guest. */
static int caller_open(int base, const char *path, int flags, int *ret_fd)
{
    struct open_how how = {.flags = (uint64_t)(O_PATH | O_CLOEXEC | flags),
                           .resolve = RESOLVE_NO_MAGICLINKS};
    long fd = syscall(SYS_openat2, base, path, &how, sizeof how);
    if (fd < 0)
        return -errno;
    *ret_fd = (int)fd;
    return 0;
}

struct move {
    const struct caller *caller;
    int64_t deadline;
    unsigned moved;
    bool back; /* the move is being undone: no limit stops that */
};

struct move_entry { /* of the kernel's getdents64 */
    uint64_t ino, off;
    uint16_t len;
    uint8_t type;
    char name[];
};

static int move_entries(struct move *m, int from, int to, unsigned depth);

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Opens a folder to empty or to fill it; one that its owner cannot enter or change is made so
 * first. */
static int move_open_folder(int dir, const char *name, struct stat *ret_st, int *ret_fd)
{
    char own[32];
    _cleanup_fd_ int at = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (at < 0 || fstat(at, ret_st) < 0)
        return -errno;
    snprintf(own, sizeof own, "/proc/self/fd/%d", at);
    if ((ret_st->st_mode & S_IRWXU) != S_IRWXU &&
        chmod(own, (ret_st->st_mode & MODE_BITS) | S_IRWXU) < 0)
        return -errno;
    int fd = open(own, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    return 0;
}

/* Apart from the recursion, on whose every level its buffers would otherwise be. */
static void __attribute__((noinline)) move_copy_xattrs(int from, int to)
{
    char names[XATTRS_MAX], value[XATTR_MAX];
    ssize_t n = flistxattr(from, names, sizeof names);
    for (char *name = names; n > 0 && name < names + n; name += strlen(name) + 1) {
        ssize_t size = fgetxattr(from, name, value, sizeof value);
        if (size >= 0) /* of another kind than user's: as far as allowed */
            fsetxattr(to, name, value, (size_t)size, 0);
    }
}

/* Last, since moving something into or out of the folder sets its time. */
static int move_finish_folder(int fd, const struct stat *st)
{
    const struct timespec times[] = {st->st_atim, st->st_mtim};
    return fchmod(fd, st->st_mode & MODE_BITS) < 0 || futimens(fd, times) < 0 ? -errno : 0;
}

static int move_remake_folder(struct move *m, int from_dir, const char *name, int to_dir,
                              const char *new_name, unsigned depth)
{
    struct stat from_st = {0}, to_st = {0};
    _cleanup_fd_ int from = -1, to = -1;
    if (depth == DEPTH_MAX)
        return -ELOOP;
    /* When the move is undone the folder is still there, and only its parts are missing. */
    if (!m->back && mkdirat(to_dir, new_name, 0700) < 0)
        return -errno;
    int r = move_open_folder(to_dir, new_name, &to_st, &to);
    if (r == 0)
        r = move_open_folder(from_dir, name, &from_st, &from);
    if (r < 0)
        return r;
    if (!m->back)
        move_copy_xattrs(from, to);
    /* Moves what is in it, then removes it. Other processes may fill it again. */
    bool removed = false;
    for (int pass = 0; r == 0 && !removed && pass < PASSES_MAX; pass++) {
        r = lseek(from, 0, SEEK_SET) < 0 ? -errno : move_entries(m, from, to, depth);
        removed = r == 0 && unlinkat(from_dir, name, AT_REMOVEDIR) == 0;
        if (r == 0 && !removed && errno != ENOTEMPTY && errno != EEXIST)
            r = -errno;
    }
    if (r == 0 && !removed)
        r = -EBUSY;
    if (r < 0)
        move_finish_folder(from, &from_st);
    else
        r = move_finish_folder(to, m->back ? &to_st : &from_st);
    return r;
}

static int move_entry(struct move *m, int from, const char *name, int to, unsigned depth)
{
    /* Now and then: is there time left, and does the caller still wait? */
    if (!m->back && ++m->moved % LOOK_EACH == 0) {
        if (clock_now() > m->deadline)
            return -ETIMEDOUT;
        if (!caller_waits(m->caller))
            return -ESRCH;
    }
    if (sys_renameat2(from, name, to, name, RENAME_NOREPLACE) == 0)
        return 0;
    int code = errno;
    if (code == ENOENT)
        return 0; /* another process removed it */
    /* A folder that is not writable cannot get another parent (EACCES), but can be remade there. */
    if (code != EXDEV && code != EACCES && !(m->back && code == EEXIST))
        return -code;
    int r = move_remake_folder(m, from, name, to, name, depth + 1);
    return r == -ENOTDIR ? -code : r;
}

static int move_entries(struct move *m, int from, int to, unsigned depth)
{
    _Alignas(struct move_entry) char bytes[ENTRIES];
    for (;;) {
        ssize_t n = sys_getdents64(from, bytes, sizeof bytes);
        if (n <= 0)
            return n < 0 ? -errno : 0;
        for (ssize_t at = 0; at < n;) {
            const struct move_entry *e = (const struct move_entry *)(bytes + at);
            int r = is_dots(e->name) ? 0 : move_entry(m, from, e->name, to, depth);
            if (r < 0)
                return r;
            at += e->len;
        }
    }
}

/*
 * Moves the folder `from` to `to`, within one mount. The new folder appears when all is in it;
 * until then it has a name beside it that begins with MOVE_PREFIX. What fails half-way is undone.
 * Returns 0 or a negative errno: -EIO if that failed, too, and the rest is under that name.
 */
static int move_folder(const struct caller *c, int from_dir, const char *from, int to_dir,
                       const char *to, unsigned flags)
{
    struct move m = {.caller = c, .deadline = clock_now() + TIME_MAX};
    struct stat st;
    char name[32];
    /* The target must be empty, if it exists. */
    _Alignas(struct move_entry) char bytes[ENTRIES];
    _cleanup_fd_ int target = openat(to_dir, to, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (target < 0 && errno != ENOENT)
        return -errno;
    ssize_t n = target < 0 ? 0 : sys_getdents64(target, bytes, sizeof bytes);
    if (n < 0)
        return -errno;
    for (ssize_t at = 0; at < n; at += ((const struct move_entry *)(bytes + at))->len)
        if (!is_dots(((const struct move_entry *)(bytes + at))->name))
            return -ENOTEMPTY;
    int r = -EEXIST;
    for (int i = 0; r == -EEXIST && i < NAMES_TRIED; i++) {
        uint32_t number = 0;
        if (getrandom(&number, sizeof number, GRND_NONBLOCK) != sizeof number)
            number = (uint32_t)clock_now();
        snprintf(name, sizeof name, MOVE_PREFIX "%08x", number);
        if (fstatat(to_dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            r = errno == ENOENT ? 0 : -errno;
    }
    if (r < 0)
        return r;
    r = move_remake_folder(&m, from_dir, from, to_dir, name, 0);
    if (r == 0 && sys_renameat2(to_dir, name, to_dir, to, flags) < 0)
        r = -errno;
    if (r == 0)
        return 0;
    /* Brings back what is beside the target, if it was made. The source may be whole, half empty,
     * or removed. */
    m.back = true;
    if (fstatat(to_dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        sys_renameat2(to_dir, name, from_dir, from, RENAME_NOREPLACE) == 0)
        return r;
    if (errno != EEXIST || move_remake_folder(&m, to_dir, name, from_dir, from, 0) < 0)
        return -EIO;
    return r;
}

/* Opens the folder that a path's last name is in; slashes behind it mean nothing where it is a
 * folder. -EINVAL for "/", "." and "..". */
static int rename_open_parent(const struct caller *c, int dir, char *path, const char **ret_name,
                              int *ret_fd)
{
    _cleanup_fd_ int base = -1;
    int r = caller_open_base(c, dir, path, &base);
    if (r < 0)
        return r;
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        path[--n] = 0;
    char *slash = strrchr(path, '/');
    *ret_name = slash ? slash + 1 : path;
    if (!**ret_name || is_dots(*ret_name))
        return -EINVAL;
    const char *parent = !slash ? "." : slash == path ? "/" : path;
    if (slash && slash != path)
        *slash = 0;
    return caller_open(base, parent, O_DIRECTORY, ret_fd);
}

/* What the caller of a rename gets: 0, a negative errno, or NOTIFY_CONTINUE. Its memory may change
 * after the paths were read: then the guest moves another folder, which the caller could have moved
 * as well. */
static int rename_decide(const struct caller *c, int from_dir, int to_dir, uint64_t from_address,
                         uint64_t to_address, unsigned flags)
{
    _cleanup_fd_ int base = -1, from = -1, to = -1, fd = -1;
    char from_path[PATH_MAX], to_path[PATH_MAX];
    const char *from_name, *to_name;
    struct stat st;
    struct statfs fs;
    /* The cheap question that all renames are asked: is it a folder? */
    if (caller_read_path(c, from_address, from_path) < 0 ||
        (*from_path != '/' && caller_open_base(c, from_dir, from_path, &base) < 0) ||
        fstatat(base, from_path, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
        return NOTIFY_CONTINUE;
    /* And one on an overlay? */
    if (caller_read_path(c, to_address, to_path) < 0 ||
        rename_open_parent(c, from_dir, from_path, &from_name, &from) < 0 ||
        rename_open_parent(c, to_dir, to_path, &to_name, &to) < 0 ||
        caller_open(from, from_name, O_DIRECTORY | O_NOFOLLOW, &fd) < 0 || fstatfs(fd, &fs) < 0 ||
        fs.f_type != OVERLAYFS_SUPER_MAGIC)
        return NOTIFY_CONTINUE;

    int r = sys_renameat2(from, from_name, to, to_name, flags) < 0 ? -errno : 0;
    /* A rename from one mount to another is EXDEV everywhere, even if both show the same folder. */
    struct statx at[2] = {0};
    const int dirs[] = {from, to};
    for (int i = 0; r == -EXDEV && i < 2; i++)
        syscall(SYS_statx, dirs[i], "", AT_EMPTY_PATH, STATX_MNT_ID, &at[i]);
    if (r == -EXDEV && !(flags & ~(unsigned)RENAME_NOREPLACE) &&
        at[0].stx_mask & at[1].stx_mask & STATX_MNT_ID && at[0].stx_mnt_id == at[1].stx_mnt_id) {
        r = move_folder(c, from, from_name, to, to_name, flags);
        /* Other errors of the pieces mean nothing to a caller of rename: a program that knows EXDEV
         * copies then. */
        if (r < 0 && r != -ENOTEMPTY && r != -ENOSPC && r != -EDQUOT && r != -EIO)
            r = -EXDEV;
    }
    /* An older kernel lets a signal interrupt the caller, which then repeats the call: it must find
     * the folder where it was. */
    if (r == 0 && !caller_waits(c))
        sys_renameat2(to, to_name, from, from_name, RENAME_NOREPLACE);
    return r;
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
    case SYS_chmod:
        return chmod_decide(c, AT_FDCWD, a[0], (mode_t)a[1], 0);
    case SYS_rename:
        return n->landlocked ? NOTIFY_CONTINUE
                             : rename_decide(c, AT_FDCWD, AT_FDCWD, a[0], a[1], 0);
#endif
    case SYS_renameat:
    case SYS_renameat2:
        if (n->landlocked)
            return NOTIFY_CONTINUE;
        return rename_decide(c, (int)a[0], (int)a[2], a[1], a[3],
                             d->nr == SYS_renameat2 ? (unsigned)a[4] : 0);
    case SYS_fchmod:
        return chmod_decide(c, (int)a[0], 0, (mode_t)a[1], 0);
    case SYS_fchmodat:
        return chmod_decide(c, (int)a[0], a[1], (mode_t)a[2], 0);
    case FCHMODAT2:
        return chmod_decide(c, (int)a[0], a[1], (mode_t)a[2], (int)a[3]);
    case SYS_landlock_restrict_self:
        n->landlocked = true;
        return NOTIFY_CONTINUE;
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
        if (r == NOTIFY_CONTINUE)
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
