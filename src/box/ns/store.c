#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/quota.h>
#include <linux/sched.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "box.h"
#include "box_host.h"
#include "io.h"
#include "store.h"
#include "sys.h"
#include "weaken.h"
#include "wire.h"
#include "banned.h"

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif
#define FLOOR_BYTES    (1ULL << 30) /* the store process leaves as much free, or 5 % if less */
#define REMOVE_MS      120000
#define NAMES_MS       100 /* a diff worker, which tells for certain, starts within this time */
#define NAME_TRIES     16
#define CONTROL        3
#define QUOTA_NEARLY   (1u << 20)  /* a store with less left counts as full */
#define PROJECTS_FIRST 0x71000000u /* above what administrators number by hand */
#define PROJECTS_COUNT 0x01000000u
#ifndef SYS_quotactl_fd
#define SYS_quotactl_fd 443 /* the same number on every architecture */
#endif
#define QUOTA_BLOCK 1024

/* The store process, and what all stores of one family share. */
struct store_family {
    unsigned refs;
    pid_t pid;
    int pidfd, socket;
    int parent; /* the folder that holds the stores */
    char *path; /* of it */
    struct idmap ids;
};

struct store {
    unsigned refs;
    struct store_family *family;
    struct store *source; /* whose layers this one stands on; NULL: none */
    char name[STORE_NAME_SIZE];
    char *path;
    int folder; /* with the lock */
    int mount;
    uint64_t disk;
    uint32_t project; /* its number for the quota; 0: none */
    struct store_state *state;
};

/* Told by a descriptor, since the device of a filesystem need not have a name here. */
static int quota_set_limits(int fd, uint32_t project, uint64_t bytes, uint64_t inodes)
{
    struct if_dqblk limits = {.dqb_bhardlimit = bytes / QUOTA_BLOCK,
                              .dqb_bsoftlimit = bytes / QUOTA_BLOCK,
                              .dqb_ihardlimit = inodes,
                              .dqb_isoftlimit = inodes,
                              .dqb_valid = QIF_LIMITS};
    return (int)syscall(SYS_quotactl_fd, fd, QCMD((unsigned)Q_SETQUOTA, PRJQUOTA), project,
                        &limits);
}

static void quota_clear(int on_filesystem, uint32_t project)
{
    quota_set_limits(on_filesystem, project, 0, 0);
}

/* Limits everything that will be made in the folder, by a project quota of ext4 or xfs: where the
 * host has them enabled and hutch is started by root. Returns the number of its project, 0 without
 * quotas. */
static uint32_t quota_set(int folder, uint64_t bytes, uint64_t inodes)
{
    struct fsxattr attributes;
    uint32_t number;
    if (weakened("disk") || getrandom(&number, sizeof number, 0) != sizeof number ||
        ioctl(folder, FS_IOC_FSGETXATTR, &attributes) < 0)
        return 0;
    number = PROJECTS_FIRST + number % PROJECTS_COUNT;
    attributes.fsx_projid = number;
    attributes.fsx_xflags |= FS_XFLAG_PROJINHERIT;
    if (quota_set_limits(folder, number, bytes, inodes) < 0)
        return 0;
    if (ioctl(folder, FS_IOC_FSSETXATTR, &attributes) < 0) {
        quota_clear(folder, number);
        return 0;
    }
    return number;
}

static int store_error(struct error *err, int code, const char *what, const char *path)
{
    return error_errno(err, code, "cannot %s %s", what, path);
}

/* Filesystems on which an overlay can have its upper layer, with user xattrs. NFS, overlay, ZFS and
 * others cannot. */
static bool filesystem_fits(int folder, struct statfs *ret)
{
    if (fstatfs(folder, ret) < 0)
        return false;
    switch ((unsigned long)ret->f_type) {
    case EXT4_SUPER_MAGIC:
    case XFS_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC:
        return true;
    default:
        return false;
    }
}

/* Opens the folder of all stores, and makes it if it is missing. Nobody but its owner may enter
 * it. */
