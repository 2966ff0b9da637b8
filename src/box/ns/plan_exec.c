/*
 * Executes a plan: one function per kind of operation, called in the order of the list. The order
 * is the plan's; this file knows nothing about boxes. Everything here is async-signal-safe.
 *
 * Mounts are made by the new mount API: a mount is made or cloned detached, gets its attributes
 * while nobody can see it, and only then is attached. No path of a writable tree is ever resolved.
 *
 * In its last steps process 1 gives up every privilege, in an order in which each step is still
 * allowed and none can be undone, then becomes the guest:
 *
 *   nested user namespace   the box's mounts belong to the outer one: even a process that regained
 *                           capabilities in its own could change no mount; and the kernel counts
 *                           processes per namespace (RLIMIT_NPROC)
 *   capabilities            cleared from every set, so that no exec can bring one back
 *   no_new_privs            setuid and file-capability programs mean nothing; also what lets us
 *                           install filters
 *   Landlock                a second opinion on the file system that needs no mounts to be right
 *   seccomp                 last, since it forbids most of the above
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cleanup.h"
#include "plan.h"
#include "confine.h"
#include "io.h"
#include "network.h"
#include "outer_proc.h"
#include "sys.h"
#include "weaken.h"
#include "banned.h"

/* The directory a path of an operation starts from. */
static int plan_exec_dir(const struct plan_exec *c, int slot)
{
    return slot == SLOT_HOST ? AT_FDCWD : c->fds[slot];
}

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

static int op_tmpfs(struct plan_exec *c, const struct op *op)
{
    return new_mount("tmpfs", op->text, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, &c->fds[op->slot]);
}

int plan_exec_new_proc(int *ret_fd)
{
    return new_mount("proc", NULL, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
                     ret_fd);
}

static int op_proc(struct plan_exec *c, const struct op *op)
{
    if (weakened("pid")) {
        c->fds[op->slot] =
            sys_open_tree(AT_FDCWD, "/proc", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
        return c->fds[op->slot] < 0 ? -errno : 0;
    }
    if (c->outer_proc)
        return outer_proc_receive(c->outer_proc, &c->fds[op->slot]);
    return plan_exec_new_proc(&c->fds[op->slot]);
}

static int op_devpts(struct plan_exec *c, const struct op *op)
{
    return new_mount("devpts", op->text, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, &c->fds[op->slot]);
}

/* What a kernel was built without, or a container's rules forbid, a box can do without. */
static int op_kernel_fs(struct plan_exec *c, const struct op *op)
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
static int op_overlay(struct plan_exec *c, const struct op *op)
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

static int op_clone(struct plan_exec *c, const struct op *op)
{
    unsigned recursive = op->recursive ? AT_RECURSIVE : 0;
    unsigned flags =
        OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_NO_AUTOMOUNT | recursive;
    _cleanup_fd_ int fd = sys_open_tree(plan_exec_dir(c, op->from), op->path, flags);
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
static int op_refresh(struct plan_exec *c, const struct op *op)
{
    _cleanup_fd_ int fs =
        sys_fspick(plan_exec_dir(c, op->from), op->path, FSPICK_CLOEXEC | FSPICK_NO_AUTOMOUNT);
    if (fs < 0)
        return -errno;
    return sys_fsconfig(fs, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0) < 0 ? -errno : 0;
}

static int op_attach(struct plan_exec *c, const struct op *op)
{
    if (c->fds[op->slot] < 0)
        return op->optional ? 0 : -EBADF;
    unsigned flags = MOVE_MOUNT_F_EMPTY_PATH | (*op->path ? 0 : MOVE_MOUNT_T_EMPTY_PATH);
    if (sys_move_mount(c->fds[op->slot], "", plan_exec_dir(c, op->to), op->path, flags) == 0)
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
static int op_show(struct plan_exec *c, const struct op *op)
{
    int r = clone_onto(op->path, c->fds[SLOT_ROOT], op->path + 1, op->flags);
    return r == -ENOENT || r == -ENOTDIR ? 0 : r;
}

static int op_cover(struct plan_exec *c, const struct op *op)
{
    const uint64_t attributes = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;
    int r = clone_onto("e", plan_exec_dir(c, op->to), op->path, attributes);
    if (r == -EINVAL || r == -ENOTDIR) /* it is no folder */
        r = clone_onto("/dev/null", plan_exec_dir(c, op->to), op->path, attributes);
    return r == -ENOENT ? 0 : r;
}

/*
 * The new root was stacked on the old one. pivot_root(".", ".") swaps them without needing a folder
 * for the old root, which then lies on top of the new one and is let go: detached, not waited for.
 */
static int op_pivot(struct plan_exec *c, const struct op *op)
{
    if (fchdir(c->fds[op->slot]) < 0)
        return -errno;
    if (syscall(SYS_pivot_root, ".", ".") < 0)
        return -errno;
    if (umount2(".", MNT_DETACH) < 0)
        return -errno;
    return chdir("/") < 0 ? -errno : 0;
}

static int op_network(struct plan_exec *c, const struct op *op)
{
    return network_enter(c->network);
}

/* The socket belongs to the box's network; whoever accepts on it may be anywhere. */
static int op_listen(struct plan_exec *c, const struct op *op)
{
    _cleanup_fd_ int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0)
        return -errno;
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)op->flags),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(s, (struct sockaddr *)&at, sizeof at) < 0 || listen(s, 64) < 0)
        return -errno;
    c->fds[op->slot] = TAKE_FD(s);
    return 0;
}

