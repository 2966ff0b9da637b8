#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "beneath.h"
#include "cleanup.h"
#include "stage.h"
#include "banned.h"

void stage_name(char name[STAGE_NAME], char kind, size_t number)
{
    snprintf(name, STAGE_NAME, "%c%zu", kind, number);
}

/* Opens the deepest folder on the way to `path` that exists; `way` becomes its path. */
static int open_nearest(int root, const char *path, char way[PATH_MAX], int *ret_fd)
{
    size_t n = strlen(path);
    if (n >= PATH_MAX)
        return -ENAMETOOLONG;
    memcpy(way, path, n + 1);
    for (;;) {
        char *slash = strrchr(way, '/');
        *(slash ? slash : way) = 0;
        int r = beneath_open_dir(root, way, ret_fd);
        if ((r != -ENOENT && r != -ENOTDIR) || !way[0])
            return r;
    }
}

static int device_of(int fd, uint64_t *ret)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    *ret = st.st_dev;
    return 0;
}

static int make_in(int above, struct stage *st)
{
    uint64_t chance;
    if (getrandom(&chance, sizeof chance, 0) != (ssize_t)sizeof chance)
        return -EIO;
    snprintf(st->name, sizeof st->name, ".hutch-%016llx.tmp", (unsigned long long)chance);
    if (mkdirat(above, st->name, 0700) < 0)
        return -errno;
    int dir = openat(above, st->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0) {
        int r = -errno;
        unlinkat(above, st->name, AT_REMOVEDIR);
        return r;
    }
    st->dir = dir;
    return 0;
}

/* Makes a stage in the first folder from the root down to `way` that is on the device and lets us.
 */
static int make_on(int root, const char *way, uint64_t dev, struct stage *st)
{
    int result = -EACCES;
    for (const char *at = way;; at++) {
        char prefix[PATH_MAX];
        _cleanup_fd_ int above = -1;
        uint64_t here = 0;
        size_t n = (size_t)(at - way);
        if (*at && *at != '/' && at > way)
            continue;
        memcpy(prefix, way, n);
        prefix[n] = 0;
        int r = beneath_open_dir(root, prefix, &above);
        if (r >= 0)
            r = device_of(above, &here);
        if (r >= 0 && here == dev) {
            r = make_in(above, st);
            if (r >= 0) {
                st->above = TAKE_FD(above);
                st->dev = dev;
                return 0;
            }
            result = r;
        }
        if (!*at)
            return r < 0 ? r : result;
    }
}

int stage_for(struct stages *s, const char *path, struct stage **ret)
{
    _cleanup_fd_ int near = -1;
    char way[PATH_MAX];
    uint64_t dev = 0;
    int r = open_nearest(s->root, path, way, &near);
    if (r >= 0)
        r = device_of(near, &dev);
    if (r < 0)
        return r;
    for (size_t i = 0; i < s->count; i++)
        if (s->list[i].dev == dev) {
            *ret = &s->list[i];
            return 0;
        }
    if (s->count == STAGES_MAX)
        return -EXDEV;
    r = make_on(s->root, way, dev, &s->list[s->count]);
    if (r < 0)
        return r;
    *ret = &s->list[s->count++];
    return 0;
}

void stages_end(struct stages *s, bool remove, size_t names)
{
    for (size_t i = 0; i < s->count; i++) {
        struct stage *st = &s->list[i];
        for (size_t k = 0; remove && k < names; k++) {
            char name[STAGE_NAME];
            stage_name(name, 'n', k);
            unlinkat(st->dir, name, 0);
            stage_name(name, 'o', k);
            unlinkat(st->dir, name, 0);
        }
        if (remove)
            unlinkat(st->above, st->name, AT_REMOVEDIR);
        close(st->dir);
        close(st->above);
    }
    s->count = 0;
}
