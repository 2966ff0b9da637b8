/*
 * The pool of groups is a folder hutch/ in a part of the host's tree that we may write to, one per
 * hierarchy in version 1. All boxes together leave a quarter of the memory to the host: what they
 * write is kept in memory too, and each alone may be within its limits while their sum is not.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "backend.h"
#include "box_host.h"
#include "cgroup.h"
#include "io.h"
#include "text.h"
#include "weaken.h"
#include "banned.h"

/* File content that outlived its box (a fork still uses it) would count against the next: such a
 * group is passed over. */
#define SHMEM_LEFT_MAX (1u << 20)
#define LEFT_MAX       (16u << 20)
#define STARTERS       2 /* processes beside process 1 while a box starts (spawn.h) */

enum { CGROUP_MEMORY, CGROUP_PIDS, CGROUP_CPU, CGROUP_CPUACCT, CGROUP_CONTROLLERS };

static const char *const CONTROLLER_NAMES[] = {"memory", "pids", "cpu", "cpuacct"};

/* What the two versions call things. */
struct cgroup_names {
    const char *memory_now, *memory_max, *stat_files, *oom_events;
    const char *stat_slab;              /* NULL: not told apart from what cannot be reclaimed */
    const char *reclaim, *reclaim_text; /* makes the kernel drop what an empty group has cached */
    const char *sockets_max;            /* version 1: a limit of their own, outside of memory_now */
    const char *stat_sockets;           /* version 2: they count as memory */
    const char *cpu_max, *cpu_format, *cpu_none;
    const char *cpu_usage, *cpu_usage_key;
    int64_t cpu_usage_ns; /* nanoseconds per unit */
};

static const struct cgroup_names VERSION_1 = {
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
};

static const struct cgroup_names VERSION_2 = {
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
};

struct cgroup_tree {
    const struct cgroup_names *names;
    int roots
        [CGROUP_CONTROLLERS]; /* the folder hutch/ of each hierarchy; only the first in version 2 */
    unsigned controllers;     /* bits of those that are there */
};

struct cgroup {
    const struct cgroup_names *names;
    int folders
        [CGROUP_CONTROLLERS]; /* one each in version 1, all the same in version 2, -1: none */
    int joins[CGROUP_CONTROLLERS];
    size_t n_joins;
    bool limits_cpus;
    struct cgroup_usage before;
};

/* Opens a folder, and makes it where it is not there yet: nearly always it is. */
static int cgroup_open_folder(int dir, const char *name)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && (mkdirat(dir, name, 0755) == 0 || errno == EEXIST))
        fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* The folder hutch/ within `parent`, ours to write to. */
static int tree_open_pool(const char *parent)
{
    char path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof path, "%s/hutch", parent) >= sizeof path)
        return -ENAMETOOLONG;
    _cleanup_fd_ int fd = cgroup_open_folder(AT_FDCWD, path);
    if (fd >= 0 && faccessat(fd, "cgroup.procs", W_OK, 0) < 0) /* made by another user */
        return -EACCES;
    return TAKE_FD(fd);
}

/* Asks a folder of version 2 to hand every controller down to the groups in it; those that cannot
 * be had are found missing afterwards. */
static void tree_hand_down(int folder)
{
    for (int i = 0; i < CGROUP_CPUACCT; i++) {
        char text[32];
        snprintf(text, sizeof text, "+%s", CONTROLLER_NAMES[i]);
        io_write_file(folder, "cgroup.subtree_control", text);
    }
}

static int tree_read_controllers(int pool, unsigned *ret_bits)
{
    _cleanup_buf_ struct buf b = BUF_INIT(512);
    unsigned bits = 1u << CGROUP_CPUACCT; /* version 2 always counts CPU time */
    int r = io_read_file(pool, "cgroup.subtree_control", &b);
    if (r < 0 || !buf_cstr(&b))
        return r < 0 ? r : -ENOMEM;
    char *rest = (char *)b.data;
    for (char *word; (word = strsep(&rest, " \n"));)
        for (int i = 0; i < CGROUP_CPUACCT; i++)
            if (strcmp(word, CONTROLLER_NAMES[i]) == 0)
                bits |= 1u << i;
    if (!(bits & (1u << CGROUP_MEMORY)) || !(bits & (1u << CGROUP_PIDS)))
        return -ENOENT;
    *ret_bits = bits;
    return 0;
}

