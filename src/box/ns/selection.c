/*
 * The part of the host's filesystem that a box sees by default, and what is made up instead of the
 * rest.
 *
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
#include <fnmatch.h>
#include <limits.h>
#include <linux/mount.h>
#include <linux/stat.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "box_host.h"
#include "io.h"
#include "layout.h"
#include "skeleton/lists.h"
#include "text.h"
#include "weaken.h"
#include "banned.h"

#define RESOLVER_MAX 16384
#define READ_ONLY    (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

/* What of /proc tells about or reaches the whole machine, unless its mode is for the host's root
 * alone. */
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

/* What every box has at the top, read-only or the kernel's: nothing can be put into it. */
static const char *const TAKEN[] = {"/usr", "/bin",    "/sbin", "/lib", "/lib32", "/lib64",
                                    "/etc", "/libx32", "/proc", "/sys", "/dev",   "/workspace"};

/* Folders that a box needs for itself: a workspace may lie inside of one, but not take its
 * place. */
static const char *const NEEDED[] = {"/home/agent", "/tmp", "/run", "/var/tmp", "/var/run"};

/* What a path of the lists is on this host. */
enum kind { KIND_NONE, KIND_FILE, KIND_DIR };

/* A box's user has no capability to go past a mode. It owns nothing of /proc but its own processes,
 * unless it is root's own id (idmap.h): then what is for root alone is masked as well. */
static void selection_scan_list(const char *const *list, size_t n, uid_t owner, uint8_t *ret)
{
    for (size_t i = 0; i < n; i++) {
        struct stat st;
        if (lstat(list[i], &st) < 0 || (!(st.st_mode & S_IRWXO) && st.st_uid != owner))
            ret[i] = KIND_NONE;
        else
            ret[i] = S_ISDIR(st.st_mode) ? KIND_DIR : KIND_FILE;
    }
}

void selection_scan(struct selection *s)
{
    _Static_assert(LIST_TOP_N <= ARRAY_SIZE(s->top), "");
    _Static_assert(LIST_MORE_N <= ARRAY_SIZE(s->more), "");
    _Static_assert(ARRAY_SIZE(PROC_EMPTY) <= ARRAY_SIZE(s->proc_empty), "");
    _Static_assert(ARRAY_SIZE(PROC_READ_ONLY) <= ARRAY_SIZE(s->proc_read_only), "");
    selection_scan_list(LIST_TOP, LIST_TOP_N, (uid_t)-1, s->top);
    selection_scan_list(LIST_MORE, LIST_MORE_N, (uid_t)-1, s->more);
    selection_scan_list(PROC_EMPTY, ARRAY_SIZE(PROC_EMPTY), s->owner, s->proc_empty);
    selection_scan_list(PROC_READ_ONLY, ARRAY_SIZE(PROC_READ_ONLY), s->owner, s->proc_read_only);
}

static bool path_lies_in(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && (path[n] == 0 || path[n] == '/');
}

/*
 * The workspace is shown at its own path of the host, too. Build trees hold absolute paths (CMake's
 * cache, the first lines of the scripts of a virtual environment), which lead to the right files
 * then.
 */
void layout_set_own_path(struct layout *l, const char *workspace)
{
    const char *path = workspace;
    if (path_lies_in(path, "/var/tmp") || path_lies_in(path, "/var/run"))
        path += strlen("/var"); /* in a box these are links */
    l->own_path[0] = 0;
    if (path[0] != '/' || !path[1] || strlen(path) >= sizeof l->own_path)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(TAKEN); i++)
        if (path_lies_in(path, TAKEN[i]))
            return;
    for (size_t i = 0; i < ARRAY_SIZE(NEEDED); i++)
        if (path_lies_in(NEEDED[i], path))
            return;
    for (size_t i = 0; i < LIST_MORE_N; i++)
        if (path_lies_in(path, LIST_MORE[i]) || path_lies_in(LIST_MORE[i], path))
            return;
    for (size_t i = 0; i < l->n_shares; i++)
        if (path_lies_in(path, l->shares[i].at) || path_lies_in(l->shares[i].at, path))
            return;
    for (size_t i = 0; i < l->n_links; i++)
        if (path_lies_in(path, l->links[i].at))
            return;
    snprintf(l->own_path, sizeof l->own_path, "%s", path);
}

