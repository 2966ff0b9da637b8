/*
 * LINES: a regular file as people read it, in one request.
 *
 * Its first bytes show what it is. Of a text the requested lines are sent, of an image all of it,
 * of anything else only its kind. UTF-16 is sent as UTF-8.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "edit/similar_names.h"
#include "file.h"
#include "filekind.h"
#include "io.h"
#include "line_scan.h"
#include "text.h"
#include "banned.h"

#define LINES_DEFAULT  2000u
#define BYTES_DEFAULT  (64u << 10)
#define BYTES_MAX      (512u << 10) /* of lines; they are held until all are found */
#define CHARACTERS_MAX 2000u        /* of one line */
#define UTF16_MAX      (16u << 20)  /* bytes of a file that is converted */

/* One file that was opened. */
struct lines_call {
    struct file_call *c;
    int fd;
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
            return error_errno(err, -r, "the reader went away");
        offset += piece;
    }
    return lines_answer_kind(f);
}

/* The lines of a copy in UTF-8. */
static int lines_answer_utf16(struct lines_call *f, struct error *err)
{
    _cleanup_buf_ struct buf raw = BUF_INIT(UTF16_MAX), text = BUF_INIT(2 * (size_t)UTF16_MAX);
    int r = io_read_all(f->fd, &raw);
    if (r == -ENOBUFS)
        return lines_answer_kind(f);
    if (r >= 0)
        r = utf16_append(&text, raw.data, raw.len, f->kind == FILEKIND_UTF16BE);
    if (r < 0)
        return file_error(f->c, -r, f->c->path, err);
    f->source = (struct line_source){.fd = -1, .text = text.data, .size = text.len};
    return lines_answer_text(f, err);
}

int file_lines(struct file_call *c, struct error *err)
{
    static uint8_t block[LINE_SOURCE_BLOCK];
    _cleanup_fd_ int fd = -1;
    struct lines_call f = {.c = c, .name = "text"};
    const uint8_t *head = NULL;
    int r = file_open_regular(c, &fd, &f.st, err);
    if (r < 0)
        return similar_names_explain(c, r, err);
    f.fd = fd;
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
    case FILEKIND_UTF16BE:
        return lines_answer_utf16(&f, err);
    default:
        return lines_answer_text(&f, err);
    }
}
