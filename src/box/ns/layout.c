#include <linux/capability.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "layout.h"
#include "selection.h"
#include "skeleton/lists.h"
#include "weaken.h"
#include "banned.h"

#define NPROC_MARGIN   64
#define GUEST_FILES    4096
#define INODES_PER_MIB 256u /* so that a box of the default size may hold 262,144 files */

static void attach(struct plan *p, int slot, int to, const char *path)
{
    plan_add(p, 2, (struct op){.kind = OP_ATTACH, .slot = slot, .to = to, .path = path, .optional = true});
}

static void mkdir_in(struct plan *p, int stage, int to, const char *path, mode_t mode)
{
    plan_add(p, stage, (struct op){.kind = OP_MKDIR, .to = to, .path = path, .flags = mode});
}

/* The store comes first, on top of the host's /proc until there is a root of ours to put it into. */
static void add_store(struct plan *p, const struct layout *l)
{
    static const char *const DIRS[] = {"k", "r", "r/u", "r/k", "w", "w/u", "w/k", "base", "s", "e"};
    uint64_t disk = weakened("disk") ? 1ULL << 40 : l->disk;
    uint64_t inodes = (disk >> 20) * INODES_PER_MIB + 1024;
    plan_add(p, 2, (struct op){.kind = OP_PROC, .slot = SLOT_PROC});
    plan_add(p, 2,
             (struct op){.kind = OP_TMPFS,
                         .slot = SLOT_STORE,
                         .text = plan_text(p, "size=%llu,nr_inodes=%llu,mode=0755", (unsigned long long)disk,
                                           (unsigned long long)inodes)});
    attach(p, SLOT_STORE, SLOT_HOST, "/proc");
    for (size_t i = 0; i < ARRAY_SIZE(DIRS); i++)
        mkdir_in(p, 2, SLOT_STORE, DIRS[i], 0755);
    if (l->has_image)
        mkdir_in(p, 2, SLOT_STORE, "img", 0755);
    plan_add(p, 2, (struct op){.kind = OP_FILE, .to = SLOT_STORE, .path = "guest", .flags = 0644});
    plan_add(p, 2, (struct op){.kind = OP_CHDIR, .slot = SLOT_STORE});
}

/* "l0/w:l1/w:…:base": the layers of one of the two overlays, newest first. */
static const char *lower_list(struct plan *p, const struct layout *l, const char *which, const char *base)
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
    plan_add(
        p, 2,
        (struct op){
            .kind = OP_OVERLAY, .slot = SLOT_ROOT, .path = "r", .text = lower_list(p, l, "r", root_base(l))});
    attach(p, SLOT_ROOT, SLOT_HOST, "/");
}

static uint64_t share_flags(bool writable)
{
    return MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (writable ? 0 : MOUNT_ATTR_RDONLY);
}

/* An overlay without an upper: read-only, and with files of its own, so that no socket in it leads to the
 * host. */
static void read_only_overlay(struct plan *p, int slot, const char *folder)
{
    plan_add(p, 2, (struct op){.kind = OP_OVERLAY, .slot = slot, .text = plan_text(p, "e:%s", folder)});
}

/* The workspace as the mode asks: an overlay over base, base itself, or base read-only. */
static void add_workspace(struct plan *p, const struct layout *l)
{
    int slot = plan_slot(p);
    if (l->mode == BOX_COW || !l->has_workspace)
        plan_add(p, 2,
                 (struct op){
                     .kind = OP_OVERLAY, .slot = slot, .path = "w", .text = lower_list(p, l, "w", "base")});
    else if (l->mode == BOX_DIRECT)
        plan_add(p, 2,
                 (struct op){
                     .kind = OP_CLONE, .slot = slot, .from = SLOT_STORE, .path = "base", .recursive = true});
    else
        read_only_overlay(p, slot, "base");
    attach(p, slot, SLOT_ROOT, "workspace");
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
    plan_add(p, 2, (struct op){.kind = OP_DEVPTS, .slot = pts, .text = "mode=0620,ptmxmode=0666,max=256"});
    attach(p, pts, SLOT_ROOT, "dev/pts");
}

/*
 * /proc in three layers: the store at the bottom, where only the host's descriptor reaches it; over it a
 * writable procfs for the last steps of the set-up; on top the same read-only, with what is dangerous masked.
 */
