/*
 * rename: the guest decides only on folders on an overlay, since the kernel answers EXDEV for a
 * folder of a lower layer. The paths are read from the caller's memory, which may change at once:
 * then the guest moves another folder, which the caller could have moved as well.
 *
 * Such a folder is moved by making it anew and moving what is in it: the overlay renames files and
 * links (it copies a file of a lower layer into the upper one first) and folders that exist in the
 * upper layer alone, so only the tree of lower folders is walked. Folders keep mode, times and
 * extended attributes.
 *
 * What differs from a rename by the kernel: the folder has another inode number; a process that has
 * it open or as its working directory stays in the old one, which is deleted; and others can see
 * the moment in between.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <linux/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "notify.h"
#include "sys.h"
#include "thread.h"
#include "banned.h"

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

static void move_copy_xattrs(int from, int to)
{
    char names[XATTRS_MAX], value[XATTR_MAX];
    ssize_t n = flistxattr(from, names, sizeof names);
    for (char *name = names; n > 0 && name < names + n; name += strlen(name) + 1) {
        ssize_t size = fgetxattr(from, name, value, sizeof value);
        if (size >= 0)
            fsetxattr(to, name, value, (size_t)size,
                      0); /* of another kind than user's: as far as allowed */
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

static int move_check_empty(int dir, const char *name)
{
    _Alignas(struct move_entry) char bytes[ENTRIES];
    _cleanup_fd_ int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    ssize_t n = sys_getdents64(fd, bytes, sizeof bytes);
    if (n < 0)
        return -errno;
    for (ssize_t at = 0; at < n; at += ((const struct move_entry *)(bytes + at))->len)
        if (!is_dots(((const struct move_entry *)(bytes + at))->name))
            return -ENOTEMPTY;
    return 0;
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
    int r = move_check_empty(to_dir, to);
    if (r < 0)
        return r;
    r = -EEXIST;
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

/* One of the two paths of a rename: the folder that it is in, and its name there. */
struct rename_end {
    int dir;
    char path[PATH_MAX];
    const char *name; /* in path */
};

static void rename_end_close(struct rename_end *e)
{
    cleanup_close(&e->dir);
}

/* Opens the folder of the last name; slashes behind it mean nothing where it is a folder. -EINVAL
 * for "/", "." and "..". */
static int rename_open_end(const struct caller *c, int dir, struct rename_end *e)
{
    _cleanup_fd_ int base = -1;
    int r = caller_open_base(c, dir, e->path, &base);
    if (r < 0)
        return r;
    size_t n = strlen(e->path);
    while (n > 1 && e->path[n - 1] == '/')
        e->path[--n] = 0;
    char *slash = strrchr(e->path, '/');
    e->name = slash ? slash + 1 : e->path;
    if (!*e->name || is_dots(e->name))
        return -EINVAL;
    const char *parent = !slash ? "." : slash == e->path ? "/" : e->path;
    if (slash && slash != e->path)
        *slash = 0;
    return caller_open(base, parent, O_DIRECTORY, &e->dir);
}

/* A rename from one mount to another is EXDEV everywhere, even if both show the same folder. */
static bool rename_same_mount(int a, int b)
{
    struct statx at[2];
    const int dirs[] = {a, b};
    for (int i = 0; i < 2; i++)
        if (syscall(SYS_statx, dirs[i], "", AT_EMPTY_PATH, STATX_MNT_ID, &at[i]) < 0 ||
            !(at[i].stx_mask & STATX_MNT_ID))
            return false;
    return at[0].stx_mnt_id == at[1].stx_mnt_id;
}

int rename_decide(const struct caller *c, const struct rename_call *call)
{
    _cleanup_(rename_end_close) struct rename_end from = {.dir = -1}, to = {.dir = -1};
    _cleanup_fd_ int base = -1, fd = -1;
    struct stat st;
    struct statfs fs;
    /* The cheap question that all renames are asked: is it a folder? */
    if (caller_read_path(c, call->from, from.path) < 0 ||
        (*from.path != '/' && caller_open_base(c, call->from_dir, from.path, &base) < 0) ||
        fstatat(base, from.path, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
        return CALL_GOES_ON;
    /* And one on an overlay? */
    if (caller_read_path(c, call->to, to.path) < 0 ||
        rename_open_end(c, call->from_dir, &from) < 0 ||
        rename_open_end(c, call->to_dir, &to) < 0 ||
        caller_open(from.dir, from.name, O_DIRECTORY | O_NOFOLLOW, &fd) < 0 ||
        fstatfs(fd, &fs) < 0 || fs.f_type != OVERLAYFS_SUPER_MAGIC)
        return CALL_GOES_ON;

    int r = sys_renameat2(from.dir, from.name, to.dir, to.name, call->flags) < 0 ? -errno : 0;
    if (r == -EXDEV && !(call->flags & ~(unsigned)RENAME_NOREPLACE) &&
        rename_same_mount(from.dir, to.dir)) {
        r = move_folder(c, from.dir, from.name, to.dir, to.name, call->flags);
        /* Other errors of the pieces mean nothing to a caller of rename: a program that knows EXDEV
         * copies then. */
        if (r < 0 && r != -ENOTEMPTY && r != -ENOSPC && r != -EDQUOT && r != -EIO)
            r = -EXDEV;
    }
    /* An older kernel lets a signal interrupt the caller, which then repeats the call: it must find
     * the folder where it was. */
    if (r == 0 && !caller_waits(c))
        sys_renameat2(to.dir, to.name, from.dir, from.name, RENAME_NOREPLACE);
    return r;
}
