/*
 * Writing a history: what goes where the file's end was.
 *
 * A write that fails leaves its beginning behind; what closed the file is then put back, over bytes
 * that the file has already, so that even a full disk has room for it.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "history_private.h"
#include "history_scan.h"
#include "banned.h"

int history_write_at(int fd, const void *data, size_t n, uint64_t offset)
{
    const char *at = data;
    while (n > 0) {
        ssize_t wrote = pwrite(fd, at, n, (off_t)offset);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return wrote < 0 ? -errno : -EIO;
        at += wrote;
        n -= (size_t)wrote;
        offset += (uint64_t)wrote;
    }
    return 0;
}

static int put_json(const char *text, size_t n, void *data)
{
    return buf_append(data, text, n) < 0 ? -1 : 0;
}

int history_put_head(const json_t *head, struct buf *b)
{
    size_t from = b->len;
    int r = json_dump_callback(head, put_json, b, 0);
    if (r < 0)
        return -ENOMEM;
    b->len--; /* the closing brace */
    buf_append_str(b, b->len - from > 1 ? ", \"messages\": [" : "\"messages\": [");
    return b->failed ? -ENOMEM : 0;
}

int history_put_tail(const struct history_totals *t, struct buf *b)
{
    json_t *totals =
        json_pack("{s:I, s:I}", "turns", (json_int_t)t->turns, "messages", (json_int_t)t->messages);
    if (t->model[0])
        json_object_set_new(totals, "model", json_string(t->model));
    if (t->input || t->output) {
        json_object_set_new(totals, "input", json_integer((json_int_t)t->input));
        json_object_set_new(totals, "output", json_integer((json_int_t)t->output));
    }
    if (t->cost >= 0)
        json_object_set_new(totals, "cost", json_real(t->cost));
    buf_append_str(b, "\n], \"totals\": ");
    int r = totals ? json_dump_callback(totals, put_json, b, JSON_REAL_PRECISION(8)) : -1;
    json_decref(totals);
    buf_append_str(b, "}\n");
    return r < 0 || b->failed ? -ENOMEM : 0;
}

int history_close_file(struct history *h)
{
    _cleanup_buf_ struct buf tail = BUF_INIT(HISTORY_TAIL_MAX);
    int r = history_put_tail(&h->index.totals, &tail);
    if (r == 0)
        r = history_write_at(h->fd, tail.data, tail.len, h->end);
    if (r == 0 && ftruncate(h->fd, (off_t)(h->end + tail.len)) < 0)
        r = -errno;
    if (r == 0)
        h->size = h->end + tail.len;
    return r;
}

/* An editor may have put another file in its place, or written into it. */
static int check_ours(struct history *h, struct error *err)
{
    struct stat st;
    if (fstat(h->fd, &st) < 0)
        return error_errno(err, errno, "cannot look at %s", h->path);
    if (st.st_nlink == 0)
        return error_set(
            err, ESTALE,
            "%s was removed or replaced by another program: the session cannot go on there",
            h->path);
    if ((uint64_t)st.st_size != h->size)
        return error_set(err, ESTALE,
                         "%s was changed by another program meanwhile; open the session again to "
                         "go on from there",
                         h->path);
    return 0;
}

/* The first bytes of a file: it gets its name when they are safe. */
static int write_first(struct history *h, const void *data, size_t n, struct error *err)
{
    _cleanup_buf_ struct buf b = BUF_INIT(2u * HISTORY_MESSAGE_MAX);
    int r = history_put_head(h->head, &b);
    uint64_t head = b.len;
    if (r == 0)
        r = buf_append(&b, data, n);
    if (r == 0)
        r = history_write_at(h->fd, b.data, b.len, 0);
    if (r == 0 && !h->deferred && fsync(h->fd) < 0)
        r = -errno;
    if (r < 0) {
        if (ftruncate(h->fd, 0) < 0)
            return error_errno(err, errno, "cannot write %s", h->path);
        return error_errno(err, -r, "cannot write %s", h->path);
    }
    r = history_publish(h, err);
    if (r < 0)
        return r;
    h->exists = true;
    h->end = head;
    h->size = b.len;
    return 0;
}

int history_write(struct history *h, const void *data, size_t n, struct error *err)
{
    if (!h->exists)
        return write_first(h, data, n, err);
    int r = check_ours(h, err);
    if (r < 0)
        return r;
    uint64_t size = h->end + n;
    r = history_write_at(h->fd, data, n, h->end);
    if (r == 0 && size < h->size && ftruncate(h->fd, (off_t)size) < 0)
        r = -errno;
    if (r == 0)
        r = history_sync(h, false);
    if (r == 0)
        h->size = size;
    return r < 0 ? error_errno(err, -r, "cannot write %s", h->path) : 0;
}
