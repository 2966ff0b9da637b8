#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"
#include "content.h"
#include "banned.h"

#define CHUNK (64u << 10)

int content_open(int dir, const char *name, int *ret_fd)
{
    struct stat st;
    _cleanup_fd_ int fd =
        openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -ENXIO;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int content_read_link(int dir, const char *name, char **ret)
{
    char target[PATH_MAX + 1];
    ssize_t n = readlinkat(dir, name, target, sizeof target);
    if (n < 0)
        return -errno;
    if ((size_t)n >= sizeof target)
        return -ENAMETOOLONG;
    char *copy = strndup(target, (size_t)n);
    if (!copy)
        return -ENOMEM;
    *ret = copy;
    return 0;
}

ssize_t content_read(int fd, void *space, size_t n, uint64_t offset)
{
    size_t done = 0;
    while (done < n) {
        ssize_t got = pread(fd, (char *)space + done, n - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

int content_next_data(int fd, uint64_t size, uint64_t *offset, uint64_t *ret_end)
{
    uint64_t from = *offset;
    off_t data = from < size ? lseek(fd, (off_t)from, SEEK_DATA) : (off_t)size;
    if (data < 0 && errno == ENXIO)
        data = (off_t)size;
    if (data < 0 && errno == EINVAL) { /* a filesystem without holes */
        *ret_end = size;
        return 0;
    }
    if (data < 0)
        return -errno;
    off_t end = (uint64_t)data < size ? lseek(fd, data, SEEK_HOLE) : (off_t)size;
    if (end < 0)
        return -errno;
    *offset = (uint64_t)data < size ? (uint64_t)data : size;
    *ret_end = (uint64_t)end < size ? (uint64_t)end : size;
    return 0;
}

/* Moves *offset over what is a hole in both files, and says where the next hole of either begins:
 * finding it takes the kernel as long as the data before it is large. */
static int skip_holes(int a, int b, uint64_t size, uint64_t *offset, uint64_t *ret_end)
{
    uint64_t at_a = *offset, at_b = *offset, end_a, end_b;
    int r = content_next_data(a, size, &at_a, &end_a);
    if (r >= 0)
        r = content_next_data(b, size, &at_b, &end_b);
    if (r < 0)
        return r;
    *offset = at_a < at_b ? at_a : at_b;
    *ret_end = end_a < end_b ? end_a : end_b;
    return 0;
}

int content_same(int a, int b)
{
    struct stat sa, sb;
    if (fstat(a, &sa) < 0 || fstat(b, &sb) < 0)
        return -errno;
    if (sa.st_size != sb.st_size)
        return 0;
    uint64_t size = (uint64_t)sa.st_size, end = 0;
    for (uint64_t offset = 0; offset < size; offset += CHUNK) {
        char space_a[CHUNK], space_b[CHUNK];
        int r = size > CHUNK && offset >= end ? skip_holes(a, b, size, &offset, &end) : 0;
        if (r < 0)
            return r;
        ssize_t n = content_read(a, space_a, CHUNK, offset);
        ssize_t m = content_read(b, space_b, CHUNK, offset);
        if (n < 0 || m < 0)
            return n < 0 ? (int)n : (int)m;
        if (n != m || memcmp(space_a, space_b, (size_t)n) != 0)
            return 0;
    }
    return 1;
}

bool content_holds(int fd, const void *data, size_t n)
{
    uint8_t block[32u << 10];
    for (size_t at = 0;;) {
        ssize_t got = content_read(fd, block, sizeof block, at);
        if (got <= 0)
            return got == 0 && at == n;
        if ((size_t)got > n - at || memcmp(block, (const uint8_t *)data + at, (size_t)got) != 0)
            return false;
        at += (size_t)got;
    }
}
