#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "relpath.h"
#include "folder.h"
#include "diff/empty.h"
#include "banned.h"

#define LOOK (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

int stage_remove(int dir, const char *name)
{
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR)
        return -errno;
    if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
        return 0;
    if (errno != ENOTEMPTY && errno != EACCES)
        return -errno;
    _cleanup_fd_ int folder = -1;
    int r = stage_open_folder(dir, name, &folder);
    if (r == 0)
        r = empty_dir(folder);
    return r < 0 ? r : unlinkat(dir, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

int stage_open_folder(int dir, const char *name, int *ret_fd)
{
    struct stat st;
    _cleanup_fd_ int fd = openat(dir, name, LOOK);
    if (fd < 0 || fstat(fd, &st) < 0)
        return errno == ELOOP ? -ENOTDIR : -errno;
    /* By its name, since a folder that may not be read has no other handle. It was no link a moment
     * ago, and nobody is there to make it one. */
    if ((st.st_mode & 0700) != 0700 && fchmodat(dir, name, 0755, 0) < 0)
        return -errno;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* The folder of that name, made if it is not there; 1 if something was in its way. */
static int make_folder(int dir, const char *name, int *ret_fd)
{
    int r = stage_open_folder(dir, name, ret_fd), in_the_way = 0;
    if (r == -ENOTDIR) {
        in_the_way = 1;
        r = stage_remove(dir, name);
        if (r == 0)
            r = -ENOENT;
    }
    if (r == -ENOENT)
        r = mkdirat(dir, name, 0755) < 0 ? -errno : stage_open_folder(dir, name, ret_fd);
    return r < 0 ? r : in_the_way;
}

static int open_root(struct stage *s, int *ret_fd)
{
    return stage_open_folder(AT_FDCWD, s->call->root_path, ret_fd);
}

/* Component by component; `path` is that of the folder, and is changed meanwhile. */
static int walk(struct stage *s, char *path, int *ret_fd)
{
    _cleanup_fd_ int dir = -1;
    int r = open_root(s, &dir);
    for (char *at = path; r >= 0 && *at;) {
        char *end = at + strcspn(at, "/"), kept = *end;
        int next = -1;
        *end = 0;
        r = make_folder(dir, at, &next);
        if (r > 0)
            stage_tell(s, WIRE_MODIFIED, path, false);
        *end = kept;
        if (r < 0)
            return r;
        close(dir);
        dir = next;
        at = end + (kept == '/');
    }
    if (r < 0)
        return r;
    *ret_fd = TAKE_FD(dir);
    return 0;
}

/* Most often everything is as it should be, and the kernel opens it in one step. */
static int open_at_once(struct stage *s, const char *path, int *ret_fd)
{
    struct stat st;
    _cleanup_fd_ int fd = -1;
    int r = beneath_open_dir(s->call->root, path, &fd);
    if (r < 0 || fstat(fd, &st) < 0)
        return r < 0 ? r : -errno;
    if ((st.st_mode & 0700) != 0700)
        return -EACCES;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int stage_open_parent(struct stage *s, const char *path)
{
    const char *name = relpath_name(path);
    size_t n = name > path ? (size_t)(name - path - 1) : 0;
    if (s->folder >= 0 && strlen(s->folder_path) == n && memcmp(s->folder_path, path, n) == 0)
        return 0;
    _cleanup_free_ char *folder = strndup(path, n);
    int fd = -1;
    if (!folder)
        return -ENOMEM;
    int r = open_at_once(s, folder, &fd);
    if (r < 0)
        r = walk(s, folder, &fd);
    if (r < 0)
        return r;
    cleanup_close(&s->folder);
    s->folder = fd;
    free(s->folder_path);
    s->folder_path = TAKE_PTR(folder);
    return 0;
}

/* One step down the path; 1 when there is nothing left to remove behind it. */
static int clear_step(int *dir, const char *name)
{
    int next = -1;
    int r = stage_open_folder(*dir, name, &next);
    if (r == -ENOTDIR && (r = stage_remove(*dir, name)) == 0)
        return 1;
    if (r == -ENOENT)
        return 1;
    if (r < 0)
        return r;
    close(*dir);
    *dir = next;
    return 0;
}

/* What lies before the last component: opened for removing, or also made. */
static int clear_parent(char *path, bool make, int *ret_fd)
{
    _cleanup_fd_ int dir = open("/", LOOK);
    int r = dir < 0 ? -errno : 0;
    for (char *at = path, *end; r == 0 && *(end = at + strcspn(at, "/")); at = end + 1) {
        int next = -1;
        *end = 0;
        if (!make) {
            r = clear_step(&dir, at);
        } else if ((r = make_folder(dir, at, &next)) >= 0) {
            close(dir);
            dir = next;
            r = 0;
        }
        *end = '/';
    }
    if (r == 0)
        *ret_fd = TAKE_FD(dir);
    return r;
}

int stage_clear(const char *path)
{
    size_t n = strlen(path);
    bool make = n > 1 && path[n - 1] == '/';
    if (path[0] != '/' || !relpath_is_valid(path + 1, n - 1 - make))
        return -EINVAL;
    _cleanup_free_ char *rest = strndup(path + 1, n - 1 - make);
    _cleanup_fd_ int dir = -1, made = -1;
    if (!rest)
        return -ENOMEM;
    int r = clear_parent(rest, false, &dir);
    if (r == 0)
        r = stage_remove(dir, relpath_name(rest));
    if (r < 0 || !make)
        return r < 0 ? r : 0;
    cleanup_close(&dir);
    dir = -1;
    r = clear_parent(rest, true, &dir);
    return r < 0 ? r : make_folder(dir, relpath_name(rest), &made);
}
