/* System calls that glibc or musl has no function for. hutch itself is linked with musl, the
 * library and the tests with glibc (see meson.build). */
#pragma once

#include <linux/fs.h>
#include <linux/mount.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif

static inline int sys_close_range(unsigned first, unsigned last, unsigned flags)
{
    return (int)syscall(SYS_close_range, first, last, flags);
}

/* A sixth argument, which the kernel ignores. In a box it marks renames by the guest itself, so
 * that the seccomp filter lets them pass without a notification (seccomp/policy.c). */
#define SYS_RENAME_MARK 0x68757463u

static inline int sys_renameat2(int from_dir, const char *from, int to_dir, const char *to,
                                unsigned flags)
{
    return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags, SYS_RENAME_MARK);
}

static inline int sys_open_tree(int dir, const char *path, unsigned flags)
{
    return (int)syscall(SYS_open_tree, dir, path, flags);
}

static inline int sys_move_mount(int from_dir, const char *from, int to_dir, const char *to,
                                 unsigned flags)
{
    return (int)syscall(SYS_move_mount, from_dir, from, to_dir, to, flags);
}

static inline int sys_mount_setattr(int dir, const char *path, unsigned flags,
                                    struct mount_attr *attr)
{
    return (int)syscall(SYS_mount_setattr, dir, path, flags, attr, sizeof *attr);
}

static inline int sys_fsopen(const char *type, unsigned flags)
{
    return (int)syscall(SYS_fsopen, type, flags);
}

static inline int sys_fspick(int dir, const char *path, unsigned flags)
{
    return (int)syscall(SYS_fspick, dir, path, flags);
}

static inline int sys_fsconfig(int fs, unsigned command, const char *key, const void *value,
                               int aux)
{
    return (int)syscall(SYS_fsconfig, fs, command, key, value, aux);
}

static inline int sys_fsmount(int fs, unsigned flags, unsigned attributes)
{
    return (int)syscall(SYS_fsmount, fs, flags, attributes);
}

static inline int sys_pidfd_open(pid_t pid, unsigned flags)
{
    return (int)syscall(SYS_pidfd_open, pid, flags);
}

static inline ssize_t sys_getdents64(int fd, void *entries, size_t size)
{
    return syscall(SYS_getdents64, fd, entries, size);
}
