#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "buf.h"
#include "group_map.h"
#include "idmap.h"
#include "io.h"
#include "layout.h"
#include "owner_map.h"
#include "spawn.h"
#include "sys.h"
#include "weaken.h"
#include "banned.h"

#define IDS_FIRST  0x71000000u /* above every range that distributions hand out */
#define IDS_COUNT  0x01000000u
#define STACK_SIZE 16384
#define MAP_MAX    32768 /* the kernel takes 340 lines */

/* Finds whether `id` is mapped in the namespace we are in. In a container only some are; then *id
 * becomes the highest one. */
static void idmap_find(const char *map, uint32_t *id)
{
    unsigned long inside, outside, count;
    uint32_t last = 0;
    int n = 0;
    for (; sscanf(map, "%lu %lu %lu%n", &inside, &outside, &count, &n) == 3; map += n) {
        if (count && *id >= inside && *id - inside < count)
            return;
        if (count && inside + count - 1 > last)
            last = (uint32_t)(inside + count - 1);
    }
    *id = last;
}

static int idmap_read(const char *file, struct buf *map, struct error *err)
{
    int r = io_read_file(AT_FDCWD, file, map);
    if (r == 0 && !buf_cstr(map))
        r = -ENOMEM;
    return r < 0 ? error_errno(err, -r, "the box did not start: cannot read %s", file) : 0;
}

/*
 * Each family of boxes has an id of its own, since much of what the kernel counts it counts per
 * user id: epoll watches, pages of pipes, descriptors in flight. It is chosen at random among so
 * many that nobody has to keep a list of those in use; should two be the same once, these two share
 * their counters and nothing else.
 */
static uint32_t idmap_random(void)
{
    uint32_t number = 0;
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) != sizeof number)
        number = (uint32_t)getpid();
    return IDS_FIRST + number % IDS_COUNT;
}

/* Whether the namespace we are in maps the whole range of owner_map.h: the last id does, on every
 * host that is no container. */
static bool idmap_has_others(const char *map)
{
    uint32_t first = OTHERS_FIRST, last = OTHERS_FIRST + OTHERS_COUNT - 1;
    idmap_find(map, &first);
    idmap_find(map, &last);
    return first == OTHERS_FIRST && last == OTHERS_FIRST + OTHERS_COUNT - 1;
}

/* 1ULL << CAP_… of the calling thread; none where they cannot be read. */
static uint64_t idmap_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    if (syscall(SYS_capget, &header, data) < 0)
        return 0;
    return data[0].effective | (uint64_t)data[1].effective << 32;
}

/* What it takes to show folders with other owners, to map ids that are not one's own, and to end
 * what runs under them. */
static const struct {
    uint64_t bit;
    const char *name;
} FULL_ROOT[] = {
    {1ULL << CAP_SYS_ADMIN, "CAP_SYS_ADMIN"},
    {1ULL << CAP_SETUID, "CAP_SETUID"},
    {1ULL << CAP_SETGID, "CAP_SETGID"},
    {1ULL << CAP_KILL, "CAP_KILL"},
};

static const char *idmap_missing_capability(uint64_t have)
{
    for (size_t i = 0; i < ARRAY_SIZE(FULL_ROOT); i++)
        if (!(have & FULL_ROOT[i].bit))
            return FULL_ROOT[i].name;
    return NULL;
}

int idmap_choose_plain(const char *folder, const char *why, struct idmap *ret, struct error *err)
{
    const uint64_t foreign = 1ULL << CAP_SETUID | 1ULL << CAP_SETGID;
    struct idmap m = {.uid = geteuid(), .gid = getegid()};
    struct stat st;
    if (m.uid != 0) {
        m.gid = group_map_choose(folder);
        *ret = m;
        return 0;
    }
    const uint64_t have = idmap_capabilities();
    m.clones = have & (1ULL << CAP_SYS_ADMIN);
    snprintf(m.plain, sizeof m.plain, "%s", why);
    if ((have & foreign) == foreign && folder && stat(folder, &st) == 0) {
        m.uid = st.st_uid;
        m.gid = st.st_gid;
    }
    if (m.uid == 0 && !(have & (1ULL << CAP_SETFCAP)))
        return error_set(
            err, EPERM,
            "the box did not start: root without CAP_SETFCAP cannot map its own id into a user "
            "namespace; start hutch as an ordinary user (in a container: --user 1000:1000, or "
            "runAsUser: 1000)");
    *ret = m;
    return 0;
}

