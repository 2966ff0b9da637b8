/*
 * Everything in the lists (skeleton/lists.h) is looked up on the host when a fresh box is planned;
 * what is not there is left out. /etc is shown as a whole, less what etc_view.h says.
 *
 * A box's /etc is a read-only overlay of four layers, in the store's folder c but for the second:
 *
 *     c/own   files made for this box: gitconfig, machine-id, the time zone, resolv.conf
 *     k/etc   files made when hutch was built: passwd, group, hosts, …
 *     c/hide  whiteouts over what the host has and a box must not see
 *     c/host  (mount) the host's /etc
 *
 * The kernel refuses the last as a layer where something is mounted inside of it and we are not
 * root. Then /etc is a plain folder of the root filesystem, and each entry of the host's is shown
 * by a mount of its own.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "buf.h"
#include "etc_view.h"
#include "io.h"
#include "skeleton/lists.h"
#include "selection.h"
#include "banned.h"

#define RESOLVER_MAX 16384
#define READ_ONLY    (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

/* What of /proc tells about or reaches the whole machine, and is not the host's root's alone
 * anyway. */
static const char *const PROC_EMPTY[] = {
    "/proc/kcore",         "/proc/keys",          "/proc/key-users",  "/proc/timer_list",
    "/proc/kmsg",          "/proc/sysrq-trigger", "/proc/kallsyms",   "/proc/sched_debug",
    "/proc/latency_stats", "/proc/acpi",          "/proc/asound",     "/proc/scsi",
    "/proc/slabinfo",      "/proc/vmallocinfo",   "/proc/kpagecount", "/proc/kpageflags",
    "/proc/kpagecgroup",   "/proc/pagetypeinfo",
};

/* What of /proc sets something for the whole machine. The modes of these files keep a box off
 * already, but for those of pressure, which let everybody start a watcher in the kernel. */
static const char *const PROC_READ_ONLY[] = {
    "/proc/sys",      "/proc/irq",    "/proc/bus", "/proc/fs",
    "/proc/pressure", "/proc/driver", "/proc/tty", "/proc/mtrr",
};

/* Entries of /etc that are made for boxes, whatever the host has of that name. */
static const char *const ETC_MADE[] = {"passwd",        "group",      "hosts",      "hostname",
                                       "nsswitch.conf", "os-release", "machine-id", "gitconfig",
                                       "localtime",     "resolv.conf"};

/* What a path of the lists is on this host. */
enum kind { KIND_NONE, KIND_FILE, KIND_DIR };

/* A box's user has no capability to go past a mode. It owns nothing of /proc but its own processes,
 * unless it is root's own id (idmap.h): then what is for root alone is masked as well. */
static uint8_t kind_of(const char *path, uid_t owner)
{
    struct stat st;
    if (lstat(path, &st) < 0 || (!(st.st_mode & S_IRWXO) && st.st_uid != owner))
        return KIND_NONE;
    return S_ISDIR(st.st_mode) ? KIND_DIR : KIND_FILE;
}

/* The skeleton has a folder as the place for each of these: what is a link or a file here is left
 * out. */
static void scan_folders(const char *const *list, size_t n, uint8_t *ret)
{
    for (size_t i = 0; i < n; i++)
        ret[i] = kind_of(list[i], (uid_t)-1) == KIND_DIR ? KIND_DIR : KIND_NONE;
}

void selection_scan(struct selection *s)
{
    _Static_assert(LIST_TOP_N <= ARRAY_SIZE(s->top), "");
    _Static_assert(LIST_MORE_N <= ARRAY_SIZE(s->more), "");
    _Static_assert(ARRAY_SIZE(PROC_EMPTY) <= ARRAY_SIZE(s->proc_empty), "");
    _Static_assert(ARRAY_SIZE(PROC_READ_ONLY) <= ARRAY_SIZE(s->proc_read_only), "");
    scan_folders(LIST_TOP, LIST_TOP_N, s->top);
    scan_folders(LIST_MORE, LIST_MORE_N, s->more);
    for (size_t i = 0; i < ARRAY_SIZE(PROC_EMPTY); i++)
        s->proc_empty[i] = kind_of(PROC_EMPTY[i], s->owner);
    for (size_t i = 0; i < ARRAY_SIZE(PROC_READ_ONLY); i++)
        s->proc_read_only[i] = kind_of(PROC_READ_ONLY[i], s->owner);
}

static void add_dir(struct plan *p, const char *path, mode_t mode)
{
    plan_add(p, 2, (struct op){.kind = OP_MKDIR, .to = SLOT_STORE, .path = path, .flags = mode});
}