void selection_own_etc(struct plan *p, const struct layout *l)
{
    const char *etc = layout_has_etc_layers(l) ? "c/own" : "r/u/etc";

    /* The time zone is a link on most hosts; where it is none, it is the zone that a box has
     * anyway. */
    char target[PATH_MAX];
    ssize_t n = l->has_image ? 0 : readlink("/etc/localtime", target, sizeof target - 1);
    if (n > 0)
        plan_symlink(p, plan_text(p, "%s/localtime", etc), plan_text(p, "%.*s", (int)n, target));

    /* Where names are looked up, for a box that is on the host's network. */
    _cleanup_buf_ struct buf resolver = BUF_INIT(RESOLVER_MAX);
    if (l->host_network && io_read_file(AT_FDCWD, "/etc/resolv.conf", &resolver) == 0 &&
        buf_cstr(&resolver))
        plan_file(p, plan_text(p, "%s/resolv.conf", etc),
                  plan_text(p, "%s", (char *)resolver.data));

    /* Programs want a machine id, and the host's would tell boxes on one host from those on
     * another. Forks have that of their source. */
    unsigned long long id[2] = {0};
    if (getrandom(id, sizeof id, GRND_NONBLOCK) == sizeof id)
        plan_file(p, plan_text(p, "%s/machine-id", etc),
                  plan_text(p, "%016llx%016llx\n", id[0], id[1]));

    /* git's settings for the whole box, which those of a repository and of the box's home override.
     * Files of the workspace may appear as somebody else's, which is no reason for git to refuse
     * them here. Nor to hash every file again: the index records the host's ids and inode numbers,
     * which checkStat=minimal does not compare. */
    plan_file(
        p, plan_text(p, "%s/gitconfig", etc),
        plan_text(p, "[safe]\n\tdirectory = *\n[core]\n\tcheckStat = minimal\n%s", l->git_config));
}

/* Every folder on the way to a mount point, and the mount point itself. */
static void add_mount_point(struct plan *p, const char *at, bool is_file)
{
    for (const char *slash = strchr(at + 1, '/'); slash; slash = strchr(slash + 1, '/'))
        plan_mkdir(p, SLOT_STORE, plan_text(p, "r/u%.*s", (int)(slash - at), at), 0755);
    struct op file = {.kind = OP_FILE, .to = SLOT_STORE, .flags = 0444, .optional = true};
    file.path = plan_text(p, "r/u%s", at);
    if (is_file)
        plan_add(p, 2, file);
    else
        plan_mkdir(p, SLOT_STORE, file.path, 0755);
}

void selection_own(struct plan *p, const struct layout *l)
{
    static const char *const DIRS[] = {"r/u/etc", "r/u/dev", "r/u/run", "r/u/home",
                                       "r/u/home/agent"};
    for (size_t i = 0; i < ARRAY_SIZE(DIRS); i++)
        plan_mkdir(p, SLOT_STORE, DIRS[i], 0755);
    plan_mkdir(p, SLOT_STORE, "r/u/tmp", 01777);
    plan_mkdir(p, SLOT_STORE, "r/u/dev/shm", 01777);
    /* Where /bin and others are not merged into /usr, a folder replaces the skeleton's link. */
    for (size_t i = 1; !l->has_image && i < LIST_TOP_N; i++)
        if (l->selection.top[i] == KIND_DIR)
            plan_mkdir(p, SLOT_STORE, plan_text(p, "r/u%s", LIST_TOP[i]), 0755);
    /* A file in the upper layer of the workspace's overlay replaces the person's, whose credentials
     * the box cannot reach then. */
    if (l->has_git_mask) {
        plan_mkdir(p, SLOT_STORE, "w/u/.git", 0755);
        plan_file(p, "w/u/.git/config", plan_text(p, "%s", l->git_mask));
    }
    for (size_t i = 0; i < l->n_shares; i++)
        add_mount_point(p, l->shares[i].at, l->shares[i].is_file);
    if (l->own_path[0])
        add_mount_point(p, l->own_path, false);
    for (size_t i = 0; i < l->n_links; i++)
        plan_symlink(p, plan_text(p, "r/u%s", l->links[i].at), plan_text(p, "%s", l->links[i].to));
}

