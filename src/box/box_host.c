/*
 * The host as boxes meet it (box_host.h).
 *
 * A path has many spellings: '//', '/tmp/..', a symbolic link, /proc/self/root, a bind mount. So
 * the checks of folders do not compare what the user typed. They open the folder, ask the kernel
 * what it is called, and compare device and inode, the type of the filesystem, and the kernel's
 * name.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "box_host.h"
#include "io.h"
#include "text.h"
#include "banned.h"

#define MQUEUE_MAGIC     0x19800202
#define FUSECTL_MAGIC    0x65735543
#define CONFIGFS_MAGIC   0x62656570
#define RPC_PIPEFS_MAGIC 0x67596969

#define USUAL_CGROUP_MOUNT "/sys/fs/cgroup"
#define GROUPS_MAX         (64u << 10)
#define MOUNTS_MAX         (4u << 20)

static const char WHY_GONE[] = "it cannot be opened";

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool path_is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && path[n] == '/';
}

/* A path is what was opened, by the kernel's name for it. */
static int host_path_resolve(const char *given, int flags, char **ret_path, mode_t *ret_mode)
{
    char link[64], path[PATH_MAX];
    struct stat opened, named;
    _cleanup_fd_ int fd = open(given, O_PATH | O_CLOEXEC | flags);
    if (fd < 0 || fstat(fd, &opened) < 0)
        return -errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0)
        return -errno;
    if ((size_t)n == sizeof path - 1)
        return -ENAMETOOLONG;
    path[n] = 0;
    /* A folder that was deleted, or that lies outside of this process's root, has no name that
     * leads to it. */
    if (stat(path, &named) < 0)
        return -errno;
    if (path[0] != '/' || !is_same_file(&opened, &named))
        return -ENOENT;
    char *copy = strdup(path);
    if (!copy)
        return -ENOMEM;
    *ret_path = copy;
    *ret_mode = opened.st_mode;
    return 0;
}

int host_folder_resolve(const char *given, char **ret_path)
{
    mode_t mode;
    return host_path_resolve(given, O_DIRECTORY, ret_path, &mode);
}

int host_share_resolve(const char *given, char **ret_path, bool *ret_is_file)
{
    _cleanup_free_ char *path = NULL;
    mode_t mode = 0;
    int r = host_path_resolve(given, 0, &path, &mode);
    if (r < 0)
        return r;
    /* A socket, a FIFO or a device leads out of the box even on a read-only mount. */
    if (!S_ISDIR(mode) && !S_ISREG(mode))
        return -EINVAL;
    *ret_path = TAKE_PTR(path);
    *ret_is_file = S_ISREG(mode);
    return 0;
}

/* The kernel writes blanks, line ends and backslashes of mountinfo as \ooo. Decoded by hand,
 * because the getmntent() of musl leaves them as they are and that of glibc does not. */
static void mountinfo_unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from; to++) {
        bool octal = from[0] == '\\' && strspn(from + 1, "01234567") >= 3;
        *to = octal ? (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0')) : *from;
        from += octal ? 4 : 1;
    }
    *to = 0;
}

