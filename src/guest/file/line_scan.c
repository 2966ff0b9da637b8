#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "io.h"
#include "line_scan.h"
#include "wire.h"
#include "banned.h"

#define CHUNK    128u /* less than 256: its count fits into a byte */
#define MARK_MAX 64u

ssize_t line_source_at(struct line_source *s, uint64_t offset, const uint8_t **ret)
{
    if (s->fd < 0) {
        if (offset >= s->size)
            return 0;
        *ret = s->text + offset;
        return (ssize_t)(s->size - offset);
    }
    if (offset < s->at || offset >= s->at + s->len) {
        ssize_t n = io_read_at(s->fd, s->block, LINE_SOURCE_BLOCK, offset);
        if (n < 0)
            return n;
        s->at = offset;
        s->len = (size_t)n;
    }
    *ret = s->block + (offset - s->at);
    return (ssize_t)(s->at + s->len - offset);
}

/* The position of a scan, and its results so far. */
struct line_scan {
    struct line_source *s;
    const struct line_want *want;
    struct buf *out;
    struct line_got got;
    uint64_t offset, line; /* the line that holds the byte at the offset */
    uint8_t last;          /* the byte before; a newline at the start */
};

/* A whole chunk at a time, in a loop that the compiler vectorizes. */
static uint64_t count_newlines(const uint8_t *p, size_t n)
{
    uint64_t count = 0;
    for (; n >= CHUNK; p += CHUNK, n -= CHUNK) {
        uint8_t some = 0;
        for (unsigned i = 0; i < CHUNK; i++)
            some = (uint8_t)(some + (p[i] == '\n'));
        count += some;
    }
    for (size_t i = 0; i < n; i++)
        count += p[i] == '\n';
    return count;
}

static bool begins_character(uint8_t byte)
{
    return (byte & 0xc0) != 0x80;
}

/* How many lines end before the position, where the text ends. */
static uint64_t line_scan_lines(const struct line_scan *c)
{
    return c->last == '\n' ? c->line - 1 : c->line;
}

static void line_scan_advance(struct line_scan *c, const uint8_t *p, size_t n, uint64_t newlines)
{
    c->offset += n;
    c->line += newlines;
    c->last = p[n - 1];
}

/* Goes to the start of a line. 1 if there is such a line, 0 if the text ends before, -EFBIG if it
 * was not found within the limit. */
static int line_scan_seek(struct line_scan *c, uint64_t line)
{
    const uint8_t *p;
    ssize_t n;
    while (c->line < line) {
        n = line_source_at(c->s, c->offset, &p);
        if (n <= 0)
            return (int)n;
        if (c->offset > LINE_SCAN_MAX)
            return -EFBIG;
        uint64_t newlines = count_newlines(p, (size_t)n);
        if (c->line + newlines < line) {
            line_scan_advance(c, p, (size_t)n, newlines);
            continue;
        }
        while (c->line < line) {
            const uint8_t *end = memchr(p, '\n', (size_t)n);
            size_t used = (size_t)(end + 1 - p);
            line_scan_advance(c, p, used, 1);
            p += used;
            n -= (ssize_t)used;
        }
    }
    n = line_source_at(c->s, c->offset, &p);
    return n < 0 ? (int)n : n > 0;
}

/* Counts on to the end, but over no more than `max` bytes: 1 if the end was reached, else 0. */
static int line_scan_count(struct line_scan *c, uint64_t max)
{
    for (uint64_t begin = c->offset; c->offset - begin <= max;) {
        const uint8_t *p;
        ssize_t n = line_source_at(c->s, c->offset, &p);
        if (n <= 0)
            return n < 0 ? (int)n : 1;
        line_scan_advance(c, p, (size_t)n, count_newlines(p, (size_t)n));
    }
    return 0;
}

/* Goes to the first line that is wanted. 0, or an error: with a message if there is none. */
static int line_scan_find_first(struct line_scan *c, struct error *err)
{
    int64_t first = c->want->first;
    uint64_t line = first > 0 ? (uint64_t)first : 1;
    int r = 1;
    if (first < 0) { /* from the end: counts all lines, then starts again */
        uint64_t back = 0 - (uint64_t)first;
        r = line_scan_count(c, LINE_SCAN_MAX);
        if (r == 0)
            r = -EFBIG;
        c->got.lines = line_scan_lines(c);
        c->got.lines_known = true;
        line = back < c->got.lines ? c->got.lines - back + 1 : 1;
        c->offset = 0;
        c->line = 1;
        c->last = '\n';
    }
    if (r > 0)
        r = line_scan_seek(c, line);
    if (r == -EFBIG)
        return error_set(err, EFBIG,
                         "line %" PRId64 " was not found in the first %" PRIu64
                         " GiB that are searched",
                         first, LINE_SCAN_MAX >> 30);
    if (r == 0) {
        uint64_t lines = line_scan_lines(c);
        return error_set(err, ERANGE,
                         "there is no line %" PRId64 ": the file has %" PRIu64 " line%s", first,
                         lines, lines == 1 ? "" : "s");
    }
    c->got.first = c->line;
    return r < 0 ? r : 0;
}

