#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "buf.h"
#include "idmap.h"
#include "io.h"
#include "layout.h"
#include "sys.h"
#include "weaken.h"
#include "banned.h"

#define PREFERRED_ID 0x700003e8u /* above every range that distributions hand out */
#define STACK_SIZE   16384

/* Is `id` mapped in the namespace we are in? In a container only some are; then its highest one is ret_last.
 */
static bool id_is_mapped(const char *file, uint32_t id, uint32_t *ret_last)
{
    _cleanup_fclose_ FILE *f = fopen(file, "re");
    unsigned long inside, outside, count;
    uint32_t last = 0;
    while (f && fscanf(f, "%lu %lu %lu", &inside, &outside, &count) == 3) {
        if (count && id >= inside && id - inside < count)
            return true;
        if (count && inside + count - 1 > last)
            last = (uint32_t)(inside + count - 1);
    }
    *ret_last = last;
    return false;
}

int idmap_choose(struct idmap *ret, struct error *err)
{
    if (geteuid() != 0) {
        *ret = (struct idmap){.uid = geteuid(), .gid = getegid()};
        return 0;
    }
    uint32_t uid = PREFERRED_ID, gid = PREFERRED_ID, last;
    if (!id_is_mapped("/proc/self/uid_map", uid, &last))
        uid = last;
    if (!id_is_mapped("/proc/self/gid_map", gid, &last))
        gid = last;
    if (uid == 0 || gid == 0)
        return error_set(err, EPERM,
                         "root here has no second user id to give to a box; start hutch as an "
                         "ordinary user, or in a container with a range of ids");
    *ret = (struct idmap){.uid = uid, .gid = gid, .mapped = true};
    return 0;
}

struct holder {
    pid_t parent;
    int pipe;
};

/* Lives only until its namespace has been opened by the parent, whose memory it shares: it must touch
 * nothing. */
static int hold_namespace(void *data)
{
    const struct holder *h = data;
    char byte;
    syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
    if (syscall(SYS_getppid) == h->parent) /* it did not die before */
        syscall(SYS_read, h->pipe, &byte, 1);
    syscall(SYS_exit, 0);
    return 0;
}

static int write_map(pid_t pid, const char *file, const char *text, struct error *err)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    int r = io_write_file(AT_FDCWD, path, text);
    return r < 0 ? error_errno(err, -r, "cannot write the %s of a new user namespace", file) : 0;
}

static int write_maps(pid_t pid, uid_t uid_in, uid_t uid_out, gid_t gid_in, gid_t gid_out, struct error *err)
{
    char text[64];
    int r = geteuid() == 0 ? 0 : write_map(pid, "setgroups", "deny", err); /* what the kernel asks of users */
    if (r < 0)
        return r;
    snprintf(text, sizeof text, "%u %u 1", uid_in, uid_out);
    if ((r = write_map(pid, "uid_map", text, err)) < 0)
        return r;
    snprintf(text, sizeof text, "%u %u 1", gid_in, gid_out);
    return write_map(pid, "gid_map", text, err);
}

static int open_namespace(pid_t pid, int *ret_fd, struct error *err)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, errno, "cannot open the new user namespace");
    *ret_fd = fd;
    return 0;
}

/* A signal handler of the host's must not run in it, on the memory that they share. */
static pid_t start_holder(struct holder *h, void *stack)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pid_t pid = clone(hold_namespace, stack, CLONE_VM | CLONE_NEWUSER, h);
    int code = errno;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return pid < 0 ? -code : pid;
}

int idmap_user_namespace(uid_t uid_in, uid_t uid_out, gid_t gid_in, gid_t gid_out, int *ret_fd,
                         struct error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_errno(err, errno, "cannot make a pipe");
    _cleanup_fd_ int hold = ends[0];
    _cleanup_fd_ int release = ends[1];
    _cleanup_free_ char *stack = malloc(STACK_SIZE);
    if (!stack)
        return error_errno(err, ENOMEM, "cannot make a user namespace");
    /* CLONE_VM: no page table is copied for a process that does nothing. It is released by our byte, or by
     * our death: not by the end of the pipe, whose other end it has a copy of, as may a holder that another
     * thread starts. */
    struct holder h = {.parent = getpid(), .pipe = hold};
    pid_t pid = start_holder(&h, stack + STACK_SIZE);
    if (pid < 0)
        return error_errno(err, -pid, "cannot make a user namespace (hutch doctor tells more)");
    int fd = -1;
    int r = write_maps(pid, uid_in, uid_out, gid_in, gid_out, err);
    if (r == 0)
        r = open_namespace(pid, &fd, err);
    if (io_write_all(release, "x", 1) < 0)
        kill(pid, SIGKILL);
    while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
        ; /* its stack is ours to free only then */
    if (r < 0)
        return r;
    *ret_fd = fd;
    return 0;
}

static int set_attributes(int tree, unsigned recursive, uint64_t attributes, int userns)
{
    struct mount_attr attr = {.attr_set = attributes, .userns_fd = (uint64_t)userns};
    if (userns >= 0)
        attr.attr_set |= MOUNT_ATTR_IDMAP;
    return sys_mount_setattr(tree, "", AT_EMPTY_PATH | recursive, &attr) < 0 ? -errno : 0;
}

/* With what is mounted inside the folder if all of that can be id-mapped too, without it otherwise. */
static int clone_mapped(const char *path, uint64_t attributes, int userns, int *ret_fd)
{
    int r = -EINVAL;
    for (unsigned recursive = AT_RECURSIVE;; recursive = 0) {
        _cleanup_fd_ int tree =
            sys_open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | recursive);
        if (tree < 0)
            return -errno;
        r = set_attributes(tree, recursive, attributes, userns);
        if (r == 0)
            *ret_fd = TAKE_FD(tree);
        if (r == 0 || !recursive)
            return r;
    }
}

int idmap_folder(const char *path, const struct idmap *m, bool writable, int *ret_fd, struct error *err)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return error_errno(err, errno, "%s", path);
    _cleanup_fd_ int userns = -1;
    int r = idmap_user_namespace(st.st_uid, m->uid, st.st_gid, m->gid, &userns, err);
    if (r < 0)
        return r;
    bool read_only = !writable && !weakened("mount-ro");
    uint64_t attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (read_only ? MOUNT_ATTR_RDONLY : 0);
    r = clone_mapped(path, attributes, userns, ret_fd);
    if (r < 0)
        return error_errno(err, -r,
                           "%s cannot be shown to the box with other owners: its filesystem has no id-mapped "
                           "mounts (ext4, xfs and btrfs have them); start hutch as an ordinary user, or "
                           "use a folder elsewhere",
                           path);
    return 0;
}

int idmap_plain_clone(const char *path, int *ret_fd, struct error *err)
{
    int r = clone_mapped(path, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_RDONLY, -1, ret_fd);
    return r < 0 ? error_errno(err, -r, "cannot pick up %s", path) : 0;
}
