#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "buf.h"
#include "cgroup_path.h"
#include "cgroup_tree.h"
#include "host_memory.h"
#include "io.h"
#include "banned.h"

#define MOUNT "/sys/fs/cgroup"

static const char *const CONTROLLER_NAMES[] = {"memory", "pids", "cpu", "cpuacct"};

static const struct cgroup_names NAMES[] = {
    {
        .memory_now = "memory.usage_in_bytes",
        .memory_max = "memory.limit_in_bytes",
        .stat_files = "total_cache",
        .reclaim = "memory.force_empty",
        .reclaim_text = "0",
        .oom_events = "memory.oom_control",
        .sockets_max = "memory.kmem.tcp.limit_in_bytes",
        .cpu_max = "cpu.cfs_quota_us",
        .cpu_format = "%lld",
        .cpu_none = "-1",
        .cpu_usage = "cpuacct.usage",
        .cpu_usage_ns = 1,
    },
    {
        .memory_now = "memory.current",
        .memory_max = "memory.max",
        .stat_files = "file",
        .stat_slab = "slab_reclaimable",
        .reclaim = "memory.reclaim",
        .reclaim_text = "1G",
        .oom_events = "memory.events",
        .stat_sockets = "sock",
        .cpu_max = "cpu.max",
        .cpu_format = "%lld 100000",
        .cpu_none = "max 100000",
        .cpu_usage = "cpu.stat",
        .cpu_usage_key = "usage_usec",
        .cpu_usage_ns = 1000,
    },
};

const struct cgroup_names *cgroup_names(int version)
{
    return &NAMES[version - 1];
}

static int open_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* The folder hutch/ within `parent`, ours to write to; made if it is not there. */
static int open_pool(const char *parent)
{
    char path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof path, "%s/hutch", parent) >= sizeof path)
        return -ENAMETOOLONG;
    int fd = open_folder(path);
    if (fd == -ENOENT && (mkdir(path, 0755) == 0 || errno == EEXIST))
        fd = open_folder(path);
    else if (fd == -ENOENT)
        return -errno;
    if (fd >= 0 && faccessat(fd, "cgroup.procs", W_OK, 0) < 0) { /* made by another user */
        close(fd);
        return -EACCES;
    }
    return fd;
}

static unsigned parse_controllers(const char *text)
{
    unsigned bits = 1u << CGROUP_CPUACCT; /* version 2 always counts CPU time */
    char padded[512];
    snprintf(padded, sizeof padded, " %s", text);
    for (char *at = padded; *at; at++)
        if (*at == '\n')
            *at = ' ';
    for (int i = 0; i < CGROUP_CPUACCT; i++) {
        char want[32];
        snprintf(want, sizeof want, " %s ", CONTROLLER_NAMES[i]);
        if (strstr(padded, want))
            bits |= 1u << i;
    }
    return bits;
}

/* Asks for every controller; those that cannot be had are found missing afterwards. */
static void hand_down(int folder)
{
    for (int i = 0; i < CGROUP_CPUACCT; i++) {
        char text[32];
        snprintf(text, sizeof text, "+%s", CONTROLLER_NAMES[i]);
        io_write_file(folder, "cgroup.subtree_control", text);
    }
}

/* In version 2 the pool hands its controllers down to the groups in it. */
static int enable_controllers(int pool, unsigned *ret_bits)
{
    _cleanup_buf_ struct buf b = BUF_INIT(512);
    hand_down(pool);
    int r = io_read_file(pool, "cgroup.subtree_control", &b);
    if (r < 0 || !buf_cstr(&b))
        return r < 0 ? r : -ENOMEM;
    unsigned bits = parse_controllers((char *)b.data);
    if (!(bits & (1u << CGROUP_MEMORY)) || !(bits & (1u << CGROUP_PIDS)))
        return -ENOENT;
    *ret_bits = bits;
    return 0;
}