static int parent_open(char **ret_path, int *ret_fd, struct statfs *ret_fs, struct error *err)
{
    struct stat st;
    const char *named = getenv("HUTCH_STORE");
    _cleanup_free_ char *path = named && *named ? strdup(named) : ownfile_state_path("store");
    if (!path || path[0] != '/')
        return error_set(err, EINVAL,
                         "boxes have no folder on disk: set HUTCH_STORE to an absolute path");
    int r = ownfile_make_folders(path);
    if (r < 0)
        return store_error(err, -r, "make the folder", path);
    _cleanup_fd_ int fd = -1;
    r = ownfile_open_folder(path, &fd, err);
    if (r < 0)
        return r;
    if (fstat(fd, &st) < 0 || st.st_uid != geteuid() || st.st_mode & 077)
        return error_set(
            err, EPERM,
            "%s holds the files of boxes and is open to other users; run 'chmod 700' on it", path);
    if (!filesystem_fits(fd, ret_fs))
        return error_set(
            err, EOPNOTSUPP,
            "%s is on a filesystem that cannot hold the files of a box; set HUTCH_STORE to a "
            "folder on ext4, xfs or btrfs",
            path);
    *ret_path = TAKE_PTR(path);
    *ret_fd = TAKE_FD(fd);
    return 0;
}

static uint64_t room_on(const struct statfs *fs)
{
    uint64_t unit = (uint64_t)fs->f_bsize, total = fs->f_blocks * unit,
             free_bytes = fs->f_bavail * unit;
    uint64_t least = total / 20 < FLOOR_BYTES ? total / 20 : FLOOR_BYTES;
    return free_bytes > least ? free_bytes - least : 0;
}

int store_check(uint64_t *ret_bytes, struct error *err)
{
    struct statfs fs;
    _cleanup_free_ char *path = NULL;
    _cleanup_fd_ int fd = -1;
    int r = parent_open(&path, &fd, &fs, err);
    if (r == 0)
        *ret_bytes = room_on(&fs);
    return r;
}

/* It sends no SIGCHLD, so that a program which waits for any child of its own is not confused. */
static int family_start_process(struct store_family *f, struct error *err)
{
    static char *const ARGV[] = {(char *)"box-store", (char *)"store", NULL}, *const ENV[] = {NULL};
    char program[LIBEXEC_PATH_MAX];
    int ends[2], r = libexec_find("hutch-guest", program, err);
    if (r < 0)
        return r;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return error_errno(err, errno, "cannot make a socket");
    f->socket = ends[0];
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    struct clone_args args = {.flags = CLONE_PIDFD, .pidfd = (uint64_t)(uintptr_t)&f->pidfd};
    f->pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    if (f->pid ==
        0) { /* system calls only: the memory is a copy of a program's that may have threads */
        if (ends[1] == CONTROL ? fcntl(CONTROL, F_SETFD, 0) == 0
                               : dup2(ends[1], CONTROL) == CONTROL)
            execve(program, ARGV, ENV);
        syscall(SYS_exit_group, 1);
    }
    r = f->pid < 0 ? -errno : 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    close(ends[1]);
    return r < 0 ? error_errno(err, -r, "cannot start the process that watches a store") : 0;
}

static int family_send(const struct store_family *f, const struct store_message *m, const int *fds,
                       size_t n)
{
    ssize_t sent = io_send_fds(f->socket, m, sizeof *m, fds, n);
    return sent < 0 ? (int)sent : 0;
}

