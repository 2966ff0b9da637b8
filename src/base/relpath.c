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

static bool component_is_valid(const char *at, size_t n)
{
    return n > 0 && !(n == 1 && at[0] == '.') && !(n == 2 && at[0] == '.' && at[1] == '.');
}

bool relpath_is_valid(const void *path, size_t n)
{
    const char *at = path, *end = at + n;
    if (n == 0 || n > RELPATH_MAX || memchr(path, 0, n))
        return false;
    for (;;) {
        const char *slash = memchr(at, '/', (size_t)(end - at));
        if (!component_is_valid(at, (size_t)((slash ? slash : end) - at)))
            return false;
        if (!slash)
            return true;
        at = slash + 1;
    }
}

/* Keeps the first bytes of a component as a folding filesystem might see them; longer ones cannot
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

static bool component_is_git(const char *at, size_t n)
{
    char name[64];
    size_t used = component_fold(at, n, name, sizeof name);
    if (used == 4 && memcmp(name, ".git", 4) == 0)
        return true;
    if (used < 5 || memcmp(name, "git~", 4) != 0)
        return false;
    for (size_t i = 4; i < used; i++)
        if (!isdigit((unsigned char)name[i]))
            return false;
    return true;
}

bool relpath_touches_git(const char *path)
{
    for (;;) {
        size_t n = strcspn(path, "/\\");
        if (component_is_git(path, n))
            return true;
        if (!path[n])
            return false;
        path += n + 1;
    }
}

const char *relpath_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int beneath_open_piece(int dir, const char *piece)
{
    struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    long fd = syscall(SYS_openat2, dir, piece, &how, sizeof how);
    return fd < 0 ? -errno : (int)fd;
}

/* As many whole components as one call takes. */
static size_t beneath_piece_length(const char *path, size_t n)
{
    if (n < PATH_MAX)
        return n;
    const char *slash = memrchr(path, '/', PATH_MAX - 1);
    return slash ? (size_t)(slash - path) : n;
}

static int beneath_open_n(int root, const char *path, size_t n, int *ret_fd)
{
    _cleanup_fd_ int dir = -1;
    do {
        char piece[PATH_MAX];
        size_t take = beneath_piece_length(path, n);
        if (take >= sizeof piece)
            return -ENAMETOOLONG;
        memcpy(piece, path, take);
        piece[take] = 0;
        int next = beneath_open_piece(dir >= 0 ? dir : root, take ? piece : ".");
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
    return beneath_open_n(root, path, strlen(path), ret_fd);
}

int beneath_open_parent(int root, const char *path, int *ret_fd)
{
    const char *name = relpath_name(path);
    return beneath_open_n(root, path, name > path ? (size_t)(name - path - 1) : 0, ret_fd);
}
