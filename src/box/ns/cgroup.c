#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "backend.h"
#include "cgroup.h"
#include "cgroup_tree.h"
#include "io.h"
#include "weaken.h"
#include "banned.h"

/* File content that outlived its box (a fork still uses it) would count against the next: such a
 * group is passed over. */
#define SHMEM_LEFT_MAX (1u << 20)
#define LEFT_MAX       (16u << 20)
#define STARTERS       2 /* processes beside process 1 while a box starts (spawn.h) */

struct cgroup {
    const struct cgroup_names *names;
    int folders[CGROUP_CONTROLLERS]; /* one each in version 1, all the same in version 2, -1: not
                                        there */
    int joins[CGROUP_CONTROLLERS];
    size_t n_joins;
    bool limits_cpus;
    struct cgroup_usage before;
};

/* "key value" lines, as in memory.stat; 0 if absent. */
static uint64_t keyed(const char *text, const char *key)
{
    size_t n = strlen(key);
    for (const char *at = text; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
        if (strncmp(at, key, n) == 0 && at[n] == ' ')
            return strtoull(at + n + 1, NULL, 10);
    return 0;
}

static uint64_t read_value(int folder, const char *file, const char *key)
{
    char path_text[8192];
    _cleanup_fd_ int fd = folder < 0 || !file ? -1 : openat(folder, file, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, path_text, sizeof path_text - 1);
    if (n <= 0)
        return 0;
    path_text[n] = 0;
    return key ? keyed(path_text, key) : strtoull(path_text, NULL, 10);
}

/* Usage less what the kernel gives up when memory gets short (file content, and where it is counted
 * apart, cached names and inodes): what processes have allocated, and the kernel for them. */
static uint64_t process_memory(const struct cgroup *g)
{
    int folder = g->folders[CGROUP_MEMORY];
    uint64_t all = read_value(folder, g->names->memory_now, NULL);
    uint64_t cached = read_value(folder, "memory.stat", g->names->stat_files);
    if (g->names->stat_slab)
        cached += read_value(folder, "memory.stat", g->names->stat_slab);
    return all > cached ? all - cached : 0;
}

static void read_totals(const struct cgroup *g, struct cgroup_usage *ret)
{
    const struct cgroup_names *n = g->names;
    *ret = (struct cgroup_usage){
        .cpu_ns = (int64_t)read_value(g->folders[CGROUP_CPUACCT], n->cpu_usage, n->cpu_usage_key) *
                  n->cpu_usage_ns,
        .oom_kills = read_value(g->folders[CGROUP_MEMORY], n->oom_events, "oom_kill"),
        .pids_hits = read_value(g->folders[CGROUP_PIDS], "pids.events", "max"),
    };
}

void cgroup_read(const struct cgroup *g, bool with_memory, struct cgroup_usage *ret)
{
    read_totals(g, ret);
    ret->cpu_ns -= g->before.cpu_ns;
    ret->oom_kills -= g->before.oom_kills;
    ret->pids_hits -= g->before.pids_hits;
    if (!with_memory)
        return;
    ret->memory = process_memory(g);
    if (g->names->stat_sockets)
        ret->sockets = read_value(g->folders[CGROUP_MEMORY], "memory.stat", g->names->stat_sockets);
}

static int set_limit(const struct cgroup *g, int controller, const char *file, const char *text,
                     struct error *err)
{
    int r = io_write_file(g->folders[controller], file, text);
    return r < 0 ? error_errno(err, -r, "cannot set %s of the box's control group", file) : 0;
}

static int set_pids(const struct cgroup *g, uint64_t pids, struct error *err)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)pids);
    return set_limit(g, CGROUP_PIDS, "pids.max", text, err);
}

/* Buffers of TCP and UDP, which version 1 counts only where they have a limit, and apart. A kernel
 * without the file (CONFIG_MEMCG_V1, CONFIG_INET) leaves them to the limits of the host. */
static int set_sockets(const struct cgroup *g, const struct box_limits *l, struct error *err)
{
    char text[32];
    if (!g->names->sockets_max || weakened("sockets"))
        return 0;
    snprintf(text, sizeof text, "%llu", (unsigned long long)limit_sockets(l));
    int r = set_limit(g, CGROUP_MEMORY, g->names->sockets_max, text, err);
    /* Busy: what the last box of this group held is still being freed, and its limit is in force.
     */
    return r == -ENOENT || r == -EBUSY ? 0 : r;
}

/*
 * The kernel's limit on memory covers the box's files too, since they live in memory (the store);
 * so it is the sum of both, and what processes alone may use is watched by the host (box_tick). The
 * sum holds whatever happens.
 */
