/* Pastes: what is kept aside, shown and put back. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "editor_private.h"
#include "grapheme.h"
#include "banned.h"

static size_t count_lines(const char *text, size_t n)
{
    size_t lines = n > 0;
    for (const char *at = text; (at = memchr(at, '\n', n - (size_t)(at - text))); at++)
        lines += (size_t)(at + 1 - text) < n;
    return lines;
}

int editor_paste(struct editor *e, const char *text, size_t n)
{
    size_t lines = count_lines(text, n);
    if ((lines <= EDITOR_FOLD_LINES && n <= EDITOR_FOLD_BYTES) || e->n_pastes == EDITOR_PASTES)
        return editor_insert(e, text, n);
    if (e->pasted + n + EDITOR_TYPED_MAX > EDITOR_MAX)
        return -ENOBUFS;
    char *copy = malloc(n + 1);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, text, n);
    copy[n] = 0;
    unsigned c = EDITOR_PASTE_FIRST + (unsigned)e->n_pastes;
    char mark[4] = {(char)(0xf0 | c >> 18), (char)(0x80 | (c >> 12 & 0x3f)),
                    (char)(0x80 | (c >> 6 & 0x3f)), (char)(0x80 | (c & 0x3f))};
    int r = editor_splice(e, e->cursor, e->cursor, mark, sizeof mark);
    if (r < 0) {
        free(copy);
        return r;
    }
    e->pastes[e->n_pastes++] = (struct editor_paste){copy, n, lines};
    e->pasted += n;
    return 0;
}

/* `10,000` */
static int put_number(struct buf *out, size_t n)
{
    if (n < 1000)
        return buf_printf(out, "%zu", n);
    int r = put_number(out, n / 1000);
    return r < 0 ? r : buf_printf(out, ",%03zu", n % 1000);
}

static int put_mark(struct buf *out, const struct editor_paste *p)
{
    buf_append_str(out, "[pasted ");
    if (p->lines > 1)
        put_number(out, p->lines);
    else
        put_number(out, p->n);
    return buf_append_str(out, p->lines > 1 ? " lines]" : " bytes]");
}

/* The next mark from `at` on, or the end. */
static size_t next_mark(const struct editor *e, size_t at, const struct editor_paste **ret)
{
    const char *t = (const char *)e->text.data;
    *ret = NULL;
    for (const char *c; at < e->text.len; at = (size_t)(c - t) + 1) {
        size_t size;
        c = memchr(t + at, 0xf4, e->text.len - at);
        if (!c)
            break;
        unsigned p = grapheme_decode(t, e->text.len, (size_t)(c - t), &size);
        if (p >= EDITOR_PASTE_FIRST && p < EDITOR_PASTE_FIRST + e->n_pastes) {
            *ret = &e->pastes[p - EDITOR_PASTE_FIRST];
            return (size_t)(c - t);
        }
    }
    return e->text.len;
}

/* Appends the text with each mark replaced by what `put` says. */
static int expand(const struct editor *e, struct buf *out, size_t *ret_cursor,
                  int (*put)(struct buf *out, const struct editor_paste *p))
{
    const struct editor_paste *p;
    for (size_t at = 0; at <= e->text.len;) {
        size_t mark = next_mark(e, at, &p);
        if (ret_cursor && e->cursor >= at && e->cursor <= mark)
            *ret_cursor = out->len + (e->cursor - at);
        buf_append(out, e->text.data + at, mark - at);
        if (!p)
            break;
        put(out, p);
        at = mark + 4;
    }
    return out->failed ? -ENOMEM : 0;
}

int editor_shown(const struct editor *e, struct buf *out, size_t *ret_cursor)
{
    return expand(e, out, ret_cursor, put_mark);
}

static int put_whole(struct buf *out, const struct editor_paste *p)
{
    return buf_append(out, p->text, p->n);
}

int editor_whole(const struct editor *e, struct buf *out)
{
    return expand(e, out, NULL, put_whole);
}
