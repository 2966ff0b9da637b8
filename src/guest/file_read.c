/* READ: a range of a regular file. */
#include <errno.h>
#include <unistd.h>

#include "file.h"
#include "banned.h"

/* Sends up to `limit` bytes in DATA frames. A file that grows meanwhile ends where it did, one that
 * shrinks sooner. */
static int send_range(struct file_call *c, int fd, uint64_t offset, uint64_t limit,
                      struct error *err)
{
    static uint8_t piece[WIRE_DATA_MAX];
    while (limit > 0) {
        size_t want = limit < sizeof piece ? (size_t)limit : sizeof piece;
        ssize_t n = pread(fd, piece, want, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return file_error(c, errno, c->path, err);
        if (n == 0)
            break;
        size_t at = wire_begin(&c->out, WIRE_DATA);
        wire_put(&c->out, WIRE_K_DATA, piece, (size_t)n);
        wire_end(&c->out, at);
        int r = file_send(c);
        if (r < 0)
            return error_errno(err, -r, "the reader went away");
        offset += (uint64_t)n;
        limit -= (uint64_t)n;
    }
    return 0;
}

int file_read(struct file_call *c, struct error *err)
{
    _cleanup_fd_ int fd = -1;
    struct stat st;
    uint64_t offset = wire_find_u64(&c->request, WIRE_K_OFFSET, 0);
    uint64_t limit = wire_find_u64(&c->request, WIRE_K_LIMIT_BYTES, UINT64_MAX);
    if (offset > INT64_MAX)
        return error_set(err, EINVAL, "the offset is too large");
    int r = file_open_regular(c, &fd, &st, err);
    if (r >= 0)
        r = send_range(c, fd, offset, limit, err);
    if (r < 0)
        return r;
    size_t at = wire_begin(&c->out, WIRE_RESULT);
    file_put_stat(&c->out, &st);
    wire_end(&c->out, at);
    return 0;
}
