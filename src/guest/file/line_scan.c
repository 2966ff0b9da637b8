#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "line_scan.h"
#include "wire.h"
#include "banned.h"

#define CHUNK           128u /* less than 256: its count fits into a byte */
#define CHECKPOINT_STEP (1u << 20)
#define CHECKPOINTS     (LINE_SCAN_MAX / CHECKPOINT_STEP + 1)
#define MARK_MAX        64u

ssize_t line_source_at(struct line_source *s, uint64_t offset, const uint8_t **ret)
{
    if (s->fd < 0) {
        if (offset >= s->size)
            return 0;
        *ret = s->text + offset;
        return (ssize_t)(s->size - offset);
    }
    if (offset < s->at || offset >= s->at + s->len) {
        ssize_t n;
        do
            n = pread(s->fd, s->block, LINE_SOURCE_BLOCK, (off_t)offset);
        while (n < 0 && errno == EINTR);
        if (n < 0)
            return -errno;
        s->at = offset;
        s->len = (size_t)n;
    }
    *ret = s->block + (offset - s->at);
    return (ssize_t)(s->at + s->len - offset);
}

/* `line` is the number of the line that holds the byte at `offset`. */
struct position {
    uint64_t offset, line;
};

struct line_scan {
    struct line_source *s;
    const struct line_want *want;
    struct buf *out;
    struct line_got got;
    struct position at;
    uint8_t last; /* the byte before; a newline at the start */
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

static uint64_t count_characters(const uint8_t *p, size_t n)
{
    uint64_t count = 0;
    for (; n >= CHUNK; p += CHUNK, n -= CHUNK) {
        uint8_t some = 0;
        for (unsigned i = 0; i < CHUNK; i++)
            some = (uint8_t)(some + begins_character(p[i]));
        count += some;
    }
    for (size_t i = 0; i < n; i++)
        count += begins_character(p[i]);
    return count;
}

/* How many lines end before the position, where the text ends. */
static uint64_t line_scan_lines(const struct line_scan *c)
{
    return c->last == '\n' ? c->at.line - 1 : c->at.line;
}

static void line_scan_advance(struct line_scan *c, const uint8_t *p, size_t n, uint64_t newlines)
{
    c->at.offset += n;
    c->at.line += newlines;
    c->last = p[n - 1];
}

/* Goes to the start of a line. 1 if there is such a line, 0 if the text ends before, -EFBIG if it
 * was not found within the limit. */
static int line_scan_seek(struct line_scan *c, uint64_t line)
{
    uint64_t begin = c->at.offset;
    while (c->at.line < line) {
        const uint8_t *p;
        ssize_t n = line_source_at(c->s, c->at.offset, &p);
        if (n <= 0)
            return (int)n;
        if (c->at.offset - begin > LINE_SCAN_MAX)
            return -EFBIG;
        uint64_t newlines = count_newlines(p, (size_t)n);
        if (c->at.line + newlines < line) {
            line_scan_advance(c, p, (size_t)n, newlines);
            continue;
        }
        while (c->at.line < line) {
            const uint8_t *end = memchr(p, '\n', (size_t)n);
            size_t used = (size_t)(end + 1 - p);
            line_scan_advance(c, p, used, 1);
            p += used;
            n -= (ssize_t)used;
        }
    }
    const uint8_t *p;
    ssize_t n = line_source_at(c->s, c->at.offset, &p);
    return n < 0 ? (int)n : n > 0;
}

/* Counts on to the end, but over no more than `max` bytes: 1 if the end was reached, else 0.
 * `keep`, if given, gets positions on the way. */
static int line_scan_count(struct line_scan *c, uint64_t max, struct position *keep, size_t *n_keep)
{
    for (uint64_t begin = c->at.offset; c->at.offset - begin <= max;) {
        const uint8_t *p;
        ssize_t n = line_source_at(c->s, c->at.offset, &p);
        if (n <= 0)
            return n < 0 ? (int)n : 1;
        if (keep && *n_keep < CHECKPOINTS && c->at.offset >= *n_keep * (uint64_t)CHECKPOINT_STEP)
            keep[(*n_keep)++] = c->at;
        line_scan_advance(c, p, (size_t)n, count_newlines(p, (size_t)n));
    }
    return 0;
}

/* Goes to a line that is counted from the end: all lines are counted, and the way back is short
 * because positions were kept. */
static int line_scan_seek_from_end(struct line_scan *c, uint64_t back)
{
    static struct position kept[CHECKPOINTS];
    size_t n = 0;
    int r = line_scan_count(c, LINE_SCAN_MAX, kept, &n);
    if (r <= 0)
        return r < 0 ? r : -EFBIG;
    uint64_t lines = line_scan_lines(c), line = back < lines ? lines - back + 1 : 1;
    c->got.lines = lines;
    c->got.lines_known = true;
    c->at = (struct position){0, 1};
    c->last = '\n';
    while (n > 0 && kept[n - 1].line >= line)
        n--;
    if (n > 0)
        c->at = kept[n - 1];
    return line_scan_seek(c, line);
}

/* The line that is being taken. */
struct line {
    size_t begin;        /* in the buffer */
    uint64_t characters; /* kept of it */
    uint64_t left_out;
};

/* As many bytes as hold at most `max` characters; and at most four times as many bytes, whatever
 * they are. */
static size_t line_prefix(const uint8_t *p, size_t n, uint64_t max, uint64_t *ret_characters)
{
    uint64_t characters = 0;
    size_t i = 0;
    for (; i < n && i < 4 * max; i++) {
        if (characters == max && begins_character(p[i]))
            break;
        characters += begins_character(p[i]);
    }
    *ret_characters = characters;
    return i;
}

static void line_scan_take_piece(struct line_scan *c, struct line *l, const uint8_t *p, size_t n)
{
    uint64_t room = c->want->characters - l->characters, characters = 0;
    size_t keep = l->left_out ? 0 : line_prefix(p, n, room, &characters);
    buf_append(c->out, p, keep);
    l->characters += characters;
    if (keep < n) {
        uint64_t rest = count_characters(p + keep, n - keep);
        l->left_out += rest ? rest : 1;
    }
}

/* A line has ended, with a newline or with the text. A CR is never cut off: it is part of how the
 * line ends.
 */
static void line_scan_finish_line(struct line_scan *c, const struct line *l, bool newline, bool cr)
{
    bool cr_is_out = cr && l->left_out > 0;
    uint64_t left_out = l->left_out - cr_is_out;
    if (left_out) {
        buf_printf(c->out, " … [%" PRIu64 " more characters in this line]", left_out);
        c->got.cut++;
    }
    if (cr_is_out)
        buf_append(c->out, "\r", 1);
    if (newline)
        buf_append(c->out, "\n", 1);
    c->got.count++;
    c->got.endings |= !newline ? WIRE_ENDS_NOT : cr ? WIRE_ENDS_CRLF : WIRE_ENDS_LF;
}

/* Takes one line. 1, or 0 if the text has ended before it. */
static int line_scan_take_line(struct line_scan *c, struct line *l)
{
    uint64_t begin = c->at.offset;
    for (;;) {
        const uint8_t *p;
        ssize_t n = line_source_at(c->s, c->at.offset, &p);
        if (n < 0)
            return (int)n;
        if (n == 0 || c->at.offset - begin > LINE_SCAN_MAX) {
            if (c->at.offset > begin)
                line_scan_finish_line(c, l, false, false);
            return c->at.offset > begin;
        }
        const uint8_t *end = memchr(p, '\n', (size_t)n);
        size_t piece = end ? (size_t)(end - p) : (size_t)n;
        bool cr = (piece ? p[piece - 1] : c->last) == '\r';
        line_scan_take_piece(c, l, p, piece);
        line_scan_advance(c, p, piece + (end != NULL), end != NULL);
        if (end) {
            line_scan_finish_line(c, l, true, cr);
            return 1;
        }
    }
}

/* Takes lines until there are enough, or too many bytes: the last line is then given back. */
static int line_scan_take_lines(struct line_scan *c)
{
    while (c->got.count < c->want->count) {
        struct line l = {.begin = c->out->len};
        struct position before = c->at;
        struct line_got got = c->got;
        uint8_t last = c->last;
        int r = line_scan_take_line(c, &l);
        if (r <= 0)
            return r;
        if (c->out->len > c->want->bytes && got.count > 0) {
            c->out->len = l.begin;
            c->at = before;
            c->got = got;
            c->last = last;
            return 0;
        }
    }
    return 0;
}

static int line_scan_no_such_line(const struct line_scan *c, int r, struct error *err)
{
    if (r == -EFBIG)
        return error_set(err, EFBIG,
                         "line %" PRId64 " was not found in the first %" PRIu64
                         " GiB that are searched",
                         c->want->first, LINE_SCAN_MAX >> 30);
    if (r < 0)
        return r;
    uint64_t lines = line_scan_lines(c);
    return error_set(err, ERANGE, "there is no line %" PRId64 ": the file has %" PRIu64 " line%s",
                     c->want->first, lines, lines == 1 ? "" : "s");
}

/* Whether there is more after the lines that were taken, and how many lines there are. */
static int line_scan_count_rest(struct line_scan *c)
{
    const uint8_t *p;
    ssize_t n = line_source_at(c->s, c->at.offset, &p);
    if (n < 0)
        return (int)n;
    c->got.more = n > 0;
    if (c->got.lines_known)
        return 0;
    int r = line_scan_count(c, LINE_COUNT_MAX, NULL, NULL);
    if (r < 0)
        return r;
    c->got.lines = line_scan_lines(c);
    c->got.lines_known = r == 1;
    return 0;
}

size_t line_scan_room(const struct line_want *want)
{
    /* The first line, which may be more than is wanted, and one more that is then given back. */
    return want->bytes + 2 * (4 * want->characters + MARK_MAX + 2);
}

int line_scan(struct line_source *s, const struct line_want *want, struct buf *out,
              struct line_got *ret, struct error *err)
{
    struct line_scan c = {.s = s, .want = want, .out = out, .at = {0, 1}, .last = '\n'};
    const uint8_t *p;
    ssize_t n = line_source_at(s, 0, &p);
    if (n == 0) { /* empty: no line, and no error */
        *ret = (struct line_got){.lines_known = true};
        return 0;
    }
    int r = n < 0             ? (int)n
            : want->first < 0 ? line_scan_seek_from_end(&c, 0 - (uint64_t)want->first)
                              : line_scan_seek(&c, want->first ? (uint64_t)want->first : 1);
    if (r <= 0)
        return line_scan_no_such_line(&c, r, err);
    c.got.first = c.at.line;
    r = line_scan_take_lines(&c);
    if (r >= 0)
        r = line_scan_count_rest(&c);
    if (r < 0)
        return r;
    if (out->failed)
        return -ENOMEM;
    *ret = c.got;
    return 0;
}
