/*
 * The data folder's files: made without a name, written, flushed, then named. Paths are relative to
 * the folder and are resolved beneath it without following links.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io.h"
#include "jobs_internal.h"
#include "relpath.h"
#include "banned.h"

#define COPY_PIECE (1u << 20)
#define DEPTH_MAX  40 /* of folders that are removed; artifacts are less deep */

char *job_path(const char *id, const char *name)
{
    return str_printf("jobs/%s/%s%s%s", id + JOB_ID_LEN - 2, id, *name ? "/" : "", name);
}

/* Flushes the folder that holds a path, so that its new name is durable. */
static int folder_sync_parent(int folder, const char *path)
{
    _cleanup_fd_ int parent = -1;
    int r = beneath_open_parent(folder, path, &parent);
    if (r < 0)
        return r;
    _cleanup_fd_ int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

int folder_make_parents(int folder, const char *path, struct error *err)
{
    _cleanup_free_ char *part = strdup(path);
    if (!part)
        return error_set(err, ENOMEM, "out of memory");
    for (char *slash = strchr(part, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        _cleanup_fd_ int parent = -1;
        int r = beneath_open_parent(folder, part, &parent);
        if (r == 0 && mkdirat(parent, relpath_name(part), 0700) == 0)
            r = folder_sync_parent(folder, part);
        else if (r == 0 && errno != EEXIST)
            r = -errno;
        if (r < 0)
            return error_errno(err, -r, "cannot make the folder %s", part);
        *slash = '/';
    }
    return 0;
}

int folder_open_file(int folder, const char *path, int flags, int *ret_fd)
{
    _cleanup_fd_ int parent = -1;
    int r = beneath_open_parent(folder, path, &parent);
    if (r < 0)
        return r;
    _cleanup_fd_ int fd =
        openat(parent, relpath_name(path), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EISDIR;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* For a file system without O_TMPFILE, or a file that is not on this one. */
static int folder_copy(int fd, uint64_t size, int parent, const char *name)
{
    _cleanup_free_ char *piece = malloc(COPY_PIECE);
    if (!piece)
        return -ENOMEM;
    _cleanup_fd_ int to = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int r = to < 0 ? -errno : 0;
    for (uint64_t at = 0; r == 0 && at < size;) {
        ssize_t n = io_read_at(fd, piece, COPY_PIECE, at);
        if (n <= 0)
            r = n < 0 ? (int)n : -EIO;
        else if ((r = io_write_all(to, piece, (size_t)n)) == 0)
            at += (uint64_t)n;
    }
    if (r == 0 && fsync(to) < 0)
        r = -errno;
    if (r < 0 && to >= 0)
        unlinkat(parent, name, 0);
    return r;
}

int folder_adopt(int folder, int fd, const char *path, uint64_t *ret_size, struct error *err)
{
    char self[32];
    struct stat st = {0};
    _cleanup_fd_ int parent = -1;
    int r = beneath_open_parent(folder, path, &parent);
    const char *name = relpath_name(path);
    if (r == 0 && fstat(fd, &st) < 0)
        r = -errno;
    if (r == 0 && !S_ISREG(st.st_mode))
        r = -EINVAL;
    if (r == 0) {
        snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
        if (fsync(fd) < 0)
            r = -errno;
        else if (linkat(AT_FDCWD, self, parent, name, AT_SYMLINK_FOLLOW) < 0)
            r = errno == EEXIST ? -errno : folder_copy(fd, (uint64_t)st.st_size, parent, name);
    }
    if (r == 0)
        r = folder_sync_parent(folder, path);
    if (r < 0)
        return error_errno(err, -r, "cannot store the file %s", path);
    *ret_size = (uint64_t)st.st_size;
    return 0;
}

int folder_replace(int folder, const char *from, const char *to, struct error *err)
{
    _cleanup_fd_ int from_dir = -1, to_dir = -1;
    int r = beneath_open_parent(folder, from, &from_dir);
    if (r == 0)
        r = beneath_open_parent(folder, to, &to_dir);
    if (r == 0 && renameat(from_dir, relpath_name(from), to_dir, relpath_name(to)) < 0)
        r = -errno;
    if (r == 0)
        r = folder_sync_parent(folder, to);
    return r < 0 ? error_errno(err, -r, "cannot store the file %s", to) : 0;
}

static int folder_remove_at(int parent, const char *name, unsigned depth)
{
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        int code = errno;
        cleanup_close(&fd);
        return -code;
    }
    int r = depth > 0 ? 0 : -ELOOP;
    for (struct dirent *e; r == 0 && (e = readdir(dir));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            r = folder_remove_at(dirfd(dir), e->d_name, depth - 1);
    closedir(dir);
    if (r == 0 && unlinkat(parent, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        r = -errno;
    return r;
}

int folder_remove(int folder, const char *path)
{
    _cleanup_fd_ int parent = -1;
    int r = beneath_open_parent(folder, path, &parent);
    if (r < 0)
        return r == -ENOENT ? 0 : r;
    return folder_remove_at(parent, relpath_name(path), DEPTH_MAX);
}

int garbage_add(struct db *db, const char *path, struct error *err)
{
    int64_t r = DB_RUN(db, err, "INSERT INTO garbage (path) VALUES ($1) ON CONFLICT DO NOTHING",
                       db_text(path));
    return r < 0 ? (int)r : 0;
}