/* One entry of /etc: a mount point in the root filesystem and a mount on it, or the link itself. */
static void show_etc_entry(struct plan *p, int etc, const struct dirent *d)
{
    const char *path = plan_text(p, "/etc/%s", d->d_name);
    struct op point = {.kind = OP_SYMLINK, .to = SLOT_ROOT, .path = path + 1};
    char target[PATH_MAX];
    if (d->d_type == DT_LNK) {
        ssize_t n = readlinkat(etc, d->d_name, target, sizeof target - 1);
        point.text = n > 0 ? plan_text(p, "%.*s", (int)n, target) : NULL;
        if (point.text)
            plan_add(p, 2, point);
    } else if (d->d_type == DT_DIR || d->d_type == DT_REG) {
        point.kind = d->d_type == DT_DIR ? OP_MKDIR : OP_FILE;
        point.flags = d->d_type == DT_DIR ? 0755 : 0644;
        plan_add(p, 2, point);
        plan_bind(p, SLOT_HOST, path, path + 1, READ_ONLY);
    }
}

static void show_etc_entries(struct plan *p, const struct etc_view *view)
{
    DIR *dir = opendir("/etc");
    const struct dirent *d;
    while (dir && (d = readdir(dir))) {
        bool made = d->d_name[0] == '.';
        for (size_t i = 0; i < ARRAY_SIZE(ETC_MADE); i++)
            made |= strcmp(d->d_name, ETC_MADE[i]) == 0;
        if (!made && !etc_view_hides(view, d->d_name))
            show_etc_entry(p, dirfd(dir), d);
    }
    if (dir)
        closedir(dir);
    for (const char *at = view->hidden; *at; at += strlen(at) + 1) {
        struct op cover = {.kind = OP_COVER, .to = SLOT_ROOT, .optional = true};
        cover.path = plan_text(p, "etc/%s", at);
        if (strchr(at, '/'))
            plan_add(p, 2, cover);
    }
}

/* Skips what is a link or a file here: the skeleton has a folder as the mount point for each. */
void selection_show(struct plan *p, const struct selection *s, const struct layout_sources *from)
{
    for (size_t i = 0; i < LIST_TOP_N; i++)
        if (s->top[i] == KIND_DIR)
            plan_bind(p, SLOT_HOST, LIST_TOP[i], LIST_TOP[i] + 1, READ_ONLY);
    for (size_t i = 0; i < LIST_MORE_N; i++)
        if (s->more[i] == KIND_DIR)
            plan_bind(p, SLOT_HOST, LIST_MORE[i], LIST_MORE[i] + 1, READ_ONLY);
    if (s->etc_in_parts && from)
        show_etc_entries(p, from->etc);
    else if (s->etc_in_parts)
        plan_bind(p, SLOT_HOST, "/etc", "etc", READ_ONLY);
}

/* None of these is optional: a box whose /proc cannot be protected does not start. */
static void protect_path(struct plan *p, int from, const char *source, const char *path)
{
    struct op op = {.kind = OP_BIND, .from = from, .text = source, .to = SLOT_ROOT, .path = path};
    op.flags = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;
    plan_add(p, 2, op);
}

void selection_protect_proc(struct plan *p, const struct selection *s)
{
    for (size_t i = 0; i < ARRAY_SIZE(PROC_READ_ONLY) && !weakened("proc-rw"); i++)
        if (s->proc_read_only[i] != KIND_NONE)
            protect_path(p, SLOT_ROOT, PROC_READ_ONLY[i] + 1, PROC_READ_ONLY[i] + 1);
    if (!weakened("proc-rw")) /* the guest: commands run as the same user */
        protect_path(p, SLOT_ROOT, "proc/1", "proc/1");
    for (size_t i = 0; i < ARRAY_SIZE(PROC_EMPTY) && !weakened("proc-mask"); i++)
        if (s->proc_empty[i] == KIND_DIR)
            protect_path(p, SLOT_STORE, "e", PROC_EMPTY[i] + 1);
        else if (s->proc_empty[i] != KIND_NONE)
            protect_path(p, SLOT_HOST, "/dev/null", PROC_EMPTY[i] + 1);
}