int idmap_choose(const char *folder, struct idmap *ret, struct error *err)
{
    if (geteuid() != 0)
        return idmap_choose_plain(folder, "", ret, err);
    char why[64];
    const char *missing = idmap_missing_capability(idmap_capabilities());
    snprintf(why, sizeof why, "root here lacks %s", missing ? missing : "");
    if (missing)
        return idmap_choose_plain(folder, why, ret, err);
    const uint32_t own = idmap_random();
    uint32_t uid = own, gid = own;
    _cleanup_buf_ struct buf uids = BUF_INIT(MAP_MAX), gids = BUF_INIT(MAP_MAX);
    int r = idmap_read("/proc/self/uid_map", &uids, err);
    if (r == 0)
        r = idmap_read("/proc/self/gid_map", &gids, err);
    if (r < 0)
        return r;
    idmap_find((char *)uids.data, &uid);
    idmap_find((char *)gids.data, &gid);
    if (uid == 0 || gid == 0)
        return idmap_choose_plain(folder, "root here has no second user id", ret, err);
    *ret =
        (struct idmap){.uid = uid, .gid = gid, .mapped = true, .clones = true, .own = uid == own};
    ret->others = uid == own && gid == own && idmap_has_others((char *)uids.data) &&
                  idmap_has_others((char *)gids.data);
    return 0;
}

bool idmap_is_refusal(int r)
{
    return r == -EPERM || r == -EACCES || r == -EINVAL || r == -ENOSYS || r == -EOPNOTSUPP;
}

struct holder {
    pid_t parent;
    int socket;  /* it says how it went, and waits for a byte */
    uid_t owner; /* whose namespace it makes; 0: it was born in one of ours */
};

/*
 * What is counted in a user namespace is counted for its owner as well, in the namespace above: so
 * a box's own id must be the owner, and not root. Its rights are kept for hosts on which only root
 * may make namespaces.
 */
static int hold_unshare(uid_t owner)
{
    syscall(SYS_prctl, PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0);
    if (syscall(SYS_setresuid, -1, owner, -1) == 0 && syscall(SYS_unshare, CLONE_NEWUSER) == 0)
        return 1;
    syscall(SYS_setresuid, -1, 0, -1);
    return syscall(SYS_unshare, CLONE_NEWUSER) == 0 ? 1 : -errno;
}

/* A process may open its own namespace whatever its id; a parent with another id needs
 * CAP_SYS_PTRACE for it, which root in a container lacks. */