/* The filters of many containers refuse it. The box then has the container's name: no secret, and
 * no way to change it. */
static int op_hostname(struct plan_exec *c, const struct op *op)
{
    return sethostname(op->text, strlen(op->text)) < 0 && errno != EPERM ? -errno : 0;
}

static int op_sysctl(struct plan_exec *c, const struct op *op)
{
    return io_write_file(c->fds[SLOT_PROC], op->path, op->text);
}

/* op->slot names a third descriptor to hand over, if it is set (the proxy's listening socket). */
static int op_handover(struct plan_exec *c, const struct op *op)
{
    _cleanup_fd_ int mounts = openat(c->fds[SLOT_PROC], "self/ns/mnt", O_RDONLY | O_CLOEXEC);
    if (mounts < 0)
        return -errno;
    int fds[3] = {c->fds[SLOT_STORE], mounts, op->slot > 0 ? c->fds[op->slot] : -1};
    ssize_t n = io_send_fds(c->control, "H", 1, fds, fds[2] >= 0 ? 3 : 2);
    return n < 0 ? (int)n : 0;
}

#define CONTROL_FD  3
#define LISTENER_FD 4

static int op_rlimit(struct plan_exec *c, const struct op *op)
{
    return confine_rlimit(op->from, op->flags);
}

/* The map of the nested namespace: the one id there is, to itself. Files of /proc/self are ours
 * only while dumpable. */
static int nest_user_namespace(struct plan_exec *c)
{
    if (unshare(CLONE_NEWUSER) < 0)
        return -errno;
    if (prctl(PR_SET_DUMPABLE, 1) < 0)
        return -errno;
    int proc = c->fds[SLOT_PROC], r;
    if ((r = io_write_file(proc, "self/setgroups", "deny")) < 0 ||
        (r = io_write_file(proc, "self/uid_map", "1000 1000 1")) < 0 ||
        (r = io_write_file(proc, "self/gid_map", "1000 1000 1")) < 0)
        return r;
    /* The kernel's own refusal of further user namespaces, beside the filter's. And what it counts
     * per user, of whom the box is one: a box must not use up what the person's own programs need.
     */
    if ((r = io_write_file(proc, "sys/user/max_user_namespaces", "0")) < 0 ||
        (r = io_write_file(proc, "sys/user/max_inotify_instances", "16")) < 0 ||
        (r = io_write_file(proc, "sys/user/max_inotify_watches", "16384")) < 0)
        return r;
    return 0;
}

/* flags: the capabilities that stay; none for a box, reading any file for a diff worker, which then
 * is not nested.
 */
static int op_confine(struct plan_exec *c, const struct op *op)
{
    int r = weakened("caps") || op->flags ? 0 : nest_user_namespace(c);
    if (r == 0)
        r = confine_capabilities(op->flags);
    return r < 0 ? r : confine_new_privileges();
}

static int op_landlock(struct plan_exec *c, const struct op *op)
{
    return confine_landlock(c->plan->rules, c->plan->n_rules, (unsigned)op->flags);
}

static int op_seccomp(struct plan_exec *c, const struct op *op)
{
    return confine_system_calls(op->flags & OP_SECCOMP_DIFF_WORKER ? SECCOMP_DIFF_WORKER
                                                                   : SECCOMP_BOX,
                                !(op->flags & OP_SECCOMP_NO_ALLOCATION), &c->listener);
}

/* Moves a descriptor to the number at which the guest looks for it. */
static int pass_on(int fd, int number)
{
    if (fd != number && dup2(fd, number) < 0)
        return -errno;
    return fcntl(number, F_SETFD, 0) < 0 ? -errno : 0;
}

/* Only the wire and the filter's listener go along: everything else is closed by the exec itself.
 */
