#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "box.h"
#include "box_host.h"
#include "cause.h"
#include "cleanup.h"
#include "idmap.h"
#include "io.h"
#include "sys.h"
#include "text.h"
#include "weaken.h"
#include "banned.h"

#define IDS_FIRST  0x71000000u /* above every range that distributions hand out */
#define IDS_COUNT  0x01000000u
#define STACK_SIZE 16384
#define MAP_MAX    32768 /* the kernel takes 340 lines */
#define READ_ONLY  (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_RDONLY)
#define CAP(name)  (1ULL << CAP_##name)

/* What it takes to show folders with other owners, to map ids that are not one's own, and to end
 * what runs under them. */
static const struct {
    uint64_t bit;
    const char *name;
} FULL_ROOT[] = {
    {CAP(SYS_ADMIN), "CAP_SYS_ADMIN"},
    {CAP(SETUID), "CAP_SETUID"},
    {CAP(SETGID), "CAP_SETGID"},
    {CAP(KILL), "CAP_KILL"},
};

static void map_add(char text[OWNER_MAP], size_t *n, uint32_t from, uint32_t to, uint32_t count)
{
    if (count)
        *n += (size_t)snprintf(text + *n, OWNER_MAP - *n, "%u %u %u\n", from, to, count);
}

/* Every id of [from, end) as its own of the others. */
static void map_add_others(char text[OWNER_MAP], size_t *n, uint32_t from, uint32_t end)
{
    map_add(text, n, from, OTHERS_FIRST + from, end > from ? end - from : 0);
}

void owner_map_family(uint32_t agent, char ret[OWNER_MAP])
{
    size_t n = 0;
    map_add_others(ret, &n, 0, AGENT_ID);
    map_add(ret, &n, AGENT_ID, agent, 1);
    map_add_others(ret, &n, AGENT_ID + 1, OTHERS_COUNT);
}

/* Inside a box AGENT_ID is taken: who has it on the host gets the id that the owner leaves. */
void owner_map_folder(uint32_t owner, uint32_t agent, char ret[OWNER_MAP])
{
    size_t n = 0;
    const uint32_t low = owner < AGENT_ID ? owner : AGENT_ID,
                   high = owner < AGENT_ID ? AGENT_ID : owner;
    const uint32_t end = high < OTHERS_COUNT ? high : OTHERS_COUNT;
    map_add(ret, &n, owner, agent, 1);
    if (owner != AGENT_ID && owner < OTHERS_COUNT)
        map_add(ret, &n, AGENT_ID, OTHERS_FIRST + owner, 1);
    map_add_others(ret, &n, 0, low);
    map_add_others(ret, &n, low + 1, end);
    map_add_others(ret, &n, high + 1, OTHERS_COUNT);
}

/* CAP_… bits of the calling thread; none where they cannot be read. */
static uint64_t own_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    if (syscall(SYS_capget, &header, data) < 0)
        return 0;
    return data[0].effective | (uint64_t)data[1].effective << 32;
}

int idmap_choose_plain(const char *folder, const char *why, struct idmap *ret, struct error *err)
{
    const uint64_t foreign = CAP(SETUID) | CAP(SETGID);
    struct idmap m = {.uid = geteuid(), .gid = getegid()};
    struct stat st;
    if (m.uid != 0) {
        m.gid = group_map_choose(folder);
        *ret = m;
        return 0;
    }
    const uint64_t have = own_capabilities();
    m.clones = have & CAP(SYS_ADMIN);
    snprintf(m.plain, sizeof m.plain, "%s", why);
    if ((have & foreign) == foreign && folder && stat(folder, &st) == 0) {
        m.uid = st.st_uid;
        m.gid = st.st_gid;
    }
    if (m.uid == 0 && !(have & CAP(SETFCAP)))
        return error_set(
            err, EPERM,
            "the box did not start: root without CAP_SETFCAP cannot map its own id into a user "
            "namespace; start hutch as an ordinary user (in a container: --user 1000:1000, or "
            "runAsUser: 1000)");
    *ret = m;
    return 0;
}

/* Whether the namespace that we are in maps `id`. In a container it maps some only; *ret_last is
 * the highest one. */
