#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/limits.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cleanup.h"
#include "content.h"
#include "copyfile.h"
#include "banned.h"

#define OVERLAY "user.overlay."

static int copy_attribute(int from, int to, const char *name, bool escape)
{
    char as[2 * XATTR_NAME_MAX], *use = NULL;
    _cleanup_free_ char *value = NULL;
    ssize_t size = fgetxattr(from, name, NULL, 0);
    if (size < 0)
        return -errno;
    value = malloc((size_t)size + 1);
    if (!value)
        return -ENOMEM;
    size = fgetxattr(from, name, value, (size_t)size);
    if (size < 0)
        return -errno;
    if (escape && strncmp(name, OVERLAY, strlen(OVERLAY)) == 0) {
        snprintf(as, sizeof as, OVERLAY "overlay.%s", name + strlen(OVERLAY));
        use = as;
    }
    return fsetxattr(to, use ? use : name, value, (size_t)size, 0) < 0 ? -errno : 0;
}

int copyfile_attributes(int from, int to, bool escape)
{
    char few[256];
    _cleanup_free_ char *many = NULL;
    char *list = few;
    ssize_t size = flistxattr(from, few, sizeof few);
    if (size < 0 && errno == ERANGE) {
        list = many = malloc(XATTR_LIST_MAX);
        if (!many)
            return -ENOMEM;
        size = flistxattr(from, many, XATTR_LIST_MAX);
    }
    if (size < 0)
        return errno == EOPNOTSUPP ? 0 : -errno;
    for (const char *name = list; name < list + size; name += strlen(name) + 1) {
        int r = strncmp(name, "user.", 5) == 0 ? copy_attribute(from, to, name, escape) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

int copyfile_finish(int to, const struct stat *st)
{
    const struct timespec times[2] = {st->st_atim, st->st_mtim};
    return fchmod(to, st->st_mode & 07777 & ~(mode_t)S_ISUID) < 0 || futimens(to, times) < 0
               ? -errno
               : 0;
}

/* Copies the bytes from `offset` up to `end`; the kernel does it, from page to page. */
static int copy_part(int from, int to, uint64_t offset, uint64_t end)
{
    if (lseek(to, (off_t)offset, SEEK_SET) < 0)
        return -errno;
    for (off_t at = (off_t)offset; (uint64_t)at < end;) {
        ssize_t done = sendfile(to, from, &at, end - (uint64_t)at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? -errno : -EIO;
    }
    return 0;
}

/* btrfs and xfs let two files share their blocks until one is written to. */
static int copy_content(int from, int to, const struct stat *st)
{
    uint64_t size = (uint64_t)st->st_size;
    if (size && ioctl(to, FICLONE, from) == 0)
        return 0;
    if ((uint64_t)st->st_blocks * 512 >= size)
        return copy_part(from, to, 0, size);
    for (uint64_t offset = 0, end; offset < size; offset = end) {
        int r = content_next_data(from, size, &offset, &end);
        if (r >= 0)
            r = copy_part(from, to, offset, end);
        if (r < 0)
            return r;
    }
    return ftruncate(to, st->st_size) < 0 ? -errno : 0;
}

static int copy_regular(int from, int to, const char *name, const struct stat *st, bool escape)
{
    _cleanup_fd_ int in = -1, out = -1;
    int r = content_open(from, name, &in);
    if (r < 0)
        return r;
    out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (out < 0)
        return -errno;
    r = copy_content(in, out, st);
    if (r >= 0)
        r = copyfile_attributes(in, out, escape);
    return r < 0 ? r : copyfile_finish(out, st);
}

static int copy_link(int from, int to, const char *name)
{
    _cleanup_free_ char *target = NULL;
    int r = content_read_link(from, name, &target);
    if (r < 0)
        return r;
    return symlinkat(target, to, name) < 0 ? -errno : 0;
}

int copyfile_entry(int from, int to, const char *name, const struct stat *st, bool escape)
{
    const struct timespec times[2] = {st->st_atim, st->st_mtim};
    if (S_ISREG(st->st_mode))
        return copy_regular(from, to, name, st, escape);
    if (S_ISLNK(st->st_mode)) {
        int r = copy_link(from, to, name);
        if (r < 0)
            return r;
    } else if (mknodat(to, name, st->st_mode, st->st_rdev) < 0) {
        return -errno;
    }
    return utimensat(to, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}
