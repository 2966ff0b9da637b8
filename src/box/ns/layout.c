#include <linux/capability.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include "backend.h"
#include "layout.h"
#include "selection.h"
#include "skeleton/lists.h"
#include "store_quota.h"
#include "weaken.h"
#include "banned.h"

#define NPROC_MARGIN 64
/* Only root can raise this limit of a process later, so it is beyond what box_adjust() will ask
 * for. */
#define NPROC_ADJUSTABLE 65536
#define GUEST_FILES      4096

static void attach(struct plan *p, int slot, int to, const char *path)
{
    plan_add(
        p, 2,
        (struct op){.kind = OP_ATTACH, .slot = slot, .to = to, .path = path, .optional = true});
}

static void mkdir_in(struct plan *p, int stage, int to, const char *path, mode_t mode)
{
    plan_add(p, stage, (struct op){.kind = OP_MKDIR, .to = to, .path = path, .flags = mode});
}

/* Beside a disk the tmpfs holds what the box cannot write: mount points and the layers of /etc. */
#define SMALL_STORE "size=4194304,nr_inodes=16384,mode=0755"

static void add_store_tmpfs(struct plan *p, const struct layout *l)
{
    uint64_t disk = weakened("disk") ? 1ULL << 40 : l->disk;
    const char *full = plan_text(p, "size=%llu,nr_inodes=%llu,mode=0755", (unsigned long long)disk,
                                 (unsigned long long)STORE_INODES(disk));
    plan_add(p, 2,
             (struct op){
                 .kind = OP_TMPFS, .slot = SLOT_STORE, .text = l->disk_path ? SMALL_STORE : full});
}

/* The host hands over a mount of the folder on disk (root), or it is cloned by its path: for a fork
 * in stage 0, since the mounts of its source do not show it. The folders that grow are there, and
 * links lead to them.
 */
static void add_disk(struct plan *p, const struct layout *l, int stage)
{
    static const char *const DIRS[] = {"r", "w", "s"};
    int slot = plan_slot(p);
    if (l->disk_mount >= 0)
        p->fds[slot] = l->disk_mount;
    else
        plan_add(p, stage,
                 (struct op){.kind = OP_CLONE,
                             .slot = slot,
                             .from = SLOT_HOST,
                             .path = plan_text(p, "%s", l->disk_path),
                             .flags = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV});
    mkdir_in(p, 2, SLOT_STORE, "d", 0755);
    attach(p, slot, SLOT_STORE, "d");
    for (size_t i = 0; i < ARRAY_SIZE(DIRS); i++) {
        const char *path = plan_text(p, "d/%s", DIRS[i]);
        mkdir_in(p, 2, SLOT_STORE, path, 0755);
        plan_add(p, 2,
                 (struct op){.kind = OP_SYMLINK, .to = SLOT_STORE, .path = DIRS[i], .text = path});
    }
}

/* The store comes first, on top of the host's /proc until there is a root of ours to put it into.
 */
static void add_store(struct plan *p, const struct layout *l, int stage)
{
    static const char *const DIRS[] = {"k",   "r",    "r/u", "r/k", "w", "w/u",
                                       "w/k", "base", "s",   "e",   "c", "g"};
    plan_add(p, 2, (struct op){.kind = OP_PROC, .slot = SLOT_PROC});
    add_store_tmpfs(p, l);
    attach(p, SLOT_STORE, SLOT_HOST, "/proc");
    if (l->disk_path)
        add_disk(p, l, stage);
    for (size_t i = 0; i < ARRAY_SIZE(DIRS); i++)
        mkdir_in(p, 2, SLOT_STORE, DIRS[i], 0755);
    if (l->has_image)
        mkdir_in(p, 2, SLOT_STORE, "img", 0755);
    plan_add(p, 2, (struct op){.kind = OP_FILE, .to = SLOT_STORE, .path = "guest", .flags = 0644});
    plan_add(p, 2, (struct op){.kind = OP_CHDIR, .slot = SLOT_STORE});
}