/* May a process of ours be moved there? The kernel asks for the right to write at the common
 * ancestor's too.
 */
static int check_movable(const char *parent)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/cgroup.procs", parent);
    return access(path, W_OK) < 0 ? -errno : 0;
}

static int open_v2(struct cgroup_tree *t)
{
    struct statfs fs;
    struct cgroup_path own;
    if (statfs(MOUNT, &fs) < 0 || fs.f_type != CGROUP2_SUPER_MAGIC)
        return -ENOENT;
    int r = cgroup_path_find("", &own);
    if (r < 0)
        return r;
    /* Our own group holds processes and so may not hand controllers down: the pool goes beside it.
     */
    char *parent = own.folder, *slash = strrchr(parent, '/');
    if (strlen(parent) > own.mount_len && slash)
        *slash = 0;
    r = check_movable(parent);
    if (r < 0)
        return r;
    int pool = open_pool(parent);
    if (pool < 0)
        return pool;
    r = enable_controllers(pool, &t->controllers);
    if (r ==
        -ENOENT) { /* a host whose own parts do not use control groups hands nothing down yet */
        _cleanup_fd_ int above = open_folder(parent);
        hand_down(above);
        r = enable_controllers(pool, &t->controllers);
    }
    if (r < 0) {
        close(pool);
        return r;
    }
    t->version = 2;
    t->roots[0] = pool;
    return 0;
}

static int open_v1(struct cgroup_tree *t, unsigned wanted)
{
    t->version = 1;
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        struct cgroup_path own;
        if (!(wanted & (1u << i)))
            continue;
        int r = cgroup_path_find(CONTROLLER_NAMES[i], &own);
        if (r < 0 && r != -ENOENT)
            return r;
        if (r < 0)
            continue;
        int pool = open_pool(own.folder);
        if (pool < 0 && i <= CGROUP_PIDS)
            return pool;
        t->roots[i] = pool;
        if (pool >= 0)
            t->controllers |= 1u << i;
    }
    return t->roots[CGROUP_MEMORY] < 0 || t->roots[CGROUP_PIDS] < 0 ? -ENOENT : 0;
}

static void explain(int v2, int v1, char *why, size_t size)
{
    if (!why)
        return;
    if (v2 == -EROFS || v1 == -EROFS)
        snprintf(why, size, "control groups are mounted read-only");
    else if (v2 == -EACCES || v1 == -EACCES)
        snprintf(why, size, "control groups are not %s",
                 geteuid() == 0 ? "writable here" : "delegated to this user");
    else
        snprintf(why, size, "no memory and pids controllers (version 2: %s; version 1: %s)",
                 strerror(-v2), strerror(-v1));
}

int cgroup_tree_open(struct cgroup_tree *ret, unsigned wanted, char *why, size_t size)
{
    struct cgroup_tree t = {.roots = {-1, -1, -1, -1}};
    int v2 = open_v2(&t);
    /* What fails for want of descriptors or memory says nothing about the host. */
    int v1 = v2 == -EMFILE || v2 == -ENFILE || v2 == -ENOMEM ? v2
             : v2 < 0                                        ? open_v1(&t, wanted)
                                                             : 0;
    if (v2 < 0 && v1 < 0) {
        cgroup_tree_close(&t);
        explain(v2, v1, why, size);
        return v1;
    }
    *ret = t;
    return 0;
}

void cgroup_tree_close(struct cgroup_tree *t)
{
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        if (t->roots[i] >= 0)
            close(t->roots[i]);
}

void cgroup_tree_limit(const struct cgroup_tree *t)
{
    char text[32];
    uint64_t memory = host_memory(NULL);
    if (memory == UINT64_MAX)
        return;
    snprintf(text, sizeof text, "%llu", (unsigned long long)memory / 4 * 3);
    io_write_file(t->roots[CGROUP_MEMORY], cgroup_names(t->version)->memory_max, text);
}