static void add_file(struct plan *p, const char *path, const char *text)
{
    plan_add(
        p, 2,
        (struct op){.kind = OP_FILE, .to = SLOT_STORE, .path = path, .text = text, .flags = 0644});
}

static void add_link(struct plan *p, const char *path, const char *target)
{
    plan_add(p, 2, (struct op){.kind = OP_SYMLINK, .to = SLOT_STORE, .path = path, .text = target});
}

/* Where a file of the box's own /etc is made: in a layer of it, or in the root filesystem. */
static const char *own_etc(struct plan *p, const struct layout *l, const char *name)
{
    bool layered = !l->has_image && !l->selection.etc_in_parts;
    return plan_text(p, "%s/%s", layered ? "c/own" : "r/u/etc", name);
}

/* The time zone is a link on most hosts; where it is none, it is the zone that a box has anyway. */
static void add_time_zone(struct plan *p, const struct layout *l)
{
    char target[PATH_MAX];
    ssize_t n = readlink("/etc/localtime", target, sizeof target - 1);
    if (n <= 0)
        return;
    target[n] = 0;
    add_link(p, own_etc(p, l, "localtime"), plan_text(p, "%s", target));
}

/* Where names are looked up, for a box that is on the host's network. */
static void add_resolver(struct plan *p, const struct layout *l)
{
    _cleanup_buf_ struct buf b = BUF_INIT(RESOLVER_MAX);
    if (io_read_file(AT_FDCWD, "/etc/resolv.conf", &b) < 0 || !buf_cstr(&b))
        return;
    add_file(p, own_etc(p, l, "resolv.conf"), plan_text(p, "%s", (char *)b.data));
}

/* Programs want one, and the host's would tell boxes on one host from those on another. Forks have
 * that of their source. */
static void add_machine_id(struct plan *p, const struct layout *l)
{
    uint64_t id[2] = {0};
    if (getrandom(id, sizeof id, GRND_NONBLOCK) != sizeof id)
        return;
    add_file(
        p, own_etc(p, l, "machine-id"),
        plan_text(p, "%016llx%016llx\n", (unsigned long long)id[0], (unsigned long long)id[1]));
}

/* git's settings for the whole box, which those of a repository and of the box's home go over.
 * Files of the workspace may appear as somebody else's, which is no reason for git to refuse them
 * here. Nor to hash every file again: the index records the host's ids and inode numbers, which
 * checkStat=minimal does not compare.
 */
static void add_git_config(struct plan *p, const struct layout *l)
{
    add_file(
        p, own_etc(p, l, "gitconfig"),
        plan_text(p, "[safe]\n\tdirectory = *\n[core]\n\tcheckStat = minimal\n%s", l->git_config));
}

/* A file in the upper layer of the workspace's overlay takes the place of the person's, whose
 * credentials the box cannot reach then. */
static void add_git_mask(struct plan *p, const struct layout *l)
{
    add_dir(p, "w/u/.git", 0755);
    add_file(p, "w/u/.git/config", plan_text(p, "%s", l->git_mask));
}

/* Every folder on the way to something that is mounted, and a place for the thing itself. */
static void add_place(struct plan *p, const char *at, bool is_file)
{
    for (const char *slash = strchr(at + 1, '/'); slash; slash = strchr(slash + 1, '/'))
        add_dir(p, plan_text(p, "r/u%.*s", (int)(slash - at), at), 0755);
    const char *place = plan_text(p, "r/u%s", at);
    if (is_file)
        plan_add(
            p, 2,
            (struct op){
                .kind = OP_FILE, .to = SLOT_STORE, .path = place, .flags = 0444, .optional = true});
    else
        add_dir(p, place, 0755);
}

void selection_own_etc(struct plan *p, const struct layout *l)
{
    if (!l->has_image)
        add_time_zone(p, l);
    if (l->host_network)
        add_resolver(p, l);
    add_machine_id(p, l);
    add_git_config(p, l);
}

