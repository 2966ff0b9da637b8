#include <errno.h>
#include <fcntl.h>
#include <sha1.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "relpath.h"
#include "blob.h"
#include "content.h"
#include "banned.h"

#define CHUNK         (64u << 10)
#define BINARY_WITHIN 8000u

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
        return content_read(b->fd, space, n, offset);
    if (offset >= b->size)
        return 0;
    n = n < b->size - offset ? n : (size_t)(b->size - offset);
    memcpy(space, b->data + offset, n);
    return (ssize_t)n;
}

/* Reads a file that may shrink or grow meanwhile: what was read is what counts. */
static int blob_hold(struct blob *b)
{
    uint8_t *data = malloc((size_t)b->size + 1);
    if (!data)
        return -ENOMEM;
    ssize_t got = content_read(b->fd, data, (size_t)b->size, 0);
    if (got < 0) {
        free(data);
        return (int)got;
    }
    b->data = data;
    b->size = (uint64_t)got;
    return 0;
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

static int blob_load_file(int dir, const char *name, uint64_t *budget, struct blob *b)
{
    struct stat st;
    int r = content_open(dir, name, &b->fd);
    if (r < 0)
        return r;
    if (fstat(b->fd, &st) < 0)
        return -errno;
    b->mode = st.st_mode & S_IXUSR ? 0100755 : 0100644;
    b->size = (uint64_t)st.st_size;
    if (b->size > BLOB_SHOWN_MAX || b->size > *budget)
        return -EFBIG;
    *budget -= b->size;
    r = b->size <= BLOB_HELD_MAX ? blob_hold(b) : 0;
    return r < 0 ? r : blob_make_name(b);
}

static int blob_load_link(int dir, const char *name, struct blob *b)
{
    char *target = NULL;
    int r = content_read_link(dir, name, &target);
    if (r < 0)
        return r;
    b->mode = 0120000;
    b->data = (uint8_t *)target;
    b->size = strlen(target);
    return blob_make_name(b);
}

int blob_load(int root, const char *path, uint64_t *budget, struct blob *ret)
{
    _cleanup_blob_ struct blob b = BLOB_NONE;
    _cleanup_fd_ int dir = -1;
    struct stat st;
    int r = beneath_open_parent(root, path, &dir);
    const char *name = relpath_name(path);
    bool there = r >= 0 && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (there && S_ISREG(st.st_mode))
        r = blob_load_file(dir, name, budget, &b);
    else if (there && S_ISLNK(st.st_mode))
        r = blob_load_link(dir, name, &b);
    else
        r = 0;
    if (r == -ENOMEM)
        return r;
    if (r < 0) {
        b.omitted = true;
        b.mode = S_ISLNK(st.st_mode) ? 0120000 : st.st_mode & S_IXUSR ? 0100755 : 0100644;
    }
    *ret = b;
    b = BLOB_NONE;
    return 0;
}
