/* The form of a line diff: hunks of a unified diff with a few lines of context, as git writes them.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cleanup.h"
#include "linediff.h"
#include "banned.h"

struct printer {
    const struct linediff *d;
    int (*write)(void *data, const void *bytes, size_t n);
    void *data;
};

static int print_lines(const struct printer *p, const struct lineset *s, char sign, uint32_t from,
                       uint32_t n)
{
    static const char NO_NEWLINE[] = "\n\\ No newline at end of file\n";
    for (uint32_t i = from; i < from + n; i++) {
        const uint8_t *line = s->data + s->at[i];
        uint32_t size = s->at[i + 1] - s->at[i];
        int r = p->write(p->data, &sign, 1);
        if (r >= 0)
            r = p->write(p->data, line, size);
        if (r >= 0 && line[size - 1] != '\n')
            r = p->write(p->data, NO_NEWLINE, sizeof NO_NEWLINE - 1);
        if (r < 0)
            return r;
    }
    return 0;
}

/* "12,3": a count of one is left out, and an empty range is said to stand behind the line before
 * it. */
static void format_range(char *ret, size_t size, uint32_t line, uint32_t count)
{
    if (count == 1)
        snprintf(ret, size, "%u", line + 1);
    else
        snprintf(ret, size, "%u,%u", count ? line + 1 : line, count);
}

static int print_header(const struct printer *p, const struct linediff_change *range)
{
    char a[32], b[32], text[80];
    format_range(a, sizeof a, p->d->skipped + range->a_line, range->a_count);
    format_range(b, sizeof b, p->d->skipped + range->b_line, range->b_count);
    int n = snprintf(text, sizeof text, "@@ -%s +%s @@\n", a, b);
    return p->write(p->data, text, (size_t)n);
}

/* What the changes from first to last cover on both sides, with their context. */
static struct linediff_change hunk_range(const struct linediff *d, size_t first, size_t last)
{
    const struct linediff_change *f = &d->changes[first], *l = &d->changes[last];
    uint32_t before = f->a_line < LINEDIFF_CONTEXT ? f->a_line : LINEDIFF_CONTEXT;
    uint32_t a_end = l->a_line + l->a_count, b_end = l->b_line + l->b_count;
    uint32_t after = d->a.count - a_end < LINEDIFF_CONTEXT ? d->a.count - a_end : LINEDIFF_CONTEXT;
    return (struct linediff_change){
        .a_line = f->a_line - before,
        .a_count = a_end + after - (f->a_line - before),
        .b_line = f->b_line - before,
        .b_count = b_end + after - (f->b_line - before),
    };
}

static int print_hunk(const struct printer *p, size_t first, size_t last)
{
    const struct linediff *d = p->d;
    struct linediff_change range = hunk_range(d, first, last);
    uint32_t at = range.a_line;
    int r = print_header(p, &range);
    for (size_t i = first; r >= 0 && i <= last; i++) {
        const struct linediff_change *c = &d->changes[i];
        r = print_lines(p, &d->a, ' ', at, c->a_line - at);
        if (r >= 0)
            r = print_lines(p, &d->a, '-', c->a_line, c->a_count);
        if (r >= 0)
            r = print_lines(p, &d->b, '+', c->b_line, c->b_count);
        at = c->a_line + c->a_count;
    }
    return r < 0 ? r : print_lines(p, &d->a, ' ', at, range.a_line + range.a_count - at);
}

int linediff_print(const struct linediff *d, int (*write)(void *data, const void *bytes, size_t n),
                   void *data)
{
    struct printer p = {d, write, data};
    for (size_t first = 0, last; first < d->count; first = last + 1) {
        last = first;
        while (last + 1 < d->count &&
               d->changes[last + 1].a_line - d->changes[last].a_line - d->changes[last].a_count <=
                   2 * LINEDIFF_CONTEXT)
            last++;
        int r = print_hunk(&p, first, last);
        if (r < 0)
            return r;
    }
    return 0;
}