/*
 * Which entries of /etc boxes see (etc_view.h). The mode decides first; the lists below are for
 * secrets that an administrator left readable for everybody, as happens with passwords in settings
 * of services, and for what tells how this host is reached.
 *
 * Reading all of /etc takes a millisecond or more, a third of the time in which a box starts. So
 * the answer is cached in the user's runtime folder, with the folders that were seen and a hash of
 * their stamps. Whatever is added, removed or renamed changes the stamp of its folder, and the
 * answer is dropped. A change of a file's mode does not; so no answer is used for longer than
 * CACHE_S.
 */

/* Patterns of paths relative to /etc; "*" matches no slash. A folder goes with everything in it. */
/* clang-format off */
static const char *const HIDDEN_PATHS[] = {
    /* accounts, and names of the people here */
    "passwd*", "shadow*", "gshadow*", "group-*", "subuid*", "subgid*", "sudoers*", "sssd",
    "nslcd.conf", "*ldap.conf",
    /* networks, VPNs, Wi-Fi, and how this host is reached */
    "NetworkManager", "bluetooth", "cni", "connman", "exports*", "ipsec*", "iscsi", "iwd",
    "netplan", "network", "nftables*", "openconnect", "openfortivpn", "openvpn", "ppp",
    "resolv.conf*", "strongswan*", "swanctl", "systemd/network", "tailscale", "tinc", "vpnc",
    "wireguard", "wpa_supplicant", "zerotier-one",
    /* passwords in URLs, mount options, jobs and unit files */
    "apt", "cron.d", "crontab", "crypttab*", "environment*", "fstab*", "systemd/system",
    /* services whose settings hold passwords or keys */
    "cups", "docker", "dovecot", "exim4", "gitconfig*", "kubernetes", "letsencrypt", "libvirt",
    "msmtprc*", "postfix", "rancher", "samba", "ssmtp",
};
/* clang-format on */

/* Patterns of names, in any folder, without regard to case. */
static const char *const HIDDEN_NAMES[] = {
    "*.key",      "*.keys",      "*_key",        "*-key.pem", "*_key.pem",  "privkey*",
    "id_rsa*",    "id_ed25519*", "id_ec*",       "*.p12",     "*.pfx",      "*.jks",
    "*.keystore", "*.keytab*",   "*.kdbx",       "*.psk",     "*.ovpn",     "*.cred",
    "*.creds",    "*.token",     "*credential*", "*secret*",  "*password*", "*passwd*",
    "*netrc",     "*.env",       "*pgpass",      "auth.json", "private",    "*.nmconnection",
};

static bool matches_any(const char *text, const char *const *patterns, size_t n, int flags)
{
    for (size_t i = 0; i < n; i++)
        if (fnmatch(patterns[i], text, flags) == 0)
            return true;
    return false;
}

bool etc_is_hidden(const char *path, mode_t mode)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const mode_t needed = S_ISDIR(mode) ? S_IROTH | S_IXOTH : S_IROTH;
    if (!S_ISDIR(mode) && !S_ISREG(mode) && !S_ISLNK(mode))
        return true;
    if (!S_ISLNK(mode) && (mode & needed) != needed)
        return true;
    return matches_any(path, HIDDEN_PATHS, ARRAY_SIZE(HIDDEN_PATHS), FNM_PATHNAME) ||
           matches_any(name, HIDDEN_NAMES, ARRAY_SIZE(HIDDEN_NAMES), FNM_CASEFOLD);
}

#define CACHE_FILE    "etc"
#define CACHE_VERSION 1
#define CACHE_S       60
#define RACE_NS       100000000 /* stamps are coarse: for so long a change may be unseen */

