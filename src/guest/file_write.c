/*
 * WRITE: replaces a file's content in one step, or adds to its end.
 *
 * The bytes go to a new file beside it, which then takes its name: whoever looks sees the old
 * content or the new. Missing folders are made. What is appended goes to the file itself, so that
 * who follows it sees it grow; the room for it is taken first, so that a full disk leaves no half
 * of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "io.h"
#include "place.h"
#include "sys.h"
#include "banned.h"

#define DEFAULT_MODE 0644
#define APPEND_MAX   (64u << 20)

/* What the answer tells. */
struct written {
    uint64_t size; /* of the file */
    mode_t mode;
};

/* Writes the content to fd, all of it or none that counts; it is read to its end even after a
 * failure, so that the host may send it whole before it reads our answer. With fd -1 it is only
 * read. */
static int receive(struct file_call *c, int fd, uint64_t *ret_size)
{
    uint64_t size = 0;
    int more, failed = 0;
    do {
        struct wire_field data = {0};
        more = file_next_data(c, &data);
        if (more >= 0 && fd >= 0 && failed == 0)
            failed = io_write_all(fd, data.data, data.size);
        size += data.size;
    } while (more > 0);
    if (more < 0 || failed < 0)
        return more < 0 ? more : failed;
    *ret_size = size;
    return 0;
}

static int replace(struct file_call *c, const struct place *p, struct written *w)
{
    char name[PLACE_BESIDE_MAX];
    _cleanup_fd_ int fd = -1;
    int r = place_open_beside(p, name, &fd);
    if (r < 0) {
        receive(c, -1, &w->size);
        return r;
    }
    r = receive(c, fd, &w->size);
    if (r >= 0 && (fchmod(fd, w->mode) < 0 || sys_renameat2(p->dir, name, p->dir, p->name, 0) < 0))
        r = -errno;
    if (r < 0)
        unlinkat(p->dir, name, 0);
    return r;
}

/* Opens the place's file as it is now: it may have been replaced since it was looked at. */
static int open_to_append(const struct place *p, struct stat *ret_st, int *ret_fd)
{
    _cleanup_fd_ int fd =
        openat(p->dir, p->name, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, ret_st) < 0)
        return -errno;
    if (!S_ISREG(ret_st->st_mode))
        return -EBUSY;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

static int append(struct file_call *c, const struct place *p, struct written *w)
{
    _cleanup_buf_ struct buf content = BUF_INIT(APPEND_MAX);
    _cleanup_fd_ int fd = -1;
    struct stat st = {0};
    int r = file_receive(c, &content);
    if (r >= 0)
        r = open_to_append(p, &st, &fd);
    if (r < 0)
        return r;
    if (content.len && fallocate(fd, FALLOC_FL_KEEP_SIZE, st.st_size, (off_t)content.len) < 0 &&
        errno != EOPNOTSUPP && errno != ENOSYS)
        return -errno;
    r = io_write_all(fd, content.data, content.len);
    if (r >= 0 && w->mode != (st.st_mode & 07777) && fchmod(fd, w->mode) < 0)
        r = -errno;
    w->size = (uint64_t)st.st_size + content.len;
    return r;
}

/* Whoever may read it may execute it. */
static mode_t with_execute(struct file_call *c, mode_t mode)
{
    return wire_find_u64(&c->request, WIRE_K_EXECUTABLE, 0) ? mode | (mode & 0444) >> 2 : mode;
}

/* Finds the place, and what mode the file there will have. */
static int prepare(struct file_call *c, struct place *p, mode_t *ret_mode, struct error *err)
{
    int r = place_find(c, p);
    if (r < 0)
        return file_error(c, -r, c->path, err);
    if (!p->exists) {
        mode_t mode = (mode_t)wire_find_u64(&c->request, WIRE_K_MODE, DEFAULT_MODE) & 0777;
        *ret_mode = with_execute(c, mode);
        return 0;
    }
    r = file_need_regular(c->path, p->st.st_mode, err);
    if (r >= 0)
        r = place_need_writable(p, c->path, err);
    if (r < 0)
        return r;
    *ret_mode = with_execute(c, p->st.st_mode & 07777);
    return 0;
}

int file_write(struct file_call *c, struct error *err)
{
    _cleanup_place_ struct place p = PLACE_INIT;
    struct written w = {0};
    bool appends = wire_find_u64(&c->request, WIRE_K_APPEND, 0) != 0;
    int r = prepare(c, &p, &w.mode, err);
    if (r < 0) {
        receive(c, -1, &w.size);
        return r;
    }
    r = appends && p.exists ? append(c, &p, &w) : replace(c, &p, &w);
    if (r == -ENOBUFS)
        return error_set(err, E2BIG, "%.400s: more than %u MiB cannot be appended at once", c->path,
                         APPEND_MAX >> 20);
    if (r < 0)
        return file_error(c, -r, c->path, err);
    size_t at = wire_begin(&c->out, WIRE_RESULT);
    wire_put_u64(&c->out, WIRE_K_MODE, S_IFREG | w.mode);
    wire_put_u64(&c->out, WIRE_K_SIZE, w.size);
    if (!p.exists)
        wire_put_u64(&c->out, WIRE_K_CREATED, 1);
    wire_end(&c->out, at);
    return 0;
}
