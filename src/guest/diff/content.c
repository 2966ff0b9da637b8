/*
 * Files that other programs made, and that this code must not trust: reading them, comparing them,
 * removing them, and as blobs, what git would store of them.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sha1.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "content.h"
#include "io.h"
#include "relpath.h"
#include "sys.h"
#include "banned.h"

#define CHUNK         (64u << 10)
#define HELD_MAX      (64u << 20)         /* bytes of a blob held in memory */
#define SHOWN_MAX     ((uint64_t)1 << 30) /* bytes of one file in a diff */
#define BINARY_WITHIN 8000u
#define FOLDER        (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

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
        /* Skips what is a hole in both. The end of the data is remembered: to find it takes the
         * kernel as long as the data is large. */
        if (size > CHUNK && offset >= end) {
            uint64_t at_a = offset, at_b = offset, end_a = 0, end_b = 0;
            int r = content_next_data(a, size, &at_a, &end_a);
            if (r >= 0)
                r = content_next_data(b, size, &at_b, &end_b);
            if (r < 0)
                return r;
            offset = at_a < at_b ? at_a : at_b;
            end = end_a < end_b ? end_a : end_b;
        }
        ssize_t n = io_read_at(a, space_a, CHUNK, offset);
        ssize_t m = io_read_at(b, space_b, CHUNK, offset);
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
        ssize_t got = io_read_at(fd, block, sizeof block, at);
        if (got <= 0)
            return got == 0 && at == n;
        if ((size_t)got > n - at || memcmp(block, (const uint8_t *)data + at, (size_t)got) != 0)
            return false;
        at += (size_t)got;
    }
}

void blob_free(struct blob *b)
{
    free(b->data);
    cleanup_close(&b->fd);
    *b = BLOB_NONE;
}

bool blob_is_binary(const struct blob *b)
{
    if (b->mode == 0)
        return false;
    size_t look = b->size < BINARY_WITHIN ? (size_t)b->size : BINARY_WITHIN;
    return !b->data || memchr(b->data, 0, look);
}

ssize_t blob_read(const struct blob *b, void *space, size_t n, uint64_t offset)
{
    if (!b->data)
        return io_read_at(b->fd, space, n, offset);
    if (offset >= b->size)
        return 0;
    n = n < b->size - offset ? n : (size_t)(b->size - offset);
    memcpy(space, b->data + offset, n);
    return (ssize_t)n;
}

int blob_make_name(struct blob *b)
{
    SHA1_CTX sha;
    uint8_t digest[SHA1_DIGEST_LENGTH];
    char head[32];
    int n = snprintf(head, sizeof head, "blob %llu", (unsigned long long)b->size);
    SHA1Init(&sha);
    SHA1Update(&sha, (const uint8_t *)head, (size_t)n + 1);
    for (uint64_t at = 0; at < b->size;) {
        uint8_t space[CHUNK];
        ssize_t got = blob_read(b, space, sizeof space, at);
        if (got <= 0)
            return got < 0 ? (int)got : -EIO;
        SHA1Update(&sha, space, (size_t)got);
        at += (uint64_t)got;
    }
    SHA1Final(digest, &sha);
    for (size_t i = 0; i < sizeof digest; i++)
        snprintf(b->name + 2 * i, 3, "%02x", digest[i]);
    return 0;
}

int blob_load(int root, const char *path, uint64_t *budget, struct blob *ret)
{
    _cleanup_blob_ struct blob b = BLOB_NONE;
    _cleanup_fd_ int dir = -1;
    const char *name = relpath_name(path);
    struct stat st;
    if (beneath_open_parent(root, path, &dir) < 0 ||
        fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        st.st_mode = 0;
    int r = 0;
    if (S_ISREG(st.st_mode)) {
        r = content_open(dir, name, &b.fd);
        if (r >= 0 && fstat(b.fd, &st) < 0)
            r = -errno;
        b.mode = st.st_mode & S_IXUSR ? 0100755 : 0100644;
        b.size = (uint64_t)st.st_size;
        if (r >= 0 && (b.size > SHOWN_MAX || b.size > *budget))
            r = -EFBIG;
        if (r >= 0)
            *budget -= b.size;
        if (r >= 0 && b.size <= HELD_MAX) {
            /* It may shrink or grow while it is read: only what was read counts. */
            b.data = malloc((size_t)b.size + 1);
            ssize_t got = b.data ? io_read_at(b.fd, b.data, (size_t)b.size, 0) : -ENOMEM;
            r = got < 0 ? (int)got : 0;
            b.size = got < 0 ? 0 : (uint64_t)got;
        }
    } else if (S_ISLNK(st.st_mode)) {
        char *target = NULL;
        r = content_read_link(dir, name, &target);
        b.mode = 0120000;
        b.data = (uint8_t *)target;
        b.size = target ? strlen(target) : 0;
    }
    if (r >= 0 && b.mode)
        r = blob_make_name(&b);
    if (r == -ENOMEM)
        return r;
    b.omitted = r < 0;
    *ret = b;
    b = BLOB_NONE;
    return 0;
}

/* Removes files and empty folders as it meets them, and enters a folder with something in it. Then
 * it reads the folder above from its start again, where that folder comes first now and goes at the
 * second try. So it remembers no name. */
int empty_dir(int top)
{
    _Alignas(struct dirent64) char space[4096];
    _cleanup_fd_ int dir = openat(top, ".", FOLDER);
    if (dir < 0)
        return -errno;
    for (size_t depth = 0;;) {
        int child = -1;
        ssize_t got = 0;
        if (lseek(dir, 0, SEEK_SET) < 0)
            return -errno;
        while (child < 0 && (got = sys_getdents64(dir, space, sizeof space)) > 0)
            for (ssize_t at = 0; at < got && child < 0;) {
                const struct dirent64 *entry = (const struct dirent64 *)(space + at);
                const char *name = entry->d_name;
                struct stat st;
                at += entry->d_reclen;
                if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
                    unlinkat(dir, name, 0) == 0)
                    continue;
                if (errno != EISDIR)
                    return -errno;
                if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
                    continue;
                if (errno != ENOTEMPTY && errno != EACCES)
                    return -errno;
                /* A folder that its owner may not read or change is made accessible: the caller may
                 * be its owner and nothing more. */
                child = openat(dir, name, FOLDER);
                if (child < 0 && errno == EACCES &&
                    fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) &&
                    fchmodat(dir, name, 0700, 0) == 0)
                    child = openat(dir, name, FOLDER);
                if (child < 0)
                    return -errno;
                if (fstat(child, &st) == 0 && (st.st_mode & 0700) != 0700)
                    fchmod(child, 0700);
            }
        if (got < 0 || (child < 0 && depth == 0))
            return got < 0 ? -errno : 0;
        depth = child >= 0 ? depth + 1 : depth - 1;
        int next = child >= 0 ? child : openat(dir, "..", FOLDER);
        if (next < 0)
            return -errno;
        close(dir);
        dir = next;
    }
}