#define DEPTH_MAX   16
#define ENTRIES_MAX 65536
#define LIST_MAX    (8u << 20)  /* bytes of either list while it is made */
#define HIDDEN_MAX  (24u << 10) /* of the list of hidden paths, which is part of a box's plan */
#define HIDDEN_EACH 2048        /* of a folder at the top: with more it is hidden as a whole */

struct scan {
    struct buf hidden, dirs;
    uint64_t stamp;
    int64_t newest_ns;
    unsigned entries;
    bool has_mounts;
};

/* What the cache file begins with; then `dirs_size` bytes of folders and `hidden_size` of hidden
 * paths. */
struct cache_head {
    uint32_t version;
    uint32_t has_mounts;
    int64_t time_s;
    uint64_t stamp;
    uint32_t dirs_size, hidden_size;
};

static int64_t to_ns(struct timespec t)
{
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static uint64_t stamp_add(uint64_t stamp, const struct stat *st)
{
    const uint64_t parts[] = {st->st_dev, st->st_ino, st->st_mode, (uint64_t)to_ns(st->st_mtim),
                              (uint64_t)to_ns(st->st_ctim)};
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        stamp = (stamp ^ parts[i]) * 0x9e3779b97f4a7c15u;
        stamp ^= stamp >> 29;
    }
    return stamp;
}

static int scan_folder(struct scan *s, int parent, const char *name, char *path, size_t len,
                       int depth);

/* One entry; path[0..len) is its folder with a slash behind it, or empty. */
static int scan_entry(struct scan *s, int folder, const struct dirent *d, char *path, size_t len,
                      int depth)
{
    struct statx st = {.stx_mode = S_IFLNK};
    size_t before = s->hidden.len;
    int n = snprintf(path + len, PATH_MAX - len, "%s", d->d_name);
    if (n < 0 || (size_t)n >= PATH_MAX - len)
        return -ENAMETOOLONG;
    if (d->d_type != DT_LNK &&
        syscall(SYS_statx, folder, d->d_name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
                STATX_TYPE | STATX_MODE, &st) < 0)
        return errno == ENOENT ? 0 : -errno;
    s->has_mounts |= (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
    bool hide = etc_is_hidden(path, st.stx_mode);
    if (!hide && S_ISDIR(st.stx_mode)) {
        int r = scan_folder(s, folder, d->d_name, path, len + (size_t)n, depth + 1);
        if (r < 0 && r != -EACCES && r != -E2BIG)
            return r;
        path[len + (size_t)n] = 0;
        hide = r < 0 || (depth == 0 && s->hidden.len - before > HIDDEN_EACH);
    }
    if (!hide)
        return 0;
    s->hidden.len = before; /* what was found inside goes with it */
    return buf_append(&s->hidden, path, len + (size_t)n + 1);
}

static int scan_folder(struct scan *s, int parent, const char *name, char *path, size_t len,
                       int depth)
{
    struct stat st;
    const struct dirent *d;
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return -ENOMEM;
    }
    int r = depth > DEPTH_MAX || fstat(fd, &st) < 0 ? -E2BIG : 0;
    if (r == 0) {
        s->stamp = stamp_add(s->stamp, &st);
        if (to_ns(st.st_ctim) > s->newest_ns)
            s->newest_ns = to_ns(st.st_ctim);
        path[len] = 0;
        r = buf_append(&s->dirs, len ? path : ".", len ? len + 1 : 2);
    }
    if (len && len + 1 < PATH_MAX)
        path[len++] = '/';
    while (r == 0 && (d = readdir(dir)))
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
            r = ++s->entries > ENTRIES_MAX ? -E2BIG : scan_entry(s, fd, d, path, len, depth);
    closedir(dir);
    return r;
}

static void scan_free(struct scan *s)
{
    buf_free(&s->hidden);
    buf_free(&s->dirs);
}

static int scan_run(struct scan *s, const char *folder)
{
    char path[PATH_MAX] = "";
    *s = (struct scan){.hidden = BUF_INIT(LIST_MAX), .dirs = BUF_INIT(LIST_MAX)};
    int r = scan_folder(s, AT_FDCWD, folder, path, 0, 0);
    return r == 0 && s->hidden.len > HIDDEN_MAX ? -E2BIG : r;
}

