#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "io.h"
#include "plain.h"
#include "utf8.h"
#include "banned.h"

#define ENTRY_MAX (32u << 20)

void plain_read_init(struct plain_read *r, volatile bool *stop)
{
    *r = (struct plain_read){.in = BUF_INIT(ENTRY_MAX), .stop = stop};
}

void plain_read_free(struct plain_read *r)
{
    buf_free(&r->in);
}

static void ask(const char *prompt)
{
    if (prompt)
        io_write_all(STDOUT_FILENO, prompt, strlen(prompt));
}

/* More bytes: 1, 0 at the end, or a negative errno. */
static int fill(struct plain_read *r)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    if (*r->stop)
        return -EINTR;
    if (poll(&p, 1, -1) < 0)
        return -errno;
    char *room = buf_reserve(&r->in, 4096);
    if (!room)
        return -EFBIG;
    ssize_t n = read(STDIN_FILENO, room, 4096);
    if (n < 0)
        return -errno;
    r->in.len += (size_t)n;
    r->ended = n == 0;
    return n > 0;
}

/* One line without its end. 1, 0 at the end, or a negative errno. */
static int read_line(struct plain_read *r, struct buf *ret)
{
    size_t looked = 0;
    for (;;) {
        uint8_t *end =
            r->in.len > looked ? memchr(r->in.data + looked, '\n', r->in.len - looked) : NULL;
        if (end || (r->ended && r->in.len)) {
            size_t n = end ? (size_t)(end - r->in.data) : r->in.len;
            size_t keep = n > 0 && r->in.data[n - 1] == '\r' ? n - 1 : n;
            int bad = buf_append(ret, r->in.data, keep);
            buf_consume(&r->in, end ? n + 1 : n);
            return bad < 0 ? -EFBIG : PLAIN_LINE;
        }
        looked = r->in.len;
        int got = r->ended ? 0 : fill(r);
        if (got < 0 || (got == 0 && r->in.len == 0))
            return got;
    }
}

static bool is_fence(const struct buf *b, size_t from)
{
    return b->len - from == 3 && memcmp(b->data + from, "'''", 3) == 0;
}

/* Lines up to the next fence. */
static int read_block(struct plain_read *r, const char *more, struct buf *ret)
{
    ret->len = 0;
    for (;;) {
        size_t begin = ret->len;
        ask(more);
        int got = read_line(r, ret);
        if (got < 0)
            return got;
        if (got == 0 || is_fence(ret, begin)) {
            ret->len = begin > 0 ? begin - 1 : 0;
            return PLAIN_BLOCK;
        }
        if (buf_append(ret, "\n", 1) < 0)
            return -EFBIG;
    }
}

int plain_read(struct plain_read *r, const char *prompt, const char *more, struct buf *ret)
{
    ret->len = 0;
    ask(prompt);
    int got = read_line(r, ret);
    if (got > 0 && is_fence(ret, 0)) {
        got = read_block(r, more, ret);
    } else {
        while (got > 0 && ret->len && ret->data[ret->len - 1] == '\\') {
            ret->data[ret->len - 1] = '\n';
            ask(more);
            int next = read_line(r, ret);
            if (next < 0)
                return next;
            if (next == 0)
                break;
        }
    }
    if (got > 0 && !utf8_valid(ret->data, ret->len))
        return -EILSEQ;
    return got > 0 && !buf_cstr(ret) ? -EFBIG : got;
}