/* Appends one line, cut if it is too long. 1, or 0 if the text has ended before it. */
static int line_scan_take_line(struct line_scan *c)
{
    uint64_t begin = c->offset, characters = 0, left_out = 0;
    bool newline = false, cr = false;
    while (!newline) {
        const uint8_t *p;
        ssize_t n = line_source_at(c->s, c->offset, &p);
        if (n < 0)
            return (int)n;
        if (n == 0 || c->offset - begin > LINE_SCAN_MAX) {
            if (c->offset == begin)
                return 0;
            cr = false;
            break;
        }
        const uint8_t *end = memchr(p, '\n', (size_t)n);
        size_t piece = end ? (size_t)(end - p) : (size_t)n, keep = 0;
        newline = end != NULL;
        cr = (piece ? p[piece - 1] : c->last) == '\r';

        /* As many bytes as hold the characters that are left; and at most four times as many bytes,
         * whatever they are. */
        uint64_t room = left_out ? 0 : c->want->characters - characters, some = 0;
        for (; keep < piece && keep < 4 * room; keep++) {
            if (some == room && begins_character(p[keep]))
                break;
            some += begins_character(p[keep]);
        }
        buf_append(c->out, p, keep);
        characters += some;
        if (keep < piece) {
            uint64_t rest = 0;
            for (size_t i = keep; i < piece; i++)
                rest += begins_character(p[i]);
            left_out += rest ? rest : 1;
        }
        line_scan_advance(c, p, piece + newline, newline);
    }

    /* A CR is never cut off: it is part of how the line ends. */
    bool cr_is_out = cr && left_out > 0;
    if (left_out - cr_is_out > 0) {
        buf_printf(c->out, " … [%" PRIu64 " more characters in this line]", left_out - cr_is_out);
        c->got.cut++;
    }
    if (cr_is_out)
        buf_append(c->out, "\r", 1);
    if (newline)
        buf_append(c->out, "\n", 1);
    c->got.count++;
    c->got.endings |= !newline ? WIRE_ENDS_NOT : cr ? WIRE_ENDS_CRLF : WIRE_ENDS_LF;
    return 1;
}

size_t line_scan_room(const struct line_want *want)
{
    /* The first line, which may be more than is wanted, and one more that is then dropped. */
    return want->bytes + 2 * (4 * want->characters + MARK_MAX + 2);
}

int line_scan(struct line_source *s, const struct line_want *want, struct buf *out,
              struct line_got *ret, struct error *err)
{
    struct line_scan c = {.s = s, .want = want, .out = out, .line = 1, .last = '\n'};
    const uint8_t *p;
    ssize_t n = line_source_at(s, 0, &p);
    if (n == 0) { /* empty: no line, and no error */
        *ret = (struct line_got){.lines_known = true};
        return 0;
    }
    int r = n < 0 ? (int)n : line_scan_find_first(&c, err);
    if (r < 0)
        return r;

    /* Lines until there are enough, or too many bytes: the last line is then dropped. */
    while (c.got.count < want->count) {
        const struct line_scan before = c;
        size_t len = out->len;
        r = line_scan_take_line(&c);
        if (r < 0)
            return r;
        if (r == 0)
            break;
        if (out->len > want->bytes && before.got.count > 0) {
            out->len = len;
            c = before;
            break;
        }
    }

    /* Whether there is more after them, and how many lines there are. */
    n = line_source_at(s, c.offset, &p);
    if (n < 0)
        return (int)n;
    c.got.more = n > 0;
    if (!c.got.lines_known) {
        r = line_scan_count(&c, LINE_COUNT_MAX);
        if (r < 0)
            return r;
        c.got.lines = line_scan_lines(&c);
        c.got.lines_known = r == 1;
    }
    if (out->failed)
        return -ENOMEM;
    *ret = c.got;
    return 0;
}
