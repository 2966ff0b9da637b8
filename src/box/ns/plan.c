/*
 * Making a plan, and executing it: one case per kind of operation. The order of the operations is
 * the plan's; this file knows nothing about boxes. What executes is async-signal-safe.
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
#include <linux/futex.h>
#include <linux/sched.h>
#include <linux/sockios.h>
#include <linux/stat.h>
#include <net/if.h>
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cleanup.h"
#include "plan.h"
#include "io.h"
#include "sys.h"
#include "weaken.h"
#include "banned.h"

#define CONTROL_FD  3 /* where the guest looks for the wire, and for the filter's listener */
#define LISTENER_FD 4

int plan_init(struct plan *p)
{
    /* Not the lists themselves, of which only a part is ever touched: they are many pages. */
    p->n_stage0 = p->n_stage1 = p->n_stage2 = p->n_rules = p->strings_len = 0;
    p->next_slot = SLOT_FREE;
    p->overflow = false;
    for (int i = 0; i < SLOT_MAX; i++)
        p->fds[i] = -1;
    p->strings = malloc(PLAN_STRINGS_MAX);
    return p->strings ? 0 : -ENOMEM;
}

void plan_free(struct plan *p)
{
    free(p->strings);
    p->strings = NULL;
}

void plan_add(struct plan *p, int stage, struct op op)
{
    struct {
        struct op *ops;
        size_t *n, max;
    } stages[] = {{p->stage0, &p->n_stage0, ARRAY_SIZE(p->stage0)},
                  {p->stage1, &p->n_stage1, ARRAY_SIZE(p->stage1)},
                  {p->stage2, &p->n_stage2, ARRAY_SIZE(p->stage2)}};
    if (*stages[stage].n == stages[stage].max)
        p->overflow = true;
    else
        stages[stage].ops[(*stages[stage].n)++] = op;
}

const struct op *plan_stage(const struct plan *p, int stage, size_t *ret_n)
{
    *ret_n = stage == 0 ? p->n_stage0 : stage == 1 ? p->n_stage1 : p->n_stage2;
    return stage == 0 ? p->stage0 : stage == 1 ? p->stage1 : p->stage2;
}

int plan_slot(struct plan *p)
{
    if (p->next_slot < SLOT_MAX)
        return p->next_slot++;
    p->overflow = true;
    return SLOT_MAX - 1;
}

void plan_rule(struct plan *p, const char *path, enum landlock_class rights)
{
    if (p->n_rules == PLAN_RULES_MAX)
        p->overflow = true;
    else
        p->rules[p->n_rules++] = (struct landlock_rule){path, rights};
}

void plan_mkdir(struct plan *p, int to, const char *path, mode_t mode)
{
    plan_add(p, 2, (struct op){.kind = OP_MKDIR, .to = to, .path = path, .flags = mode});
}

void plan_file(struct plan *p, const char *path, const char *text)
{
    struct op op = {.kind = OP_FILE, .to = SLOT_STORE, .path = path, .text = text, .flags = 0644};
    plan_add(p, 2, op);
}

void plan_symlink(struct plan *p, const char *path, const char *target)
{
    plan_add(p, 2, (struct op){.kind = OP_SYMLINK, .to = SLOT_STORE, .path = path, .text = target});
}

void plan_attach(struct plan *p, int slot, int to, const char *path)
{
    struct op op = {.kind = OP_ATTACH, .slot = slot, .to = to, .path = path, .optional = true};
    plan_add(p, 2, op);
}

void plan_bind(struct plan *p, int from, const char *source, const char *at_in_root,
               uint64_t attributes)
{
    struct op op = {.kind = OP_BIND, .from = from, .text = source, .to = SLOT_ROOT};
    op.path = at_in_root;
    op.flags = attributes;
    op.recursive = op.optional = true;
    plan_add(p, 2, op);
}

const char *plan_text(struct plan *p, const char *fmt, ...)
{
    char *at = p->strings + p->strings_len;
    size_t room = PLAN_STRINGS_MAX - p->strings_len;
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(at, room, fmt, args);
    va_end(args);
    if (n < 0 || (size_t)n >= room) {
        p->overflow = true;
        return "";
    }
    p->strings_len += (size_t)n + 1;
    return at;
}