static bool map_has(const char *map, uint32_t id, uint32_t *ret_last)
{
    unsigned long inside, outside, count;
    int n = 0;
    *ret_last = 0;
    for (; sscanf(map, "%lu %lu %lu%n", &inside, &outside, &count, &n) == 3; map += n) {
        if (count && id >= inside && id - inside < count)
            return true;
        if (count && inside + count - 1 > *ret_last)
            *ret_last = (uint32_t)(inside + count - 1);
    }
    return false;
}

/* Finds agent's id in a map of ours; *others becomes false if it lacks the range of the others. */
static int map_choose(const char *file, uint32_t own, uint32_t *ret_id, bool *others,
                      struct error *err)
{
    uint32_t last, ignored;
    _cleanup_buf_ struct buf map = BUF_INIT(MAP_MAX);
    int r = io_read_file(AT_FDCWD, file, &map);
    if (r == 0 && !buf_cstr(&map))
        r = -ENOMEM;
    if (r < 0)
        return error_errno(err, -r, "the box did not start: cannot read %s", file);
    *ret_id = map_has((char *)map.data, own, &last) ? own : last;
    *others = *others && *ret_id == own && map_has((char *)map.data, OTHERS_FIRST, &ignored) &&
              map_has((char *)map.data, OTHERS_FIRST + OTHERS_COUNT - 1, &ignored);
    return 0;
}

int idmap_choose(const char *folder, struct idmap *ret, struct error *err)
{
    char why[64];
    if (geteuid() != 0)
        return idmap_choose_plain(folder, "", ret, err);
    const uint64_t have = own_capabilities();
    for (size_t i = 0; i < ARRAY_SIZE(FULL_ROOT); i++)
        if (!(have & FULL_ROOT[i].bit)) {
            snprintf(why, sizeof why, "root here lacks %s", FULL_ROOT[i].name);
            return idmap_choose_plain(folder, why, ret, err);
        }

    /* Each family of boxes has an id of its own, since much of what the kernel counts it counts per
     * user id: epoll watches, pages of pipes, descriptors in flight. It is chosen at random among
     * so many that nobody has to keep a list of those in use; should two be the same once, these
     * two share their counters and nothing else. */
    uint32_t own = 0, uid, gid;
    bool others = true;
    if (getrandom(&own, sizeof own, GRND_NONBLOCK) != sizeof own)
        own = (uint32_t)getpid();
    own = IDS_FIRST + own % IDS_COUNT;
    int r = map_choose("/proc/self/uid_map", own, &uid, &others, err);
    if (r == 0)
        r = map_choose("/proc/self/gid_map", own, &gid, &others, err);
    if (r < 0)
        return r;
    if (uid == 0 || gid == 0)
        return idmap_choose_plain(folder, "root here has no second user id", ret, err);
    *ret = (struct idmap){.uid = uid,
                          .gid = gid,
                          .mapped = true,
                          .clones = true,
                          .own = uid == own,
                          .others = others};
    return 0;
}

bool idmap_is_refusal(int r)
{
    return r == -EPERM || r == -EACCES || r == -EINVAL || r == -ENOSYS || r == -EOPNOTSUPP;
}

/* A process that lives only until its user namespace has been opened and has its maps. */
struct holder {
    pid_t parent;
    int socket;  /* it says how it went, and waits for a byte */
    uid_t owner; /* whose namespace it makes; 0: it was born in one of ours */
};

/* It shares the parent's memory and must touch nothing: system calls only. */
static int holder_main(void *data)
{
    const struct holder *h = data;
    char byte;
    int made = 0, fd = -1;

    if (h->owner) {
        /* What is counted in a user namespace is counted for its owner as well, in the namespace
         * above: so a box's own id must be the owner, and not root. Its rights are kept for hosts
         * on which only root may make namespaces. */
        syscall(SYS_prctl, PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0);
        if (syscall(SYS_setresuid, -1, h->owner, -1) < 0 ||
            syscall(SYS_unshare, CLONE_NEWUSER) < 0) {
            syscall(SYS_setresuid, -1, 0, -1);
            made = syscall(SYS_unshare, CLONE_NEWUSER) < 0 ? -errno : 0;
        }
        /* A process may open its own namespace whatever its id; a parent with another id needs
         * CAP_SYS_PTRACE for it, which root in a container lacks. */
        if (made == 0)
            fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
        if (made == 0 && fd < 0)
            made = -errno;
        io_send_fds(h->socket, &made, sizeof made, &fd, fd >= 0 ? 1 : 0);
    }
    syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL); /* last: who takes another id loses it */
    if (syscall(SYS_getppid) == h->parent)         /* it did not die before */
        syscall(SYS_read, h->socket, &byte, 1);
    syscall(SYS_exit, 0);
    return 0;
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

