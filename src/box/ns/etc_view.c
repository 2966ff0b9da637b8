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
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <linux/stat.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "etc_view.h"
#include "io.h"
#include "registry.h"
#include "text.h"
#include "banned.h"

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
    bool may_cache = registry_open_runtime(true, &folder, NULL) == 0;
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