const char *plan_bytes(struct plan *p, const char *bytes, size_t n)
{
    char *at = p->strings + p->strings_len;
    if (n > PLAN_STRINGS_MAX - p->strings_len) {
        p->overflow = true;
        return "\0";
    }
    memcpy(at, bytes, n);
    p->strings_len += n;
    return at;
}

/* The directory that a path of an operation starts from. */
static int plan_exec_dir(const struct plan_exec *c, int slot)
{
    return slot == SLOT_HOST ? AT_FDCWD : c->fds[slot];
}

/* Options are "key=value,key=value" or bare "key". */
static int op_mount(struct plan_exec *c, const struct op *op)
{
    char text[256];
    _cleanup_fd_ int fs = sys_fsopen(op->path, FSOPEN_CLOEXEC);
    if (fs < 0)
        return op->optional ? 0 : -errno;
    if ((size_t)snprintf(text, sizeof text, "%s", op->text ? op->text : "") >= sizeof text)
        return -E2BIG;
    for (char *key = text, *next; key && *key; key = next) {
        next = strchr(key, ',');
        if (next)
            *next++ = 0;
        char *value = strchr(key, '=');
        if (value)
            *value++ = 0;
        if (sys_fsconfig(fs, value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG, key, value, 0) < 0)
            return -errno;
    }
    int fd = -1;
    if (sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
        fd = sys_fsmount(fs, FSMOUNT_CLOEXEC, (unsigned)op->flags | MOUNT_ATTR_NOSUID);
    if (fd < 0)
        return op->optional ? 0 : -errno;
    c->fds[op->slot] = fd;
    return 0;
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
    return op_mount(c, &(struct op){.path = "proc",
                                    .slot = op->slot,
                                    .flags = MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC});
}

/*
 * Layers are named relative to the working folder, which is the store: no name needs escaping.
 * Without xino=on, which makes stat and readdir agree on the inode number of a folder: readdir then
 * looks every name up, and fails with ESTALE after a move in the person's folder.
 */
static int op_overlay(struct plan_exec *c, const struct op *op)
{
    char upper[64], work[64];
    _cleanup_fd_ int fs = sys_fsopen("overlay", FSOPEN_CLOEXEC);
    if (fs < 0)
        return -errno;
    if (sys_fsconfig(fs, FSCONFIG_SET_STRING, "lowerdir", op->text, 0) < 0 ||
        sys_fsconfig(fs, FSCONFIG_SET_FLAG, "userxattr", NULL, 0) < 0)
        return -errno;
    if (op->path) {
        snprintf(upper, sizeof upper, "%s/u", op->path);
        snprintf(work, sizeof work, "%s/k", op->path);
        /* volatile: the files end with the box, so nothing waits for them to reach the disk. */
        if (sys_fsconfig(fs, FSCONFIG_SET_STRING, "upperdir", upper, 0) < 0 ||
            sys_fsconfig(fs, FSCONFIG_SET_STRING, "workdir", work, 0) < 0 ||
            (op->flags && sys_fsconfig(fs, FSCONFIG_SET_FLAG, "volatile", NULL, 0) < 0))
            return -errno;
    }
    if (sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    int fd = sys_fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (fd < 0)
        return -errno;
    c->fds[op->slot] = fd;
    return 0;
}

static int clone_tree(int dir, const char *path, bool with_inner, uint64_t attributes, int *ret_fd)
{
    unsigned recursive = with_inner ? AT_RECURSIVE : 0;
    _cleanup_fd_ int fd = sys_open_tree(dir, path,
                                        OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH |
                                            AT_NO_AUTOMOUNT | recursive);
    struct mount_attr attr = {.attr_set = attributes};
    if (weakened("mount-ro"))
        attr.attr_set &= ~(uint64_t)MOUNT_ATTR_RDONLY;
    if (fd < 0 ||
        (attr.attr_set && sys_mount_setattr(fd, "", AT_EMPTY_PATH | recursive, &attr) < 0))
        return -errno;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

static int attach_tree(int fd, int dir, const char *path)
{
    unsigned flags = MOVE_MOUNT_F_EMPTY_PATH | (*path ? 0 : MOVE_MOUNT_T_EMPTY_PATH);
    return sys_move_mount(fd, "", dir, path, flags) < 0 ? -errno : 0;
}

/* The host may remove its own files at any time: an optional operation leaves out what is gone. */
static int skip_missing(const struct op *op, int r)
{
    return op->optional && (r == -ENOENT || r == -ENOTDIR) ? 0 : r;
}

static int op_bind(struct plan_exec *c, const struct op *op)
{
    _cleanup_fd_ int fd = -1;
    int r = clone_tree(plan_exec_dir(c, op->from), op->text, op->recursive, op->flags, &fd);
    if (r == 0)
        r = attach_tree(fd, plan_exec_dir(c, op->to), op->path);
    return skip_missing(op, r);
}

/* "e" is the store's empty folder. A folder does not fit over a file: that gets a device. */
static int op_cover(struct plan_exec *c, const struct op *op)
{
    struct op bind = {.from = SLOT_STORE, .text = "e", .to = op->to, .path = op->path};
    bind.flags = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;
    int r = op_bind(c, &bind);
    if (r == -EINVAL || r == -ENOTDIR) {
        bind.from = SLOT_HOST;
        bind.text = "/dev/null";
        r = op_bind(c, &bind);
    }
    return op->optional && r == -ENOENT ? 0 : r;
}

/* An overlay takes a device 0:0 of a layer for "deleted", and shows nothing of that name from the
 * layers below. */
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

/*
 * The new root was stacked on the old one. pivot_root(".", ".") swaps them without needing a folder
 * for the old root, which then lies on top of the new one and is detached.
 */
static int op_pivot(struct plan_exec *c, const struct op *op)
{
    if (fchdir(c->fds[op->slot]) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
        umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return -errno;
    return 0;
}

/* The socket belongs to the box's network namespace; the host accepts on it. */
static int op_listen(struct plan_exec *c, const struct op *op)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)op->flags),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    _cleanup_fd_ int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0 || bind(s, (struct sockaddr *)&at, sizeof at) < 0 || listen(s, 64) < 0)
        return -errno;
    c->fds[op->slot] = TAKE_FD(s);
    return 0;
}

