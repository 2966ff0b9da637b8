/*
 * Reading folders of a stranger into memory: regular files and links, nothing else, and never
 * through a link. What interpreters and test runners leave behind, and git folders, are passed
 * over.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "io.h"
#include "task_build.h"
#include "banned.h"

#define NAMES_MAX TASK_FILES_MAX /* in one folder */

struct tree_reader {
    struct task_tree *tree;
    const char *folder; /* for messages */
    uint64_t bytes;     /* so far */
    struct error *err;
};

int task_read_file(int dir, const char *name, const char *shown, struct buf *b, struct error *err)
{
    struct stat st;
    _cleanup_fd_ int fd =
        openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && errno == ELOOP)
        return error_set(err, ELOOP, "%s: is a symlink; a task's files must be regular files",
                         shown);
    if (fd < 0)
        return error_errno(err, errno, "%s", shown);
    if (fstat(fd, &st) < 0)
        return error_errno(err, errno, "%s", shown);
    if (!S_ISREG(st.st_mode))
        return error_set(err, EINVAL, "%s: not a regular file", shown);
    int r = (uint64_t)st.st_size > b->max ? -ENOBUFS : io_read_all(fd, b);
    if (r == -ENOBUFS)
        return error_set(err, EFBIG, "%s: is larger than %zu bytes", shown, b->max);
    return r < 0 ? error_errno(err, -r, "%s", shown) : 0;
}

static int tree_add_error(struct tree_reader *r, const char *path, int code)
{
    if (code == -E2BIG)
        return error_set(r->err, E2BIG, "%s/%s: there are more than %u files", r->folder, path,
                         TASK_FILES_MAX);
    if (code == -EEXIST)
        return error_set(r->err, EEXIST, "%s/%s: another file of the task has the same path",
                         r->folder, path);
    return error_errno(r->err, -code, "%s/%s", r->folder, path);
}

static int tree_add_file(struct tree_reader *r, int dir, const char *name, const char *path,
                         const struct stat *st)
{
    char shown[2 * PATH_MAX];
    _cleanup_buf_ struct buf b = BUF_INIT(TASK_BYTES_MAX - r->bytes);
    snprintf(shown, sizeof shown, "%s/%s", r->folder, path);
    int code = task_read_file(dir, name, shown, &b, r->err);
    if (code == -EFBIG)
        return error_set(r->err, EFBIG, "%s: the files of the task are more than %u MiB together",
                         shown, TASK_BYTES_MAX >> 20);
    if (code < 0)
        return code;
    r->bytes += b.len;
    code =
        task_tree_add(r->tree, path, S_IFREG | (st->st_mode & 0111 ? 0755 : 0644), b.data, b.len);
    return code < 0 ? tree_add_error(r, path, code) : 0;
}

static int tree_add_link(struct tree_reader *r, int dir, const char *name, const char *path)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(dir, name, target, sizeof target - 1);
    if (n < 0)
        return error_errno(r->err, errno, "%s/%s", r->folder, path);
    target[n] = 0;
    if (!task_link_stays(path, target))
        return error_set(r->err, EINVAL,
                         "%s/%s: is a symlink that leads out of the workspace (%.200s)", r->folder,
                         path, target);
    r->bytes += (size_t)n;
    int code = task_tree_add(r->tree, path, S_IFLNK | 0777, target, (size_t)n);
    return code < 0 ? tree_add_error(r, path, code) : 0;
}

/* The names in a folder, sorted. The descriptor is closed. */
static int tree_list_names(struct tree_reader *r, int fd, const char *path, struct task_list *ret)
{
    static const char *const SKIPPED[] = {".", "..", "__pycache__", ".pytest_cache", ".git", ".hg"};
    struct dirent *d;
    int code = 0;
    DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return error_errno(r->err, errno, "%s/%s", r->folder, path);
    }
    while (code == 0 && (errno = 0, d = readdir(dir))) {
        bool skip = false;
        for (size_t i = 0; i < ARRAY_SIZE(SKIPPED); i++)
            skip |= strcmp(d->d_name, SKIPPED[i]) == 0;
        if (skip)
            continue;
        code = ret->count < NAMES_MAX ? task_list_add(ret, d->d_name) : -E2BIG;
    }
    if (code == 0 && errno)
        code = -errno;
    closedir(dir);
    if (code < 0)
        return tree_add_error(r, path, code);
    task_list_sort(ret);
    return 0;
}

static int tree_walk(struct tree_reader *r, int dir, const char *prefix, unsigned depth);

static int tree_add_entry(struct tree_reader *r, int dir, const char *name, const char *prefix,
                          unsigned depth)
{
    char path[PATH_MAX];
    struct stat st;
    int n = snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "/" : "", name);
    if (n < 0 || (size_t)n >= sizeof path)
        return error_set(r->err, ENAMETOOLONG, "%s/%.200s…: the path is too long", r->folder, path);
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return error_errno(r->err, errno, "%s/%s", r->folder, path);
    if (S_ISREG(st.st_mode))
        return tree_add_file(r, dir, name, path, &st);
    if (S_ISLNK(st.st_mode))
        return tree_add_link(r, dir, name, path);
    if (!S_ISDIR(st.st_mode))
        return error_set(r->err, EINVAL, "%s/%s: is neither a file nor a folder nor a link",
                         r->folder, path);
    _cleanup_fd_ int sub = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return sub < 0 ? error_errno(r->err, errno, "%s/%s", r->folder, path)
                   : tree_walk(r, sub, path, depth + 1);
}

static int tree_walk(struct tree_reader *r, int dir, const char *prefix, unsigned depth)
{
    struct task_list names = {0};
    if (depth > TASK_DEPTH_MAX)
        return error_set(r->err, ELOOP, "%s/%.200s…: is more than %d folders deep", r->folder,
                         prefix, TASK_DEPTH_MAX);
    int copy = fcntl(dir, F_DUPFD_CLOEXEC, 3);
    if (copy < 0)
        return error_errno(r->err, errno, "%s/%s", r->folder, prefix);
    int code = tree_list_names(r, copy, prefix, &names);
    for (size_t i = 0; i < names.count && code == 0; i++)
        code = tree_add_entry(r, dir, names.items[i], prefix, depth);
    task_list_free(&names);
    return code;
}

int task_tree_read(struct task_tree *tree, const char *folder, const char *prefix,
                   struct error *err)
{
    struct tree_reader r = {.tree = tree, .folder = folder, .err = err};
    for (size_t i = 0; i < tree->count; i++)
        r.bytes += tree->items[i].size;
    _cleanup_fd_ int dir = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return dir < 0 ? error_errno(err, errno, "%s", folder) : tree_walk(&r, dir, prefix, 0);
}

int task_read_part(struct task_tree *tree, const char *folder, const char *part, const char *at,
                   struct error *err)
{
    char path[2 * PATH_MAX];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", folder, part);
    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : error_errno(err, errno, "%s", path);
    if (!S_ISDIR(st.st_mode))
        return error_set(err, EINVAL, "%s: must be a folder", path);
    return task_tree_read(tree, path, at, err);
}
