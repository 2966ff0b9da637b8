/*
 * Which folders of the host a box may be given.
 *
 * A path has many spellings: '//', '/tmp/..', a symbolic link, /proc/self/root, a bind mount. So
 * nothing here compares what the person typed. The folder is opened, the kernel says what it is
 * called, and the checks compare device and inode, the type of the filesystem, and the kernel's
 * name.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "cleanup.h"
#include "host_folder.h"
#include "banned.h"

#define MQUEUE_MAGIC     0x19800202
#define FUSECTL_MAGIC    0x65735543
#define CONFIGFS_MAGIC   0x62656570
#define RPC_PIPEFS_MAGIC 0x67596969

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

/* Why no box may see this folder or file, not even to read it; else NULL. */
static const char *path_refuse(const char *path, struct stat *ret)
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

/* A folder that a box writes to is shown with all that is mounted inside it. */
static bool folder_has_refused_mount(const char *path)
{
    _cleanup_free_ char *line = NULL;
    _cleanup_fclose_ FILE *mounts = fopen("/proc/self/mountinfo", "re");
    size_t size = 0;
    if (!mounts)
        return true;
    while (getline(&line, &size, mounts) > 0) {
        _cleanup_free_ char *at = NULL;
        struct stat st;
        if (sscanf(line, "%*s %*s %*s %*s %ms", &at) != 1)
            continue;
        /* The kernel writes blanks, line ends and backslashes as \ooo. Decoded by hand, because the
         * getmntent() of musl leaves them as they are and that of glibc does not. */
        char *to = at;
        for (const char *from = at; *from; to++) {
            bool octal = from[0] == '\\' && strspn(from + 1, "01234567") >= 3;
            *to = octal ? (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'))
                        : *from;
            from += octal ? 4 : 1;
        }
        *to = 0;
        const char *why = path_is_below(at, path) ? path_refuse(at, &st) : NULL;
        if (why && why != WHY_GONE) /* what this user cannot open, a box of theirs cannot either */
            return true;
    }
    return false;
}

const char *host_folder_refuse(const char *path, bool writable)
{
    struct stat st, at;
    const char *why = path_refuse(path, &st);
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
    if (folder_has_refused_mount(path))
        return "the host's root folder or a filesystem of the kernel is mounted inside it;"
               " name a folder without such a mount";
    return NULL;
}
