/* A report as a source of bytes and of lines, and texts of which both ends are kept. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "report.h"
#include "banned.h"

#define PIECE 65536u

ssize_t report_read(struct report_source *s, void *data, size_t n)
{
    ssize_t got;
    do
        got = read(s->fd, data, n);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return -errno;
    s->total += (size_t)got;
    return s->total > REPORT_SIZE_MAX ? -EFBIG : got;
}

struct line_reader {
    struct report_source *source;
    struct buf in;
    size_t at;  /* where in it the next line begins */
    size_t max; /* bytes of one line; the rest of a longer one is dropped */
    bool ended;
    bool cut; /* the line was longer */
};

/* Reads on; what lies before the current line makes room first. */
static int line_reader_fill(struct line_reader *l)
{
    buf_consume(&l->in, l->at);
    l->at = 0;
    void *space = buf_reserve(&l->in, PIECE);
    if (!space)
        return -ENOMEM;
    ssize_t n = report_read(l->source, space, PIECE);
    if (n < 0)
        return (int)n;
    l->in.len += (size_t)n;
    l->ended = n == 0;
    return 0;
}

static const uint8_t *line_reader_newline(const struct line_reader *l, size_t from)
{
    return l->in.len > from ? memchr(l->in.data + from, '\n', l->in.len - from) : NULL;
}

/* The n bytes of the current line as a C string; the next one begins `used` bytes into the buffer.
 */
static int line_reader_take(struct line_reader *l, size_t n, size_t used, char **ret, size_t *ret_n)
{
    if (!buf_cstr(&l->in))
        return -ENOMEM;
    char *line = (char *)l->in.data + l->at;
    if (n && line[n - 1] == '\r')
        n--;
    line[n] = 0;
    for (char *nul; (nul = memchr(line, 0, n));)
        *nul = ' ';
    l->at = used;
    *ret = line;
    *ret_n = n;
    return 1;
}

/* Reads on to the end of a line whose beginning is all that is kept. */
static int line_reader_drop_rest(struct line_reader *l, char **ret, size_t *ret_n)
{
    const uint8_t *end;
    l->cut = true;
    while (!(end = line_reader_newline(l, l->at + l->max)) && !l->ended) {
        l->in.len = l->at + l->max;
        int r = line_reader_fill(l);
        if (r < 0)
            return r;
    }
    size_t used = end ? (size_t)(end + 1 - l->in.data) : l->in.len;
    return line_reader_take(l, l->max, used, ret, ret_n);
}

/* 1 with the next line, 0 at the end, or a negative errno. */
static int line_reader_next(struct line_reader *l, char **ret, size_t *ret_n)
{
    size_t looked = 0; /* bytes of the current line without an end */
    const uint8_t *end;
    l->cut = false;
    while (!(end = line_reader_newline(l, l->at + looked))) {
        looked = l->in.len - l->at;
        if (looked > l->max)
            return line_reader_drop_rest(l, ret, ret_n);
        if (l->ended)
            return looked ? line_reader_take(l, looked, l->in.len, ret, ret_n) : 0;
        int r = line_reader_fill(l);
        if (r < 0)
            return r;
    }
    size_t used = (size_t)(end + 1 - l->in.data), n = used - 1 - l->at;
    l->cut = n > l->max;
    return line_reader_take(l, l->cut ? l->max : n, used, ret, ret_n);
}

int report_each_line(struct report_source *s, size_t max,
                     int (*take)(void *data, char *line, size_t n, bool cut), void *data)
{
    struct line_reader l = {.source = s, .max = max, .in = BUF_INIT(max + (128u << 10))};
    char *line;
    size_t n;
    int r;
    while ((r = line_reader_next(&l, &line, &n)) > 0) {
        r = take(data, line, n, l.cut);
        if (r != 0)
            break;
    }
    buf_free(&l.in);
    return r;
}

void clip_add(struct clip *c, const void *data, size_t n)
{
    const uint8_t *at = data;
    c->total += n;
    size_t room = CLIP_HEAD - c->head.len, first = n < room ? n : room;
    if (buf_append(&c->head, at, first) < 0)
        return;
    at += first;
    n -= first;
    if (n > CLIP_TAIL) {
        at += n - CLIP_TAIL;
        n = CLIP_TAIL;
    }
    if (c->tail.len + n > CLIP_TAIL * 2)
        buf_consume(&c->tail, c->tail.len - CLIP_TAIL);
    buf_append(&c->tail, at, n);
}

void clip_add_str(struct clip *c, const char *s)
{
    clip_add(c, s, strlen(s));
}

void clip_reset(struct clip *c)
{
    c->head.len = c->tail.len = c->total = 0;
}

void clip_free(struct clip *c)
{
    buf_free(&c->head);
    buf_free(&c->tail);
    buf_free(&c->whole);
}

const char *clip_text(struct clip *c)
{
    size_t kept = c->tail.len < CLIP_TAIL ? c->tail.len : CLIP_TAIL;
    c->whole.len = 0;
    buf_append(&c->whole, c->head.data, c->head.len);
    if (c->total > c->head.len + kept)
        buf_printf(&c->whole, "\n[... %zu bytes left out ...]\n", c->total - c->head.len - kept);
    if (kept)
        buf_append(&c->whole, c->tail.data + c->tail.len - kept, kept);
    const char *text = buf_cstr(&c->whole);
    return text ? text : "";
}
