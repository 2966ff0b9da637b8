/* A report as a source of bytes and of lines, both within their limits. */
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

void lines_free(struct lines *l)
{
    buf_free(&l->in);
}

/* Reads on; what lies before the current line makes room first. */
static int fill(struct lines *l)
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

static const uint8_t *newline_from(const struct lines *l, size_t from)
{
    return l->in.len > from ? memchr(l->in.data + from, '\n', l->in.len - from) : NULL;
}

/* The n bytes of the current line as a C string; the next one begins `used` bytes into the buffer.
 */
static int take(struct lines *l, size_t n, size_t used, char **ret, size_t *ret_n)
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
static int drop_rest(struct lines *l, char **ret, size_t *ret_n)
{
    const uint8_t *end;
    l->cut = true;
    while (!(end = newline_from(l, l->at + l->max)) && !l->ended) {
        l->in.len = l->at + l->max;
        int r = fill(l);
        if (r < 0)
            return r;
    }
    size_t used = end ? (size_t)(end + 1 - l->in.data) : l->in.len;
    return take(l, l->max, used, ret, ret_n);
}

int lines_next(struct lines *l, char **ret, size_t *ret_n)
{
    size_t looked = 0; /* bytes of the current line without an end */
    const uint8_t *end;
    l->cut = false;
    while (!(end = newline_from(l, l->at + looked))) {
        looked = l->in.len - l->at;
        if (looked > l->max)
            return drop_rest(l, ret, ret_n);
        if (l->ended)
            return looked ? take(l, looked, l->in.len, ret, ret_n) : 0;
        int r = fill(l);
        if (r < 0)
            return r;
    }
    size_t used = (size_t)(end + 1 - l->in.data), n = used - 1 - l->at;
    l->cut = n > l->max;
    return take(l, l->cut ? l->max : n, used, ret, ret_n);
}
