#include <inttypes.h>

#include "explain_lines.h"
#include "linediff.h"
#include "utf8.h"
#include "banned.h"

#define LINES_SHOWN   30u
#define CHANGES_SHOWN 4u
#define PER_CHANGE    4u /* lines of one side of a change */
#define LINE_BYTES    300u

void lines_put_range(struct buf *out, const char *before, uint64_t line, uint64_t count)
{
    if (count > 1)
        buf_printf(out, "%slines %" PRIu64 " to %" PRIu64, before, line, line + count - 1);
    else
        buf_printf(out, "%sline %" PRIu64, before, line);
}

/* A line without its end, cut where it gets too long. */
static void put_line(struct buf *out, struct bytes line)
{
    size_t n = line.n;
    while (n > 0 && (line.data[n - 1] == '\n' || line.data[n - 1] == '\r'))
        n--;
    size_t kept = n > LINE_BYTES ? LINE_BYTES - utf8_cut_end(line.data, LINE_BYTES) : n;
    buf_append(out, line.data, kept);
    if (kept < n)
        buf_printf(out, " … [%zu more bytes in this line]", n - kept);
    buf_append_str(out, "\n");
}

void lines_put_numbered(struct buf *out, struct bytes text, uint64_t line, uint64_t count)
{
    size_t at = 0;
    for (uint64_t i = 1; i < line && at < text.n; i++)
        at = bytes_line_end(text, at);
    for (uint64_t i = 0; i < count && at < text.n; i++) {
        size_t end = bytes_line_end(text, at);
        if (i == LINES_SHOWN) {
            buf_printf(out, "[%" PRIu64 " more lines]\n", count - i);
            return;
        }
        buf_printf(out, "%6" PRIu64 "\t", line + i);
        put_line(out, bytes_part(text, at, end));
        at = end;
    }
}

static void put_some(struct buf *out, const char *side, const struct lineset *s, uint32_t first,
                     uint32_t n)
{
    for (uint32_t i = 0; i < n && i < PER_CHANGE; i++) {
        buf_printf(out, "  %s: ", side);
        put_line(out, (struct bytes){s->data + s->at[first + i],
                                     s->at[first + i + 1] - s->at[first + i]});
    }
    if (n > PER_CHANGE)
        buf_printf(out, "  %s: [%u more lines]\n", side, n - PER_CHANGE);
    if (n == 0)
        buf_printf(out, "  %s: [nothing]\n", side);
}

void lines_put_difference(struct buf *out, struct bytes old, struct bytes file, uint64_t line)
{
    struct linediff d;
    uint64_t added, deleted,
        total = bytes_count(old, '\n', old.n) + (old.n && old.data[old.n - 1] != '\n');
    if (linediff_make(old.data, old.n, file.data, file.n, &d) < 0) {
        buf_append_str(out, ".\n");
        return;
    }
    linediff_totals(&d, &added, &deleted);
    buf_printf(out,
               "; %" PRIu64 " of the %" PRIu64
               " lines of `old` are there as they are. What differs:\n",
               total - deleted, total);
    for (size_t i = 0; i < d.count && i < CHANGES_SHOWN; i++) {
        const struct linediff_change *c = &d.changes[i];
        buf_printf(out, "  at line %" PRIu64 ":\n", line + d.skipped + c->b_line);
        put_some(out, "`old`", &d.a, c->a_line, c->a_count);
        put_some(out, "file ", &d.b, c->b_line, c->b_count);
    }
    if (d.count > CHANGES_SHOWN)
        buf_printf(out, "  [%zu more places]\n", d.count - CHANGES_SHOWN);
    linediff_free(&d);
}
