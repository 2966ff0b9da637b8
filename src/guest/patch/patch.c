#include <errno.h>
#include <limits.h>

#include "patch.h"
#include "banned.h"

#define FUZZ_DEFAULT 2u
#define STRIP_MAX    64u
#define LINES_SENT   40u  /* of the expected lines, and of those found */
#define LINE_SENT    500u /* bytes of one of them */
#define HEADER_SENT  200u

static void send_lines(struct buf *out, uint16_t key, const struct text_line *lines, size_t from,
                       size_t n)
{
    for (size_t i = from; i < from + n && i < from + LINES_SENT; i++) {
        const struct text_line *line = &lines[i];
        size_t size = line->size;
        while (size && strchr("\r\n", line->text[size - 1]) && line->text[size - 1])
            size--;
        wire_put(out, key, line->text, size < LINE_SENT ? size : LINE_SENT);
    }
}

static void send_reject(void *data, const struct patch_reject *r)
{
    struct file_call *c = data;
    const struct hunk_nearest *near = &r->near;
    size_t at = wire_begin(&c->out, WIRE_ENTRY);
    wire_put(&c->out, WIRE_K_PATH, r->path, strnlen(r->path, PATH_MAX));
    wire_put_str(&c->out, WIRE_K_TEXT, r->reason);
    if (r->hunk) {
        size_t n = r->header.size < HEADER_SENT ? r->header.size : HEADER_SENT;
        wire_put_u64(&c->out, WIRE_K_HUNK, r->hunk);
        wire_put(&c->out, WIRE_K_HEADER, r->header.at, n);
    }
    if (near->line)
        wire_put_u64(&c->out, WIRE_K_LINE, near->line);
    if (r->want)
        send_lines(&c->out, WIRE_K_EXPECTED, r->want, near->expected, near->n_expected);
    if (r->file)
        send_lines(&c->out, WIRE_K_FOUND, r->file->lines, near->found, near->n_found);
    wire_end(&c->out, at);
    file_send(c);
}

static int send_outcome(struct file_call *c, const struct patch_outcome *o)
{
    size_t at = wire_begin(&c->out, WIRE_ENTRY);
    wire_put_str(&c->out, WIRE_K_PATH, o->path);
    wire_put_u64(&c->out, WIRE_K_KIND, o->kind);
    if (o->from)
        wire_put_str(&c->out, WIRE_K_FROM, o->from);
    wire_put_u64(&c->out, WIRE_K_HUNKS, o->hunks);
    wire_put_u64(&c->out, WIRE_K_SHIFT, (uint64_t)o->offset);
    wire_put_u64(&c->out, WIRE_K_FUZZ, o->fuzz);
    wire_put_u64(&c->out, WIRE_K_ADDED, o->added);
    wire_put_u64(&c->out, WIRE_K_REMOVED, o->removed);
    wire_end(&c->out, at);
    return file_send(c);
}

int patch_serve(struct file_call *c, struct error *err)
{
    _cleanup_buf_ struct buf diff = BUF_INIT(DIFF_SIZE_MAX);
    _cleanup_plan_ struct plan p = {0};
    const struct wire_frame *q = &c->request;
    uint64_t strip = wire_find_u64(q, WIRE_K_STRIP, UINT64_MAX),
             fuzz = wire_find_u64(q, WIRE_K_FUZZ, FUZZ_DEFAULT);
    struct patch_options o = {
        .strip = strip <= STRIP_MAX ? (int)strip : -1,
        .root = c->root_path,
        .fuzz = (unsigned)(fuzz < PLACE_FUZZ_MAX ? fuzz : PLACE_FUZZ_MAX),
        .reverse = wire_find_u64(q, WIRE_K_REVERSE, 0),
        .ignore_space = wire_find_u64(q, WIRE_K_SPACE, 0),
    };
    bool check = wire_find_u64(q, WIRE_K_CHECK, 0);
    int r = file_receive(c, &diff);
    if (r == -ENOBUFS)
        return error_set(err, E2BIG,
                         "nothing was changed: the diff is larger than %u MiB: apply it in parts",
                         DIFF_SIZE_MAX >> 20);
    if (r < 0)
        return error_errno(err, -r, "nothing was changed: receiving the diff");
    if (strip != UINT64_MAX && strip > STRIP_MAX)
        return error_set(err, EINVAL, "at most %u components of a name can be stripped", STRIP_MAX);

    int result = plan_make(c->root, diff.data, diff.len, &o, send_reject, c, &p, err);
    if (result < 0 && result != -ENOENT)
        return error_wrap(err, "nothing was changed");
    if (result >= 0 && !check) {
        r = commit_run(&p.tree, err);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < p.count && result >= 0; i++) {
        r = send_outcome(c, &p.outcomes[i]);
        if (r < 0)
            return error_errno(err, -r, "sending the result");
    }
    size_t at = wire_begin(&c->out, WIRE_RESULT);
    if (result < 0)
        wire_put_u64(&c->out, WIRE_K_CODE, ENOENT);
    wire_put_u64(&c->out, WIRE_K_COUNT, result < 0 ? p.rejects : p.count);
    const char *notes = (const char *)p.tree.notes.data;
    for (size_t i = 0; result >= 0 && i < p.tree.notes.len; i += strlen(notes + i) + 1)
        wire_put_str(&c->out, WIRE_K_NOTE, notes + i);
    wire_end(&c->out, at);
    return 0;
}