static int op_handover(struct plan_exec *c, const struct op *op)
{
    _cleanup_fd_ int mounts = openat(c->fds[SLOT_PROC], "self/ns/mnt", O_RDONLY | O_CLOEXEC);
    if (mounts < 0)
        return -errno;
    int fds[3] = {c->fds[SLOT_STORE], mounts, op->slot > 0 ? c->fds[op->slot] : -1};
    ssize_t n = io_send_fds(c->control, "H", 1, fds, fds[2] >= 0 ? 3 : 2);
    return n < 0 ? (int)n : 0;
}

/* flags: the capabilities that stay; none for a box, reading any file for a diff worker, which is
 * not nested then. */
static int op_confine(struct plan_exec *c, const struct op *op)
{
    /* The nested namespace maps the one id there is to itself. The kernel's own refusal of further
     * user namespaces stands beside the filter's. And what it counts per user, of whom the box is
     * one: a box must not use up what the person's own programs need. */
    static const char *const NESTED[][2] = {{"self/setgroups", "deny"},
                                            {"self/uid_map", "1000 1000 1"},
                                            {"self/gid_map", "1000 1000 1"},
                                            {"sys/user/max_user_namespaces", "0"},
                                            {"sys/user/max_inotify_instances", "16"},
                                            {"sys/user/max_inotify_watches", "16384"}};
    if (!weakened("caps") && !op->flags) {
        /* Files of /proc/self are ours only while we are dumpable. */
        if (unshare(CLONE_NEWUSER) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0)
            return -errno;
        for (size_t i = 0; i < ARRAY_SIZE(NESTED); i++) {
            int r = io_write_file(c->fds[SLOT_PROC], NESTED[i][0], NESTED[i][1]);
            if (r < 0)
                return r;
        }
    }
    int r = confine_capabilities(op->flags);
    return r < 0 ? r : confine_new_privileges();
}