static int view_fill(const void *hidden, size_t n, bool has_mounts, struct etc_view *ret)
{
    char *copy = malloc(n + 1);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, n ? hidden : "", n);
    copy[n] = 0;
    *ret = (struct etc_view){.hidden = copy, .hidden_size = n + 1, .has_mounts = has_mounts};
    return 0;
}

static bool cache_load(int folder, int64_t now_s, struct etc_view *ret)
{
    struct cache_head head;
    struct stat st;
    uint64_t stamp = 0;
    _cleanup_buf_ struct buf b = BUF_INIT(sizeof head + 2 * LIST_MAX);
    if (io_read_file(folder, CACHE_FILE, &b) < 0 || b.len < sizeof head)
        return false;
    memcpy(&head, b.data, sizeof head);
    const char *dirs = (const char *)b.data + sizeof head, *end = (const char *)b.data + b.len;
    bool whole = head.version == CACHE_VERSION &&
                 (uint64_t)head.dirs_size + head.hidden_size == b.len - sizeof head &&
                 head.dirs_size > 0 && dirs[head.dirs_size - 1] == 0 &&
                 (head.hidden_size == 0 || end[-1] == 0);
    if (!whole || head.time_s > now_s || now_s - head.time_s > CACHE_S)
        return false;
    const char *hidden = dirs + head.dirs_size;
    _cleanup_fd_ int etc = open("/etc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (const char *at = dirs; at < hidden; at += strlen(at) + 1) {
        if (etc < 0 || fstatat(etc, at, &st, AT_SYMLINK_NOFOLLOW) < 0)
            return false;
        stamp = stamp_add(stamp, &st);
    }
    return stamp == head.stamp &&
           view_fill(hidden, head.hidden_size, head.has_mounts != 0, ret) == 0;
}

/* Under a name of its own first: another hutch may read it or write one at the same time. */
static void cache_save(int folder, int64_t now_s, const struct scan *s)
{
    struct cache_head head = {.version = CACHE_VERSION,
                              .has_mounts = s->has_mounts,
                              .time_s = now_s,
                              .stamp = s->stamp,
                              .dirs_size = (uint32_t)s->dirs.len,
                              .hidden_size = (uint32_t)s->hidden.len};
    char name[32];
    snprintf(name, sizeof name, CACHE_FILE "-%d", (int)getpid());
    _cleanup_fd_ int fd =
        openat(folder, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    bool written = io_write_all(fd, &head, sizeof head) == 0 &&
                   io_write_all(fd, s->dirs.data, s->dirs.len) == 0 &&
                   io_write_all(fd, s->hidden.data, s->hidden.len) == 0;
    if (!written || renameat(folder, name, folder, CACHE_FILE) < 0)
        unlinkat(folder, name, 0);
}

int etc_view_read(struct etc_view *ret)
{
    struct timespec now;
    _cleanup_fd_ int folder = -1;
    clock_gettime(CLOCK_REALTIME, &now);
    bool may_cache = host_open_runtime(true, &folder, NULL) == 0;
    if (may_cache && cache_load(folder, now.tv_sec, ret))
        return 0;
    _cleanup_(scan_free) struct scan s;
    int r = scan_run(&s, "/etc");
    if (r < 0)
        return r;
    if (may_cache && s.newest_ns + RACE_NS < to_ns(now))
        cache_save(folder, now.tv_sec, &s);
    return view_fill(s.hidden.data, s.hidden.len, s.has_mounts, ret);
}

int etc_view_scan(const char *folder, struct etc_view *ret)
{
    _cleanup_(scan_free) struct scan s;
    int r = scan_run(&s, folder);
    return r < 0 ? r : view_fill(s.hidden.data, s.hidden.len, s.has_mounts, ret);
}

void etc_view_free(struct etc_view *v)
{
    free(v->hidden);
    *v = (struct etc_view){0};
}

bool etc_view_hides(const struct etc_view *v, const char *path)
{
    for (const char *at = v->hidden; at && *at; at += strlen(at) + 1)
        if (strcmp(at, path) == 0)
            return true;
    return false;
}