static int tree_open_v2(struct cgroup_tree *t)
{
    struct statfs fs;
    struct cgroup_path own;
    char file[PATH_MAX + 16];
    if (statfs("/sys/fs/cgroup", &fs) < 0 || fs.f_type != CGROUP2_SUPER_MAGIC)
        return -ENOENT;
    int r = cgroup_path_find("", &own);
    if (r < 0)
        return r;

    /* Our own group holds processes and so may not hand controllers down: the pool goes beside it.
     * To move a process there the kernel asks for the right to write at the common ancestor's,
     * too. */
    char *parent = own.folder, *slash = strrchr(parent, '/');
    if (strlen(parent) > own.mount_len && slash)
        *slash = 0;
    snprintf(file, sizeof file, "%s/cgroup.procs", parent);
    if (access(file, W_OK) < 0)
        return -errno;
    _cleanup_fd_ int pool = tree_open_pool(parent);
    if (pool < 0)
        return pool;
    /* Nearly always an earlier box has handed the controllers down. */
    r = tree_read_controllers(pool, &t->controllers);
    if (r == -ENOENT || (r == 0 && !(t->controllers & (1u << CGROUP_CPU)))) {
        tree_hand_down(pool);
        r = tree_read_controllers(pool, &t->controllers);
    }
    if (r ==
        -ENOENT) { /* a host whose own parts do not use control groups hands nothing down yet */
        _cleanup_fd_ int above = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        tree_hand_down(above);
        tree_hand_down(pool);
        r = tree_read_controllers(pool, &t->controllers);
    }
    if (r < 0)
        return r;
    t->names = &VERSION_2;
    t->roots[0] = TAKE_FD(pool);
    return 0;
}

static int tree_open_v1(struct cgroup_tree *t, unsigned wanted)
{
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        struct cgroup_path own;
        if (!(wanted & (1u << i)))
            continue;
        int r = cgroup_path_find(CONTROLLER_NAMES[i], &own);
        if (r < 0 && r != -ENOENT)
            return r;
        if (r < 0)
            continue;
        int pool = tree_open_pool(own.folder);
        if (pool < 0 && i <= CGROUP_PIDS)
            return pool;
        t->roots[i] = pool;
        if (pool >= 0)
            t->controllers |= 1u << i;
    }
    return t->roots[CGROUP_MEMORY] < 0 || t->roots[CGROUP_PIDS] < 0 ? -ENOENT : 0;
}

static void tree_close(struct cgroup_tree *t)
{
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        cleanup_close(&t->roots[i]);
}

/* `wanted` are bits of controllers; of version 1 only those are looked for. Negative if neither
 * version can be used; then `why` says what is missing. */
static int tree_open(struct cgroup_tree *ret, unsigned wanted, char *why, size_t size)
{
    struct cgroup_tree t = {.names = &VERSION_1, .roots = {-1, -1, -1, -1}};
    int v2 = tree_open_v2(&t), v1 = v2;
    /* What fails for want of descriptors or memory says nothing about the host. */
    if (v2 < 0 && v2 != -EMFILE && v2 != -ENFILE && v2 != -ENOMEM)
        v1 = tree_open_v1(&t, wanted);
    if (v1 == 0) {
        *ret = t;
        return 0;
    }
    tree_close(&t);
    if (v2 == -EROFS || v1 == -EROFS)
        snprintf(why, size, "control groups are mounted read-only");
    else if (v2 == -EACCES || v1 == -EACCES)
        snprintf(why, size, "control groups are not %s",
                 geteuid() == 0 ? "writable here" : "delegated to this user");
    else
        snprintf(why, size, "no memory and pids controllers (version 2: %s; version 1: %s)",
                 strerror(-v2), strerror(-v1));
    return v1;
}

int cgroup_version(char *why, size_t size)
{
    struct cgroup_tree tree;
    if (tree_open(&tree, ~0u, why, size) < 0)
        return 0;
    tree_close(&tree);
    return tree.names == &VERSION_2 ? 2 : 1;
}

