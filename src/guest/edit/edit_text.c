/* Edits of a text in memory, and explanations why one does not fit. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "edit.h"
#include "linediff.h"
#include "text.h"
#include "banned.h"

#define LINES_SHOWN   30u
#define CHANGES_SHOWN 4u
#define PER_CHANGE    4u /* lines of one side of a change */
#define LINE_BYTES    300u
#define KNOWN_AGAIN   8u /* bytes that `new` has at least, to be recognised in the text */

uint64_t span_count(struct span b, uint8_t byte, size_t end)
{
    uint64_t count = 0;
    for (size_t at = 0; at < end; at++) {
        const uint8_t *found = memchr(b.data + at, byte, end - at);
        if (!found)
            break;
        count++;
        at = (size_t)(found - b.data);
    }
    return count;
}

/* Appends a text with all its lines ending alike. */
static void edit_put_endings(struct buf *out, struct span s, bool crlf)
{
    for (size_t at = 0; at < s.n;) {
        size_t end = span_line_end(s, at);
        bool newline = s.data[end - 1] == '\n';
        size_t kept = end - newline - (newline && end - at > 1 && s.data[end - 2] == '\r');
        buf_append(out, s.data + at, kept - at);
        if (newline)
            buf_append_str(out, crlf ? "\r\n" : "\n");
        at = end;
    }
}

static uint64_t span_count_crlf(struct span s)
{
    static const struct span CRLF = {(const uint8_t *)"\r\n", 2};
    uint64_t count = 0;
    for (size_t at = 0; (at = span_find(s, CRLF, at)) != SIZE_MAX; at += 2)
        count++;
    return count;
}

/* Counts places and remembers the first. If only one may be there, places that overlap count each:
 * which one is meant? */
static void edit_find_places(struct span text, const struct edit *e, struct edit_match *m)
{
    size_t at = 0, seen = 0;
    uint64_t line = 1;
    while ((at = span_find(text, e->old, at)) != SIZE_MAX) {
        if (m->count < EDIT_PLACES_MAX) {
            line += span_count(span_part(text, seen, at), '\n', at - seen);
            m->line[m->count] = line;
            seen = at;
        }
        m->count++;
        at += e->all ? e->old.n : 1;
    }
}

int edit_apply(struct span text, const struct edit *given, struct buf *out, struct edit_match *ret)
{
    _cleanup_buf_ struct buf old_buf = BUF_INIT(2 * given->old.n + 1),
                             new_buf = BUF_INIT(2 * given->new.n + 1);
    struct edit e = *given;
    struct edit_match m = {0};
    uint64_t crlf = span_count_crlf(text);
    bool all_crlf = crlf > 0 && crlf == span_count(text, '\n', text.n);
    bool new_differs = span_count_crlf(e.new) < span_count(e.new, '\n', e.new.n);
    size_t done = 0, at;
    edit_find_places(text, &e, &m);
    if (m.count == 0 && memchr(e.old.data, '\n', e.old.n)) {
        edit_put_endings(&old_buf, e.old, crlf > 0);
        e.old = (struct span){old_buf.data, old_buf.len};
        edit_find_places(text, &e, &m);
        m.endings = m.count > 0;
    }
    if (old_buf.failed)
        return -ENOMEM;
    if (m.count == 0)
        return -ENOENT;
    if (m.endings || (all_crlf && new_differs)) {
        edit_put_endings(&new_buf, e.new, crlf > 0);
        e.new = (struct span){new_buf.data, new_buf.len};
        m.endings = true;
    }
    if (new_buf.failed)
        return -ENOMEM;
    if (m.count > 1 && !e.all) {
        *ret = m;
        return -ENOTUNIQ;
    }
    while ((at = span_find(text, e.old, done)) != SIZE_MAX) {
        buf_append(out, text.data + done, at - done);
        buf_append(out, e.new.data, e.new.n);
        done = at + e.old.n;
    }
    buf_append(out, text.data + done, text.n - done);
    if (out->failed)
        return out->len + e.new.n > out->max - text.n ? -E2BIG : -ENOMEM;
    *ret = m;
    return 0;
}