/* "l0/w:l1/w:…:base": the layers of one of the two overlays, newest first. */
static const char *lower_list(struct plan *p, const struct layout *l, const char *which,
                              const char *base)
{
    char text[192];
    size_t n = 0;
    for (size_t i = 0; i < l->n_layers; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "l%zu/%s:", i, which);
    snprintf(text + n, sizeof text - n, "%s", base);
    return plan_text(p, "%s", text);
}

static const char *root_base(const struct layout *l)
{
    return l->has_image ? "k:img" : "k";
}

static void add_root(struct plan *p, const struct layout *l)
{
    plan_add(p, 2,
             (struct op){.kind = OP_OVERLAY,
                         .slot = SLOT_ROOT,
                         .path = "r",
                         .text = lower_list(p, l, "r", root_base(l)),
                         .flags = l->disk_path != NULL});
    attach(p, SLOT_ROOT, SLOT_HOST, "/");
}

static uint64_t share_flags(bool writable)
{
    return MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (writable ? 0 : MOUNT_ATTR_RDONLY);
}

/* An overlay without an upper: read-only, and with files of its own, so that no socket in it leads
 * to the host. */
static void read_only_overlay(struct plan *p, int slot, const char *folder)
{
    plan_add(p, 2,
             (struct op){.kind = OP_OVERLAY, .slot = slot, .text = plan_text(p, "e:%s", folder)});
}

/* A part that comes as a ready detached mount (root: id-mapped by the host) or is cloned by path
 * (ordinary user). */
static void add_source(struct plan *p, int slot, int fd, const char *path, uint64_t flags, int to,
                       const char *at)
{
    if (fd >= 0)
        p->fds[slot] = fd;
    else
        plan_add(p, 2,
                 (struct op){.kind = OP_CLONE,
                             .slot = slot,
                             .from = SLOT_HOST,
                             .path = path,
                             .flags = flags,
                             .recursive = true});
    plan_add(p, 2, (struct op){.kind = OP_ATTACH, .slot = slot, .to = to, .path = at});
}

/* /etc of a box that shows the host's: an overlay without an upper, so that it is read-only
 * (selection.c). */
static void add_etc(struct plan *p, const struct layout *l)
{
    int slot = plan_slot(p);
    if (l->has_image || l->selection.etc_in_parts)
        return;
    plan_add(p, 2,
             (struct op){.kind = OP_OVERLAY, .slot = slot, .text = "c/own:k/etc:c/hide:c/host"});
    attach(p, slot, SLOT_ROOT, "etc");
}

static void add_fresh_etc_layers(struct plan *p, const struct layout *l,
                                 const struct layout_sources *from)
{
    static const char *const DIRS[] = {"c/own", "c/hide", "c/host"};
    for (size_t i = 0; i < ARRAY_SIZE(DIRS); i++)
        mkdir_in(p, 2, SLOT_STORE, DIRS[i], 0755);
    plan_add(p, 2,
             (struct op){.kind = OP_HIDE,
                         .to = SLOT_STORE,
                         .path = "c/hide",
                         .text = plan_bytes(p, from->etc->hidden, from->etc->hidden_size)});
    add_source(p, plan_slot(p), from->etc_fd, "/etc", share_flags(false), SLOT_STORE, "c/host");
}

/* The workspace as the mode asks: an overlay over base, base itself, or base read-only. */
static void add_workspace(struct plan *p, const struct layout *l)
{
    int slot = plan_slot(p);
    if (l->mode == BOX_COW || !l->has_workspace)
        plan_add(p, 2,
                 (struct op){.kind = OP_OVERLAY,
                             .slot = slot,
                             .path = "w",
                             .text = lower_list(p, l, "w", "base"),
                             .flags = l->disk_path != NULL});
    else if (l->mode == BOX_DIRECT)
        plan_add(p, 2,
                 (struct op){.kind = OP_CLONE,
                             .slot = slot,
                             .from = SLOT_STORE,
                             .path = "base",
                             .recursive = true});
    else
        read_only_overlay(p, slot, "base");
    attach(p, slot, SLOT_ROOT, "workspace");
    if (!l->own_path[0])
        return;
    int again = plan_slot(p);
    plan_add(p, 2,
             (struct op){.kind = OP_CLONE,
                         .slot = again,
                         .from = SLOT_ROOT,
                         .path = "workspace",
                         .recursive = true});
    attach(p, again, SLOT_ROOT, plan_text(p, "%s", l->own_path + 1));
}