/* Only the wire and the filter's listener go along: the exec closes everything else. */
static int op_exec(struct plan_exec *c, const struct op *op)
{
    bool listens = c->listener >= 0;
    int program = fcntl(c->fds[op->slot], F_DUPFD_CLOEXEC, LISTENER_FD + 1);
    int listener = listens ? fcntl(c->listener, F_DUPFD_CLOEXEC, LISTENER_FD + 1) : -1;
    if (program < 0 || (listens && listener < 0))
        return -errno;
    if ((c->control != CONTROL_FD && dup2(c->control, CONTROL_FD) < 0) ||
        fcntl(CONTROL_FD, F_SETFD, 0) < 0 || (listens && dup2(listener, LISTENER_FD) < 0))
        return -errno;
    if (!weakened("fds") &&
        (sys_close_range(0, CONTROL_FD - 1, 0) < 0 ||
         sys_close_range(listens ? LISTENER_FD + 1 : LISTENER_FD, ~0U, CLOSE_RANGE_CLOEXEC) < 0))
        return -errno;
    umask(022);
    char *argv[] = {(char *)"hutch-guest", (char *)(listens ? "listen" : op->text), NULL};
    char *none[] = {NULL};
    extern char **environ;
    syscall(SYS_execveat, program, "", argv, weakened("guest") ? environ : none, AT_EMPTY_PATH);
    return -errno;
}