/* A line without its end, cut where it gets too long. */
static void explain_line(struct buf *out, struct span line)
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

/* "2 tabs", "4 spaces", "1 tab and 2 spaces", "‘ (U+2018)", "nothing": what a reader cannot tell
 * apart by looking. */
static void explain_characters(struct buf *out, struct span s)
{
    uint64_t tabs = span_count(s, '\t', s.n), spaces = span_count(s, ' ', s.n);
    if (s.n == 0) {
        buf_append_str(out, "nothing");
    } else if (s.data[0] == '\n') {
        buf_append_str(out, "a line break");
    } else if (tabs + spaces == s.n) {
        if (tabs)
            buf_printf(out, "%" PRIu64 " tab%s", tabs, tabs > 1 ? "s" : "");
        buf_append_str(out, tabs && spaces ? " and " : "");
        if (spaces)
            buf_printf(out, "%" PRIu64 " space%s", spaces, spaces > 1 ? "s" : "");
    } else {
        struct folded f = fold_at(s, 0);
        if (f.n)
            buf_append(out, s.data, f.used);
        buf_printf(out, f.n ? " (U+%04" PRIX32 ")" : "U+%04" PRIX32, fold_code(s));
    }
}

static bool fold_same(struct span a, struct span b)
{
    size_t i = 0, k = 0, have_a = 0, have_b = 0;
    struct folded x = {0}, y = {0};
    for (;;) {
        while (have_a == x.n && i < a.n) {
            x = fold_at(a, i);
            i += x.used;
            have_a = 0;
        }
        while (have_b == y.n && k < b.n) {
            y = fold_at(b, k);
            k += y.used;
            have_b = 0;
        }
        if (have_a == x.n || have_b == y.n)
            return have_a == x.n && have_b == y.n;
        if (x.bytes[have_a++] != y.bytes[have_b++])
            return false;
    }
}

/* What differs in two lines that look alike, at the first place where they do. */
static void explain_alike(struct buf *out, struct span old, struct span file, uint64_t line)
{
    size_t head = 0, tail = 0, least = old.n < file.n ? old.n : file.n;
    if (!fold_same(old, file))
        return;
    while (head < least && old.data[head] == file.data[head])
        head++;
    while (tail < least - head && old.data[old.n - 1 - tail] == file.data[file.n - 1 - tail])
        tail++;
    while (head > 0 && head < least && (old.data[head] & 0xc0) == 0x80)
        head--; /* to the start of a character */
    buf_printf(out, "  (line %" PRIu64 " has ", line);
    explain_characters(out, span_part(file, head, file.n - tail));
    buf_append_str(out, " where `old` has ");
    explain_characters(out, span_part(old, head, old.n - tail));
    buf_append_str(out, ")\n");
}

static struct span explain_line_of(const struct lineset *s, uint32_t i)
{
    return (struct span){s->data + s->at[i], s->at[i + 1] - s->at[i]};
}

static void explain_side(struct buf *out, const char *side, const struct lineset *s, uint32_t first,
                         uint32_t n)
{
    for (uint32_t i = 0; i < n && i < PER_CHANGE; i++) {
        buf_printf(out, "  %s: ", side);
        explain_line(out, explain_line_of(s, first + i));
    }
    if (n > PER_CHANGE)
        buf_printf(out, "  %s: [%u more lines]\n", side, n - PER_CHANGE);
    if (n == 0)
        buf_printf(out, "  %s: [nothing]\n", side);
}

/* How many lines of `old` are in the nearest text, and the first ones that are not, both ways. Line
 * endings are made the same first: they only count if nothing else differs. */