/* With the last reference the process removes what is left, and ends. */
static void family_unref(struct store_family *f)
{
    if (!f || __atomic_sub_fetch(&f->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    cleanup_close(&f->socket);
    if (f->pid > 0) {
        struct pollfd end = {.fd = f->pidfd, .events = POLLIN};
        siginfo_t info;
        while (poll(&end, 1, REMOVE_MS) < 0 && errno == EINTR)
            ;
        waitid(P_PIDFD, (id_t)f->pidfd, &info, WEXITED | WNOHANG | __WALL);
    }
    cleanup_close(&f->pidfd);
    cleanup_close(&f->parent);
    free(f->path);
    free(f);
}

static int family_new(const struct store_options *o, struct store_family **ret, struct error *err)
{
    struct store_family *f = calloc(1, sizeof *f);
    struct statfs fs;
    if (!f)
        return error_errno(err, ENOMEM, "the box did not start");
    *f = (struct store_family){.refs = 1, .pidfd = -1, .socket = -1, .parent = -1, .ids = *o->ids};
    int r = parent_open(&f->path, &f->parent, &fs, err);
    if (r == 0 && o->disk > room_on(&fs))
        r = error_set(err, ENOSPC,
                      "--disk: %s has room for %lluM; free some space, or ask for less", f->path,
                      (unsigned long long)(room_on(&fs) >> 20));
    if (r == 0)
        r = family_start_process(f, err);
    if (r == 0) {
        const struct store_message m = {.op = STORE_SETUP};
        const int fds[] = {f->parent, o->userns};
        r = family_send(f, &m, fds, o->ids->mapped ? 1 : 2);
        if (r < 0)
            error_errno(err, -r, "cannot reach the process that watches a store");
    }
    if (r < 0)
        family_unref(f);
    else
        *ret = f;
    return r;
}

/* A new folder and its lock. A sweep of another process may take it for abandoned in between: then
 * another name is tried. */
static int make_folder(struct store *s)
{
    for (int i = 0; i < NAME_TRIES; i++) {
        uint64_t number;
        struct stat st;
        if (getrandom(&number, sizeof number, 0) != sizeof number)
            return -EIO;
        snprintf(s->name, sizeof s->name, STORE_PREFIX "%016llx", (unsigned long long)number);
        if (mkdirat(s->family->parent, s->name, 0700) < 0) {
            if (errno == EEXIST)
                continue;
            return -errno;
        }
        _cleanup_fd_ int fd =
            openat(s->family->parent, s->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &st) == 0 &&
            st.st_nlink > 0) {
            s->folder = TAKE_FD(fd);
            return 0;
        }
    }
    return -EAGAIN;
}

/* As root the box's own id owns the folder, and the host hands it over as a mount: the box's
 * launcher, which has that id already, cannot walk to it. */
static int make_owned(struct store *s)
{
    const struct idmap *ids = &s->family->ids;
    if (!ids->mapped)
        return 0;
    if (fchown(s->folder, ids->uid, ids->gid) < 0)
        return -errno;
    _cleanup_fd_ int tree =
        sys_open_tree(s->folder, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
    if (tree < 0 || sys_mount_setattr(tree, "", AT_EMPTY_PATH, &attr) < 0)
        return -errno;
    s->mount = TAKE_FD(tree);
    s->project = quota_set(s->folder, s->disk, STORE_INODES(s->disk));
    return 0;
}

static int start_watch(struct store *s)
{
    _cleanup_fd_ int shared = memfd_create("hutch-store", MFD_CLOEXEC);
    if (shared < 0 || ftruncate(shared, sizeof *s->state) < 0)
        return -errno;
    void *state = mmap(NULL, sizeof *s->state, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
    if (state == MAP_FAILED)
        return -errno;
    s->state = state;
    struct store_message m = {
        .op = STORE_ADD, .bytes_max = s->disk, .inodes_max = STORE_INODES(s->disk)};
    memcpy(m.name, s->name, sizeof m.name);
    const int fds[] = {s->folder, shared};
    return family_send(s->family, &m, fds, ARRAY_SIZE(fds));
}

/* The store takes over the references to its family and its source. */
static int store_new(struct store_family *f, struct store *source, uint64_t disk,
                     struct store **ret, struct error *err)
{
    struct store *s = calloc(1, sizeof *s);
    if (!s) {
        family_unref(f);
        store_unref(source);
        return error_errno(err, ENOMEM, "the box did not start");
    }
    *s = (struct store){
        .refs = 1, .family = f, .source = source, .disk = disk, .folder = -1, .mount = -1};
    int r = make_folder(s);
    if (r == 0)
        r = make_owned(s);
    if (r == 0 && asprintf(&s->path, "%s/%s", f->path, s->name) < 0)
        r = -ENOMEM;
    if (r == 0)
        r = start_watch(s);
    if (r < 0) {
        store_error(err, -r, "make a store for the box in", f->path);
        store_unref(s);
        return r;
    }
    *ret = s;
    return 0;
}

int store_open(const struct store_options *o, struct store **ret, struct error *err)
{
    struct store_family *f = NULL;
    int r = family_new(o, &f, err);
    return r < 0 ? r : store_new(f, NULL, o->disk, ret, err);
}

int store_fork(struct store *from, struct store **ret, struct error *err)
{
    __atomic_add_fetch(&from->family->refs, 1, __ATOMIC_RELAXED);
    return store_new(from->family, store_ref(from), from->disk, ret, err);
}

struct store *store_ref(struct store *s)
{
    __atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
    return s;
}

/* Returns when the store process has closed its end of the pipe: the folder is gone then. */
static void remove_folder(const struct store *s)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return;
    struct store_message m = {.op = STORE_REMOVE};
    memcpy(m.name, s->name, sizeof m.name);
    int r = family_send(s->family, &m, &ends[1], 1);
    close(ends[1]);
    struct pollfd done = {.fd = ends[0], .events = POLLIN};
    while (r == 0 && poll(&done, 1, REMOVE_MS) < 0 && errno == EINTR)
        ;
    close(ends[0]);
}

void store_unref(struct store *s)
{
    if (!s || __atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    cleanup_close(&s->mount);
    /* The last of its family needs no message: the process removes what is left when the socket
     * closes. */
    if (s->state && __atomic_load_n(&s->family->refs, __ATOMIC_ACQUIRE) > 1)
        remove_folder(s);
    else if (!s->state && s->folder >= 0)
        unlinkat(s->family->parent, s->name, AT_REMOVEDIR);
    if (s->state)
        munmap(s->state, sizeof *s->state);
    if (s->project)
        quota_clear(s->family->parent, s->project);
    cleanup_close(&s->folder);
    struct store_family *f = s->family;
    struct store *source = s->source;
    free(s->path);
    free(s);
    store_unref(source);
    family_unref(f);
}

struct store_folder store_folder(const struct store *s)
{
    return (struct store_folder){.path = s->path, .mount = s->mount, .has_quota = s->project != 0};
}

void store_set_process(struct store *s, int pidfd)
{
    struct store_message m = {.op = STORE_PROCESS};
    memcpy(m.name, s->name, sizeof m.name);
    if (pidfd >= 0)
        family_send(s->family, &m, &pidfd, 1);
}

int store_names(const struct store *s, uint64_t *ret)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    _cleanup_fd_ int ours = ends[0];
    struct store_message m = {.op = STORE_NAMES};
    memcpy(m.name, s->name, sizeof m.name);
    int r = family_send(s->family, &m, &ends[1], 1);
    close(ends[1]);
    if (r < 0)
        return r;
    struct pollfd answer = {.fd = ours, .events = POLLIN};
    return poll(&answer, 1, NAMES_MS) == 1 && read(ours, ret, sizeof *ret) == sizeof *ret
               ? 0
               : -ETIMEDOUT;
}

/* A quota is exact, and then the filesystem itself tells what is free of it. */
void store_look(const struct store *s, struct store_report *ret)
{
    struct statfs fs;
    struct pollfd end = {.fd = s->family->pidfd, .events = POLLIN};
    uint32_t full = s->state->full;
    *ret = (struct store_report){.bytes = s->state->bytes,
                                 .over_limit = full == STORE_OVER_LIMIT,
                                 .host_full = full == STORE_HOST_FULL,
                                 .exact = s->project != 0,
                                 .unwatched = poll(&end, 1, 0) > 0};
    if (s->project && fstatfs(s->folder, &fs) == 0 &&
        (fs.f_bavail * (uint64_t)fs.f_bsize < QUOTA_NEARLY || fs.f_ffree == 0))
        ret->over_limit = true;
}
