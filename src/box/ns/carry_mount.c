/*
 * Mounts, by the new mount API: a mount is made or cloned detached, given its attributes while nobody can see
 * it, and only then attached. No path of a writable tree is ever resolved.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "carry.h"
#include "cleanup.h"
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

int carry_proc(struct carry *c, const struct op *op)
{
    if (weakened("pid")) {
        c->fds[op->slot] =
            sys_open_tree(AT_FDCWD, "/proc", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
        return c->fds[op->slot] < 0 ? -errno : 0;
    }
    return new_mount("proc", NULL, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
                     &c->fds[op->slot]);
}

int carry_devpts(struct carry *c, const struct op *op)
{
    return new_mount("devpts", op->text, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, &c->fds[op->slot]);
}

static int set_upper(int fs, const char *parent)
{
    char upper[64], work[64];
    snprintf(upper, sizeof upper, "%s/u", parent);
    snprintf(work, sizeof work, "%s/k", parent);
    if (sys_fsconfig(fs, FSCONFIG_SET_STRING, "upperdir", upper, 0) < 0 ||
        sys_fsconfig(fs, FSCONFIG_SET_STRING, "workdir", work, 0) < 0)
        return -errno;
    return 0;
}

/* Layers are named relative to the working folder, which is the store: no name needs escaping. */
int carry_overlay(struct carry *c, const struct op *op)
{
    _cleanup_fd_ int fs = sys_fsopen("overlay", FSOPEN_CLOEXEC);
    if (fs < 0)
        return -errno;
    if (sys_fsconfig(fs, FSCONFIG_SET_STRING, "lowerdir", op->text, 0) < 0 ||
        sys_fsconfig(fs, FSCONFIG_SET_FLAG, "userxattr", NULL, 0) < 0)
        return -errno;
    int r = op->path ? set_upper(fs, op->path) : 0;
    return r < 0 ? r : make_mount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, &c->fds[op->slot]);
}

int carry_clone(struct carry *c, const struct op *op)
{
    unsigned recursive = op->recursive ? AT_RECURSIVE : 0;
    unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_NO_AUTOMOUNT | recursive;
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

int carry_attach(struct carry *c, const struct op *op)
{
    if (c->fds[op->slot] < 0)
        return op->optional ? 0 : -EBADF;
    unsigned flags = MOVE_MOUNT_F_EMPTY_PATH | (*op->path ? 0 : MOVE_MOUNT_T_EMPTY_PATH);
    if (sys_move_mount(c->fds[op->slot], "", carry_dir(c, op->to), op->path, flags) < 0)
        return -errno;
    return 0;
}

/*
 * The new root was stacked on the old one. pivot_root(".", ".") swaps them without needing a folder for the
 * old root, which then lies on top of the new one and is let go: detached, not waited for.
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