static void add_proc(struct plan *p, const struct layout *l)
{
    int top = plan_slot(p);
    attach(p, SLOT_STORE, SLOT_ROOT, "proc");
    attach(p, SLOT_PROC, SLOT_ROOT, "proc");
    plan_add(p, 2,
             (struct op){.kind = OP_CLONE,
                         .slot = top,
                         .from = SLOT_ROOT,
                         .path = "proc",
                         .flags = weakened("proc-rw") ? 0 : MOUNT_ATTR_RDONLY});
    attach(p, top, SLOT_ROOT, "proc");
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
    rlimit(p, RLIMIT_CORE, 1); /* unlike 0, not even to a program of the host's that core_pattern names */
    rlimit(p, RLIMIT_NOFILE,
           l->files > GUEST_FILES ? l->files : GUEST_FILES); /* the guest lowers it for commands */
    /* The guest itself is one. Where a control group counts too, its limit is to be met first: it tells how
     * often. */
    rlimit(p, RLIMIT_NPROC, l->pids + 1 + (l->counted ? NPROC_MARGIN : 0));
    rlimit(p, RLIMIT_MEMLOCK, 8u << 20);
    rlimit(p, RLIMIT_MSGQUEUE, 819200);
    rlimit(p, RLIMIT_SIGPENDING, 4096);
}