/* Why no box may see this folder or file, not even to read it; else NULL. */
static const char *host_path_refuse(const char *path, struct stat *ret)
{
    static const unsigned long KERNEL_MAGICS[] = {
        PROC_SUPER_MAGIC,   SYSFS_MAGIC,    CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC,
        DEVPTS_SUPER_MAGIC, DEBUGFS_MAGIC,  TRACEFS_MAGIC,      SECURITYFS_MAGIC,
        BPF_FS_MAGIC,       EFIVARFS_MAGIC, SELINUX_MAGIC,      SMACK_MAGIC,
        PSTOREFS_MAGIC,     BINFMTFS_MAGIC, NSFS_MAGIC,         MQUEUE_MAGIC,
        FUSECTL_MAGIC,      CONFIGFS_MAGIC, RPC_PIPEFS_MAGIC,   RDTGROUP_SUPER_MAGIC,
    };
    static const char *const KERNEL_TREES[] = {"/proc", "/sys", "/dev"};
    struct stat st, root, dev;
    struct statfs fs;
    _cleanup_fd_ int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || stat("/", &root) < 0)
        return WHY_GONE;
    if (is_same_file(&st, &root))
        return "it is the root folder of this host, and the box would see all of it; name a"
               " folder below it";
    bool of_kernel = fstatfs(fd, &fs) < 0;
    for (size_t i = 0; !of_kernel && i < ARRAY_SIZE(KERNEL_MAGICS); i++)
        of_kernel = (unsigned long)fs.f_type == KERNEL_MAGICS[i];
    /* A folder inside /dev/shm is a folder in memory like any other; /dev/shm itself is shared by
     * all programs. */
    for (size_t i = 0; i < ARRAY_SIZE(KERNEL_TREES) && !path_is_below(path, "/dev/shm"); i++)
        of_kernel |= strcmp(path, KERNEL_TREES[i]) == 0 || path_is_below(path, KERNEL_TREES[i]);
    /* devtmpfs reports itself as tmpfs, and in containers /dev is one: the device number tells it
     * apart. */
    of_kernel |= stat("/dev", &dev) == 0 && dev.st_dev != root.st_dev && dev.st_dev == st.st_dev;
    if (of_kernel)
        return "it belongs to the kernel, and its files act on the host; copy what you need"
               " to another folder";
    *ret = st;
    return NULL;
}

const char *host_folder_refuse(const char *path, bool writable)
{
    struct stat st, at;
    const char *why = host_path_refuse(path, &st);
    if (why || !writable)
        return why;
    const char *home = getenv("HOME");
    _cleanup_free_ char *above = NULL;
    if (home && *home && host_folder_resolve(home, &above) < 0)
        above = NULL;
    for (; above && *above; *strrchr(above, '/') = 0)
        if (stat(above, &at) == 0 && is_same_file(&at, &st))
            return "it is or holds your home folder, and the box could change every file there;"
                   " name a folder below your home, or use mode cow";

    /* A folder that a box writes to is shown with all that is mounted inside it. */
    _cleanup_free_ char *line = NULL;
    _cleanup_fclose_ FILE *mounts = fopen("/proc/self/mountinfo", "re");
    size_t size = 0;
    bool refused = !mounts;
    while (!refused && getline(&line, &size, mounts) > 0) {
        _cleanup_free_ char *mount = NULL;
        if (sscanf(line, "%*s %*s %*s %*s %ms", &mount) != 1)
            continue;
        mountinfo_unescape(mount);
        why = path_is_below(mount, path) ? host_path_refuse(mount, &st) : NULL;
        refused = why && why != WHY_GONE; /* what this user cannot open, a box cannot either */
    }
    return refused ? "the host's root folder or a filesystem of the kernel is mounted inside it;"
                     " name a folder without such a mount"
                   : NULL;
}

/* In a place like /tmp any user can put something under our name. */
int host_open_private(int parent, const char *name, bool make, int *ret, struct error *err)
{
    struct stat st;
    if (make && mkdirat(parent, name, 0700) < 0 && errno != EEXIST)
        return error_errno(err, errno, "cannot make the folder '%s' for the state of boxes", name);
    _cleanup_fd_ int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return -ENOENT;
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_errno(err, errno, "cannot open the folder '%s' of the state of boxes", name);
    if (st.st_uid != geteuid() || (st.st_mode & 077))
        return error_set(
            err, EPERM,
            "the folder '%s' of the state of boxes is not yours alone; remove it or set"
            " XDG_RUNTIME_DIR",
            name);
    *ret = TAKE_FD(fd);
    return 0;
}

