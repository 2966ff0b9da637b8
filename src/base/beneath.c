#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "beneath.h"
#include "cleanup.h"
#include "relpath.h"
#include "banned.h"

static int open_piece(int dir, const char *piece)
{
    struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    long fd = syscall(SYS_openat2, dir, piece, &how, sizeof how);
    return fd < 0 ? -errno : (int)fd;
}

/* As many whole components as one call takes. */
static size_t piece_length(const char *path, size_t n)
{
    if (n < PATH_MAX)
        return n;
    const char *slash = memrchr(path, '/', PATH_MAX - 1);
    return slash ? (size_t)(slash - path) : n;
}

static int open_dir(int root, const char *path, size_t n, int *ret_fd)
{
    _cleanup_fd_ int dir = -1;
    do {
        char piece[PATH_MAX];
        size_t take = piece_length(path, n);
        if (take >= sizeof piece)
            return -ENAMETOOLONG;
        memcpy(piece, path, take);
        piece[take] = 0;
        int next = open_piece(dir >= 0 ? dir : root, take ? piece : ".");
        if (next < 0)
            return next;
        cleanup_close(&dir);
        dir = next;
        take += take < n;
        path += take;
        n -= take;
    } while (n > 0);
    *ret_fd = TAKE_FD(dir);
    return 0;
}

int beneath_open_dir(int root, const char *path, int *ret_fd)
{
    return open_dir(root, path, strlen(path), ret_fd);
}

int beneath_open_parent(int root, const char *path, int *ret_fd)
{
    const char *name = relpath_name(path);
    return open_dir(root, path, name > path ? (size_t)(name - path - 1) : 0, ret_fd);
}