static void hold_and_send(const struct holder *h)
{
    int made = hold_unshare(h->owner);
    int fd = made < 0
                 ? -1
                 : (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
    if (made >= 0 && fd < 0)
        made = -errno;
    io_send_fds(h->socket, &made, sizeof made, &fd, fd >= 0 ? 1 : 0);
}

/* Lives only until its namespace has been opened by the parent, whose memory it shares: it must
 * touch nothing. */
static int hold_namespace(void *data)
{
    const struct holder *h = data;
    char byte;
    if (h->owner)
        hold_and_send(h);
    syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL); /* last: who takes another id loses it */
    if (syscall(SYS_getppid) == h->parent)         /* it did not die before */
        syscall(SYS_read, h->socket, &byte, 1);
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

/* What a new user namespace maps, as the kernel takes it. */
struct maps {
    char uids[OWNER_MAP], gids[OWNER_MAP];
    gid_t group; /* if it is another of ours than we run as, what `gids` maps AGENT_ID to; else 0 */
};

static struct maps maps_of_one(uid_t uid_in, uid_t uid_out, gid_t gid_in, gid_t gid_out)
{
    struct maps m = {.group = geteuid() != 0 && gid_out != getegid() ? gid_out : 0};
    snprintf(m.uids, sizeof m.uids, "%u %u 1", uid_in, uid_out);
    snprintf(m.gids, sizeof m.gids, "%u %u 1", gid_in, gid_out);
    return m;
}

/* A group that is not one's own, or an id of root's without CAP_SETGID, is mapped only where nobody
 * may call setgroups. No box does. */
static int write_maps(pid_t pid, const struct maps *m, struct error *err)
{
    int r = write_map(pid, "setgroups", "deny", err);
    if (r == 0)
        r = write_map(pid, "uid_map", m->uids, err);
    if (r == 0 && m->group)
        return group_map_write(pid, AGENT_ID, m->group);
    return r < 0 ? r : write_map(pid, "gid_map", m->gids, err);
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
    pid_t pid = clone(hold_namespace, stack, CLONE_VM | (h->owner ? 0 : CLONE_NEWUSER), h);
    int code = errno;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return pid < 0 ? -code : pid;
}

/* The holder takes another id, which makes the memory that we share undumpable: that is put back.
 */
static int await_holder(int socket, int dumpable, int *ret_fd)
{
    int made = 0, fd = -1;
    size_t n_fds = 0;
    ssize_t n = io_recv_fds(socket, &made, sizeof made, &fd, 1, &n_fds, 0);
    if (dumpable == 1)
        prctl(PR_SET_DUMPABLE, 1);
    if (n != sizeof made || (made >= 0 && n_fds != 1))
        return -ECHILD;
    if (made < 0)
        return made;
    *ret_fd = fd;
    return 0;
}

static int make_namespace(uid_t owner, const struct maps *maps, int *ret_fd, struct error *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return spawn_error(err, CAUSE_OTHER, errno, "make a socket");
    _cleanup_fd_ int hold = ends[0];
    _cleanup_fd_ int release = ends[1];
    _cleanup_free_ char *stack = malloc(STACK_SIZE);
    if (!stack)
        return error_errno(err, ENOMEM, "cannot make a user namespace");
    /* CLONE_VM: no page table is copied for a process that does nothing. It is released by our
     * byte, or by our death: not by the end of the socket, whose other end it has a copy of, as may
     * a holder that another thread starts. */
    struct holder h = {.parent = getpid(), .socket = hold, .owner = owner};
    int dumpable = owner ? prctl(PR_GET_DUMPABLE) : 0;
    pid_t pid = start_holder(&h, stack + STACK_SIZE);
    if (pid < 0)
        return spawn_error(err, CAUSE_USER_NAMESPACE, -pid, "make a user namespace (clone)");
    close(TAKE_FD(hold)); /* so that its end is noticed */
    _cleanup_fd_ int fd = -1;
    int r = owner ? await_holder(release, dumpable, &fd) : open_namespace(pid, &fd, err);
    if (r < 0 && owner)
        spawn_error(err, CAUSE_USER_NAMESPACE, -r, "make a user namespace (unshare)");
    if (r == 0)
        r = write_maps(pid, maps, err);
    if (send(release, "x", 1, MSG_NOSIGNAL) != 1)
        kill(pid, SIGKILL);
    while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
        ; /* its stack is ours to free only then */
    if (r < 0)
        return r;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* Where the group of the folder cannot be mapped (no_new_privs, nosuid everywhere), it is the
 * user's own. */
int idmap_family_namespace(struct idmap *m, int *ret_fd, struct error *err)
{
    struct maps maps = maps_of_one(AGENT_ID, m->uid, AGENT_ID, m->gid);
    if (m->others) {
        owner_map_family(m->uid, maps.uids);
        owner_map_family(m->gid, maps.gids);
    }
    int r = make_namespace(m->mapped ? m->uid : 0, &maps, ret_fd, err);
    if (r == 0 || !maps.group)
        return r;
    m->gid = getegid();
    maps = maps_of_one(AGENT_ID, m->uid, AGENT_ID, m->gid);
    return make_namespace(0, &maps, ret_fd, err);
}

/* What an id-mapped mount of a folder shows: its owner as agent, and all others if there are ids
 * for them. */
static struct maps maps_of_folder(const struct stat *st, const struct idmap *m)
{
    struct maps maps = maps_of_one(st->st_uid, m->uid, st->st_gid, m->gid);
    if (m->others) {
        owner_map_folder(st->st_uid, m->uid, maps.uids);
        owner_map_folder(st->st_gid, m->gid, maps.gids);
    }
    return maps;
}

static int set_attributes(int tree, unsigned recursive, uint64_t attributes, int userns)
{
    struct mount_attr attr = {.attr_set = attributes, .userns_fd = (uint64_t)userns};
    if (userns >= 0)
        attr.attr_set |= MOUNT_ATTR_IDMAP;
    return sys_mount_setattr(tree, "", AT_EMPTY_PATH | recursive, &attr) < 0 ? -errno : 0;
}

/* With what is mounted inside the folder if all of that can be id-mapped too, without it otherwise.
 */
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

int idmap_folder(const char *path, const struct idmap *m, bool writable, int *ret_fd,
                 struct error *err)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return error_errno(err, errno, "%s", path);
    _cleanup_fd_ int userns = -1;
    const struct maps maps = maps_of_folder(&st, m);
    int r = m->mapped ? make_namespace(0, &maps, &userns, err) : 0;
    if (r < 0)
        return r;
    bool read_only = !writable && !weakened("mount-ro");
    uint64_t attributes =
        MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (read_only ? MOUNT_ATTR_RDONLY : 0);
    r = clone_mapped(path, attributes, userns, ret_fd);
    if (r < 0 && m->mapped)
        return error_errno(
            err, -r, "%s cannot be shown to the box with other owners (id-mapped mount)", path);
    return r < 0 ? error_errno(err, -r, "cannot show %s to the box (open_tree)", path) : 0;
}

int idmap_single_clone(const char *path, int *ret_fd, struct error *err)
{
    _cleanup_fd_ int tree = sys_open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    int r = tree < 0 ? -errno
                     : set_attributes(tree, 0,
                                      MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_RDONLY, -1);
    if (r < 0)
        return error_errno(err, -r, "cannot pick up %s", path);
    *ret_fd = TAKE_FD(tree);
    return 0;
}

int idmap_plain_clone(const char *path, int *ret_fd, struct error *err)
{
    int r =
        clone_mapped(path, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_RDONLY, -1, ret_fd);
    return r < 0 ? error_errno(err, -r, "cannot pick up %s", path) : 0;
}
