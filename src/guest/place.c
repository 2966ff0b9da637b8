#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "place.h"
#include "banned.h"

#define LINKS_MAX 16

void place_close(struct place *p)
{
    cleanup_close(&p->dir);
    p->dir = -1;
}

/* Opens the folder `path`, making what is missing of it. Each prefix is resolved from the root
 * anew. */
static int make_folders(struct file_call *c, char *path, int *ret_fd)
{
    _cleanup_fd_ int above = fcntl(c->root, F_DUPFD_CLOEXEC, 3);
    for (char *at = path + strspn(path, "/"); *at;) {
        size_t n = strcspn(at, "/");
        char *end = at + n, kept = *end;
        _cleanup_fd_ int here = -1;
        *end = 0;
        int r = file_resolve(c, path, O_PATH | O_DIRECTORY, &here);
        if (r == -ENOENT && (mkdirat(above, at, 0777) == 0 || errno == EEXIST))
            r = file_resolve(c, path, O_PATH | O_DIRECTORY, &here);
        else if (r == -ENOENT)
            r = -errno;
        *end = kept;
        if (r < 0)
            return r;
        close(above);
        above = TAKE_FD(here);
        at = end + strspn(end, "/");
    }
    *ret_fd = TAKE_FD(above);
    return 0;
}

/* Splits the place's path into a folder, which is opened, and a name, which is looked at. */
static int place_open(struct file_call *c, struct place *p)
{
    char *slash = strrchr(p->path, '/');
    p->name = slash ? slash + 1 : p->path;
    if (!*p->name || strcmp(p->name, ".") == 0 || strcmp(p->name, "..") == 0)
        return -EISDIR;
    if (p->path[0] == '/' && !c->whole)
        return -EXDEV;
    cleanup_close(&p->dir);
    p->dir = -1;
    if (slash)
        *slash = 0;
    int r = make_folders(c, slash ? p->path : (char[]){""}, &p->dir);
    if (slash)
        *slash = '/';
    if (r < 0)
        return r;
    p->exists = fstatat(p->dir, p->name, &p->st, AT_SYMLINK_NOFOLLOW) == 0;
    return p->exists || errno == ENOENT ? 0 : -errno;
}

/* Replaces the place's path by what the link there says, beside it. */
static int place_follow(struct file_call *c, struct place *p)
{
    char target[PATH_MAX], next[PATH_MAX];
    ssize_t n = readlinkat(p->dir, p->name, target, sizeof target);
    if (n < 0)
        return -errno;
    int kept = (int)(p->name - p->path);
    if (n > 0 && target[0] == '/') {
        if (!c->whole)
            return -EXDEV;
        kept = 0;
    }
    int len = snprintf(next, sizeof next, "%.*s%.*s", kept, p->path, (int)n, target);
    if (len < 0 || (size_t)len >= sizeof next)
        return -ENAMETOOLONG;
    memcpy(p->path, next, (size_t)len + 1);
    return 0;
}

int place_find(struct file_call *c, struct place *p)
{
    size_t n = strlen(c->path);
    if (n >= sizeof p->path)
        return -ENAMETOOLONG;
    memcpy(p->path, c->path, n + 1);
    for (int i = 0; i < LINKS_MAX; i++) {
        int r = place_open(c, p);
        if (r < 0 || !p->exists || !S_ISLNK(p->st.st_mode))
            return r;
        r = place_follow(c, p);
        if (r < 0)
            return r;
    }
    return -ELOOP;
}

int place_need_writable(const struct place *p, const char *path, struct error *err)
{
    if (!p->exists || faccessat(p->dir, p->name, W_OK, 0) == 0)
        return 0;
    if (errno != EACCES)
        return error_errno(err, errno, "%.400s", path);
    return error_set(err, EACCES, "%.400s: is write-protected (mode %04o)", path,
                     p->st.st_mode & 07777);
}

int place_open_beside(const struct place *p, char name[PLACE_BESIDE_MAX], int *ret_fd)
{
    uint64_t chance;
    if (getrandom(&chance, sizeof chance, 0) != (ssize_t)sizeof chance)
        return -EIO;
    snprintf(name, PLACE_BESIDE_MAX, ".hutch-%016llx.tmp", (unsigned long long)chance);
    int fd = openat(p->dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    return 0;
}