void layout_landlock_rules(struct plan *p, const struct layout *l)
{
    static const char *const WRITABLE[] = {"/workspace", "/home/agent", "/tmp", "/run", "/dev/shm"};
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

/* From the network to the guest: the part that is the same for a fresh box and a fork. */
static void add_ending(struct plan *p, const struct layout *l)
{
    int listener = 0;
    if (l->net != BOX_NET_HOST && !weakened("net"))
        plan_add(p, 2, (struct op){.kind = OP_NETWORK});
    if (l->net == BOX_NET_ALLOW) {
        listener = plan_slot(p);
        plan_add(p, 2, (struct op){.kind = OP_LISTEN, .slot = listener, .flags = PROXY_PORT});
    }
    if (!weakened("uts"))
        plan_add(p, 2, (struct op){.kind = OP_HOSTNAME, .text = "box"});
    plan_add(p, 2, (struct op){.kind = OP_HANDOVER, .slot = listener});
    plan_add(p, 2, (struct op){.kind = OP_PIVOT, .slot = SLOT_ROOT});
    plan_add(p, 2, (struct op){.kind = OP_CONFINE});
    /* In the box's own user namespace: limits that stood when it was made would hold for the sum of all boxes
     * that share the outer one, a box and its forks. */
    add_rlimits(p, l);
    layout_landlock_rules(p, l);
    plan_add(p, 2, (struct op){.kind = OP_LANDLOCK, .flags = layout_landlock_flags(l)});
    plan_add(p, 2, (struct op){.kind = OP_SECCOMP});
    plan_add(p, 2, (struct op){.kind = OP_EXEC, .slot = SLOT_GUEST});
}

/* A part that comes as a ready detached mount (root: id-mapped by the host) or is cloned by path (ordinary
 * user). */
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

static void add_fresh_sources(struct plan *p, const struct layout *l, const struct layout_sources *from)
{
    add_source(p, SLOT_GUEST, from->guest_fd, from->guest, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID, SLOT_STORE,
               "guest");
    add_source(p, plan_slot(p), from->skeleton_fd, from->skeleton, share_flags(false), SLOT_STORE, "k");
    if (from->workspace)
        add_source(p, SLOT_WORKSPACE, from->workspace_fd, from->workspace, share_flags(l->mode == BOX_DIRECT),
                   SLOT_STORE, "base");
    if (from->image)
        add_source(p, plan_slot(p), from->image_fd, from->image, share_flags(false), SLOT_STORE, "img");
}

/* A folder shown read-only goes through an overlay, as the workspace does. */
static void add_fresh_shares(struct plan *p, const struct layout *l, const struct layout_sources *from)
{
    for (size_t i = 0; i < l->n_shares; i++) {
        const char *at = plan_text(p, "%s", l->shares[i].at + 1), *below = plan_text(p, "x%zu", i);
        bool direct = l->shares[i].writable || weakened("mount-ro");
        if (!direct)
            mkdir_in(p, 2, SLOT_STORE, below, 0755);
        add_source(p, plan_slot(p), from->share_fds[i], from->share_paths[i],
                   share_flags(l->shares[i].writable), direct ? SLOT_ROOT : SLOT_STORE, direct ? at : below);
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
    add_store(p, l);
    add_fresh_sources(p, l, from);
    selection_own(p, l);
    add_root(p, l);
    if (!l->has_image)
        selection_show(p, &l->selection);
    if (weakened("root"))
        show_host(p);
    add_devices(p);
    add_workspace(p, l);
    add_fresh_shares(p, l, from);
    add_proc(p, l);
    add_ending(p, l);
}

/* Picks up a part of the source box's store in the first stage, for the second to attach under the same name.
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

/* The snapshot itself is the newest layer, then those its box stands on. Number 0 is a template: no layer. */
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
    add_store(p, l);
    inherit(p, SLOT_GUEST, "guest", "guest", 0);
    inherit(p, plan_slot(p), "k", "k", 0);
    inherit(p, SLOT_WORKSPACE, "base", "base", 0);
    if (l->has_image)
        inherit(p, plan_slot(p), "img", "img", 0);
    inherit_layers(p, l, snap);
    if (!snap)
        selection_own(p, l); /* a snapshot has it in its layer */
    add_root(p, l);
    if (!l->has_image)
        selection_show(p, &l->selection);
    add_devices(p);
    add_workspace(p, l);
    add_shares(p, l);
    add_proc(p, l);
    add_ending(p, l);
}

/* Shows a scribe one part of the box under an absolute name of its own small tree. */
static void show_scribe(struct plan *p, int from, const char *path, const char *at, uint64_t flags)
{
    int slot = plan_slot(p);
    plan_add(p, 1, (struct op){.kind = OP_CLONE, .slot = slot, .from = from, .path = path, .flags = flags});
    mkdir_in(p, 2, SLOT_ROOT, at, 0755);
    plan_add(p, 2, (struct op){.kind = OP_ATTACH, .slot = slot, .to = SLOT_ROOT, .path = at});
}

/* One overlay seen from outside: its base, its layers raw, and what the box makes of them. */
static void show_overlay(struct plan *p, const struct layout *l, const char *which, const char *base,
                         const char *merged, unsigned snap)
{
    uint64_t ro = share_flags(false);
    mkdir_in(p, 2, SLOT_ROOT, which, 0755);
    if (base)
        show_scribe(p, SLOT_SOURCE, base, plan_text(p, "%s/base", which), ro);
    show_scribe(p, SLOT_HOST, merged, plan_text(p, "%s/merged", which), ro);
    show_scribe(p, SLOT_SOURCE, plan_text(p, "%s/u", which), plan_text(p, "%s/l0", which), ro);
    for (size_t i = 0; i < l->n_layers; i++)
        show_scribe(p, SLOT_SOURCE, plan_text(p, "l%zu/%s", i, which), plan_text(p, "%s/l%zu", which, i + 1),
                    ro);
    if (snap) {
        const char *copy = plan_text(p, "s/%u/%s", snap, which);
        mkdir_in(p, 1, SLOT_SOURCE, copy, 0755);
        show_scribe(p, SLOT_SOURCE, copy, plan_text(p, "%s/copy", which),
                    MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    }
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

void layout_scribe(struct plan *p, const struct layout *l, unsigned snap)
{
    plan_add(p, 1, (struct op){.kind = OP_CLONE, .slot = SLOT_GUEST, .from = SLOT_SOURCE, .path = "guest"});
    if (snap)
        mkdir_in(p, 1, SLOT_SOURCE, plan_text(p, "s/%u", snap), 0755);
    plan_add(
        p, 2,
        (struct op){.kind = OP_TMPFS, .slot = SLOT_ROOT, .text = "size=1048576,nr_inodes=256,mode=0755"});
    attach(p, SLOT_ROOT, SLOT_HOST, "/");
    if (l->mode == BOX_COW || !l->has_workspace)
        show_overlay(p, l, "w", "base", "/workspace", snap);
    if (snap)
        show_overlay(p, l, "r", l->has_image ? NULL : "k", "/", snap);
    if (snap && l->has_image)
        show_root_base(p);
    plan_add(p, 2, (struct op){.kind = OP_NETWORK});
    plan_add(p, 2, (struct op){.kind = OP_PIVOT, .slot = SLOT_ROOT});
    rlimit(p, RLIMIT_CORE, 1);
    rlimit(p, RLIMIT_DATA, 512u << 20); /* the trees it walks are as large as hostile code makes them */
    plan_add(
        p, 2,
        (struct op){.kind = OP_CONFINE,
                    .flags = 1ULL << CAP_DAC_OVERRIDE | 1ULL << CAP_DAC_READ_SEARCH | 1ULL << CAP_FOWNER});
    plan_add(p, 2, (struct op){.kind = OP_SECCOMP, .flags = 1});
    plan_add(p, 2, (struct op){.kind = OP_EXEC, .slot = SLOT_GUEST, .text = "scribe"});
}
