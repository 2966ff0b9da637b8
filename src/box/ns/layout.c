#include <linux/capability.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include "backend.h"
#include "layout.h"
#include "skeleton/lists.h"
#include "store.h"
#include "weaken.h"
#include "banned.h"

#define NPROC_MARGIN 64
/* Only root can raise this limit of a process later: it is beyond what box_adjust() will ask
 * for. */
#define NPROC_ADJUSTABLE 65536
#define GUEST_FILES      4096

#define WRITABLE  (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
#define READ_ONLY (WRITABLE | MOUNT_ATTR_RDONLY)

/*
 * The store comes first, on top of the host's /proc until there is a root of ours to put it into.
 * Beside a store on disk the tmpfs holds only what the box cannot write: mount points and the
 * layers of /etc. The host hands over a mount of the folder on disk (root), or it is cloned by its
 * path: for a fork in stage 0, since the mounts of its source do not show it.
 */
static void add_store(struct plan *p, const struct layout *l, int disk_stage)
{
    static const char *const ON_DISK[] = {"r", "w", "s"};
    static const char *const DIRS[] = {"k",   "r",    "r/u", "r/k", "w", "w/u",
                                       "w/k", "base", "s",   "e",   "c", "g"};
    uint64_t size = weakened("disk") ? 1ULL << 40 : l->disk;
    const char *options =
        plan_text(p, "size=%llu,nr_inodes=%llu,mode=0755", (unsigned long long)size,
                  (unsigned long long)STORE_INODES(size));
    if (l->disk_path)
        options = "size=4194304,nr_inodes=16384,mode=0755";
    plan_add(p, 2, (struct op){.kind = OP_PROC, .slot = SLOT_PROC});
    struct op store = {.kind = OP_MOUNT, .slot = SLOT_STORE, .path = "tmpfs", .text = options};
    store.flags = MOUNT_ATTR_NODEV;
    plan_add(p, 2, store);
    plan_attach(p, SLOT_STORE, SLOT_HOST, "/proc");

    if (l->disk_path) {
        int slot = plan_slot(p);
        struct op clone = {.kind = OP_CLONE, .slot = slot, .from = SLOT_HOST, .flags = WRITABLE};
        clone.path = plan_text(p, "%s", l->disk_path);
        if (l->disk_mount >= 0)
            p->fds[slot] = l->disk_mount;
        else
            plan_add(p, disk_stage, clone);
        plan_mkdir(p, SLOT_STORE, "d", 0755);
        plan_attach(p, slot, SLOT_STORE, "d");
        for (size_t i = 0; i < ARRAY_SIZE(ON_DISK); i++) {
            const char *path = plan_text(p, "d/%s", ON_DISK[i]);
            plan_mkdir(p, SLOT_STORE, path, 0755);
            plan_symlink(p, ON_DISK[i], path);
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(DIRS); i++)
        plan_mkdir(p, SLOT_STORE, DIRS[i], 0755);
    if (l->has_image)
        plan_mkdir(p, SLOT_STORE, "img", 0755);
    plan_file(p, "guest", NULL);
    plan_add(p, 2, (struct op){.kind = OP_CHDIR, .slot = SLOT_STORE});
}

/*
 * A part of the store that comes from outside, at the same name in every box. A fresh box has it as
 * a detached mount (root: id-mapped by the host) or clones it by path (ordinary user); a fork
 * clones its source's in stage 1.
 */
struct part {
    int slot;
    int fd;
    const char *path; /* NULL: a fork */
    uint64_t attributes;
    const char *name;
};

static void add_part(struct plan *p, struct part part)
{
    struct op clone = {.kind = OP_CLONE, .slot = part.slot, .recursive = true};
    clone.from = part.path ? SLOT_HOST : SLOT_SOURCE;
    clone.path = part.path ? part.path : part.name;
    clone.flags = part.attributes;
    if (part.path && part.fd >= 0)
        p->fds[part.slot] = part.fd;
    else
        plan_add(p, part.path ? 2 : 1, clone);
    struct op attach = {.kind = OP_ATTACH, .slot = part.slot, .to = SLOT_STORE, .path = part.name};
    plan_add(p, 2, attach);
}

static void add_fresh_parts(struct plan *p, const struct layout *l,
                            const struct layout_sources *from)
{
    static const char *const ETC[] = {"c/own", "c/hide", "c/host"};

    add_part(p, (struct part){SLOT_GUEST, from->guest_fd, from->guest,
                              MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID, "guest"});
    add_part(p, (struct part){plan_slot(p), from->skeleton_fd, from->skeleton, READ_ONLY, "k"});
    if (from->workspace)
        add_part(p, (struct part){SLOT_WORKSPACE, from->workspace_fd, from->workspace,
                                  l->mode == BOX_DIRECT ? WRITABLE : READ_ONLY, "base"});
    if (from->image)
        add_part(p, (struct part){plan_slot(p), from->image_fd, from->image, READ_ONLY, "img"});
    if (!layout_has_etc_layers(l))
        return;
    for (size_t i = 0; i < ARRAY_SIZE(ETC); i++)
        plan_mkdir(p, SLOT_STORE, ETC[i], 0755);
    struct op hide = {.kind = OP_HIDE, .to = SLOT_STORE, .path = "c/hide"};
    hide.text = plan_bytes(p, from->etc->hidden, from->etc->hidden_size);
    plan_add(p, 2, hide);
    add_part(p, (struct part){plan_slot(p), from->etc_fd, "/etc", READ_ONLY, "c/host"});
}

/* The snapshot itself is the newest layer, then those that its box stands on. Number 0 is a
 * template: no layer. */
static void add_fork_parts(struct plan *p, const struct layout *l, unsigned snap)
{
    size_t new = snap ? 1 : 0;

    add_part(p, (struct part){.slot = SLOT_GUEST, .name = "guest"});
    add_part(p, (struct part){.slot = plan_slot(p), .name = "k"});
    add_part(p, (struct part){.slot = SLOT_WORKSPACE, .name = "base"});
    if (l->has_image)
        add_part(p, (struct part){.slot = plan_slot(p), .name = "img"});
    for (size_t i = 0; i < l->n_layers; i++) {
        int slot = plan_slot(p);
        struct op clone = {.kind = OP_CLONE, .slot = slot, .from = SLOT_SOURCE, .recursive = true};
        clone.path = i < new ? plan_text(p, "s/%u", snap) : plan_text(p, "l%zu", i - new);
        clone.flags = READ_ONLY;
        plan_add(p, 1, clone);
        struct op attach = {.kind = OP_ATTACH, .slot = slot, .to = SLOT_STORE};
        attach.path = plan_text(p, "l%zu", i);
        plan_mkdir(p, SLOT_STORE, attach.path, 0755);
        plan_add(p, 2, attach);
    }
    if (layout_has_etc_layers(l))
        add_part(p, (struct part){.slot = plan_slot(p), .attributes = READ_ONLY, .name = "c"});
}

/* One of the two overlays with an upper: its lower layers are "l0/w:l1/w:…:base", newest first. */
static void add_overlay(struct plan *p, const struct layout *l, int slot, const char *which,
                        const char *base)
{
    struct op op = {.kind = OP_OVERLAY, .slot = slot, .path = which, .flags = l->disk_path != NULL};
    char text[192];
    size_t n = 0;
    for (size_t i = 0; i < l->n_layers; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "l%zu/%s:", i, which);
    snprintf(text + n, sizeof text - n, "%s", base);
    op.text = plan_text(p, "%s", text);
    plan_add(p, 2, op);
}

/* An overlay without an upper: read-only, and with files of its own, so that no socket in it leads
 * to the host. */
static void add_read_only_overlay(struct plan *p, const char *lower, const char *at)
{
    int slot = plan_slot(p);
    plan_add(p, 2, (struct op){.kind = OP_OVERLAY, .slot = slot, .text = lower});
    plan_attach(p, slot, SLOT_ROOT, at);
}

static void add_devices(struct plan *p)
{
    for (size_t i = 0; i < LIST_DEVICES_N; i++) {
        const char *path = plan_text(p, "/dev/%s", LIST_DEVICES[i]);
        plan_bind(p, SLOT_HOST, path, path + 1, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    }
    struct op pts = {.kind = OP_MOUNT, .slot = plan_slot(p), .path = "devpts"};
    pts.text = "mode=0620,ptmxmode=0666,max=256";
    pts.flags = MOUNT_ATTR_NOEXEC;
    plan_add(p, 2, pts);
    plan_attach(p, pts.slot, SLOT_ROOT, "dev/pts");
    /* A box can do without what the kernel was built without, or a container's rules forbid. */
    struct op queues = {.kind = OP_MOUNT, .slot = plan_slot(p), .path = "mqueue", .optional = true};
    queues.flags = MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    plan_add(p, 2, queues);
    plan_attach(p, queues.slot, SLOT_ROOT, "dev/mqueue");
}

/* The workspace as the mode asks: an overlay over base, base itself, or base read-only. */
static void add_workspace(struct plan *p, const struct layout *l)
{
    if (l->mode == BOX_COW || !l->has_workspace) {
        int slot = plan_slot(p);
        add_overlay(p, l, slot, "w", "base");
        plan_attach(p, slot, SLOT_ROOT, "workspace");
    } else if (l->mode == BOX_DIRECT) {
        plan_bind(p, SLOT_STORE, "base", "workspace", 0);
    } else {
        add_read_only_overlay(p, "e:base", "workspace");
    }
    if (l->own_path[0])
        plan_bind(p, SLOT_ROOT, "workspace", plan_text(p, "%s", l->own_path + 1), 0);
}

/* A folder shown read-only goes through an overlay, as the workspace does: no socket in it leads to
 * the host. An overlay of a file does not exist, and a regular file cannot hold a socket: it is
 * bound as it is. */
static void add_shares(struct plan *p, const struct layout *l, const struct layout_sources *from)
{
    for (size_t i = 0; i < l->n_shares; i++) {
        const char *at = plan_text(p, "%s", l->shares[i].at), *below = plan_text(p, "x%zu", i);
        bool direct = l->shares[i].writable || l->shares[i].is_file || weakened("mount-ro");
        uint64_t attributes = l->shares[i].writable ? WRITABLE : READ_ONLY;
        if (!from) { /* a fork shows what its source shows */
            plan_bind(p, SLOT_HOST, at, at + 1, attributes);
            continue;
        }
        int slot = plan_slot(p);
        struct op clone = {.kind = OP_CLONE, .slot = slot, .from = SLOT_HOST, .recursive = true};
        clone.path = from->share_paths[i];
        clone.flags = attributes;
        if (from->share_fds[i] >= 0)
            p->fds[slot] = from->share_fds[i];
        else
            plan_add(p, 2, clone);
        struct op attach = {.kind = OP_ATTACH, .slot = slot, .to = direct ? SLOT_ROOT : SLOT_STORE};
        attach.path = direct ? at + 1 : below;
        if (!direct)
            plan_mkdir(p, SLOT_STORE, below, 0755);
        plan_add(p, 2, attach);
        if (!direct)
            add_read_only_overlay(p, plan_text(p, "e:%s", below), at + 1);
    }
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
        plan_file(p, limits[i].path, plan_text(p, "%s", limits[i].text));
    plan_file(p, "g/cgroup.controllers", "cpu memory pids\n");
    plan_file(p, "g/memory.swap.max", "0\n");
    plan_file(p, "cgroups",
              "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpuset\t0\t1\t1\ncpu\t0\t1\t1\n"
              "cpuacct\t0\t1\t1\nmemory\t0\t1\t1\npids\t0\t1\t1\n");
    struct op group = {.kind = OP_MOUNT, .slot = plan_slot(p), .path = "cgroup2", .optional = true};
    group.flags = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    plan_add(p, 2, group);
    plan_attach(p, group.slot, SLOT_ROOT, "sys/fs/cgroup");
    plan_bind(p, SLOT_STORE, "g", "sys/fs/cgroup", READ_ONLY);
    plan_bind(p, SLOT_STORE, "cgroups", "proc/cgroups", READ_ONLY);
}

static void add_rlimit(struct plan *p, int which, uint64_t value)
{
    plan_add(p, 2, (struct op){.kind = OP_RLIMIT, .slot = which, .flags = value});
}

void layout_landlock_rules(struct plan *p, const struct layout *l)
{
    static const char *const FOLDERS[] = {"/workspace", "/home/agent", "/tmp",
                                          "/run",       "/dev/shm",    "/dev/mqueue"};
    plan_rule(p, "/", LANDLOCK_READ);
    plan_rule(p, "/dev", LANDLOCK_DEVICES);
    plan_rule(p, "/proc", LANDLOCK_DEVICES);
    for (size_t i = 0; i < ARRAY_SIZE(FOLDERS); i++)
        plan_rule(p, FOLDERS[i], LANDLOCK_WRITE);
    for (size_t i = 0; i < l->n_shares; i++)
        if (l->shares[i].writable)
            plan_rule(p, plan_text(p, "%s", l->shares[i].at), LANDLOCK_WRITE);
}

unsigned layout_landlock_flags(const struct layout *l)
{
    return l->warm ? LANDLOCK_SIGNALS : 0;
}

bool layout_has_own_pid_max(void)
{
    struct utsname u;
    unsigned major = 0, minor = 0;
    return uname(&u) == 0 && sscanf(u.release, "%u.%u", &major, &minor) == 2 &&
           (major > 6 || (major == 6 && minor >= 14));
}

/* From the network to the guest. */
static void add_ending(struct plan *p, const struct layout *l)
{
    int listener = 0;
    if (!l->host_network && !weakened("net"))
        plan_add(p, 2, (struct op){.kind = OP_NETWORK});
    if (l->has_proxy) {
        listener = plan_slot(p);
        plan_add(p, 2, (struct op){.kind = OP_LISTEN, .slot = listener, .flags = PROXY_PORT});
    }
    /* The kernel does not hold processes with root's id to RLIMIT_NPROC. Where no control group
     * counts them either, the numbers that they can have are limited. Those below 300 are not given
     * again. */
    const uint64_t pid_max = 300 + l->pids + NPROC_MARGIN;
    struct op limit_numbers = {.kind = OP_SYSCTL, .path = "sys/kernel/pid_max"};
    limit_numbers.text = plan_text(p, "%llu", (unsigned long long)pid_max);
    if (l->selection.owner == 0 && !l->counted && pid_max < 1u << 22 && layout_has_own_pid_max())
        plan_add(p, 2, limit_numbers);
    if (!weakened("uts"))
        plan_add(p, 2, (struct op){.kind = OP_HOSTNAME, .text = "box"});
    plan_add(p, 2, (struct op){.kind = OP_HANDOVER, .slot = listener});
    plan_add(p, 2, (struct op){.kind = OP_PIVOT, .slot = SLOT_ROOT});
    plan_add(p, 2, (struct op){.kind = OP_CONFINE});

    /* In the box's own user namespace: limits that stood when it was made would hold for the sum of
     * all boxes that share the outer one, a box and its forks. A limit on cores of 1, unlike 0,
     * also keeps a program of the host's that core_pattern names from being started. The guest
     * lowers the number of files for commands. Where a control group counts processes too, its
     * limit is to be met first: it tells how often. The last three count for the user who started
     * the box, too, and are a small part. */
    uint64_t margin = !l->counted ? 0 : l->adjustable ? NPROC_ADJUSTABLE : NPROC_MARGIN;
    add_rlimit(p, RLIMIT_CORE, 1);
    add_rlimit(p, RLIMIT_NOFILE, l->files > GUEST_FILES ? l->files : GUEST_FILES);
    add_rlimit(p, RLIMIT_NPROC, l->pids + GUEST_TASKS + margin);
    add_rlimit(p, RLIMIT_MEMLOCK, 2u << 20);
    add_rlimit(p, RLIMIT_MSGQUEUE, 204800);
    add_rlimit(p, RLIMIT_SIGPENDING, 1024);

    layout_landlock_rules(p, l);
    plan_add(p, 2, (struct op){.kind = OP_LANDLOCK, .flags = layout_landlock_flags(l)});
    struct op filter = {.kind = OP_SECCOMP};
    filter.flags = l->disk_is_watched ? OP_SECCOMP_NO_ALLOCATION : 0;
    plan_add(p, 2, filter);
    plan_add(p, 2, (struct op){.kind = OP_EXEC, .slot = SLOT_GUEST});
}

/* What a fresh box and a fork have in common, once the store has their parts. */
static void add_box(struct plan *p, const struct layout *l, const struct layout_sources *from)
{
    add_overlay(p, l, SLOT_ROOT, "r", l->has_image ? "k:img" : "k");
    plan_attach(p, SLOT_ROOT, SLOT_HOST, "/");
    if (!l->has_image)
        selection_show(p, &l->selection, from);
    if (layout_has_etc_layers(l))
        add_read_only_overlay(p, "c/own:k/etc:c/hide:c/host", "etc");
    if (weakened("root") && from) { /* folders of the host that no box ever sees */
        static const char *const FOLDERS[] = {"/root", "/home", "/var", "/tmp",
                                              "/srv",  "/run",  "/etc"};
        for (size_t i = 0; i < ARRAY_SIZE(FOLDERS); i++) {
            plan_mkdir(p, SLOT_ROOT, FOLDERS[i] + 1, 0755);
            plan_bind(p, SLOT_HOST, FOLDERS[i], FOLDERS[i] + 1, MOUNT_ATTR_RDONLY);
        }
    }
    add_devices(p);
    add_workspace(p, l);
    add_shares(p, l, from);

    /* /proc in three layers: the store at the bottom, where only the host's descriptor reaches it;
     * over it a procfs for the last steps of the set-up; on top the same, with what tells about the
     * host masked and what sets something for the host read-only. The rest can be written as far as
     * its modes say: a process's own files. */
    plan_attach(p, SLOT_STORE, SLOT_ROOT, "proc");
    plan_attach(p, SLOT_PROC, SLOT_ROOT, "proc");
    struct op top = {.kind = OP_BIND, .from = SLOT_ROOT, .text = "proc", .to = SLOT_ROOT};
    top.path = "proc";
    plan_add(p, 2, top);
    selection_protect_proc(p, &l->selection);

    add_limit_files(p, l);
    add_ending(p, l);
}

void layout_fresh(struct plan *p, const struct layout *l, const struct layout_sources *from)
{
    add_store(p, l, 2);
    add_fresh_parts(p, l, from);
    selection_own(p, l);
    selection_own_etc(p, l);
    add_box(p, l, from);
}

void layout_fork(struct plan *p, const struct layout *l, unsigned snap)
{
    add_store(p, l, 0);
    add_fork_parts(p, l, snap);
    if (!snap) /* a snapshot has it in its layer */
        selection_own(p, l);
    if (!snap && l->has_image)
        selection_own_etc(p, l);
    add_box(p, l, NULL);
}

/* Shows a diff worker one part of the box under a name of its own small tree. */
static void show_diff_worker(struct plan *p, int from, const char *path, const char *at,
                             uint64_t attributes)
{
    int slot = plan_slot(p);
    struct op clone = {.kind = OP_CLONE, .slot = slot, .from = from, .path = path};
    clone.flags = attributes;
    plan_add(p, 1, clone);
    plan_mkdir(p, SLOT_ROOT, at, 0755);
    struct op attach = {.kind = OP_ATTACH, .slot = slot, .to = SLOT_ROOT, .path = at};
    /* A folder that was removed cannot be attached. Then the base is empty, as it is in the
     * overlay. */
    attach.optional = from == SLOT_SOURCE && strcmp(path, "base") == 0;
    plan_add(p, 2, attach);
}

/* One overlay seen from outside: its base, its layers raw, and what the box makes of them. */
static void show_overlay(struct plan *p, const struct layout *l, const char *which,
                         const char *base, const char *merged, unsigned snap)
{
    plan_mkdir(p, SLOT_ROOT, which, 0755);
    if (base)
        show_diff_worker(p, SLOT_SOURCE, base, plan_text(p, "%s/base", which), READ_ONLY);
    show_diff_worker(p, SLOT_HOST, merged, plan_text(p, "%s/merged", which), READ_ONLY);
    show_diff_worker(p, SLOT_SOURCE, plan_text(p, "%s/u", which), plan_text(p, "%s/l0", which),
                     READ_ONLY);
    for (size_t i = 0; i < l->n_layers; i++)
        show_diff_worker(p, SLOT_SOURCE, plan_text(p, "l%zu/%s", i, which),
                         plan_text(p, "%s/l%zu", which, i + 1), READ_ONLY);
    struct op folder = {.kind = OP_MKDIR, .to = SLOT_SOURCE, .flags = 0755};
    folder.path = plan_text(p, "s/%u/%s", snap, which);
    if (snap)
        plan_add(p, 1, folder);
}

void layout_diff_worker(struct plan *p, const struct layout *l, unsigned snap)
{
    struct op guest = {.kind = OP_CLONE, .slot = SLOT_GUEST, .from = SLOT_SOURCE, .path = "guest"};
    plan_add(p, 1, guest);
    struct op root = {.kind = OP_MOUNT, .slot = SLOT_ROOT, .path = "tmpfs"};
    root.text = "size=1048576,nr_inodes=256,mode=0755";
    root.flags = MOUNT_ATTR_NODEV;
    plan_add(p, 2, root);
    plan_attach(p, SLOT_ROOT, SLOT_HOST, "/");

    struct op refresh = {.kind = OP_REFRESH, .from = SLOT_HOST, .path = "/workspace"};
    struct op folder = {.kind = OP_MKDIR, .to = SLOT_SOURCE, .flags = 0755};
    folder.path = plan_text(p, "s/%u", snap);
    if (snap)
        plan_add(p, 1, folder);
    else if (l->mode == BOX_COW && l->has_workspace)
        plan_add(p, 1, refresh);
    if (l->mode == BOX_COW || !l->has_workspace)
        show_overlay(p, l, "w", "base", "/workspace", snap);
    if (snap) {
        /* All snapshots as one mount: the new one has links to files of the last. */
        show_diff_worker(p, SLOT_SOURCE, "s", "s", WRITABLE);
        show_overlay(p, l, "r", l->has_image ? NULL : "k", "/", snap);
    }
    if (snap && l->has_image) {
        /* The image's lower is "k:img", which only an overlay can show as one folder. */
        int slot = plan_slot(p);
        plan_add(p, 1, (struct op){.kind = OP_CHDIR, .slot = SLOT_SOURCE});
        plan_add(p, 1, (struct op){.kind = OP_OVERLAY, .slot = slot, .text = "k:img"});
        plan_mkdir(p, SLOT_ROOT, "r/base", 0755);
        plan_attach(p, slot, SLOT_ROOT, "r/base");
    }

    plan_add(p, 2, (struct op){.kind = OP_NETWORK});
    plan_add(p, 2, (struct op){.kind = OP_PIVOT, .slot = SLOT_ROOT});
    add_rlimit(p, RLIMIT_CORE, 1);
    add_rlimit(p, RLIMIT_DATA, 512u << 20); /* hostile code decides how large the trees are */
    struct op confine = {.kind = OP_CONFINE};
    confine.flags = 1ULL << CAP_DAC_OVERRIDE | 1ULL << CAP_DAC_READ_SEARCH | 1ULL << CAP_FOWNER;
    plan_add(p, 2, confine);
    plan_add(p, 2, (struct op){.kind = OP_SECCOMP, .flags = OP_SECCOMP_DIFF_WORKER});
    plan_add(p, 2, (struct op){.kind = OP_EXEC, .slot = SLOT_GUEST, .text = "diff"});
}