static void explain_changes(struct buf *out, struct span old, struct span place, uint64_t line)
{
    _cleanup_buf_ struct buf a = BUF_INIT(2 * old.n + 1), b = BUF_INIT(2 * place.n + 1);
    struct linediff d;
    uint64_t added, deleted, total = span_lines(old);
    edit_put_endings(&a, old, false);
    edit_put_endings(&b, place, false);
    if (b.len && old.data[old.n - 1] != '\n' && b.data[b.len - 1] == '\n')
        b.len--;
    if (a.failed || b.failed || linediff_make(a.data, a.len, b.data, b.len, &d) < 0) {
        buf_append_str(out, ".\n");
        return;
    }
    linediff_totals(&d, &added, &deleted);
    if (d.count == 0)
        buf_append_str(out, "; only line endings differ: the file has both CRLF and LF.\n");
    else
        buf_printf(out,
                   "; %" PRIu64 " of the %" PRIu64
                   " lines of `old` are there as they are. What differs:\n",
                   total - deleted, total);
    for (size_t i = 0; i < d.count && i < CHANGES_SHOWN; i++) {
        const struct linediff_change *c = &d.changes[i];
        uint64_t at = line + d.skipped + c->b_line;
        buf_printf(out, "  at line %" PRIu64 ":\n", at);
        explain_side(out, "`old`", &d.a, c->a_line, c->a_count);
        explain_side(out, "file ", &d.b, c->b_line, c->b_count);
        for (uint32_t k = 0; k < c->a_count && c->a_count == c->b_count && k < PER_CHANGE; k++)
            explain_alike(out, explain_line_of(&d.a, c->a_line + k),
                          explain_line_of(&d.b, c->b_line + k), at + k);
    }
    if (d.count > CHANGES_SHOWN)
        buf_printf(out, "  [%zu more places]\n", d.count - CHANGES_SHOWN);
    linediff_free(&d);
}

/* Do the lines begin with a number and a tab, as read_file shows them? */
static bool has_line_numbers(struct span old)
{
    for (size_t at = 0; at < old.n; at = span_line_end(old, at)) {
        size_t i = at, digits = 0;
        while (i < old.n && old.data[i] == ' ')
            i++;
        for (; i < old.n && isdigit(old.data[i]); digits++)
            i++;
        if (digits == 0 || i == old.n || old.data[i] != '\t')
            return false;
    }
    return true;
}

void edit_explain(struct span text, const struct edit *e, struct buf *out,
                  struct line_range *ret_nearest)
{
    struct line_range near = {0};
    *ret_nearest = near;
    size_t done = e->new.n >= KNOWN_AGAIN ? span_find(text, e->new, 0) : SIZE_MAX;
    if (done != SIZE_MAX)
        buf_printf(out,
                   "The text of `new` is already there, at line %" PRIu64
                   ": was this edit made before?\n",
                   span_count(text, '\n', done) + 1);
    if (text.n == 0) {
        buf_append_str(out, "The file is empty; use write_file.\n");
        return;
    }
    if (has_line_numbers(e->old)) {
        buf_append_str(out, "`old` begins its lines with numbers, as read_file shows them: they "
                            "are not in the file, leave them out.\n");
        return;
    }
    if (nearest_text_find(text, e->old, -1, &near) <= 0) {
        buf_append_str(out, "Nothing in the file is like it; read_file shows what is there.\n");
        return;
    }
    size_t begin = 0, end;
    for (uint64_t i = 1; i < near.line; i++)
        begin = span_line_end(text, begin);
    end = begin;
    for (uint64_t i = 0; i < near.count; i++)
        end = span_line_end(text, end);
    if (near.count > 1)
        buf_printf(out, "The nearest text is at lines %" PRIu64 " to %" PRIu64, near.line,
                   near.line + near.count - 1);
    else
        buf_printf(out, "The nearest text is at line %" PRIu64, near.line);
    explain_changes(out, e->old, span_part(text, begin, end), near.line);
    buf_append_str(out, "These lines of the file:\n");
    for (uint64_t i = 0; i < near.count; i++) {
        end = span_line_end(text, begin);
        if (i == LINES_SHOWN) {
            buf_printf(out, "[%" PRIu64 " more lines]\n", near.count - i);
            break;
        }
        buf_printf(out, "%6" PRIu64 "\t", near.line + i);
        explain_line(out, span_part(text, begin, end));
        begin = end;
    }
    *ret_nearest = near;
}
