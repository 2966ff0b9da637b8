/*
 * Mounts, by the new mount API: a mount is made or cloned detached, given its attributes while
 * nobody can see it, and only then attached. No path of a writable tree is ever resolved.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "carry.h"
#include "cleanup.h"
#include "outer_proc.h"
#include "sys.h"
#include "weaken.h"
#include "banned.h"

/* Applies "key=value,key=value" or bare "key" options to a filesystem context. */
static int configure(int fs, const char *options)
{
    char text[256];
    if ((size_t)snprintf(text, sizeof text, "%s", options) >= sizeof text)
        return -E2BIG;
    for (char *key = text, *next; key; key = next) {
        next = strchr(key, ',');
        if (next)
            *next++ = 0;
        char *value = strchr(key, '=');
        if (value)
            *value++ = 0;
        if (sys_fsconfig(fs, value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG, key, value, 0) < 0)
            return -errno;
    }
    return 0;
}

static int make_mount(int fs, uint64_t attributes, int *ret_fd)
{
    if (sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    int fd = sys_fsmount(fs, FSMOUNT_CLOEXEC, (unsigned)attributes);
    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    return 0;
}

static int new_mount(const char *type, const char *options, uint64_t attributes, int *ret_fd)
{
    _cleanup_fd_ int fs = sys_fsopen(type, FSOPEN_CLOEXEC);
    if (fs < 0)
        return -errno;
    int r = options ? configure(fs, options) : 0;
    return r < 0 ? r : make_mount(fs, attributes, ret_fd);
}

int carry_tmpfs(struct carry *c, const struct op *op)
{
    return new_mount("tmpfs", op->text, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, &c->fds[op->slot]);
}

int carry_new_proc(int *ret_fd)
{
    return new_mount("proc", NULL, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
                     ret_fd);
}

int carry_proc(struct carry *c, const struct op *op)
{
    if (weakened("pid")) {
        c->fds[op->slot] =
            sys_open_tree(AT_FDCWD, "/proc", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
        return c->fds[op->slot] < 0 ? -errno : 0;
    }
    if (c->outer_proc)
        return outer_proc_receive(c->outer_proc, &c->fds[op->slot]);
    return carry_new_proc(&c->fds[op->slot]);
}

int carry_devpts(struct carry *c, const struct op *op)
{
    return new_mount("devpts", op->text, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, &c->fds[op->slot]);
}

/* What a kernel was built without, or a container's rules forbid, a box can do without. */
int carry_kernel_fs(struct carry *c, const struct op *op)
{
    int r = new_mount(op->text, NULL,
                      op->flags | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
                      &c->fds[op->slot]);
    return op->optional ? 0 : r;
}

/* `discarded`: the files end with the box, so nothing waits for them to reach the disk (fsync,
 * unmounting).
 */
static int set_upper(int fs, const char *parent, bool discarded)
{
    char upper[64], work[64];
    snprintf(upper, sizeof upper, "%s/u", parent);
    snprintf(work, sizeof work, "%s/k", parent);
    if (sys_fsconfig(fs, FSCONFIG_SET_STRING, "upperdir", upper, 0) < 0 ||
        sys_fsconfig(fs, FSCONFIG_SET_STRING, "workdir", work, 0) < 0)
        return -errno;
    if (discarded && sys_fsconfig(fs, FSCONFIG_SET_FLAG, "volatile", NULL, 0) < 0)
        return -errno;
    return 0;
}

/*
 * Layers are named relative to the working folder, which is the store: no name needs escaping.
 * Without xino=on, which makes stat and readdir agree on the inode number of a folder: readdir then
 * looks every name up, and fails with ESTALE after a move in the person's folder.
 */
int carry_overlay(struct carry *c, const struct op *op)
{
    _cleanup_fd_ int fs = sys_fsopen("overlay", FSOPEN_CLOEXEC);
    if (fs < 0)
        return -errno;
    if (sys_fsconfig(fs, FSCONFIG_SET_STRING, "lowerdir", op->text, 0) < 0 ||
        sys_fsconfig(fs, FSCONFIG_SET_FLAG, "userxattr", NULL, 0) < 0)
        return -errno;
    int r = op->path ? set_upper(fs, op->path, op->flags != 0) : 0;
    return r < 0 ? r : make_mount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, &c->fds[op->slot]);
}

int carry_clone(struct carry *c, const struct op *op)
{
    unsigned recursive = op->recursive ? AT_RECURSIVE : 0;
    unsigned flags =
        OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_NO_AUTOMOUNT | recursive;
    _cleanup_fd_ int fd = sys_open_tree(carry_dir(c, op->from), op->path, flags);
    if (fd < 0)
        return op->optional && (errno == ENOENT || errno == ENOTDIR) ? 0 : -errno;
    struct mount_attr attr = {.attr_set = op->flags};
    if (weakened("mount-ro"))
        attr.attr_set &= ~(uint64_t)MOUNT_ATTR_RDONLY;
    if (attr.attr_set && sys_mount_setattr(fd, "", AT_EMPTY_PATH | recursive, &attr) < 0)
        return -errno;
    c->fds[op->slot] = TAKE_FD(fd);
    return 0;
}

/* The host may replace a file of its own at any time, and the kernel does not mount a deleted one.
 */
static bool is_deleted(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_nlink == 0;
}

/* An overlay keeps what it looked up in the live folder: a file that the person replaced by a
 * rename stays the old one. A change of its options, even to what they are, makes the kernel drop
 * what nobody has open. */
int carry_refresh(struct carry *c, const struct op *op)
{
    _cleanup_fd_ int fs =
        sys_fspick(carry_dir(c, op->from), op->path, FSPICK_CLOEXEC | FSPICK_NO_AUTOMOUNT);
    if (fs < 0)
        return -errno;
    return sys_fsconfig(fs, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0) < 0 ? -errno : 0;
}

int carry_attach(struct carry *c, const struct op *op)
{
    if (c->fds[op->slot] < 0)
        return op->optional ? 0 : -EBADF;
    unsigned flags = MOVE_MOUNT_F_EMPTY_PATH | (*op->path ? 0 : MOVE_MOUNT_T_EMPTY_PATH);
    if (sys_move_mount(c->fds[op->slot], "", carry_dir(c, op->to), op->path, flags) == 0)
        return 0;
    int code = errno;
    bool skip = op->optional || (op->replaceable && is_deleted(c->fds[op->slot]));
    return code == ENOENT && skip ? 0 : -code;
}

static int clone_onto(const char *source, int dir, const char *at, uint64_t attributes)
{
    _cleanup_fd_ int fd = sys_open_tree(
        AT_FDCWD, source, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_NO_AUTOMOUNT | AT_RECURSIVE);
    struct mount_attr attr = {.attr_set = attributes};
    if (weakened("mount-ro"))
        attr.attr_set &= ~(uint64_t)MOUNT_ATTR_RDONLY;
    if (fd < 0 || sys_mount_setattr(fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr) < 0 ||
        sys_move_mount(fd, "", dir, at, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    return 0;
}

/* The host may remove its own files at any time: what is gone is left out. */
int carry_show(struct carry *c, const struct op *op)
{
    int r = clone_onto(op->path, c->fds[SLOT_ROOT], op->path + 1, op->flags);
    return r == -ENOENT || r == -ENOTDIR ? 0 : r;
}

int carry_cover(struct carry *c, const struct op *op)
{
    const uint64_t attributes = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;
    int r = clone_onto("e", carry_dir(c, op->to), op->path, attributes);
    if (r == -EINVAL || r == -ENOTDIR) /* it is no folder */
        r = clone_onto("/dev/null", carry_dir(c, op->to), op->path, attributes);
    return r == -ENOENT ? 0 : r;
}

/*
 * The new root was stacked on the old one. pivot_root(".", ".") swaps them without needing a folder
 * for the old root, which then lies on top of the new one and is let go: detached, not waited for.
 */
int carry_pivot(struct carry *c, const struct op *op)
{
    if (fchdir(c->fds[op->slot]) < 0)
        return -errno;
    if (syscall(SYS_pivot_root, ".", ".") < 0)
        return -errno;
    if (umount2(".", MNT_DETACH) < 0)
        return -errno;
    return chdir("/") < 0 ? -errno : 0;
}