static int maps_write(pid_t pid, const struct maps *m, struct error *err)
{
    /* A group that is not one's own, or an id of root's without CAP_SETGID, is mapped only where
     * nobody may call setgroups. No box does. */
    const char *const files[][2] = {
        {"setgroups", "deny"}, {"uid_map", m->uids}, {"gid_map", m->gids}};
    for (size_t i = 0; i < ARRAY_SIZE(files) - (m->group ? 1 : 0); i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, files[i][0]);
        int r = io_write_file(AT_FDCWD, path, files[i][1]);
        if (r < 0)
            return error_errno(err, -r, "cannot write the %s of a new user namespace", files[i][0]);
    }
    return m->group ? group_map_write(pid, AGENT_ID, m->group) : 0;
}

/* The descriptor of the holder's namespace: it sends its own, or we open it. */
static int holder_open_namespace(const struct holder *h, pid_t pid, int socket, int *ret_fd,
                                 struct error *err)
{
    char path[64];
    if (h->owner) {
        int made = 0, fd = -1;
        size_t n_fds = 0;
        ssize_t n = io_recv_fds(socket, &made, sizeof made, &fd, 1, &n_fds, 0);
        if (n != sizeof made || (made >= 0 && n_fds != 1))
            made = -ECHILD;
        if (made < 0)
            return start_error(err, CAUSE_USER_NAMESPACE, -made, "make a user namespace (unshare)");
        *ret_fd = fd;
        return 0;
    }
    snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, errno, "cannot open the new user namespace");
    *ret_fd = fd;
    return 0;
}

static int namespace_make(uid_t owner, const struct maps *maps, int *ret_fd, struct error *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return start_error(err, CAUSE_OTHER, errno, "make a socket");
    _cleanup_fd_ int hold = ends[0];
    _cleanup_fd_ int release = ends[1];
    _cleanup_free_ char *stack = malloc(STACK_SIZE);
    if (!stack)
        return error_errno(err, ENOMEM, "cannot make a user namespace");

    /* CLONE_VM: no page table is copied for a process that does nothing. It is released by our
     * byte, or by our death: not by the end of the socket, whose other end it has a copy of, as may
     * a holder that another thread starts. A signal handler of the host's must not run in it, on
     * the memory that they share. */
    struct holder h = {.parent = getpid(), .socket = hold, .owner = owner};
    int dumpable = owner ? prctl(PR_GET_DUMPABLE) : 0;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pid_t pid = clone(holder_main, stack + STACK_SIZE, CLONE_VM | (owner ? 0 : CLONE_NEWUSER), &h);
    int code = errno;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (pid < 0)
        return start_error(err, CAUSE_USER_NAMESPACE, code, "make a user namespace (clone)");
    close(TAKE_FD(hold)); /* so that its end is noticed */

    _cleanup_fd_ int fd = -1;
    int r = holder_open_namespace(&h, pid, release, &fd, err);
    if (dumpable == 1) /* taking another id made the memory that we share undumpable */
        prctl(PR_SET_DUMPABLE, 1);
    if (r == 0)
        r = maps_write(pid, maps, err);
    if (send(release, "x", 1, MSG_NOSIGNAL) != 1)
        kill(pid, SIGKILL);
    while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
        ; /* its stack is ours to free only then */
    if (r == 0)
        *ret_fd = TAKE_FD(fd);
    return r;
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
    int r = namespace_make(m->mapped ? m->uid : 0, &maps, ret_fd, err);
    if (r == 0 || !maps.group)
        return r;
    m->gid = getegid();
    maps = maps_of_one(AGENT_ID, m->uid, AGENT_ID, m->gid);
    return namespace_make(0, &maps, ret_fd, err);
}