int host_open_runtime(bool make, int *ret_folder, struct error *err)
{
    char name[64] = "hutch";
    struct stat st;
    const char *parent = getenv("XDG_RUNTIME_DIR");
    _cleanup_fd_ int base =
        parent && parent[0] == '/' ? open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    /* It is often inherited from another user (su, sudo): then it is as good as not set. */
    if (base >= 0 && (fstat(base, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 022)))
        close(TAKE_FD(base));
    if (base < 0) {
        parent = geteuid() == 0 ? "/run" : "/tmp";
        if (geteuid() != 0)
            snprintf(name, sizeof name, "hutch-%u", geteuid());
        base = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (base < 0)
        return error_errno(err, errno, "cannot open %s", parent);
    return host_open_private(base, name, make, ret_folder, err);
}

__attribute__((weak)) int libexec_folders(char folders[LIBEXEC_FOLDERS_MAX][LIBEXEC_PATH_MAX],
                                          size_t *ret_count, struct error *err)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        return error_errno(err, errno, "cannot find out where hutch is installed");
    self[n] = 0;
    *strrchr(self, '/') = 0;
    snprintf(folders[0], LIBEXEC_PATH_MAX, "%s", self);
    snprintf(folders[1], LIBEXEC_PATH_MAX, "%s/../libexec/hutch", self);
    *ret_count = 2;
    return 0;
}

int libexec_find(const char *name, char path[LIBEXEC_PATH_MAX], struct error *err)
{
    char folders[LIBEXEC_FOLDERS_MAX][LIBEXEC_PATH_MAX];
    size_t n = 0;
    int r = libexec_folders(folders, &n, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < n; i++) {
        int length = snprintf(path, LIBEXEC_PATH_MAX, "%s/%s", folders[i], name);
        if (length < LIBEXEC_PATH_MAX && access(path, X_OK) == 0)
            return 0;
    }
    return error_set(err, ENOENT, "%s is missing from %s%s%s; reinstall hutch", name, folders[0],
                     n > 1 ? " and " : "", n > 1 ? folders[n - 1] : "");
}

static const char *line_next(const char *line)
{
    const char *end = strchr(line, '\n');
    return end ? end + 1 : line + strlen(line);
}

/* Whether `name` is one of the words of "a,b,c", which ends at `end`. */
static bool words_have(const char *words, const char *end, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = words; at < end;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma ? comma : end;
        if ((size_t)(stop - at) == n && memcmp(at, name, n) == 0)
            return true;
        at = stop + 1;
    }
    return false;
}

/* Our group in the hierarchy, from lines like "4:memory:/a/b", and "0::/a/b" for version 2. */
static int cgroup_find(const char *groups, const char *controller, char *ret, size_t size)
{
    for (const char *line = groups; *line; line = line_next(line)) {
        const char *words = strchr(line, ':');
        const char *path = words ? strchr(words + 1, ':') : NULL;
        if (!path || !(*controller ? words_have(words + 1, path, controller) : path == words + 1))
            continue;
        int n = snprintf(ret, size, "%.*s", (int)strcspn(path + 1, "\n"), path + 1);
        return (size_t)n < size ? 0 : -ENAMETOOLONG;
    }
    return -ENOENT;
}

/* What is left of the group's path below the mount's root; NULL if the group is elsewhere. */
static const char *cgroup_below(const char *group, const char *root)
{
    size_t n = strcmp(root, "/") == 0 ? 0 : strlen(root);
    if (strncmp(group, root, n) != 0 || (group[n] != '/' && group[n] != 0))
        return NULL;
    return strcmp(group + n, "/") == 0 ? "" : group + n;
}

