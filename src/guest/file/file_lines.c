/*
 * LINES: a regular file as people read it, in one request.
 *
 * Its first bytes show what it is. Of a text the requested lines are sent, of an image all of it,
 * of anything else only its kind. UTF-16 is sent as UTF-8.
 *
 * Lines are found by counting newlines block by block, in memory that does not grow with the text.
 * Lines that are too long are cut, with a mark that says how much is missing; if there are too many
 * bytes, the last lines are left out.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "file.h"
#include "filekind.h"
#include "io.h"
#include "text.h"
#include "banned.h"

#define LINES_DEFAULT  2000u
#define BYTES_DEFAULT  (64u << 10)
#define BYTES_MAX      (512u << 10) /* of lines; they are held until all are found */
#define CHARACTERS_MAX 2000u        /* of one line */
#define UTF16_MAX      (16u << 20)  /* bytes of a file that is converted */
#define CHUNK          128u         /* less than 256: its count of newlines fits into a byte */
#define MARK_MAX       64u          /* bytes of the mark where a line was cut */

/* The bytes from an offset on, as many as are read: how many, 0 at the end, or a negative errno.
 * They are valid until the next call. */
static ssize_t line_source_at(struct line_source *s, uint64_t offset, const uint8_t **ret)
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

static bool utf8_begins(uint8_t byte)
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
            if (some == room && utf8_begins(p[keep]))
                break;
            some += utf8_begins(p[keep]);
        }
        buf_append(c->out, p, keep);
        characters += some;
        if (keep < piece) {
            uint64_t rest = 0;
            for (size_t i = keep; i < piece; i++)
                rest += utf8_begins(p[i]);
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
    uint64_t first = want->first > 0 ? (uint64_t)want->first : 1;
    const uint8_t *p;
    ssize_t n = line_source_at(s, 0, &p);
    if (n <= 0) { /* an empty text has no line, which is no error */
        *ret = (struct line_got){.lines_known = true};
        return (int)n;
    }
    int r = 1;
    if (want->first < 0) { /* from the end: counts all lines, then starts again */
        uint64_t back = 0 - (uint64_t)want->first;
        r = line_scan_count(&c, LINE_SCAN_MAX);
        uint64_t lines = line_scan_lines(&c);
        first = back < lines ? lines - back + 1 : 1;
        c.offset = 0;
        c.line = 1;
        c.last = '\n';
        c.got.lines = lines;
        c.got.lines_known = true;
        if (r == 0)
            r = -EFBIG;
    }
    if (r > 0)
        r = line_scan_seek(&c, first);
    if (r == -EFBIG)
        return error_set(err, EFBIG,
                         "line %" PRId64 " was not found in the first %" PRIu64
                         " GiB that are searched",
                         want->first, LINE_SCAN_MAX >> 30);
    if (r < 0)
        return r;
    if (r == 0) {
        uint64_t lines = line_scan_lines(&c);
        return error_set(err, ERANGE,
                         "there is no line %" PRId64 ": the file has %" PRIu64 " line%s",
                         want->first, lines, lines == 1 ? "" : "s");
    }
    c.got.first = c.line;

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

/* One file that was opened. */
struct lines_call {
    struct file_call *c;
    struct stat st;
    struct line_source source;
    enum filekind kind;
    const char *name; /* of the kind */
};

/* Begins the RESULT with what is known of every file. */
static size_t lines_begin_result(const struct lines_call *f)
{
    size_t at = wire_begin(&f->c->out, WIRE_RESULT);
    file_put_stat(&f->c->out, &f->st);
    wire_put_u64(&f->c->out, WIRE_K_CONTENT, f->kind);
    wire_put_str(&f->c->out, WIRE_K_SEEMS, f->name);
    return at;
}

static int lines_answer_kind(const struct lines_call *f)
{
    wire_end(&f->c->out, lines_begin_result(f));
    return 0;
}

static int lines_answer_text(struct lines_call *f, struct error *err)
{
    const struct wire_frame *q = &f->c->request;
    uint64_t bytes = wire_find_u64(q, WIRE_K_LIMIT_BYTES, BYTES_DEFAULT);
    struct line_want want = {.first = (int64_t)wire_find_u64(q, WIRE_K_LINE, 1),
                             .count = wire_find_u64(q, WIRE_K_COUNT, LINES_DEFAULT),
                             .bytes = bytes < BYTES_MAX ? (size_t)bytes : BYTES_MAX,
                             .characters = CHARACTERS_MAX};
    _cleanup_buf_ struct buf text = BUF_INIT(line_scan_room(&want));
    struct buf *out = &f->c->out;
    struct line_got got;
    struct error why = {0};
    int r = line_scan(&f->source, &want, &text, &got, &why);
    if (r < 0 && why.code)
        return error_set(err, why.code, "%.400s: %s", f->c->path, why.text);
    if (r < 0)
        return file_error(f->c, -r, f->c->path, err);
    for (size_t at = 0; at < text.len; at += WIRE_DATA_MAX)
        file_put_data(out, text.data + at,
                      text.len - at < WIRE_DATA_MAX ? text.len - at : WIRE_DATA_MAX);
    size_t begin = lines_begin_result(f);
    wire_put_u64(out, WIRE_K_LINE, got.first);
    wire_put_u64(out, WIRE_K_COUNT, got.count);
    wire_put_u64(out, WIRE_K_LINES, got.lines);
    if (!got.lines_known || got.more)
        wire_put_u64(out, WIRE_K_TOO_MANY, got.lines_known ? 1 : 2);
    wire_put_u64(out, WIRE_K_CUT, got.cut);
    wire_put_u64(out, WIRE_K_ENDINGS, got.endings);
    wire_end(out, begin);
    return 0;
}

static int lines_answer_image(struct lines_call *f, struct error *err)
{
    uint64_t max = wire_find_u64(&f->c->request, WIRE_K_IMAGE_MAX, 0), offset = 0;
    if ((uint64_t)f->st.st_size > max)
        return lines_answer_kind(f);
    while (offset < max) {
        const uint8_t *p;
        ssize_t n = line_source_at(&f->source, offset, &p);
        if (n < 0)
            return file_error(f->c, (int)-n, f->c->path, err);
        if (n == 0)
            break;
        size_t piece = (size_t)n < WIRE_DATA_MAX ? (size_t)n : WIRE_DATA_MAX;
        if (piece > max - offset)
            piece = (size_t)(max - offset);
        file_put_data(&f->c->out, p, piece);
        int r = file_send(f->c);
        if (r < 0)
            return error_errno(err, -r, "the host closed the connection");
        offset += piece;
    }
    return lines_answer_kind(f);
}

int file_lines(struct file_call *c, struct error *err)
{
    static uint8_t block[LINE_SOURCE_BLOCK];
    _cleanup_buf_ struct buf raw = BUF_INIT(UTF16_MAX), text = BUF_INIT(2 * (size_t)UTF16_MAX);
    _cleanup_fd_ int fd = -1;
    struct lines_call f = {.c = c, .name = "text"};
    const uint8_t *head = NULL;
    int r = file_open_regular(c, &fd, &f.st, err);
    if (r < 0)
        return r;
    f.source = (struct line_source){.fd = fd, .block = block};
    ssize_t n = line_source_at(&f.source, 0, &head);
    if (n < 0)
        return file_error(c, (int)-n, c->path, err);
    f.kind = n ? filekind_of(head, (size_t)n, &f.name) : FILEKIND_TEXT;
    switch (f.kind) {
    case FILEKIND_IMAGE:
        return lines_answer_image(&f, err);
    case FILEKIND_BINARY:
        return lines_answer_kind(&f);
    case FILEKIND_UTF16LE:
    case FILEKIND_UTF16BE: /* the lines of a copy in UTF-8 */
        r = io_read_all(fd, &raw);
        if (r == -ENOBUFS)
            return lines_answer_kind(&f);
        if (r >= 0)
            r = utf16_append(&text, raw.data, raw.len, f.kind == FILEKIND_UTF16BE);
        if (r < 0)
            return file_error(c, -r, c->path, err);
        f.source = (struct line_source){.fd = -1, .text = text.data, .size = text.len};
        return lines_answer_text(&f, err);
    default:
        return lines_answer_text(&f, err);
    }
}