static int op_exec(struct plan_exec *c, const struct op *op)
{
    bool heard = c->listener >= 0;
    int program = fcntl(c->fds[op->slot], F_DUPFD_CLOEXEC, LISTENER_FD + 1);
    int listener = heard ? fcntl(c->listener, F_DUPFD_CLOEXEC, LISTENER_FD + 1) : -1;
    if (program < 0 || (heard && listener < 0))
        return -errno;
    int r = pass_on(c->control, CONTROL_FD);
    if (r == 0 && heard)
        r = pass_on(listener, LISTENER_FD);
    if (r < 0)
        return r;
    if (!weakened("fds") &&
        (sys_close_range(0, CONTROL_FD - 1, 0) < 0 ||
         sys_close_range(heard ? LISTENER_FD + 1 : LISTENER_FD, ~0U, CLOSE_RANGE_CLOEXEC) < 0))
        return -errno;
    umask(022);
    char *argv[] = {(char *)"hutch-guest", (char *)(heard ? "listen" : op->text), NULL};
    char *none[] = {NULL};
    extern char **environ;
    syscall(SYS_execveat, program, "", argv, weakened("guest") ? environ : none, AT_EMPTY_PATH);
    return -errno;
}

static int op_mkdir(struct plan_exec *c, const struct op *op)
{
    if (mkdirat(plan_exec_dir(c, op->to), op->path, (mode_t)op->flags) < 0 && errno != EEXIST)
        return -errno;
    return 0;
}

static int op_symlink(struct plan_exec *c, const struct op *op)
{
    return symlinkat(op->text, plan_exec_dir(c, op->to), op->path) < 0 ? -errno : 0;
}

static int op_file(struct plan_exec *c, const struct op *op)
{
    _cleanup_fd_ int fd = openat(plan_exec_dir(c, op->to), op->path,
                                 O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, (mode_t)op->flags);
    if (fd < 0)
        return op->optional && errno == EEXIST ? 0 : -errno;
    return op->text ? io_write_all(fd, op->text, strlen(op->text)) : 0;
}

/* An overlay takes a device 0:0 of a layer for "deleted", and shows nothing of that name of the
 * layers below.
 */
static int op_hide(struct plan_exec *c, const struct op *op)
{
    int folder = plan_exec_dir(c, op->to);
    for (const char *name = op->text; *name; name += strlen(name) + 1) {
        char path[PATH_MAX];
        if ((size_t)snprintf(path, sizeof path, "%s/%s", op->path, name) >= sizeof path)
            return -ENAMETOOLONG;
        for (char *slash = strchr(path + strlen(op->path) + 1, '/'); slash;
             slash = strchr(slash + 1, '/')) {
            *slash = 0;
            if (mkdirat(folder, path, 0755) < 0 && errno != EEXIST)
                return -errno;
            *slash = '/';
        }
        if (mknodat(folder, path, S_IFCHR, 0) < 0)
            return -errno;
    }
    return 0;
}

static int op_mark(struct plan_exec *c, const struct op *op)
{
    _cleanup_fd_ int fd =
        openat(plan_exec_dir(c, op->to), op->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 || fsetxattr(fd, "user.overlay.opaque", "y", 1, 0) < 0 ? -errno : 0;
}

static int op_chdir(struct plan_exec *c, const struct op *op)
{
    return fchdir(c->fds[op->slot]) < 0 ? -errno : 0;
}

typedef int (*op_function)(struct plan_exec *c, const struct op *op);

static const op_function OPERATIONS[] = {
    [OP_TMPFS] = op_tmpfs,         [OP_PROC] = op_proc,         [OP_DEVPTS] = op_devpts,
    [OP_OVERLAY] = op_overlay,     [OP_CLONE] = op_clone,       [OP_ATTACH] = op_attach,
    [OP_REFRESH] = op_refresh,     [OP_MKDIR] = op_mkdir,       [OP_SYMLINK] = op_symlink,
    [OP_FILE] = op_file,           [OP_MARK] = op_mark,         [OP_CHDIR] = op_chdir,
    [OP_PIVOT] = op_pivot,         [OP_NETWORK] = op_network,   [OP_LISTEN] = op_listen,
    [OP_KERNEL_FS] = op_kernel_fs, [OP_SHOW] = op_show,         [OP_HIDE] = op_hide,
    [OP_COVER] = op_cover,         [OP_HOSTNAME] = op_hostname, [OP_HANDOVER] = op_handover,
    [OP_RLIMIT] = op_rlimit,       [OP_CONFINE] = op_confine,   [OP_LANDLOCK] = op_landlock,
    [OP_SECCOMP] = op_seccomp,     [OP_EXEC] = op_exec,         [OP_SYSCTL] = op_sysctl,
};

int plan_exec_stage(struct plan_exec *c, int stage)
{
    const struct plan *p = c->plan;
    const struct op *ops = stage == 0 ? p->stage0 : stage == 1 ? p->stage1 : p->stage2;
    size_t n = stage == 0 ? p->n_stage0 : stage == 1 ? p->n_stage1 : p->n_stage2;
    for (size_t i = 0; i < n; i++) {
        int r = OPERATIONS[ops[i].kind](c, &ops[i]);
        if (r < 0) {
            c->failure = (struct plan_failure){.stage = stage, .index = (int)i, .code = -r};
            return r;
        }
    }
    return 0;
}