/* A line is "ID PARENT DEV ROOT AT OPTIONS … - TYPE SOURCE SUPER-OPTIONS". */
int cgroup_path_parse(const char *groups, const char *mounts, const char *controller,
                      struct cgroup_path *ret)
{
    char group[PATH_MAX / 2] = "", root[PATH_MAX], at[PATH_MAX], kind[16], options[512];
    int r = cgroup_find(groups, controller, group, sizeof group);
    if (r < 0)
        return r;
    for (const char *line = mounts; *line; line = line_next(line)) {
        const char *type = strstr(line, " - ");
        if (!type || type > line + strcspn(line, "\n") ||
            sscanf(type + 3, "%15s %*s %511s", kind, options) != 2 ||
            strcmp(kind, *controller ? "cgroup" : "cgroup2") != 0 ||
            (*controller && !words_have(options, options + strlen(options), controller)) ||
            sscanf(line, "%*s %*s %*s %4095s %4095s", root, at) != 2)
            continue;
        mountinfo_unescape(root);
        mountinfo_unescape(at);
        const char *rest = cgroup_below(group, root);
        if (!rest)
            continue;
        if ((size_t)snprintf(ret->folder, sizeof ret->folder, "%s%s", at, rest) >=
            sizeof ret->folder)
            return -ENAMETOOLONG;
        ret->mount_len = strlen(at);
        return 0;
    }
    return -ENOENT;
}

int cgroup_path_find(const char *controller, struct cgroup_path *ret)
{
    char group[PATH_MAX / 2] = "", file[PATH_MAX + 16];
    _cleanup_buf_ struct buf groups = BUF_INIT(GROUPS_MAX), mounts = BUF_INIT(MOUNTS_MAX);
    int r = io_read_file(AT_FDCWD, "/proc/self/cgroup", &groups);
    if (r == 0 && !buf_cstr(&groups))
        r = -ENOMEM;
    if (r == 0)
        r = cgroup_find((char *)groups.data, controller, group, sizeof group);
    if (r < 0)
        return r;

    /* The usual place is tried before all mounts are read: these can be many. */
    const char *rest = cgroup_below(group, "/");
    snprintf(ret->folder, sizeof ret->folder, "%s%s%s", USUAL_CGROUP_MOUNT, *controller ? "/" : "",
             controller);
    ret->mount_len = strlen(ret->folder);
    snprintf(ret->folder + ret->mount_len, sizeof ret->folder - ret->mount_len, "%s",
             rest ? rest : "");
    snprintf(file, sizeof file, "%s/cgroup.procs", ret->folder);
    if (rest && access(file, F_OK) == 0)
        return 0;
    r = io_read_file(AT_FDCWD, "/proc/self/mountinfo", &mounts);
    if (r == 0 && !buf_cstr(&mounts))
        r = -ENOMEM;
    return r < 0 ? r : cgroup_path_parse((char *)groups.data, (char *)mounts.data, controller, ret);
}

/* The controller is in one of the two hierarchies: where version 1 has it, version 2 has not. */
uint64_t host_memory(bool *ret_limited)
{
    struct sysinfo info;
    struct cgroup_path p;
    uint64_t limit = UINT64_MAX;
    uint64_t total = sysinfo(&info) < 0 ? UINT64_MAX : (uint64_t)info.totalram * info.mem_unit;
    const char *file = cgroup_path_find("memory", &p) == 0 ? "memory.limit_in_bytes"
                       : cgroup_path_find("", &p) == 0     ? "memory.max"
                                                           : NULL;
    /* The lowest limit of the group itself and all above it, up to where the hierarchy is mounted.
     * "max" (version 2) is no number; version 1 says "no limit" by one that no machine has. */
    while (file) {
        char path[PATH_MAX + 32], *end;
        _cleanup_buf_ struct buf text = BUF_INIT(64);
        snprintf(path, sizeof path, "%s/%s", p.folder, file);
        if (io_read_file(AT_FDCWD, path, &text) == 0 && buf_cstr(&text)) {
            unsigned long long bytes = strtoull((char *)text.data, &end, 10);
            if (end != (char *)text.data && bytes != 0 && bytes < limit)
                limit = bytes;
        }
        char *up = strrchr(p.folder, '/');
        if (!up || (size_t)(up - p.folder) < p.mount_len)
            break;
        *up = 0;
    }
    if (ret_limited)
        *ret_limited = limit < total;
    return limit < total ? limit : total;
}
