#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cleanup.h"
#include "relpath.h"
#include "banned.h"

#define DIGITS "0123456789"

bool relpath_is_valid(const void *path, size_t n)
{
    const char *at = path, *end = at + n;
    if (n == 0 || n > RELPATH_MAX || memchr(path, 0, n))
        return false;
    for (;;) {
        const char *slash = memchr(at, '/', (size_t)(end - at));
        size_t size = (size_t)((slash ? slash : end) - at);
        if (size == 0 || (size <= 2 && memcmp(at, "..", size) == 0))
            return false;
        if (!slash)
            return true;
        at = slash + 1;
    }
}

/* The first bytes of a component as a case-folding filesystem might see them; longer names cannot
 * match anyway. */
static size_t component_fold(const char *at, size_t n, char *ret, size_t max)
{
    size_t used = 0;
    for (size_t i = 0; i < n && used < max; i++) {
        unsigned char c = (unsigned char)at[i];
        if (c == ':')
            break;
        if (c < 0x80)
            ret[used++] = (char)tolower(c);
    }
    while (used > 0 && (ret[used - 1] == '.' || ret[used - 1] == ' '))
        used--;
    return used;
}

bool relpath_component_folds_to(const char *component, size_t n, const char *name)
{
    char folded[64];
    size_t used = component_fold(component, n, folded, sizeof folded);
    return used == strlen(name) && memcmp(folded, name, used) == 0;
}

bool relpath_touches_git(const char *path)
{
    for (;; path++) {
        char name[65];
        size_t n = strcspn(path, "/\\"), used = component_fold(path, n, name, sizeof name - 1);
        name[used] = 0;
        /* .git itself, or the short name of it that Windows makes: git~ and digits */
        if (strcmp(name, ".git") == 0 ||
            (strncmp(name, "git~", 4) == 0 && used > 4 && !name[4 + strspn(name + 4, DIGITS)]))
            return true;
        path += n;
        if (!*path)
            return false;
    }
}

const char *relpath_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int beneath_open_n(int root, const char *path, size_t n, int *ret_fd)
{
    struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    _cleanup_fd_ int dir = -1;
    do {
        char piece[PATH_MAX];
        /* As many whole components as one call takes. */
        const char *slash = n < PATH_MAX ? NULL : memrchr(path, '/', PATH_MAX - 1);
        size_t take = slash ? (size_t)(slash - path) : n;
        if (take >= sizeof piece)
            return -ENAMETOOLONG;
        memcpy(piece, path, take);
        piece[take] = 0;
        int next =
            (int)syscall(SYS_openat2, dir >= 0 ? dir : root, take ? piece : ".", &how, sizeof how);
        if (next < 0)
            return -errno;
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
    return beneath_open_n(root, path, strlen(path), ret_fd);
}

int beneath_open_parent(int root, const char *path, int *ret_fd)
{
    const char *name = relpath_name(path);
    return beneath_open_n(root, path, name > path ? (size_t)(name - path - 1) : 0, ret_fd);
}