/* With `recursive` (AT_RECURSIVE) what is mounted inside comes along, if all of that can be
 * id-mapped too, and stays out otherwise. */
static int clone_mapped(const char *path, unsigned recursive, uint64_t attributes, int userns,
                        int *ret_fd)
{
    struct mount_attr attr = {.attr_set = attributes, .userns_fd = (uint64_t)userns};
    if (userns >= 0)
        attr.attr_set |= MOUNT_ATTR_IDMAP;
    for (;; recursive = 0) {
        _cleanup_fd_ int tree =
            sys_open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | recursive);
        if (tree < 0)
            return -errno;
        if (sys_mount_setattr(tree, "", AT_EMPTY_PATH | recursive, &attr) == 0) {
            *ret_fd = TAKE_FD(tree);
            return 0;
        }
        if (!recursive)
            return -errno;
    }
}

/* An id-mapped mount shows the folder's owner as agent, and all others if there are ids for
 * them. */
int idmap_folder(const char *path, const struct idmap *m, bool writable, int *ret_fd,
                 struct error *err)
{
    struct stat st;
    _cleanup_fd_ int userns = -1;
    if (stat(path, &st) < 0)
        return error_errno(err, errno, "%s", path);
    if (m->mapped) {
        struct maps maps = maps_of_one(st.st_uid, m->uid, st.st_gid, m->gid);
        if (m->others) {
            owner_map_folder(st.st_uid, m->uid, maps.uids);
            owner_map_folder(st.st_gid, m->gid, maps.gids);
        }
        int r = namespace_make(0, &maps, &userns, err);
        if (r < 0)
            return r;
    }
    bool read_only = !writable && !weakened("mount-ro");
    int r =
        clone_mapped(path, AT_RECURSIVE,
                     read_only ? READ_ONLY : MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, userns, ret_fd);
    if (r < 0 && m->mapped)
        return error_errno(
            err, -r, "%s cannot be shown to the box with other owners (id-mapped mount)", path);
    return r < 0 ? error_errno(err, -r, "cannot show %s to the box (open_tree)", path) : 0;
}

int idmap_single_clone(const char *path, int *ret_fd, struct error *err)
{
    int r = clone_mapped(path, 0, READ_ONLY, -1, ret_fd);
    return r < 0 ? error_errno(err, -r, "cannot show %s to the box (open_tree)", path) : 0;
}

int idmap_plain_clone(const char *path, int *ret_fd, struct error *err)
{
    int r = clone_mapped(path, AT_RECURSIVE, READ_ONLY, -1, ret_fd);
    return r < 0 ? error_errno(err, -r, "cannot show %s to the box (open_tree)", path) : 0;
}

/*
 * A process can run as another of its user's groups without a privilege: by executing a file of its
 * own that belongs to the group and has the set-group-id bit. The file is a copy of hutch-guest,
 * which as "hutch-guest map-group" does nothing but write the map; it never has a name, and is gone
 * when it has ended. Nobody gains anything: the user is a member of that group.
 */

#define GROUPS_MAX 65536
#define BUSY_TRIES                                                                                 \
    50           /* of a millisecond, while a child that another thread just forked has it open */
#define BUSY 126 /* exit status: the program could not be executed for that reason */

static bool is_member(gid_t gid)
{
    int n = getgroups(0, NULL);
    if (n <= 0 || n > GROUPS_MAX)
        return false;
    _cleanup_free_ gid_t *groups = calloc((size_t)n, sizeof *groups);
    n = groups ? getgroups(n, groups) : 0;
    for (int i = 0; i < n; i++)
        if (groups[i] == gid)
            return true;
    return false;
}

gid_t group_map_choose(const char *folder)
{
    struct stat st;
    if (!folder || stat(folder, &st) < 0 || st.st_gid == getegid() || !is_member(st.st_gid))
        return getegid();
    return st.st_gid;
}

