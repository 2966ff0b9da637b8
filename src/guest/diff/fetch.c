#include <errno.h>
#include <fcntl.h>

#include "relpath.h"
#include "content.h"
#include "fetch.h"
#include "banned.h"

#define CHUNK (64u << 10)

static int send_part(int fd, uint64_t offset, uint64_t end, struct answer *a)
{
    while (offset < end && a->status == 0) {
        char space[CHUNK];
        size_t want = end - offset < CHUNK ? (size_t)(end - offset) : CHUNK;
        ssize_t got = content_read(fd, space, want, offset);
        if (got < 0 || (size_t)got < want)
            return got < 0 ? (int)got : -EIO;
        answer_write(a, space, want);
        offset += want;
    }
    return a->status;
}

static int send_file(int dir, const char *name, uint64_t *ret_size, struct answer *a)
{
    struct stat st;
    _cleanup_fd_ int fd = -1;
    int r = content_open(dir, name, &fd);
    if (r < 0)
        return r;
    if (fstat(fd, &st) < 0)
        return -errno;
    uint64_t size = (uint64_t)st.st_size, end;
    for (uint64_t sent = 0, offset = 0; offset < size; sent = offset = end) {
        r = content_next_data(fd, size, &offset, &end);
        if (r >= 0 && offset > sent)
            r = answer_seek(a, offset);
        if (r >= 0)
            r = send_part(fd, offset, end, a);
        if (r < 0)
            return r;
    }
    *ret_size = size;
    return 0;
}

static void put_result(struct answer *a, mode_t mode, uint64_t size, const char *target)
{
    answer_flush(a);
    answer_begin(a, WIRE_RESULT);
    wire_put_u64(&a->frame, WIRE_K_MODE, mode);
    wire_put_u64(&a->frame, WIRE_K_SIZE, size);
    if (target)
        wire_put_str(&a->frame, WIRE_K_TARGET, target);
    answer_end(a);
}

static int send_path(int merged, const char *path, struct answer *a)
{
    struct stat st;
    _cleanup_fd_ int dir = -1;
    _cleanup_free_ char *target = NULL;
    uint64_t size = 0;
    const char *name = relpath_name(path);
    int r = beneath_open_parent(merged, path, &dir);
    if (r < 0)
        return r;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (S_ISREG(st.st_mode))
        r = send_file(dir, name, &size, a);
    else if (S_ISLNK(st.st_mode))
        r = content_read_link(dir, name, &target);
    if (r < 0)
        return r;
    put_result(a, st.st_mode, size, target);
    return answer_flush(a);
}

int fetch_answer(const struct tree *t, const struct wire_frame *request, struct answer *a,
                 struct error *err)
{
    struct wire_field field;
    _cleanup_free_ char *path = wire_find_str(request, WIRE_K_PATH);
    if (!wire_find(request, WIRE_K_PATH, &field) || !relpath_is_valid(field.data, field.size) ||
        !path)
        return error_set(err, EINVAL, "the request names no path");
    if (t->merged < 0)
        return error_set(err, ENOENT, "there is no workspace to fetch from");
    int r = send_path(t->merged, path, a);
    return r < 0 ? error_errno(err, -r, "cannot read the changed file") : 0;
}