static int set_memory(struct cgroup *g, const struct box_limits *l, struct error *err)
{
    char text[64];
    snprintf(text, sizeof text, "%llu", (unsigned long long)(l->memory + l->disk));
    int r = set_limit(g, CGROUP_MEMORY, g->names->memory_max, text, err);
    return r < 0 ? r : set_sockets(g, l, err);
}

static int set_cpus(struct cgroup *g, const struct box_limits *l, struct error *err)
{
    char text[64];
    if (l->cpus > 0)
        snprintf(text, sizeof text, g->names->cpu_format, (long long)(l->cpus * 100000));
    else
        snprintf(text, sizeof text, "%s", g->names->cpu_none);
    return set_limit(g, CGROUP_CPU, g->names->cpu_max, text, err);
}

static int set_limits(struct cgroup *g, const struct box_limits *l, struct error *err)
{
    int r = set_memory(g, l, err);
    if (r == 0)
        r = set_pids(g, l->pids + GUEST_TASKS + STARTERS, err);
    if (r < 0 || g->folders[CGROUP_CPU] < 0 || (g->names == cgroup_names(1) && l->cpus == 0))
        return r;
    return set_cpus(g, l, err);
}

int cgroup_change(struct cgroup *g, const struct box_limits *limits, unsigned field,
                  struct error *err)
{
    if (field == BOX_SET_PIDS)
        return set_pids(g, limits->pids + GUEST_TASKS, err);
    if (field == BOX_SET_CPUS)
        return set_cpus(g, limits, err);
    int r = set_memory(g, limits, err);
    if (r == -EBUSY)
        return error_set(err, EBUSY,
                         "--memory: the box uses more than that now; end what runs in it first");
    return r;
}

static void free_group(struct cgroup *g)
{
    for (size_t i = 0; i < g->n_joins; i++)
        cleanup_close(&g->joins[i]);
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        if (i == 0 || g->folders[i] != g->folders[0])
            cleanup_close(&g->folders[i]);
    free(g);
}