void selection_own(struct plan *p, const struct layout *l)
{
    static const char *const DIRS[] = {"r/u/etc", "r/u/dev", "r/u/run", "r/u/home",
                                       "r/u/home/agent"};
    for (size_t i = 0; i < ARRAY_SIZE(DIRS); i++)
        add_dir(p, DIRS[i], 0755);
    add_dir(p, "r/u/tmp", 01777);
    add_dir(p, "r/u/dev/shm", 01777);
    for (size_t i = 1; !l->has_image && i < LIST_TOP_N; i++)
        if (l->selection.top[i] ==
            KIND_DIR) /* not merged into /usr: a folder takes the place of the link */
            add_dir(p, plan_text(p, "r/u%s", LIST_TOP[i]), 0755);
    if (l->has_git_mask)
        add_git_mask(p, l);
    for (size_t i = 0; i < l->n_shares; i++)
        add_place(p, l->shares[i].at, l->shares[i].is_file);
    if (l->own_path[0])
        add_place(p, l->own_path, false);
    for (size_t i = 0; i < l->n_links; i++)
        add_link(p, plan_text(p, "r/u%s", l->links[i].at), plan_text(p, "%s", l->links[i].to));
}

static void show_folders(struct plan *p, const char *const *list, size_t n, const uint8_t *kinds)
{
    for (size_t i = 0; i < n; i++)
        if (kinds[i] == KIND_DIR)
            plan_add(p, 2, (struct op){.kind = OP_SHOW, .path = list[i], .flags = READ_ONLY});
}

void selection_show(struct plan *p, const struct selection *s)
{
    show_folders(p, LIST_TOP, LIST_TOP_N, s->top);
    show_folders(p, LIST_MORE, LIST_MORE_N, s->more);
}

static bool is_made(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(ETC_MADE); i++)
        if (strcmp(name, ETC_MADE[i]) == 0)
            return true;
    return false;
}

/* One entry of /etc: a place for it in the root filesystem and a mount on that, or the link itself.
 */
static void show_etc_entry(struct plan *p, int etc, const struct dirent *d)
{
    const char *path = plan_text(p, "/etc/%s", d->d_name);
    struct op place = {
        .kind = d->d_type == DT_DIR ? OP_MKDIR : OP_FILE, .to = SLOT_ROOT, .path = path + 1};
    char target[PATH_MAX];
    ssize_t n;
    if (d->d_type == DT_LNK && (n = readlinkat(etc, d->d_name, target, sizeof target - 1)) > 0) {
        place.kind = OP_SYMLINK;
        place.text = plan_text(p, "%.*s", (int)n, target);
        plan_add(p, 2, place);
    }
    if (d->d_type != DT_DIR && d->d_type != DT_REG)
        return;
    place.flags = d->d_type == DT_DIR ? 0755 : 0644;
    plan_add(p, 2, place);
    plan_add(p, 2, (struct op){.kind = OP_SHOW, .path = path, .flags = READ_ONLY});
}

void selection_show_etc_parts(struct plan *p, const struct etc_view *view)
{
    DIR *dir = opendir("/etc");
    const struct dirent *d;
    while (dir && (d = readdir(dir)))
        if (d->d_name[0] != '.' && !is_made(d->d_name) && !etc_view_hides(view, d->d_name))
            show_etc_entry(p, dirfd(dir), d);
    if (dir)
        closedir(dir);
    for (const char *at = view->hidden; *at; at += strlen(at) + 1)
        if (strchr(at, '/'))
            plan_add(
                p, 2,
                (struct op){.kind = OP_COVER, .to = SLOT_ROOT, .path = plan_text(p, "etc/%s", at)});
}

/* A device that reads as empty over a file, an empty folder over a folder. */
static void mask(struct plan *p, int from, const char *path, const char *at)
{
    int slot = plan_slot(p);
    plan_add(p, 2,
             (struct op){.kind = OP_CLONE,
                         .slot = slot,
                         .from = from,
                         .path = path,
                         .flags = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC});
    plan_add(p, 2, (struct op){.kind = OP_ATTACH, .slot = slot, .to = SLOT_ROOT, .path = at});
}

void selection_mask_proc(struct plan *p, const struct selection *s)
{
    for (size_t i = 0; i < ARRAY_SIZE(PROC_EMPTY); i++)
        if (s->proc_empty[i] == KIND_DIR)
            mask(p, SLOT_STORE, "e", PROC_EMPTY[i] + 1);
        else if (s->proc_empty[i] != KIND_NONE)
            mask(p, SLOT_HOST, "/dev/null", PROC_EMPTY[i] + 1);
}

void selection_protect_proc(struct plan *p, const struct selection *s)
{
    for (size_t i = 0; i < ARRAY_SIZE(PROC_READ_ONLY); i++)
        if (s->proc_read_only[i] != KIND_NONE)
            mask(p, SLOT_ROOT, PROC_READ_ONLY[i] + 1, PROC_READ_ONLY[i] + 1);
    mask(p, SLOT_ROOT, "proc/1", "proc/1"); /* the guest: commands run as the same user */
}
