/*
 * Files that an importer makes: under $XDG_CACHE_HOME/hutch/gym, where no box can write. Names in
 * them come from strangers' repositories: every file is made beneath its folder, never through a
 * link.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/limits.h>
#include <string.h>
#include <sys/stat.h>

#include "import_private.h"
#include "io.h"
#include "relpath.h"
#include "banned.h"

/* Makes all folders of an absolute path. */
static int make_folders(char *path)
{
    for (char *at = path + 1; (at = strchr(at, '/')); at++) {
        *at = 0;
        int r = mkdir(path, 0755) < 0 && errno != EEXIST ? -errno : 0;
        *at = '/';
        if (r < 0)
            return r;
    }
    return mkdir(path, 0755) < 0 && errno != EEXIST ? -errno : 0;
}

int import_cache(char *path, size_t size, struct error *err)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bool named = cache && cache[0] == '/';
    if (!named && !(home && home[0] == '/'))
        return error_set(err, ENOENT,
                         "there is no place for extracted repositories: HOME is not set");
    int n = snprintf(path, size, "%s%s/hutch/gym", named ? cache : home, named ? "" : "/.cache");
    if (n < 0 || (size_t)n >= size)
        return error_errno(err, ENAMETOOLONG, "the cache folder");
    int r = make_folders(path);
    return r < 0 ? error_errno(err, -r, "cannot make %s", path) : 0;
}

/* The folder that a file is to lie in, made if need be; a link on the way is an error. */
static int open_parent(int root, const char *path, int *ret)
{
    char name[NAME_MAX + 1];
    _cleanup_fd_ int dir = fcntl(root, F_DUPFD_CLOEXEC, 3);
    const char *at = path;
    if (dir < 0)
        return -errno;
    for (const char *slash; (slash = strchr(at, '/')); at = slash + 1) {
        size_t n = (size_t)(slash - at);
        if (n > NAME_MAX)
            return -ENAMETOOLONG;
        memcpy(name, at, n);
        name[n] = 0;
        if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
            return -errno;
        int next = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0)
            return -errno;
        close(dir);
        dir = next;
    }
    *ret = TAKE_FD(dir);
    return 0;
}

int import_write(int root, const char *path, mode_t mode, const void *bytes, size_t n)
{
    _cleanup_fd_ int dir = -1;
    if (!relpath_is_valid(path, strlen(path)) || relpath_touches_git(path))
        return -EINVAL;
    int r = open_parent(root, path, &dir);
    if (r < 0)
        return r;
    const char *name = relpath_name(path);
    if (S_ISLNK(mode)) {
        char target[PATH_MAX];
        if (n == 0 || n >= sizeof target || memchr(bytes, 0, n))
            return -EINVAL;
        memcpy(target, bytes, n);
        target[n] = 0;
        return symlinkat(target, dir, name) < 0 ? -errno : 0;
    }
    _cleanup_fd_ int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                                 mode & 0111 ? 0755 : 0644);
    return fd < 0 ? -errno : io_write_all(fd, bytes, n);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    return remove(path);
}

void import_remove(const char *folder)
{
    nftw(folder, remove_one, 32, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}