/* A file without a name, on a mount that respects set-group-id. */
static int open_nameless(void)
{
    const char *const folders[] = {"/var/tmp", "/tmp", getenv("HOME")};
    for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
        struct statvfs fs;
        if (!folders[i] || statvfs(folders[i], &fs) < 0 || fs.f_flag & (ST_NOSUID | ST_NOEXEC))
            continue;
        int fd = open(folders[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        if (fd >= 0)
            return fd;
    }
    return -EACCES;
}

/* A copy of hutch-guest that runs as `group`. */
static int make_program(gid_t group, int *ret_fd)
{
    char path[LIBEXEC_PATH_MAX], own[32];
    struct error err = {0};
    struct stat st;
    _cleanup_fd_ int fd = open_nameless();
    if (fd < 0)
        return fd;
    if (libexec_find("hutch-guest", path, &err) < 0)
        return -err.code;
    _cleanup_fd_ int from = open(path, O_RDONLY | O_CLOEXEC);
    if (from < 0 || fstat(from, &st) < 0)
        return -errno;
    for (off_t at = 0; at < st.st_size;) {
        ssize_t n = sendfile(fd, from, &at, (size_t)(st.st_size - at));
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
    }
    if (fchown(fd, (uid_t)-1, group) < 0 || fchmod(fd, S_ISGID | 0710) < 0)
        return -errno;
    /* Opened for reading alone: a file that somebody has open for writing is not executed. */
    snprintf(own, sizeof own, "/proc/self/fd/%d", fd);
    int program = open(own, O_RDONLY | O_CLOEXEC);
    if (program < 0)
        return -errno;
    *ret_fd = program;
    return 0;
}

/* The program's exit status, or 1 if somebody else has reaped it. */
static int run_program(int fd, char *const *argv)
{
    char *none[] = {NULL};
    sigset_t all, old;
    int status = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid ==
        0) { /* system calls only: the memory is a copy of a program's that may have threads */
        syscall(SYS_setsid);
        syscall(SYS_close_range, 0, 2, 0);
        syscall(SYS_execveat, fd, "", argv, none, AT_EMPTY_PATH);
        syscall(SYS_exit_group, errno == ETXTBSY ? BUSY : 1);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (pid < 0)
        return 1;
    while (waitpid(pid, &status, __WALL) < 0)
        if (errno != EINTR)
            return 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int group_map_write(pid_t pid, gid_t inside, gid_t outside)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    char path[64], map[64], byte;
    _cleanup_fd_ int program = -1;
    snprintf(path, sizeof path, "/proc/%d/gid_map", (int)pid);
    snprintf(map, sizeof map, "%u %u 1", inside, outside);
    char *argv[] = {(char *)"hutch-guest", (char *)"map-group", path, map, NULL};
    int r = make_program(outside, &program);
    if (r < 0)
        return r;
    for (int i = 0; i < BUSY_TRIES && run_program(program, argv) == BUSY; i++)
        nanosleep(&pause, NULL);
    /* A program that embeds hutch may reap all children: the kernel knows whether the map was
     * written. */
    _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && read(fd, &byte, 1) == 1 ? 0 : -EPERM;
}

bool box_group_warning(const char *folder, char *text, size_t size)
{
    struct stat st;
    if (geteuid() == 0 || stat(folder, &st) < 0 || st.st_gid == getegid())
        return false;
    bool member = is_member(st.st_gid);
    if (!member &&
        st.st_uid != geteuid()) /* somebody else's folder, of which little can be changed */
        return false;
    if (member && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0) {
        _cleanup_fd_ int nameless = open_nameless();
        if (nameless >= 0)
            return false;
    }
    char name[64];
    const struct group *g = getgrgid(st.st_gid);
    snprintf(name, sizeof name, "%u", st.st_gid);
    if (g)
        snprintf(name, sizeof name, "%.63s", g->gr_name);
    if (member)
        snprintf(text, size,
                 "a box cannot change files of the group %s here: hutch runs with no_new_privs, or "
                 "/var/tmp, /tmp and the home folder are mounted nosuid; start it as sg %s -c "
                 "'hutch …'",
                 name, name);
    else
        snprintf(text, size,
                 "a box cannot change files of the group %s, since you are not a member; chgrp -R "
                 "them to a group of yours",
                 name);
    return true;
}
