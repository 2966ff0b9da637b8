#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "beneath.h"
#include "disk.h"
#include "relpath.h"
#include "../diff/content.h"
#include "banned.h"

static void fill(struct seen *s, const struct stat *st)
{
    *s = (struct seen){.mode = st->st_mode,
                       .size = (uint64_t)st->st_size,
                       .ino = st->st_ino,
                       .dev = st->st_dev,
                       .mtime = st->st_mtim,
                       .ctime = st->st_ctim};
}

int disk_look(int root, const char *path, struct seen *ret)
{
    _cleanup_fd_ int dir = -1;
    struct stat st;
    int r = beneath_open_parent(root, path, &dir);
    if (r >= 0 && fstatat(dir, relpath_name(path), &st, AT_SYMLINK_NOFOLLOW) < 0)
        r = -errno;
    if (r == -ENOENT || r == -ENOTDIR) {
        *ret = (struct seen){0};
        return 0;
    }
    if (r < 0)
        return r;
    fill(ret, &st);
    return 0;
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

bool disk_is_same(const struct seen *a, const struct seen *b)
{
    return a->mode == b->mode && a->size == b->size && a->ino == b->ino && a->dev == b->dev &&
           same_time(&a->mtime, &b->mtime) && same_time(&a->ctime, &b->ctime);
}

static int read_file(int dir, const char *name, const struct seen *seen, uint8_t **ret,
                     size_t *ret_size)
{
    _cleanup_fd_ int fd = -1;
    struct stat st;
    struct seen now;
    int r = content_open(dir, name, &fd);
    if (r < 0)
        return r == -ENXIO || r == -ELOOP ? -ESTALE : r;
    if (fstat(fd, &st) < 0)
        return -errno;
    fill(&now, &st);
    if (!disk_is_same(&now, seen))
        return -ESTALE;
    _cleanup_free_ uint8_t *data = malloc((size_t)seen->size + 1);
    if (!data)
        return -ENOMEM;
    ssize_t n = content_read(fd, data, (size_t)seen->size, 0);
    if (n < 0 || (uint64_t)n != seen->size)
        return n < 0 ? (int)n : -ESTALE;
    *ret = TAKE_PTR(data);
    *ret_size = (size_t)n;
    return 0;
}

static int source_look(void *data, const char *path, struct seen *ret)
{
    return disk_look(*(int *)data, path, ret);
}

static int source_read(void *data, const char *path, const struct seen *seen, uint8_t **ret,
                       size_t *ret_size)
{
    _cleanup_fd_ int dir = -1;
    char *target = NULL;
    int r = beneath_open_parent(*(int *)data, path, &dir);
    if (r < 0)
        return -ESTALE;
    if (!S_ISLNK(seen->mode))
        return read_file(dir, relpath_name(path), seen, ret, ret_size);
    r = content_read_link(dir, relpath_name(path), &target);
    if (r < 0)
        return r == -EINVAL ? -ESTALE : r;
    *ret = (uint8_t *)target;
    *ret_size = strlen(target);
    return 0;
}

struct source disk_source(int *root)
{
    return (struct source){root, source_look, source_read};
}