static int plan_exec_op(struct plan_exec *c, const struct op *op)
{
    const int to = plan_exec_dir(c, op->to), from = plan_exec_dir(c, op->from);
    _cleanup_fd_ int fd = -1;
    int r = 0;

    switch (op->kind) {
    case OP_MOUNT:
        return op_mount(c, op);
    case OP_PROC:
        return op_proc(c, op);
    case OP_OVERLAY:
        return op_overlay(c, op);
    case OP_CLONE:
        r = clone_tree(from, op->path, op->recursive, op->flags, &c->fds[op->slot]);
        return skip_missing(op, r);
    case OP_ATTACH:
        if (c->fds[op->slot] < 0)
            return op->optional ? 0 : -EBADF;
        return skip_missing(op, attach_tree(c->fds[op->slot], to, op->path));
    case OP_BIND:
        return op_bind(c, op);
    case OP_REFRESH:
        /* An overlay keeps what it looked up in the live folder: a file that the person replaced by
         * a rename stays the old one. A change of its options, even to what they are, makes the
         * kernel drop what nobody has open. */
        fd = sys_fspick(from, op->path, FSPICK_CLOEXEC | FSPICK_NO_AUTOMOUNT);
        r = fd < 0 ? -1 : sys_fsconfig(fd, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0);
        break;
    case OP_COVER:
        return op_cover(c, op);
    case OP_HIDE:
        return op_hide(c, op);
    case OP_MKDIR:
        r = mkdirat(to, op->path, (mode_t)op->flags);
        return r < 0 && errno != EEXIST ? -errno : 0;
    case OP_SYMLINK:
        r = symlinkat(op->text, to, op->path);
        break;
    case OP_FILE:
        fd = openat(to, op->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, (mode_t)op->flags);
        if (fd < 0)
            return op->optional && errno == EEXIST ? 0 : -errno;
        return op->text ? io_write_all(fd, op->text, strlen(op->text)) : 0;
    case OP_MARK:
        fd = openat(to, op->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        r = fd < 0 ? -1 : fsetxattr(fd, "user.overlay.opaque", "y", 1, 0);
        break;
    case OP_CHDIR:
        r = fchdir(c->fds[op->slot]);
        break;
    case OP_PIVOT:
        return op_pivot(c, op);
    case OP_NETWORK:
        return network_enter(c->network);
    case OP_LISTEN:
        return op_listen(c, op);
    case OP_HOSTNAME:
        /* The filters of many containers refuse it. The box then has the container's name: no
         * secret, and no way to change it. */
        r = sethostname(op->text, strlen(op->text));
        return r < 0 && errno != EPERM ? -errno : 0;
    case OP_HANDOVER:
        return op_handover(c, op);
    case OP_SYSCTL:
        return io_write_file(c->fds[SLOT_PROC], op->path, op->text);
    case OP_RLIMIT:
        return confine_rlimit((int)op->slot, op->flags);
    case OP_CONFINE:
        return op_confine(c, op);
    case OP_LANDLOCK:
        return confine_landlock(c->plan->rules, c->plan->n_rules, (unsigned)op->flags);
    case OP_SECCOMP:
        return confine_system_calls(op->flags & OP_SECCOMP_DIFF_WORKER ? SECCOMP_DIFF_WORKER
                                                                       : SECCOMP_BOX,
                                    !(op->flags & OP_SECCOMP_NO_ALLOCATION), &c->listener);
    case OP_EXEC:
        return op_exec(c, op);
    case OP_KINDS:
        return -EINVAL;
    }
    return r < 0 ? -errno : 0;
}

static const char *const OP_WORDS[OP_KINDS] = {
    [OP_MOUNT] = "mount a new",
    [OP_PROC] = "mount /proc",
    [OP_OVERLAY] = "mount the overlay",
    [OP_CLONE] = "pick up",
    [OP_ATTACH] = "mount at",
    [OP_BIND] = "show",
    [OP_REFRESH] = "refresh the overlay",
    [OP_COVER] = "cover",
    [OP_HIDE] = "hide entries in",
    [OP_MKDIR] = "make the folder",
    [OP_SYMLINK] = "make the link",
    [OP_FILE] = "make the file",
    [OP_MARK] = "mark a folder of the overlay (user xattrs on a tmpfs)",
    [OP_CHDIR] = "enter the store",
    [OP_PIVOT] = "change the root",
    [OP_NETWORK] = "make the empty network",
    [OP_LISTEN] = "listen for the network proxy",
    [OP_HOSTNAME] = "set the host name",
    [OP_HANDOVER] = "hand the store to the host",
    [OP_SYSCTL] = "set the kernel setting",
    [OP_RLIMIT] = "set a resource limit",
    [OP_CONFINE] = "drop all privileges",
    [OP_LANDLOCK] = "apply Landlock",
    [OP_SECCOMP] = "install the system call filter",
    [OP_EXEC] = "start the guest",
};

void plan_describe(const struct op *op, char *text, size_t size)
{
    const char *path = op->path ? op->path : "";
    snprintf(text, size, "%s%s%s", OP_WORDS[op->kind], *path ? " " : "", path);
}

int plan_exec_stage(struct plan_exec *c, int stage)
{
    size_t n;
    const struct op *ops = plan_stage(c->plan, stage, &n);
    for (size_t i = 0; i < n; i++) {
        int r = plan_exec_op(c, &ops[i]);
        if (r < 0) {
            c->failure = (struct plan_failure){.stage = stage, .index = (int)i, .code = -r};
            return r;
        }
    }
    return 0;
}

#define HELPER_PID 300 /* below the smallest pid_max */

/* Makes the namespace with lo up; the socket that does it also leads to the namespace that it is
 * in, without any /proc. */
static int network_make(struct network *n)
{
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    if (unshare(CLONE_NEWNET) < 0)
        return errno;
    int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (s < 0 || ioctl(s, SIOCSIFFLAGS, &lo) < 0)
        return errno;
    n->fd = ioctl(s, SIOCGSKNS);
    return n->fd < 0 ? errno : 0;
}

static int network_main(void *data)
{
    struct network *n = data;
    n->error = network_make(n);
    __atomic_store_n(&n->ready, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &n->ready, FUTEX_WAKE, 1, NULL, NULL, 0);
    syscall(SYS_exit, 0);
    return 0;
}

int network_start(struct network *n)
{
    n->pid = clone(network_main, n->stack + sizeof n->stack, CLONE_VM | CLONE_FILES, n);
    return n->pid < 0 ? -errno : 0;
}

int network_enter(struct network *n)
{
    while (!__atomic_load_n(&n->ready, __ATOMIC_ACQUIRE))
        syscall(SYS_futex, &n->ready, FUTEX_WAIT, 0, NULL, NULL, 0);
    if (n->error)
        return -n->error;
    return setns(n->fd, CLONE_NEWNET) < 0 ? -errno : 0;
}

void network_finish(struct network *n)
{
    while (n->pid > 0 && waitpid(n->pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
}

/* What container runtimes cover: the OCI runtime specification's maskedPaths and readonlyPaths. */
static const char *const COVERED[] = {
    "/proc/sys",           "/proc/bus",    "/proc/fs",         "/proc/irq",
    "/proc/sysrq-trigger", "/proc/kcore",  "/proc/keys",       "/proc/acpi",
    "/proc/scsi",          "/proc/asound", "/proc/timer_list", "/proc/latency_stats",
};

bool outer_proc_is_masked(void)
{
    struct statx st;
    for (size_t i = 0; i < ARRAY_SIZE(COVERED); i++)
        if (syscall(SYS_statx, AT_FDCWD, COVERED[i], AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, 0,
                    &st) == 0 &&
            st.stx_attributes & STATX_ATTR_MOUNT_ROOT)
            return true;
    return false;
}

/* In the pid namespace of the box, with root's rights: only to mount. Nobody in the box can trace
 * it, since no command runs there yet. Sends 0 and the mount, or a negative errno. */
static void outer_proc_mount(int socket)
{
    int code = 0, fd = -1;
    int fs = sys_fsopen("proc", FSOPEN_CLOEXEC);
    if (fs >= 0 && sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
        fd = sys_fsmount(fs, FSMOUNT_CLOEXEC,
                         MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    if (fd < 0)
        code = -errno;
    io_send_fds(socket, &code, sizeof code, &fd, fd >= 0 ? 1 : 0);
    syscall(SYS_exit_group, 0);
}

static void outer_proc_main(int socket)
{
    char byte;
    int pidns = -1, code = 0;
    size_t n = 0;
    pid_t pid = -1, number = HELPER_PID; /* far away: the next one, 2, is for the guest's thread */
    struct clone_args args = {.set_tid = (uint64_t)(uintptr_t)&number, .set_tid_size = 1};

    if (io_recv_fds(socket, &byte, 1, &pidns, 1, &n, 0) != 1 || n != 1)
        syscall(SYS_exit_group, 0);
    if (setns(pidns, CLONE_NEWPID) == 0)
        pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0)
        outer_proc_mount(socket);
    if (pid < 0) {
        code = -errno;
        io_send_fds(socket, &code, sizeof code, NULL, 0);
    }
    while (pid > 0 && waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
    syscall(SYS_exit_group, 0);
}

int outer_proc_start(struct outer_proc *p)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return -errno;
    pid_t pid = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);
    if (pid == 0) {
        close(ends[0]); /* so that the end of the others is noticed */
        outer_proc_main(ends[1]);
    }
    int code = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return -code;
    }
    *p = (struct outer_proc){.pid = pid, .socket = ends[0]};
    return 0;
}

int outer_proc_receive(const struct outer_proc *p, int *ret_fd)
{
    _cleanup_fd_ int self = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
    if (self < 0)
        return -errno;
    ssize_t done = io_send_fds(p->socket, "P", 1, &self, 1);
    if (done < 0)
        return (int)done;
    int code = -EPROTO, fd = -1;
    size_t n = 0;
    ssize_t got = io_recv_fds(p->socket, &code, sizeof code, &fd, 1, &n, 0);
    if (got < 0)
        return (int)got;
    if (got != sizeof code || code < 0 || n != 1)
        return got == sizeof code && code < 0 ? code : -EPROTO;
    *ret_fd = fd;
    return 0;
}

void outer_proc_finish(struct outer_proc *p)
{
    if (p->socket < 0)
        return;
    close(p->socket);
    while (waitpid(p->pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
    p->socket = -1;
}
