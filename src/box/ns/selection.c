/*
 * Everything in the lists (skeleton/lists.h) is looked up on the host when a fresh box is planned; what is
 * not there is left out.
 */
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "buf.h"
#include "io.h"
#include "skeleton/lists.h"
#include "selection.h"
#include "banned.h"

#define RESOLVER_MAX 16384

/* What of /proc tells about or reaches the whole machine, and is not the host's root's alone anyway. */
static const char *const PROC[] = {
    "/proc/kcore",         "/proc/keys",          "/proc/key-users", "/proc/timer_list",
    "/proc/kmsg",          "/proc/sysrq-trigger", "/proc/kallsyms",  "/proc/sched_debug",
    "/proc/latency_stats", "/proc/acpi",          "/proc/asound",    "/proc/scsi",
};

/* What a path of the lists is on this host. */
enum kind { KIND_NONE, KIND_OTHER, KIND_FILE, KIND_DIR };

static enum kind kind_of(const char *path)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        return KIND_NONE;
    if (S_ISDIR(st.st_mode))
        return KIND_DIR;
    return S_ISREG(st.st_mode) ? KIND_FILE : KIND_OTHER;
}

/* A box's user owns nothing of /proc but its own processes, and has no capability to go past a mode. */
static void scan_proc(uint8_t *ret_kinds)
{
    struct stat st;
    for (size_t i = 0; i < ARRAY_SIZE(PROC); i++)
        if (lstat(PROC[i], &st) < 0 || !(st.st_mode & S_IRWXO))
            ret_kinds[i] = KIND_NONE;
        else
            ret_kinds[i] = S_ISDIR(st.st_mode) ? KIND_DIR : KIND_FILE;
}

/* Only what is here what it is in the lists has a place in the skeleton. */
static void scan(const struct listed *list, size_t n, uint8_t *ret_kinds)
{
    for (size_t i = 0; i < n; i++) {
        enum kind kind = kind_of(list[i].path);
        bool fits = kind == (list[i].kind == 'd' ? KIND_DIR : KIND_FILE);
        ret_kinds[i] = fits ? kind : KIND_NONE;
    }
}

void selection_scan(struct selection *s)
{
    _Static_assert(LIST_TOP_N <= sizeof s->top, "");
    _Static_assert(LIST_ETC_N <= sizeof s->etc, "");
    _Static_assert(ARRAY_SIZE(PROC) <= sizeof s->proc, "");
    scan(LIST_TOP, LIST_TOP_N, s->top);
    scan(LIST_ETC, LIST_ETC_N, s->etc);
    scan_proc(s->proc);
}

static void add_dir(struct plan *p, const char *path, mode_t mode)
{
    plan_add(p, 2, (struct op){.kind = OP_MKDIR, .to = SLOT_STORE, .path = path, .flags = mode});
}

/* The time zone is a link on most hosts; where it is none, it is the zone that a box has anyway. */
static void add_time_zone(struct plan *p)
{
    char target[PATH_MAX];
    ssize_t n = readlink("/etc/localtime", target, sizeof target - 1);
    if (n <= 0)
        return;
    target[n] = 0;
    plan_add(p, 2,
             (struct op){.kind = OP_SYMLINK,
                         .to = SLOT_STORE,
                         .path = "r/u/etc/localtime",
                         .text = plan_text(p, "%s", target)});
}

/* Where names are looked up, for a box that is on the host's network. */
static void add_resolver(struct plan *p)
{
    _cleanup_buf_ struct buf b = BUF_INIT(RESOLVER_MAX);
    if (io_read_file(AT_FDCWD, "/etc/resolv.conf", &b) < 0 || !buf_cstr(&b))
        return;
    plan_add(p, 2,
             (struct op){.kind = OP_FILE,
                         .to = SLOT_STORE,
                         .path = "r/u/etc/resolv.conf",
                         .text = plan_text(p, "%s", (char *)b.data),
                         .flags = 0644});
}

/* Every folder on the way to a share, and a place for the share itself. */
static void add_share_places(struct plan *p, const struct layout *l)
{
    for (size_t i = 0; i < l->n_shares; i++) {
        const char *at = l->shares[i].at;
        for (const char *slash = strchr(at + 1, '/'); slash; slash = strchr(slash + 1, '/'))
            add_dir(p, plan_text(p, "r/u%.*s", (int)(slash - at), at), 0755);
        add_dir(p, plan_text(p, "r/u%s", at), 0755);
    }
}

void selection_own(struct plan *p, const struct layout *l)
{
    static const char *const DIRS[] = {"r/u/etc", "r/u/dev", "r/u/run", "r/u/home", "r/u/home/agent"};
    for (size_t i = 0; i < ARRAY_SIZE(DIRS); i++)
        add_dir(p, DIRS[i], 0755);
    add_dir(p, "r/u/tmp", 01777);
    add_dir(p, "r/u/dev/shm", 01777);
    for (size_t i = 1; !l->has_image && i < LIST_TOP_N; i++)
        if (l->selection.top[i] ==
            KIND_DIR) /* not merged into /usr here: a folder takes the place of the link */
            add_dir(p, plan_text(p, "r/u%s", LIST_TOP[i].path), 0755);
    if (!l->has_image)
        add_time_zone(p);
    if (l->net == BOX_NET_HOST)
        add_resolver(p);
    add_share_places(p, l);
    for (size_t i = 0; i < l->n_links; i++)
        plan_add(p, 2,
                 (struct op){.kind = OP_SYMLINK,
                             .to = SLOT_STORE,
                             .path = plan_text(p, "r/u%s", l->links[i].at),
                             .text = plan_text(p, "%s", l->links[i].to)});
}

static void show(struct plan *p, const char *path)
{
    int slot = plan_slot(p);
    uint64_t flags = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    plan_add(p, 2,
             (struct op){.kind = OP_CLONE,
                         .slot = slot,
                         .from = SLOT_HOST,
                         .path = path,
                         .flags = flags,
                         .recursive = true,
                         .optional = true});
    plan_add(
        p, 2,
        (struct op){.kind = OP_ATTACH, .slot = slot, .to = SLOT_ROOT, .path = path + 1, .optional = true});
}

static void show_all(struct plan *p, const struct listed *list, size_t n, const uint8_t *kinds)
{
    for (size_t i = 0; i < n; i++)
        if (kinds[i] != KIND_NONE)
            show(p, list[i].path);
}

void selection_show(struct plan *p, const struct selection *s)
{
    show_all(p, LIST_TOP, LIST_TOP_N, s->top);
    show_all(p, LIST_ETC, LIST_ETC_N, s->etc);
}

/* A device that reads as empty over a file, an empty folder over a folder. */
static void mask(struct plan *p, int from, const char *empty, const char *at)
{
    int slot = plan_slot(p);
    plan_add(p, 2,
             (struct op){.kind = OP_CLONE,
                         .slot = slot,
                         .from = from,
                         .path = empty,
                         .flags = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC});
    plan_add(p, 2, (struct op){.kind = OP_ATTACH, .slot = slot, .to = SLOT_ROOT, .path = at});
}

void selection_mask_proc(struct plan *p, const struct selection *s)
{
    for (size_t i = 0; i < ARRAY_SIZE(PROC); i++)
        if (s->proc[i] == KIND_DIR)
            mask(p, SLOT_STORE, "e", PROC[i] + 1);
        else if (s->proc[i] != KIND_NONE)
            mask(p, SLOT_HOST, "/dev/null", PROC[i] + 1);
}