/* Opened, and made where it is not there yet: nearly always it is. */
static int open_folder(int root, const char *name)
{
    int fd = openat(root, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && (mkdirat(root, name, 0755) == 0 || errno == EEXIST))
        fd = openat(root, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* 1 if the lock is ours now, 0 if it is another's. */
static int lock(int folder)
{
    if (flock(folder, LOCK_EX | LOCK_NB) == 0)
        return 1;
    return errno == EWOULDBLOCK ? 0 : -errno;
}

/*
 * The other controllers' folders of the same number. In version 1 each is locked too: two sessions
 * of one host may have different groups of one controller and the same of another.
 */
static int open_folders(struct cgroup *g, const struct cgroup_tree *t, const char *name,
                        unsigned wanted)
{
    for (int i = CGROUP_MEMORY + 1; i < CGROUP_CONTROLLERS; i++) {
        if (t->version == 2) {
            g->folders[i] = t->controllers & (1u << i) ? g->folders[CGROUP_MEMORY] : -1;
            continue;
        }
        if (t->roots[i] < 0 || !(wanted & (1u << i)))
            continue;
        int fd = open_folder(t->roots[i], name);
        if (fd < 0)
            return fd;
        g->folders[i] = fd;
        int r = lock(fd);
        if (r != 1)
            return r;
    }
    return 1;
}

/*
 * Version 1 is joined through "tasks": a thread that moves itself needs none of the locks that
 * moving a process takes, which cost a grace period of RCU, ten milliseconds on an idle machine. In
 * version 2 a process is born in its group.
 */
static int open_joins(struct cgroup *g)
{
    if (g->names == cgroup_names(2))
        return 0;
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        if (g->folders[i] < 0)
            continue;
        int fd = openat(g->folders[i], "tasks", O_WRONLY | O_CLOEXEC);
        if (fd < 0)
            return -errno;
        g->joins[g->n_joins++] = fd;
    }
    return 0;
}

/* Free to take: nobody holds its lock, nothing lives in it, nothing of the last box weighs on it.
 * 1, 0 or an errno. */
static int take(struct cgroup *g)
{
    int r = lock(g->folders[CGROUP_MEMORY]);
    if (r != 1)
        return r;
    char byte;
    _cleanup_fd_ int procs =
        openat(g->folders[CGROUP_MEMORY], "cgroup.procs", O_RDONLY | O_CLOEXEC);
    if (procs < 0)
        return -errno;
    if (read(procs, &byte, 1) > 0)
        return 0;
    /* The file with the details is slow to read, and needed only where much is left. */
    if (read_value(g->folders[CGROUP_MEMORY], g->names->memory_now, NULL) <= LEFT_MAX)
        return 1;
    if (read_value(g->folders[CGROUP_MEMORY], "memory.stat", "shmem") > SHMEM_LEFT_MAX)
        return 0;
    /* Names and inodes that the last box looked up stay cached and charged: the next box must not
     * be killed for them. */
    if (process_memory(g) > LEFT_MAX)
        io_write_file(g->folders[CGROUP_MEMORY], g->names->reclaim, g->names->reclaim_text);
    return process_memory(g) <= LEFT_MAX;
}

static int try_group(const struct cgroup_tree *t, unsigned number, unsigned wanted,
                     struct cgroup **ret)
{
    struct cgroup *g = malloc(sizeof *g);
    if (!g)
        return -ENOMEM;
    char name[32];
    snprintf(name, sizeof name, "%u", number);
    *g = (struct cgroup){.names = cgroup_names(t->version), .folders = {-1, -1, -1, -1}};
    if (faccessat(t->roots[CGROUP_MEMORY], name, F_OK, 0) <
        0) /* the first box of this number: once is enough */
        cgroup_tree_limit(t);
    int r = g->folders[CGROUP_MEMORY] = open_folder(t->roots[CGROUP_MEMORY], name);
    if (r >= 0)
        r = take(g);
    if (r == 1)
        r = open_folders(g, t, name, wanted);
    int joined = r == 1 ? open_joins(g) : 0;
    if (joined < 0)
        r = joined;
    g->limits_cpus = wanted & (1u << CGROUP_CPU) && g->folders[CGROUP_CPU] >= 0;
    if (r != 1) {
        free_group(g);
        return r;
    }
    *ret = g;
    return 1;
}

/* In version 1 each controller costs a box its time: those of the processor are joined where they
 * have something to do. */
static unsigned controllers_for(const struct box_limits *limits, bool one_shot)
{
    unsigned wanted = 1u << CGROUP_MEMORY | 1u << CGROUP_PIDS;
    if (limits->cpus > 0)
        wanted |= 1u << CGROUP_CPU;
    if (limits->cpu_time_ns > 0 || !one_shot)
        wanted |= 1u << CGROUP_CPUACCT;
    return wanted;
}

int cgroup_acquire(const struct box_limits *limits, bool one_shot, struct cgroup **ret,
                   struct error *err)
{
    struct cgroup_tree tree;
    unsigned wanted = controllers_for(limits, one_shot);
    *ret = NULL;
    if (weakened("cgroup"))
        return 0;
    struct cgroup *g = NULL;
    int r = cgroup_tree_open(&tree, wanted, NULL, 0);
    if (r == -EMFILE || r == -ENFILE ||
        r == -ENOMEM) /* not to be mistaken for a host without control groups */
        return error_errno(err, -r, "the box did not start: cannot open a control group for it");
    if (r < 0)
        return 0;
    for (unsigned i = 0; i < CGROUP_POOL_MAX && r == 0; i++)
        r = try_group(&tree, i, wanted, &g);
    cgroup_tree_close(&tree);
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
    int r = set_limits(g, limits, err);
    if (r == 0)
        read_totals(g, &g->before);
    return r;
}

int cgroup_started(struct cgroup *g, const struct box_limits *limits, struct error *err)
{
    return g ? set_pids(g, limits->pids + GUEST_TASKS, err) : 0;
}

struct cgroup *cgroup_release(struct cgroup *g)
{
    if (g)
        free_group(g);
    return NULL;
}

const int *cgroup_joins(const struct cgroup *g, size_t *ret_n)
{
    *ret_n = g ? g->n_joins : 0;
    return g ? g->joins : NULL;
}

int cgroup_birthplace(const struct cgroup *g)
{
    return g && g->names == cgroup_names(2) ? g->folders[0] : -1;
}

int cgroup_entrance(const struct cgroup *g, struct cgroup_entrance *ret)
{
    ret->n_joins = 0;
    ret->own = -1;
    if (!g)
        return 0;
    for (size_t i = 0; i < g->n_joins; i++)
        ret->joins[ret->n_joins++] = g->joins[i];
    if (g->names == cgroup_names(1))
        return 0;
    ret->own = openat(g->folders[0], "cgroup.procs", O_WRONLY | O_CLOEXEC);
    ret->joins[ret->n_joins++] = ret->own;
    return ret->own < 0 ? -errno : 0;
}

bool cgroup_limits_cpus(const struct cgroup *g)
{
    return g && g->limits_cpus;
}

int cgroup_version(char *why, size_t size)
{
    struct cgroup_tree tree;
    int r = cgroup_tree_open(&tree, ~0u, why, size);
    if (r < 0)
        return 0;
    int version = tree.version;
    cgroup_tree_close(&tree);
    return version;
}
