#include <errno.h>
#include <inttypes.h>

#include "edit_answer.h"
#include "linediff.h"
#include "utf8.h"
#include "banned.h"

#define DIFF_MAX   (32u << 10)
#define LINE_MAX_N 2000u /* bytes of a line in the diff */

/* One piece of the diff, which is a whole line unless it is the sign before one. */
static int take_piece(void *data, const void *bytes, size_t n)
{
    struct buf *diff = data;
    const uint8_t *s = bytes;
    if (diff->len > DIFF_MAX)
        return -ENOBUFS;
    if (n <= LINE_MAX_N)
        return buf_append(diff, s, n);
    size_t kept = LINE_MAX_N - utf8_cut_end(s, LINE_MAX_N);
    buf_append(diff, s, kept);
    return buf_printf(diff, " … [%zu more bytes in this line]%s", n - kept,
                      s[n - 1] == '\n' ? "\n" : "");
}

/* The diff as far as it goes: true if it was cut, at the end of a line. */
static bool make_diff(struct bytes before, struct bytes after, struct buf *diff, uint64_t *ret_line)
{
    struct linediff d;
    if (linediff_make(before.data, before.n, after.data, after.n, &d) < 0)
        return true;
    *ret_line = d.count ? d.skipped + d.changes[0].b_line + 1 : 0;
    bool cut = linediff_print(&d, take_piece, diff) < 0;
    linediff_free(&d);
    while (cut && diff->len && diff->data[diff->len - 1] != '\n')
        diff->len--;
    return cut;
}

int edit_answer_done(struct file_call *c, const struct edit_done *d, struct bytes before,
                     struct bytes after)
{
    _cleanup_buf_ struct buf diff = BUF_INIT(DIFF_MAX + 4 * LINE_MAX_N);
    uint64_t line = 0;
    bool cut = make_diff(before, after, &diff, &line);
    if (diff.len) {
        size_t at = wire_begin(&c->out, WIRE_DATA);
        wire_put(&c->out, WIRE_K_DATA, diff.data, diff.len);
        wire_end(&c->out, at);
    }
    size_t at = wire_begin(&c->out, WIRE_RESULT);
    wire_put_u64(&c->out, WIRE_K_COUNT, d->replaced);
    wire_put_u64(&c->out, WIRE_K_SIZE, after.n);
    if (line)
        wire_put_u64(&c->out, WIRE_K_LINE, line);
    if (cut)
        wire_put_u64(&c->out, WIRE_K_TOO_MANY, 1);
    if (d->endings)
        wire_put_u64(&c->out, WIRE_K_ENDINGS, WIRE_ENDS_CRLF);
    wire_end(&c->out, at);
    return 0;
}

static void say_several(const struct match *m, struct buf *why)
{
    uint64_t shown = m->count < MATCH_SHOWN ? m->count : MATCH_SHOWN;
    buf_printf(why, "`old` is there %" PRIu64 " times, at lines", m->count);
    for (uint64_t i = 0; i < shown; i++)
        buf_printf(why, "%s %" PRIu64, i == 0 ? "" : i + 1 == m->count ? " and" : ",", m->line[i]);
    buf_append_str(why, shown < m->count ? " and further on" : "");
    buf_append_str(
        why, ". Add lines around it until it is unique, or set `all` to replace every one.\n");
}

static void put_places(struct buf *out, const struct edit_done *d, int r)
{
    if (r == -ENOTUNIQ) {
        wire_put_u64(out, WIRE_K_COUNT, d->match.count);
        for (uint64_t i = 0; i < d->match.count && i < MATCH_SHOWN; i++)
            wire_put_u64(out, WIRE_K_LINE, d->match.line[i]);
    } else if (r == -ENOENT && d->place.count) {
        wire_put_u64(out, WIRE_K_LINE, d->place.line);
        wire_put_u64(out, WIRE_K_LINES, d->place.count);
    }
}

static void say_why(struct buf *text, struct edit_done *d, int r)
{
    if (r == -EBUSY) {
        buf_append_str(
            text,
            "was changed by somebody else while it was edited; nothing was changed by this call."
            " Read it again.\n");
        return;
    }
    if (r == -ETXTBSY) {
        buf_append_str(text, "another process has it open for writing, and what that writes would "
                             "be lost; nothing was"
                             " changed. Try again, or end that process.\n");
        return;
    }
    if (d->count > 1)
        buf_printf(text, "edit %zu of %zu cannot be made, so none was. ", d->failed, d->count);
    if (r == -ENOTUNIQ)
        say_several(&d->match, &d->why);
    else
        buf_append_str(text, "`old` is nowhere in the file; nothing was changed.\n");
    buf_append(text, d->why.data, d->why.len);
}

int edit_answer_refused(struct file_call *c, struct edit_done *d, int r)
{
    _cleanup_buf_ struct buf text = BUF_INIT(EXPLAIN_MAX + 1024);
    bool about_an_edit = r == -ENOENT || r == -ENOTUNIQ;
    buf_printf(&text, "%.400s: ", c->path);
    say_why(&text, d, r);
    size_t at = wire_begin(&c->out, WIRE_RESULT);
    wire_put_u64(&c->out, WIRE_K_CODE, (uint64_t)-r);
    wire_put_u64(&c->out, WIRE_K_REASON,
                 r == -ENOENT     ? WIRE_NOT_FOUND
                 : r == -ENOTUNIQ ? WIRE_NOT_UNIQUE
                 : r == -EBUSY    ? WIRE_CHANGED
                                  : WIRE_BEING_WRITTEN);
    if (about_an_edit)
        wire_put_u64(&c->out, WIRE_K_FAILED_EDIT, d->failed);
    wire_put(&c->out, WIRE_K_TEXT, text.data, text.len);
    put_places(&c->out, d, r);
    wire_end(&c->out, at);
    return 0;
}
