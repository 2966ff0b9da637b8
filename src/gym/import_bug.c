/*
 * What of the difference between a wrong program and the right one is the bug. The two were written
 * down apart: one has a comment or a blank line that the other has not, and behind the code stands
 * a text that describes the program in the one and lists other solutions in the other. A patch that
 * changed those, too, would tell by its mere size which one it is.
 */
#include <errno.h>
#include <string.h>

#include "import_variants.h"
#include "linediff.h"
#include "banned.h"

#define QUOTES "\"\"\""

size_t quotes_count(const char *at, size_t n)
{
    size_t count = 0;
    for (const char *end = at + n; (at = memmem(at, (size_t)(end - at), QUOTES, 3)); at += 3)
        count++;
    return count;
}

static bool is_blank(const char *at, size_t n)
{
    while (n > 0 && strchr(" \t\r\n\f", at[n - 1]))
        n--;
    return n == 0;
}

static bool is_idle(const uint8_t *at, size_t n)
{
    while (n > 0 && (*at == ' ' || *at == '\t'))
        at++, n--;
    return is_blank((const char *)at, n) || *at == '#';
}

/* How long a program is without the text that stands alone behind its code. */
static size_t code_length(const struct buf *b)
{
    const char *begin = (const char *)b->data, *end = begin + b->len;
    size_t code = 0; /* to the end of the last line that is neither blank nor in such a text */
    bool open = false, alone = false;
    for (const char *at = begin; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t n = newline ? (size_t)(newline - at) + 1 : (size_t)(end - at);
        if (!open)
            alone = n >= 3 && memcmp(at, QUOTES, 3) == 0;
        if (!alone && (open || !is_blank(at, n)))
            code = (size_t)(at - begin) + n;
        open ^= quotes_count(at, n) % 2 == 1;
        at += n;
    }
    return code;
}

static bool all_idle(const struct lineset *l, uint32_t first, uint32_t n)
{
    for (uint32_t i = first; i < first + n; i++)
        if (!is_idle(l->data + l->at[i], l->at[i + 1] - l->at[i]))
            return false;
    return true;
}

/* The code of the wrong program with every change but those between comments and blank lines. */
static int apply_changes(const struct linediff *d, const uint8_t *code, size_t n, struct buf *ret)
{
    size_t at = 0;
    for (size_t i = 0; i < d->count; i++) {
        const struct linediff_change *c = &d->changes[i];
        const uint8_t *from = d->a.data + d->a.at[c->a_line],
                      *to = d->a.data + d->a.at[c->a_line + c->a_count];
        if (all_idle(&d->a, c->a_line, c->a_count) && all_idle(&d->b, c->b_line, c->b_count))
            continue;
        buf_append(ret, code + at, (size_t)(from - code) - at);
        buf_append(ret, d->b.data + d->b.at[c->b_line],
                   d->b.at[c->b_line + c->b_count] - d->b.at[c->b_line]);
        at = (size_t)(to - code);
    }
    buf_append(ret, code + at, n - at);
    return ret->failed ? -ENOMEM : 0;
}

/* Its code alone, which ends with a newline whether the file does or not. */
static int take_code(const struct buf *b, struct buf *ret)
{
    size_t n = code_length(b);
    buf_append(ret, b->data, n);
    if (n > 0 && b->data[n - 1] != '\n')
        buf_append_str(ret, "\n");
    return ret->failed ? -ENOMEM : 0;
}

int bug_repair(const struct buf *wrong, const struct buf *right, struct buf *ret)
{
    struct linediff d;
    _cleanup_buf_ struct buf code = BUF_INIT(right->len + 1);
    size_t n = code_length(wrong);
    int r = take_code(right, &code);
    if (r == 0)
        r = linediff_make(wrong->data, n, code.data, code.len, &d);
    if (r < 0)
        return r;
    r = apply_changes(&d, wrong->data, n, ret);
    linediff_free(&d);
    buf_append(ret, wrong->data + n, wrong->len - n);
    return ret->failed ? -ENOMEM : r;
}