/* A clone of what lies at an absolute path now, attached at the same path of the new root. */
static void show(struct plan *p, const char *path, const char *at, uint64_t flags)
{
    int slot = plan_slot(p);
    plan_add(p, 2,
             (struct op){.kind = OP_CLONE,
                         .slot = slot,
                         .from = SLOT_HOST,
                         .path = path,
                         .flags = flags,
                         .recursive = true,
                         .optional = true});
    attach(p, slot, SLOT_ROOT, at + (*at == '/'));
}

static void add_devices(struct plan *p)
{
    for (size_t i = 0; i < LIST_DEVICES_N; i++) {
        const char *path = plan_text(p, "/dev/%s", LIST_DEVICES[i]);
        show(p, path, path, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    }
    int pts = plan_slot(p);
    plan_add(
        p, 2,
        (struct op){.kind = OP_DEVPTS, .slot = pts, .text = "mode=0620,ptmxmode=0666,max=256"});
    attach(p, pts, SLOT_ROOT, "dev/pts");
    int queues = plan_slot(p);
    plan_add(p, 2,
             (struct op){.kind = OP_KERNEL_FS, .slot = queues, .text = "mqueue", .optional = true});
    attach(p, queues, SLOT_ROOT, "dev/mqueue");
}

void layout_limit_files(const struct layout *l, struct limit_file ret[LIMIT_FILES])
{
    ret[0].path = "g/memory.max";
    snprintf(ret[0].text, sizeof ret[0].text, "%llu\n", (unsigned long long)l->memory);
    ret[1].path = "g/pids.max";
    snprintf(ret[1].text, sizeof ret[1].text, "%llu\n", (unsigned long long)l->pids);
    ret[2].path = "g/cpu.max";
    if (l->cpus > 0)
        snprintf(ret[2].text, sizeof ret[2].text, "%lld 100000\n", (long long)(l->cpus * 100000));
    else
        snprintf(ret[2].text, sizeof ret[2].text, "max 100000\n");
}

static void add_store_file(struct plan *p, const char *path, const char *text)
{
    plan_add(
        p, 2,
        (struct op){.kind = OP_FILE, .to = SLOT_STORE, .path = path, .text = text, .flags = 0644});
}

/*
 * Language runtimes size their heaps and pools by the files of their control group. The real ones
 * would not do: they limit processes and stored files together, and an ordinary user's box may have
 * no group at all. So a box reads files with its own limits, in the form of version 2. Programs
 * find the folder by looking for a mount of the type cgroup2, so there is one beneath it; and in
 * /proc/cgroups for which version is in use.
 */
static void add_limit_files(struct plan *p, const struct layout *l)
{
    struct limit_file limits[LIMIT_FILES];
    layout_limit_files(l, limits);
    for (size_t i = 0; i < LIMIT_FILES; i++)
        add_store_file(p, limits[i].path, plan_text(p, "%s", limits[i].text));
    add_store_file(p, "g/cgroup.controllers", "cpu memory pids\n");
    add_store_file(p, "g/memory.swap.max", "0\n");
    add_store_file(p, "cgroups",
                   "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpuset\t0\t1\t1\ncpu\t0\t1\t1\n"
                   "cpuacct\t0\t1\t1\nmemory\t0\t1\t1\npids\t0\t1\t1\n");
    int group = plan_slot(p), files = plan_slot(p), versions = plan_slot(p);
    plan_add(p, 2,
             (struct op){.kind = OP_KERNEL_FS,
                         .slot = group,
                         .text = "cgroup2",
                         .flags = MOUNT_ATTR_RDONLY,
                         .optional = true});
    attach(p, group, SLOT_ROOT, "sys/fs/cgroup");
    plan_add(p, 2,
             (struct op){.kind = OP_CLONE,
                         .slot = files,
                         .from = SLOT_STORE,
                         .path = "g",
                         .flags = share_flags(false)});
    attach(p, files, SLOT_ROOT, "sys/fs/cgroup");
    plan_add(p, 2,
             (struct op){.kind = OP_CLONE,
                         .slot = versions,
                         .from = SLOT_STORE,
                         .path = "cgroups",
                         .flags = share_flags(false)});
    attach(p, versions, SLOT_ROOT, "proc/cgroups");
}

/*
 * /proc in three layers: the store at the bottom, where only the host's descriptor reaches it; over
 * it a procfs for the last steps of the set-up; on top the same, with what tells about the host
 * masked and what sets something for the host read-only. The rest can be written as far as its
 * modes say: a process's own files.
 */
static void add_proc(struct plan *p, const struct layout *l)
{
    int top = plan_slot(p);
    attach(p, SLOT_STORE, SLOT_ROOT, "proc");
    attach(p, SLOT_PROC, SLOT_ROOT, "proc");
    plan_add(p, 2, (struct op){.kind = OP_CLONE, .slot = top, .from = SLOT_ROOT, .path = "proc"});
    attach(p, top, SLOT_ROOT, "proc");
    if (!weakened("proc-rw"))
        selection_protect_proc(p, &l->selection);
    if (!weakened("proc-mask"))
        selection_mask_proc(p, &l->selection);
}

static void add_shares(struct plan *p, const struct layout *l)
{
    for (size_t i = 0; i < l->n_shares; i++)
        show(p, l->shares[i].at, l->shares[i].at, share_flags(l->shares[i].writable));
}

static void rlimit(struct plan *p, int which, uint64_t value)
{
    plan_add(p, 2, (struct op){.kind = OP_RLIMIT, .from = which, .flags = value});
}

static void add_rlimits(struct plan *p, const struct layout *l)
{
    rlimit(p, RLIMIT_CORE,
           1); /* unlike 0, not even to a program of the host's that core_pattern names */
    rlimit(p, RLIMIT_NOFILE,
           l->files > GUEST_FILES ? l->files : GUEST_FILES); /* the guest lowers it for commands */
    /* Where a control group counts too, its limit is to be met first: it tells how
     * often. */
    uint64_t margin = !l->counted ? 0 : l->adjustable ? NPROC_ADJUSTABLE : NPROC_MARGIN;
    rlimit(p, RLIMIT_NPROC, l->pids + GUEST_TASKS + margin);
    /* What a box uses of these counts for the user who started it, too: a small part of what the
     * user has. */
    rlimit(p, RLIMIT_MEMLOCK, 2u << 20);
    rlimit(p, RLIMIT_MSGQUEUE, 204800);
    rlimit(p, RLIMIT_SIGPENDING, 1024);
}

void layout_landlock_rules(struct plan *p, const struct layout *l)
{
    static const char *const WRITABLE[] = {"/workspace", "/home/agent", "/tmp",
                                           "/run",       "/dev/shm",    "/dev/mqueue"};
    plan_rule(p, "/", LANDLOCK_READ);
    plan_rule(p, "/dev", LANDLOCK_DEVICES);
    plan_rule(p, "/proc", LANDLOCK_DEVICES);
    for (size_t i = 0; i < ARRAY_SIZE(WRITABLE); i++)
        plan_rule(p, WRITABLE[i], LANDLOCK_WRITE);
    for (size_t i = 0; i < l->n_shares; i++)
        if (l->shares[i].writable)
            plan_rule(p, plan_text(p, "%s", l->shares[i].at), LANDLOCK_WRITE);
}

unsigned layout_landlock_flags(const struct layout *l)
{
    return l->warm ? LANDLOCK_SIGNALS : 0;
}

/* Before Linux 6.14 it is one for all pid namespaces, and root's id may write it: the host's must
 * not change.
 */
bool layout_has_own_pid_max(void)
{
    struct utsname u;
    unsigned major = 0, minor = 0;
    return uname(&u) == 0 && sscanf(u.release, "%u.%u", &major, &minor) == 2 &&
           (major > 6 || (major == 6 && minor >= 14));
}

/* The kernel does not hold processes with root's id to RLIMIT_NPROC. Where no control group counts
 * them either, the numbers that they can have are limited. Those below 300 are not given again. */
static void add_pid_max(struct plan *p, const struct layout *l)
{
    if (l->selection.owner != 0 || l->counted || !layout_has_own_pid_max())
        return;
    uint64_t most = 300 + l->pids + NPROC_MARGIN;
    if (most < 1u << 22)
        plan_add(p, 2,
                 (struct op){.kind = OP_SYSCTL,
                             .path = "sys/kernel/pid_max",
                             .text = plan_text(p, "%llu", (unsigned long long)most)});
}

/* From the network to the guest: the part that is the same for a fresh box and a fork. */
static void add_ending(struct plan *p, const struct layout *l)
{
    int listener = 0;
    if (!l->host_network && !weakened("net"))
        plan_add(p, 2, (struct op){.kind = OP_NETWORK});
    if (l->has_proxy) {
        listener = plan_slot(p);
        plan_add(p, 2, (struct op){.kind = OP_LISTEN, .slot = listener, .flags = PROXY_PORT});
    }
    add_pid_max(p, l);
    if (!weakened("uts"))
        plan_add(p, 2, (struct op){.kind = OP_HOSTNAME, .text = "box"});
    plan_add(p, 2, (struct op){.kind = OP_HANDOVER, .slot = listener});
    plan_add(p, 2, (struct op){.kind = OP_PIVOT, .slot = SLOT_ROOT});
    plan_add(p, 2, (struct op){.kind = OP_CONFINE});
    /* In the box's own user namespace: limits that stood when it was made would hold for the sum of
     * all boxes that share the outer one, a box and its forks. */
    add_rlimits(p, l);
    layout_landlock_rules(p, l);
    plan_add(p, 2, (struct op){.kind = OP_LANDLOCK, .flags = layout_landlock_flags(l)});
    plan_add(p, 2,
             (struct op){.kind = OP_SECCOMP,
                         .flags = l->disk_is_watched ? OP_SECCOMP_NO_ALLOCATION : 0});
    plan_add(p, 2, (struct op){.kind = OP_EXEC, .slot = SLOT_GUEST});
}

static void add_fresh_sources(struct plan *p, const struct layout *l,
                              const struct layout_sources *from)
{
    add_source(p, SLOT_GUEST, from->guest_fd, from->guest, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID,
               SLOT_STORE, "guest");
    add_source(p, plan_slot(p), from->skeleton_fd, from->skeleton, share_flags(false), SLOT_STORE,
               "k");
    if (from->workspace)
        add_source(p, SLOT_WORKSPACE, from->workspace_fd, from->workspace,
                   share_flags(l->mode == BOX_DIRECT), SLOT_STORE, "base");
    if (from->image)
        add_source(p, plan_slot(p), from->image_fd, from->image, share_flags(false), SLOT_STORE,
                   "img");
}

/* A folder shown read-only goes through an overlay, as the workspace does: no socket in it leads to
 * the host. An overlay of a file does not exist, and a regular file cannot hold one: it is bound as
 * it is. */
static void add_fresh_shares(struct plan *p, const struct layout *l,
                             const struct layout_sources *from)
{
    for (size_t i = 0; i < l->n_shares; i++) {
        const char *at = plan_text(p, "%s", l->shares[i].at + 1), *below = plan_text(p, "x%zu", i);
        bool direct = l->shares[i].writable || l->shares[i].is_file || weakened("mount-ro");
        if (!direct)
            mkdir_in(p, 2, SLOT_STORE, below, 0755);
        add_source(p, plan_slot(p), from->share_fds[i], from->share_paths[i],
                   share_flags(l->shares[i].writable), direct ? SLOT_ROOT : SLOT_STORE,
                   direct ? at : below);
        if (direct)
            continue;
        int slot = plan_slot(p);
        read_only_overlay(p, slot, below);
        attach(p, slot, SLOT_ROOT, at);
    }
}

/* For the weakened build: folders of the host that no box ever sees. */
static void show_host(struct plan *p)
{
    static const char *const FOLDERS[] = {"/root", "/home", "/var", "/tmp", "/srv", "/run", "/etc"};
    for (size_t i = 0; i < ARRAY_SIZE(FOLDERS); i++) {
        mkdir_in(p, 2, SLOT_ROOT, FOLDERS[i] + 1, 0755);
        show(p, FOLDERS[i], FOLDERS[i], weakened("mount-ro") ? 0 : MOUNT_ATTR_RDONLY);
    }
}

void layout_fresh(struct plan *p, const struct layout *l, const struct layout_sources *from)
{
    add_store(p, l, 2);
    add_fresh_sources(p, l, from);
    if (!l->has_image && !l->selection.etc_in_parts)
        add_fresh_etc_layers(p, l, from);
    selection_own(p, l);
    selection_own_etc(p, l);
    add_root(p, l);
    if (!l->has_image)
        selection_show(p, &l->selection);
    if (l->selection.etc_in_parts)
        selection_show_etc_parts(p, from->etc);
    add_etc(p, l);
    if (weakened("root"))
        show_host(p);
    add_devices(p);
    add_workspace(p, l);
    add_fresh_shares(p, l, from);
    add_proc(p, l);
    add_limit_files(p, l);
    add_ending(p, l);
}

/* Picks up a part of the source box's store in the first stage, for the second to attach under the
 * same name.
 */
static void inherit(struct plan *p, int slot, const char *path, const char *at, uint64_t flags)
{
    plan_add(p, 1,
             (struct op){.kind = OP_CLONE,
                         .slot = slot,
                         .from = SLOT_SOURCE,
                         .path = path,
                         .flags = flags,
                         .recursive = true});
    plan_add(p, 2, (struct op){.kind = OP_ATTACH, .slot = slot, .to = SLOT_STORE, .path = at});
}

/* The snapshot itself is the newest layer, then those its box stands on. Number 0 is a template: no
 * layer. */
static void inherit_layers(struct plan *p, const struct layout *l, unsigned snap)
{
    size_t new = snap ? 1 : 0;
    for (size_t i = 0; i < l->n_layers; i++) {
        const char *at = plan_text(p, "l%zu", i);
        mkdir_in(p, 2, SLOT_STORE, at, 0755);
        const char *path = i < new ? plan_text(p, "s/%u", snap) : plan_text(p, "l%zu", i - new);
        inherit(p, plan_slot(p), path, at, share_flags(false));
    }
}

void layout_fork(struct plan *p, const struct layout *l, unsigned snap)
{
    add_store(p, l, 0);
    inherit(p, SLOT_GUEST, "guest", "guest", 0);
    inherit(p, plan_slot(p), "k", "k", 0);
    inherit(p, SLOT_WORKSPACE, "base", "base", 0);
    if (l->has_image)
        inherit(p, plan_slot(p), "img", "img", 0);
    inherit_layers(p, l, snap);
    if (!l->has_image && !l->selection.etc_in_parts)
        inherit(p, plan_slot(p), "c", "c", share_flags(false));
    if (!snap)
        selection_own(p, l); /* a snapshot has it in its layer */
    if (!snap && l->has_image)
        selection_own_etc(p, l);
    add_root(p, l);
    if (!l->has_image)
        selection_show(p, &l->selection);
    if (l->selection.etc_in_parts)
        plan_add(p, 2, (struct op){.kind = OP_SHOW, .path = "/etc", .flags = share_flags(false)});
    add_etc(p, l);
    add_devices(p);
    add_workspace(p, l);
    add_shares(p, l);
    add_proc(p, l);
    add_limit_files(p, l);
    add_ending(p, l);
}

/* Shows a diff worker one part of the box under an absolute name of its own small tree. */
static void show_diff_worker(struct plan *p, int from, const char *path, const char *at,
                             uint64_t flags)
{
    int slot = plan_slot(p);
    plan_add(
        p, 1,
        (struct op){.kind = OP_CLONE, .slot = slot, .from = from, .path = path, .flags = flags});
    mkdir_in(p, 2, SLOT_ROOT, at, 0755);
    /* A folder that was removed cannot be attached anywhere. Then the base is empty, as it is in
     * the overlay.
     */
    bool may_be_gone = from == SLOT_SOURCE && strcmp(path, "base") == 0;
    plan_add(
        p, 2,
        (struct op){
            .kind = OP_ATTACH, .slot = slot, .to = SLOT_ROOT, .path = at, .optional = may_be_gone});
}

/* One overlay seen from outside: its base, its layers raw, and what the box makes of them. */
static void show_overlay(struct plan *p, const struct layout *l, const char *which,
                         const char *base, const char *merged, unsigned snap)
{
    uint64_t ro = share_flags(false);
    mkdir_in(p, 2, SLOT_ROOT, which, 0755);
    if (base)
        show_diff_worker(p, SLOT_SOURCE, base, plan_text(p, "%s/base", which), ro);
    show_diff_worker(p, SLOT_HOST, merged, plan_text(p, "%s/merged", which), ro);
    show_diff_worker(p, SLOT_SOURCE, plan_text(p, "%s/u", which), plan_text(p, "%s/l0", which), ro);
    for (size_t i = 0; i < l->n_layers; i++)
        show_diff_worker(p, SLOT_SOURCE, plan_text(p, "l%zu/%s", i, which),
                         plan_text(p, "%s/l%zu", which, i + 1), ro);
    if (snap)
        mkdir_in(p, 1, SLOT_SOURCE, plan_text(p, "s/%u/%s", snap, which), 0755);
}

/* The image's lower is "k:img", which only an overlay can show as one folder. */
static void show_root_base(struct plan *p)
{
    int slot = plan_slot(p);
    plan_add(p, 1, (struct op){.kind = OP_CHDIR, .slot = SLOT_SOURCE});
    plan_add(p, 1, (struct op){.kind = OP_OVERLAY, .slot = slot, .text = "k:img"});
    mkdir_in(p, 2, SLOT_ROOT, "r/base", 0755);
    plan_add(p, 2, (struct op){.kind = OP_ATTACH, .slot = slot, .to = SLOT_ROOT, .path = "r/base"});
}

void layout_diff_worker(struct plan *p, const struct layout *l, unsigned snap)
{
    plan_add(
        p, 1,
        (struct op){.kind = OP_CLONE, .slot = SLOT_GUEST, .from = SLOT_SOURCE, .path = "guest"});
    if (snap)
        mkdir_in(p, 1, SLOT_SOURCE, plan_text(p, "s/%u", snap), 0755);
    plan_add(p, 2,
             (struct op){.kind = OP_TMPFS,
                         .slot = SLOT_ROOT,
                         .text = "size=1048576,nr_inodes=256,mode=0755"});
    attach(p, SLOT_ROOT, SLOT_HOST, "/");
    if (l->mode == BOX_COW && l->has_workspace && !snap)
        plan_add(p, 1, (struct op){.kind = OP_REFRESH, .from = SLOT_HOST, .path = "/workspace"});
    if (l->mode == BOX_COW || !l->has_workspace)
        show_overlay(p, l, "w", "base", "/workspace", snap);
    /* All snapshots as one mount: the new one has links to files of the last. */
    if (snap)
        show_diff_worker(p, SLOT_SOURCE, "s", "s", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (snap)
        show_overlay(p, l, "r", l->has_image ? NULL : "k", "/", snap);
    if (snap && l->has_image)
        show_root_base(p);
    plan_add(p, 2, (struct op){.kind = OP_NETWORK});
    plan_add(p, 2, (struct op){.kind = OP_PIVOT, .slot = SLOT_ROOT});
    rlimit(p, RLIMIT_CORE, 1);
    rlimit(p, RLIMIT_DATA,
           512u << 20); /* the trees it walks are as large as hostile code makes them */
    plan_add(p, 2,
             (struct op){.kind = OP_CONFINE,
                         .flags = 1ULL << CAP_DAC_OVERRIDE | 1ULL << CAP_DAC_READ_SEARCH |
                                  1ULL << CAP_FOWNER});
    plan_add(p, 2, (struct op){.kind = OP_SECCOMP, .flags = OP_SECCOMP_DIFF_WORKER});
    plan_add(p, 2, (struct op){.kind = OP_EXEC, .slot = SLOT_GUEST, .text = "diff"});
}