/* A number, or that of a line "key number", as in memory.stat; 0 if there is none. */
static uint64_t cgroup_read_value(int folder, const char *file, const char *key)
{
    char text[8192];
    _cleanup_fd_ int fd = folder < 0 || !file ? -1 : openat(folder, file, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (n <= 0)
        return 0;
    text[n] = 0;
    if (!key)
        return strtoull(text, NULL, 10);
    size_t len = strlen(key);
    for (const char *at = text; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
        if (strncmp(at, key, len) == 0 && at[len] == ' ')
            return strtoull(at + len + 1, NULL, 10);
    return 0;
}

/* Usage less what the kernel gives up when memory gets short (file content, and where it is counted
 * apart, cached names and inodes): what processes have allocated, and the kernel for them. */
static uint64_t cgroup_process_memory(const struct cgroup *g)
{
    int folder = g->folders[CGROUP_MEMORY];
    uint64_t all = cgroup_read_value(folder, g->names->memory_now, NULL);
    uint64_t cached = cgroup_read_value(folder, "memory.stat", g->names->stat_files);
    if (g->names->stat_slab)
        cached += cgroup_read_value(folder, "memory.stat", g->names->stat_slab);
    return all > cached ? all - cached : 0;
}

void cgroup_read(const struct cgroup *g, bool with_memory, struct cgroup_usage *ret)
{
    const struct cgroup_names *n = g->names;
    const int memory = g->folders[CGROUP_MEMORY];
    uint64_t cpu = cgroup_read_value(g->folders[CGROUP_CPUACCT], n->cpu_usage, n->cpu_usage_key);
    *ret = (struct cgroup_usage){
        .cpu_ns = (int64_t)cpu * n->cpu_usage_ns - g->before.cpu_ns,
        .oom_kills = cgroup_read_value(memory, n->oom_events, "oom_kill") - g->before.oom_kills,
        .pids_hits =
            cgroup_read_value(g->folders[CGROUP_PIDS], "pids.events", "max") - g->before.pids_hits,
    };
    if (with_memory)
        ret->memory = cgroup_process_memory(g);
    if (with_memory && n->stat_sockets)
        ret->sockets = cgroup_read_value(memory, "memory.stat", n->stat_sockets);
}

PRINTF(5, 6)
static int cgroup_set(const struct cgroup *g, int controller, const char *file, struct error *err,
                      const char *fmt, ...)
{
    char text[64];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    int r = io_write_file(g->folders[controller], file, text);
    return r < 0 ? error_errno(err, -r, "cannot set %s of the box's control group", file) : 0;
}

static int cgroup_set_pids(const struct cgroup *g, uint64_t pids, struct error *err)
{
    return cgroup_set(g, CGROUP_PIDS, "pids.max", err, "%llu", (unsigned long long)pids);
}

/*
 * The kernel's limit on memory covers the box's files too, since they live in memory (the store);
 * so it is the sum of both, and what processes alone may use is watched by the host (box_tick). The
 * sum holds whatever happens. Version 1 counts buffers of TCP and UDP only where they have a limit,
 * and apart.
 */
static int cgroup_set_memory(struct cgroup *g, const struct box_limits *l, struct error *err)
{
    int r = cgroup_set(g, CGROUP_MEMORY, g->names->memory_max, err, "%llu",
                       (unsigned long long)(l->memory + l->disk));
    if (r < 0 || !g->names->sockets_max || weakened("sockets"))
        return r;
    r = cgroup_set(g, CGROUP_MEMORY, g->names->sockets_max, err, "%llu",
                   (unsigned long long)limit_sockets(l));
    /* No file: a kernel without CONFIG_MEMCG_V1 or CONFIG_INET leaves them to the limits of the
     * host. Busy: what the last box of this group held is still being freed, and its limit is in
     * force. */
    return r == -ENOENT || r == -EBUSY ? 0 : r;
}

static int cgroup_set_cpus(struct cgroup *g, const struct box_limits *l, struct error *err)
{
    char text[64];
    snprintf(text, sizeof text, g->names->cpu_format, (long long)(l->cpus * 100000));
    return cgroup_set(g, CGROUP_CPU, g->names->cpu_max, err, "%s",
                      l->cpus > 0 ? text : g->names->cpu_none);
}

int cgroup_change(struct cgroup *g, const struct box_limits *limits, unsigned field,
                  struct error *err)
{
    if (field == BOX_SET_PIDS)
        return cgroup_set_pids(g, limits->pids + GUEST_TASKS, err);
    if (field == BOX_SET_CPUS)
        return cgroup_set_cpus(g, limits, err);
    int r = cgroup_set_memory(g, limits, err);
    if (r == -EBUSY)
        return error_set(err, EBUSY,
                         "--memory: the box uses more than that now; end what runs in it first");
    return r;
}

struct cgroup *cgroup_release(struct cgroup *g)
{
    if (!g)
        return NULL;
    for (size_t i = 0; i < g->n_joins; i++)
        cleanup_close(&g->joins[i]);
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        if (i == 0 || g->folders[i] != g->folders[0])
            cleanup_close(&g->folders[i]);
    free(g);
    return NULL;
}

/* 1 if the lock is ours now, 0 if it is another's. */
static int cgroup_lock(int folder)
{
    if (flock(folder, LOCK_EX | LOCK_NB) == 0)
        return 1;
    return errno == EWOULDBLOCK ? 0 : -errno;
}

/* Free to take: nobody holds its lock, nothing lives in it, nothing of the last box weighs on it.
 * 1, 0 or a negative errno. */
static int cgroup_take(struct cgroup *g)
{
    const int folder = g->folders[CGROUP_MEMORY];
    char byte;
    int r = cgroup_lock(folder);
    if (r != 1)
        return r;
    _cleanup_fd_ int procs = openat(folder, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    if (procs < 0)
        return -errno;
    if (read(procs, &byte, 1) > 0)
        return 0;
    /* The file with the details is slow to read, and needed only where much is left. */
    if (cgroup_read_value(folder, g->names->memory_now, NULL) <= LEFT_MAX)
        return 1;
    if (cgroup_read_value(folder, "memory.stat", "shmem") > SHMEM_LEFT_MAX)
        return 0;
    /* Names and inodes that the last box looked up stay cached and charged: the next box must not
     * be killed for them. */
    if (cgroup_process_memory(g) > LEFT_MAX)
        io_write_file(folder, g->names->reclaim, g->names->reclaim_text);
    return cgroup_process_memory(g) <= LEFT_MAX;
}

/*
 * The other controllers' folders of the same number, and the files to join by. In version 1 each is
 * locked too: two sessions of one host may have different groups of one controller and the same of
 * another. It is joined through "tasks": a thread that moves itself needs none of the locks that
 * moving a process takes, which cost a grace period of RCU, ten milliseconds on an idle machine. In
 * version 2 a process is born in its group.
 */
static int cgroup_open_others(struct cgroup *g, const struct cgroup_tree *t, const char *name,
                              unsigned wanted)
{
    for (int i = CGROUP_MEMORY + 1; i < CGROUP_CONTROLLERS; i++) {
        if (t->names == &VERSION_2) {
            g->folders[i] = t->controllers & (1u << i) ? g->folders[CGROUP_MEMORY] : -1;
            continue;
        }
        if (t->roots[i] < 0 || !(wanted & (1u << i)))
            continue;
        int r = g->folders[i] = cgroup_open_folder(t->roots[i], name);
        if (r >= 0)
            r = cgroup_lock(g->folders[i]);
        if (r != 1)
            return r;
    }
    for (int i = 0; i < CGROUP_CONTROLLERS && t->names == &VERSION_1; i++) {
        if (g->folders[i] < 0)
            continue;
        int fd = openat(g->folders[i], "tasks", O_WRONLY | O_CLOEXEC);
        if (fd < 0)
            return -errno;
        g->joins[g->n_joins++] = fd;
    }
    g->limits_cpus = wanted & (1u << CGROUP_CPU) && g->folders[CGROUP_CPU] >= 0;
    return 1;
}

/* 1 with the group of that number, 0 if it is in use, or a negative errno. */
static int cgroup_try(const struct cgroup_tree *t, unsigned number, unsigned wanted,
                      struct cgroup **ret)
{
    struct cgroup *g = malloc(sizeof *g);
    if (!g)
        return -ENOMEM;
    char name[32], text[32];
    snprintf(name, sizeof name, "%u", number);
    *g = (struct cgroup){.names = t->names, .folders = {-1, -1, -1, -1}};
    /* The first box of this number limits the sum of all: once is enough. */
    if (faccessat(t->roots[CGROUP_MEMORY], name, F_OK, 0) < 0) {
        uint64_t memory = host_memory(NULL);
        snprintf(text, sizeof text, "%llu", (unsigned long long)memory / 4 * 3);
        if (memory != UINT64_MAX)
            io_write_file(t->roots[CGROUP_MEMORY], t->names->memory_max, text);
    }
    int r = g->folders[CGROUP_MEMORY] = cgroup_open_folder(t->roots[CGROUP_MEMORY], name);
    if (r >= 0)
        r = cgroup_take(g);
    if (r == 1)
        r = cgroup_open_others(g, t, name, wanted);
    if (r == 1)
        *ret = g;
    else
        cgroup_release(g);
    return r;
}

int cgroup_acquire(const struct box_limits *limits, bool one_shot, struct cgroup **ret,
                   struct error *err)
{
    struct cgroup_tree tree;
    struct cgroup *g = NULL;
    char why[200];

    /* In version 1 each controller costs a box time: those of the processor are joined where they
     * have something to do. */
    unsigned wanted = 1u << CGROUP_MEMORY | 1u << CGROUP_PIDS;
    if (limits->cpus > 0)
        wanted |= 1u << CGROUP_CPU;
    if (limits->cpu_time_ns > 0 || !one_shot)
        wanted |= 1u << CGROUP_CPUACCT;
    *ret = NULL;
    if (weakened("cgroup"))
        return 0;
    int r = tree_open(&tree, wanted, why, sizeof why);
    bool exhausted = r == -EMFILE || r == -ENFILE || r == -ENOMEM;
    if (r < 0 && !exhausted)
        return 0; /* a host without control groups */
    if (r == 0) {
        for (unsigned i = 0; i < CGROUP_POOL_MAX && r == 0; i++)
            r = cgroup_try(&tree, i, wanted, &g);
        tree_close(&tree);
    }
    if (r < 0)
        return error_errno(err, -r, "the box did not start: cannot open a control group for it");
    if (r == 0)
        return error_set(
            err, EAGAIN,
            "the box did not start: all %d control groups for boxes are in use; end some boxes",
            CGROUP_POOL_MAX);
    *ret = g;
    return 0;
}

int cgroup_begin(struct cgroup *g, const struct box_limits *limits, struct error *err)
{
    if (!g)
        return 0;
    int r = cgroup_set_memory(g, limits, err);
    if (r == 0)
        r = cgroup_set_pids(g, limits->pids + GUEST_TASKS + STARTERS, err);
    if (r == 0 && g->folders[CGROUP_CPU] >= 0 && (g->names == &VERSION_2 || limits->cpus != 0))
        r = cgroup_set_cpus(g, limits, err);
    g->before = (struct cgroup_usage){0};
    if (r == 0)
        cgroup_read(g, false, &g->before);
    return r;
}

int cgroup_started(struct cgroup *g, const struct box_limits *limits, struct error *err)
{
    return g ? cgroup_set_pids(g, limits->pids + GUEST_TASKS, err) : 0;
}

const int *cgroup_joins(const struct cgroup *g, size_t *ret_n)
{
    *ret_n = g ? g->n_joins : 0;
    return g ? g->joins : NULL;
}

int cgroup_birthplace(const struct cgroup *g)
{
    return g && g->names == &VERSION_2 ? g->folders[0] : -1;
}

int cgroup_entrance(const struct cgroup *g, struct cgroup_entrance *ret)
{
    ret->n_joins = 0;
    ret->own = -1;
    if (!g)
        return 0;
    for (size_t i = 0; i < g->n_joins; i++)
        ret->joins[ret->n_joins++] = g->joins[i];
    if (g->names == &VERSION_1)
        return 0;
    ret->own = openat(g->folders[0], "cgroup.procs", O_WRONLY | O_CLOEXEC);
    ret->joins[ret->n_joins++] = ret->own;
    return ret->own < 0 ? -errno : 0;
}

bool cgroup_limits_cpus(const struct cgroup *g)
{
    return g && g->limits_cpus;
}
