#include <errno.h>

#include "match.h"
#include "banned.h"

void match_put_endings(struct buf *out, struct bytes s, bool crlf)
{
    for (size_t at = 0; at < s.n;) {
        size_t end = bytes_line_end(s, at);
        bool newline = s.data[end - 1] == '\n';
        size_t kept = end - newline - (newline && end - at > 1 && s.data[end - 2] == '\r');
        buf_append(out, s.data + at, kept - at);
        if (newline)
            buf_append_str(out, crlf ? "\r\n" : "\n");
        at = end;
    }
}

static uint64_t count_crlf(struct bytes s)
{
    static const struct bytes CRLF = {(const uint8_t *)"\r\n", 2};
    uint64_t count = 0;
    for (size_t at = 0; (at = bytes_find(s, CRLF, at)) != SIZE_MAX; at += 2)
        count++;
    return count;
}

/* The edit with its texts as the file's endings ask for; they may be held by two buffers. */
struct fitted {
    struct buf old_buf, new_buf;
    struct edit e;
};

static void fitted_free(struct fitted *f)
{
    buf_free(&f->old_buf);
    buf_free(&f->new_buf);
}

static int fit(struct bytes *s, struct buf *b, bool crlf)
{
    match_put_endings(b, *s, crlf);
    if (b->failed)
        return -ENOMEM;
    *s = (struct bytes){b->data, b->len};
    return 0;
}

/* Counts places and remembers the first. For one only, places that overlap count each: which is
 * meant? */
static void find_places(struct bytes text, const struct edit *e, struct match *m)
{
    size_t at = 0, seen = 0;
    uint64_t line = 1;
    while ((at = bytes_find(text, e->old, at)) != SIZE_MAX) {
        if (m->count < MATCH_SHOWN) {
            line += bytes_count(bytes_part(text, seen, at), '\n', at - seen);
            m->line[m->count] = line;
            seen = at;
        }
        m->count++;
        at += e->all ? e->old.n : 1;
    }
}

static int replace(struct bytes text, const struct edit *e, struct buf *out)
{
    size_t done = 0, at;
    while ((at = bytes_find(text, e->old, done)) != SIZE_MAX) {
        buf_append(out, text.data + done, at - done);
        buf_append(out, e->new.data, e->new.n);
        done = at + e->old.n;
    }
    buf_append(out, text.data + done, text.n - done);
    if (out->failed)
        return out->len + e->new.n > out->max - text.n ? -E2BIG : -ENOMEM;
    return 0;
}

/* Looks for the place, with the line endings of the text if need be. */
static int find(struct bytes text, struct fitted *f, struct match *m)
{
    uint64_t crlf = count_crlf(text);
    bool all_crlf = crlf > 0 && crlf == bytes_count(text, '\n', text.n);
    bool new_differs = count_crlf(f->e.new) < bytes_count(f->e.new, '\n', f->e.new.n);
    int r = 0;
    find_places(text, &f->e, m);
    if (m->count == 0 && memchr(f->e.old.data, '\n', f->e.old.n)) {
        r = fit(&f->e.old, &f->old_buf, crlf > 0);
        if (r >= 0)
            find_places(text, &f->e, m);
        m->endings = m->count > 0;
    }
    if (r >= 0 && (m->endings || (all_crlf && new_differs))) {
        r = fit(&f->e.new, &f->new_buf, crlf > 0);
        m->endings = true;
    }
    return r;
}

int match_apply(struct bytes text, const struct edit *e, struct buf *out, struct match *ret)
{
    _cleanup_(fitted_free) struct fitted f = {
        .old_buf = BUF_INIT(2 * e->old.n + 1), .new_buf = BUF_INIT(2 * e->new.n + 1), .e = *e};
    struct match m = {0};
    int r = find(text, &f, &m);
    if (r < 0)
        return r;
    if (m.count == 0)
        return -ENOENT;
    if (m.count > 1 && !e->all) {
        *ret = m;
        return -ENOTUNIQ;
    }
    r = replace(text, &f.e, out);
    if (r == 0)
        *ret = m;
    return r;
}
