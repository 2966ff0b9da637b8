#include <errno.h>
#include <limits.h>
#include <string.h>

#include "patch.h"
#include "plan.h"
#include "banned.h"

#define FUZZ_DEFAULT 2u
#define STRIP_MAX    64u
#define LINES_SENT   40u  /* of what was expected, and of what was found */
#define LINE_SENT    500u /* bytes of one of them */
#define HEADER_SENT  200u

static void put_lines(struct buf *out, uint16_t key, const struct text_line *lines, size_t from,
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

static void send_reject(void *data, const struct plan_reject *r)
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
        put_lines(&c->out, WIRE_K_EXPECTED, r->want, near->expected, near->n_expected);
    if (r->file)
        put_lines(&c->out, WIRE_K_FOUND, r->file->lines, near->found, near->n_found);
    wire_end(&c->out, at);
    file_send(c);
}

static int send_outcomes(struct file_call *c, const struct plan *p)
{
    for (size_t i = 0; i < p->count; i++) {
        const struct plan_outcome *o = &p->outcomes[i];
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
        int r = file_send(c);
        if (r < 0)
            return r;
    }
    return 0;
}

static void put_result(struct file_call *c, int code, size_t count, const struct buf *notes)
{
    size_t at = wire_begin(&c->out, WIRE_RESULT);
    if (code)
        wire_put_u64(&c->out, WIRE_K_CODE, (uint64_t)code);
    wire_put_u64(&c->out, WIRE_K_COUNT, count);
    for (size_t i = 0; notes && i < notes->len; i += strlen((const char *)notes->data + i) + 1)
        wire_put_str(&c->out, WIRE_K_NOTE, (const char *)notes->data + i);
    wire_end(&c->out, at);
}

static int apply_diff(struct file_call *c, const struct buf *diff, const struct plan_options *o,
                      bool check, struct error *err)
{
    _cleanup_plan_ struct plan p = {0};
    size_t rejects = 0;
    int r = plan_make(diff->data, diff->len, o, file_source_on_disk(&c->root), send_reject, c, &p,
                      &rejects, err);
    if (r == -ENOENT) {
        put_result(c, ENOENT, rejects, NULL);
        return 0;
    }
    if (r < 0)
        return error_wrap(err, "nothing was changed");
    if (!check)
        r = commit_run(c->root, &p.tree, err);
    if (r < 0)
        return r;
    r = send_outcomes(c, &p);
    if (r < 0)
        return error_errno(err, -r, "the reader went away");
    put_result(c, 0, p.count, &p.tree.notes);
    return 0;
}

int patch_serve(struct file_call *c, struct error *err)
{
    _cleanup_buf_ struct buf diff = BUF_INIT(DIFF_SIZE_MAX);
    const struct wire_frame *q = &c->request;
    uint64_t strip = wire_find_u64(q, WIRE_K_STRIP, UINT64_MAX),
             fuzz = wire_find_u64(q, WIRE_K_FUZZ, FUZZ_DEFAULT);
    struct plan_options o = {
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
    return apply_diff(c, &diff, &o, check, err);
}
