#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#include "edit.h"
#include "filekind.h"
#include "io.h"
#include "linediff.h"
#include "sys.h"
#include "text.h"
#include "../diff/content.h"
#include "banned.h"

#define TEXTS_MAX     (16u << 20) /* bytes of all texts of a request */
#define COUNT_MAX     100u
#define DIFF_MAX      (32u << 10)
#define DIFF_LINE_MAX 2000u
#define PUT_BACK_MAX  100000

struct edit_job {
    struct file_call *c;
    struct buf texts; /* old and new of each edit, one behind the other */
    struct edit edits[COUNT_MAX];
    size_t count;
    struct stat st;
    struct buf before, after;
    size_t failed;     /* the edit that is being made, or could not be made, from 1 */
    uint64_t replaced; /* places, of all edits */
    bool endings;      /* line endings were adapted to those of the file */
    struct edit_match match;
    struct line_range nearest;
    struct buf why;
};

static struct span span_of(const struct buf *b)
{
    return (struct span){b->data, b->len};
}

static int edit_receive(struct edit_job *j, struct error *err)
{
    struct wire_field f;
    size_t at = 0, used = 0;
    uint64_t old_size = 0;
    bool many = false, malformed = false;
    /* The sizes of all texts: the request is gone once further frames are read. */
    while (wire_next(&j->c->request, &at, &f)) {
        uint64_t number = wire_u64(&f, 0);
        if (f.key == WIRE_K_OLD_SIZE)
            old_size = number;
        else if (f.key == WIRE_K_ALL && j->count > 0)
            j->edits[j->count - 1].all = number != 0;
        else if (f.key == WIRE_K_NEW_SIZE && j->count == COUNT_MAX)
            many = true;
        else if (f.key == WIRE_K_NEW_SIZE)
            j->edits[j->count++] = (struct edit){.old = {.n = old_size}, .new = {.n = number}};
    }
    int r = file_receive(j->c, &j->texts, -1, NULL);
    if (r == -ENOBUFS)
        return error_set(err, E2BIG, "the texts of the edits have more than %u MiB",
                         TEXTS_MAX >> 20);
    if (r < 0)
        return error_errno(err, -r, "receiving the edits");
    if (many)
        return error_set(err, E2BIG, "more than %u edits in one request", COUNT_MAX);

    for (size_t i = 0; i < 2 * j->count && !malformed; i++) {
        struct span *text = i % 2 ? &j->edits[i / 2].new : &j->edits[i / 2].old;
        malformed = text->n > j->texts.len - used;
        text->data = j->texts.data + used;
        used += text->n;
    }
    if (malformed || used != j->texts.len || j->count == 0)
        return error_set(err, EINVAL, "the edits are malformed");
    for (size_t i = 0; i < j->count; i++) {
        const struct edit *e = &j->edits[i];
        if (e->old.n == 0)
            r = error_set(err, EINVAL, "`old` is empty: write_file writes a whole file");
        else if (span_same(e->old, e->new))
            r = error_set(err, EINVAL, "`old` and `new` are the same: there is nothing to change");
        if (r < 0)
            return j->count == 1 ? r : error_wrap(err, "edit %zu of %zu", i + 1, j->count);
    }
    return 0;
}

/* 0 if the file of that name is still what was read; -EBUSY if not; -ETXTBSY if another process has
 * it open for writing: what it writes later would be lost. The kernel grants a read lease only if
 * no process has. While *ret_fd is open, a process that opens the file for writing waits, and no
 * further lease is granted. */
static int edit_check_unchanged(int dir, const char *name, struct span before, int *ret_fd)
{
    struct stat st;
    int fd = *ret_fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return -EBUSY;
    if (fcntl(fd, F_SETLEASE, F_RDLCK) < 0 && errno == EAGAIN)
        return -ETXTBSY;
    /* Its times are too coarse to tell. */
    return content_holds(fd, before.data, before.n) ? 0 : -EBUSY;
}

/* Puts the new file in the place of the old one. The kernel cannot exchange on the condition that a
 * name still is a certain file, so what came out is checked again. Some filesystems cannot exchange
 * at all; there the check before must suffice. */
static int edit_exchange(const struct write_target *p, const char *temporary, struct span before)
{
    _cleanup_fd_ int old = -1, out = -1;
    struct stat in_place, waits, came;
    int r = edit_check_unchanged(p->dir, p->name, before, &old);
    if (r < 0)
        return r;
    if (fstatat(p->dir, temporary, &in_place, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (sys_renameat2(p->dir, temporary, p->dir, p->name, RENAME_EXCHANGE) < 0) {
        if (errno != EINVAL && errno != ENOSYS)
            return errno == ENOENT ? -EBUSY : -errno;
        return sys_renameat2(p->dir, temporary, p->dir, p->name, 0) < 0 ? -errno : 0;
    }
    r = edit_check_unchanged(p->dir, temporary, before, &out);
    if (r == 0)
        return unlinkat(p->dir, temporary, 0) < 0 ? -errno : 0;

    /* Exchange back until what comes out is what was put in place: if another process has put a
     * newer file there since, that one must stay. */
    for (int i = 0; i < PUT_BACK_MAX; i++) {
        if (fstatat(p->dir, temporary, &waits, AT_SYMLINK_NOFOLLOW) < 0)
            return -errno;
        if (sys_renameat2(p->dir, temporary, p->dir, p->name, RENAME_EXCHANGE) == 0) {
            if (fstatat(p->dir, temporary, &came, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
            if (came.st_ino == in_place.st_ino)
                return r;
            in_place = waits;
            continue;
        }
        if (errno != ENOENT)
            break;
        /* The name is free now. */
        if (sys_renameat2(p->dir, temporary, p->dir, p->name, RENAME_NOREPLACE) == 0)
            return r;
    }
    return sys_renameat2(p->dir, temporary, p->dir, p->name, 0) < 0 ? -errno : r;
}

static int edit_write_file(struct edit_job *j, struct error *err)
{
    struct file_call *c = j->c;
    _cleanup_write_target_ struct write_target p = WRITE_TARGET_INIT;
    _cleanup_fd_ int fd = -1;
    char temporary[TEMPORARY_NAME_MAX];
    int r = write_target_find(c, &p);
    if (r >= 0 && (r = write_target_need_writable(&p, c->path, err)) < 0)
        return r;
    if (r >= 0)
        r = temporary_open(p.dir, temporary, &fd);
    if (r < 0)
        return file_error(c, -r, c->path, err);
    r = io_write_all(fd, j->after.data, j->after.len);
    if (r >= 0 && fchmod(fd, j->st.st_mode & 07777) < 0)
        r = -errno;
    if (r >= 0)
        r = edit_exchange(&p, temporary, span_of(&j->before));
    if (r < 0)
        unlinkat(p.dir, temporary, 0);
    return r < 0 && r != -EBUSY && r != -ETXTBSY ? file_error(c, -r, c->path, err) : r;
}

/* One piece of the diff, which is a whole line unless it is the sign before one. */
static int edit_take_diff(void *data, const void *bytes, size_t n)
{
    struct buf *diff = data;
    const uint8_t *s = bytes;
    if (diff->len > DIFF_MAX)
        return -ENOBUFS;
    if (n <= DIFF_LINE_MAX)
        return buf_append(diff, s, n);
    size_t kept = DIFF_LINE_MAX - utf8_cut_end(s, DIFF_LINE_MAX);
    buf_append(diff, s, kept);
    return buf_printf(diff, " … [%zu more bytes in this line]%s", n - kept,
                      s[n - 1] == '\n' ? "\n" : "");
}

/* The RESULT of what was changed, with the diff in a DATA frame before it. */
static int edit_answer_done(struct edit_job *j)
{
    struct buf *out = &j->c->out;
    _cleanup_buf_ struct buf diff = BUF_INIT(DIFF_MAX + 4 * DIFF_LINE_MAX);
    struct linediff d;
    uint64_t line = 0;
    bool cut = true;
    if (linediff_make(j->before.data, j->before.len, j->after.data, j->after.len, &d) >= 0) {
        line = d.count ? d.skipped + d.changes[0].b_line + 1 : 0;
        cut = linediff_print(&d, edit_take_diff, &diff) < 0;
        linediff_free(&d);
    }
    while (cut && diff.len && diff.data[diff.len - 1] != '\n')
        diff.len--;
    if (diff.len)
        file_put_data(out, diff.data, diff.len);
    size_t at = wire_begin(out, WIRE_RESULT);
    wire_put_u64(out, WIRE_K_COUNT, j->replaced);
    wire_put_u64(out, WIRE_K_SIZE, j->after.len);
    if (line)
        wire_put_u64(out, WIRE_K_LINE, line);
    if (cut)
        wire_put_u64(out, WIRE_K_TOO_MANY, 1);
    if (j->endings)
        wire_put_u64(out, WIRE_K_ENDINGS, WIRE_ENDS_CRLF);
    wire_end(out, at);
    return 0;
}

/* The RESULT of a refusal: r is -ENOENT, -ENOTUNIQ, -EBUSY or -ETXTBSY. */
static int edit_answer_refused(struct edit_job *j, int r)
{
    struct buf *out = &j->c->out;
    _cleanup_buf_ struct buf text = BUF_INIT(EDIT_EXPLAIN_MAX + 1024);
    const struct edit_match *m = &j->match;
    uint64_t shown = m->count < EDIT_PLACES_MAX ? m->count : EDIT_PLACES_MAX;
    bool about_an_edit = r == -ENOENT || r == -ENOTUNIQ;
    uint64_t reason = WIRE_NOT_FOUND;
    buf_printf(&text, "%.400s: ", j->c->path);
    if (about_an_edit && j->count > 1)
        buf_printf(&text, "edit %zu of %zu does not apply, so no edit was made. ", j->failed,
                   j->count);
    if (r == -EBUSY) {
        reason = WIRE_CHANGED;
        buf_append_str(&text, "another process changed it while it was edited; nothing was changed "
                              "by this call. Read it again.\n");
    } else if (r == -ETXTBSY) {
        reason = WIRE_BEING_WRITTEN;
        buf_append_str(&text, "another process has it open for writing, and what it writes would "
                              "be lost; nothing was changed. Try again, or end that process.\n");
    } else if (r == -ENOTUNIQ) {
        reason = WIRE_NOT_UNIQUE;
        buf_printf(&text, "`old` occurs %" PRIu64 " times, at lines", m->count);
        for (uint64_t i = 0; i < shown; i++)
            buf_printf(&text, "%s %" PRIu64,
                       i == 0              ? ""
                       : i + 1 == m->count ? " and"
                                           : ",",
                       m->line[i]);
        buf_printf(
            &text,
            "%s. Add lines around it until it is unique, or set `all` to replace all of them.\n",
            shown < m->count ? " and more" : "");
    } else {
        buf_append_str(&text, "`old` is not in the file; nothing was changed.\n");
        buf_append(&text, j->why.data, j->why.len);
    }
    size_t at = wire_begin(out, WIRE_RESULT);
    wire_put_u64(out, WIRE_K_CODE, (uint64_t)-r);
    wire_put_u64(out, WIRE_K_REASON, reason);
    if (about_an_edit)
        wire_put_u64(out, WIRE_K_FAILED_EDIT, j->failed);
    wire_put(out, WIRE_K_TEXT, text.data, text.len);
    if (r == -ENOTUNIQ) {
        wire_put_u64(out, WIRE_K_COUNT, m->count);
        for (uint64_t i = 0; i < shown; i++)
            wire_put_u64(out, WIRE_K_LINE, m->line[i]);
    } else if (r == -ENOENT && j->nearest.count) {
        wire_put_u64(out, WIRE_K_LINE, j->nearest.line);
        wire_put_u64(out, WIRE_K_LINES, j->nearest.count);
    }
    wire_end(out, at);
    return 0;
}

/* Runs in a worker process: what it allocates ends with that. */
int file_edit(struct file_call *c, struct error *err)
{
    static struct edit_job j;
    _cleanup_fd_ int fd = -1;
    const char *name;
    j = (struct edit_job){.c = c,
                          .texts = BUF_INIT(TEXTS_MAX),
                          .before = BUF_INIT(EDIT_TEXT_MAX),
                          .after = BUF_INIT(EDIT_TEXT_MAX),
                          .why = BUF_INIT(EDIT_EXPLAIN_MAX)};
    int r = edit_receive(&j, err);
    if (r >= 0)
        r = file_open_regular(c, &fd, &j.st, err);
    if (r < 0)
        return r;
    r = io_read_all(fd, &j.before);
    if (r == -ENOBUFS)
        return error_set(err, EFBIG,
                         "%.400s: has more than %u MiB: edit it with a program, in bash", c->path,
                         EDIT_TEXT_MAX >> 20);
    if (r < 0)
        return file_error(c, -r, c->path, err);
    enum filekind kind =
        j.before.len ? filekind_of(j.before.data, j.before.len, &name) : FILEKIND_TEXT;
    if (kind == FILEKIND_UTF16LE || kind == FILEKIND_UTF16BE)
        return error_set(err, EILSEQ,
                         "%.400s: is UTF-16, which edit_file does not edit: convert it with iconv, "
                         "in bash",
                         c->path);

    /* One edit after the other, each in what the one before it left. */
    struct span before = span_of(&j.before), text = before;
    for (j.failed = 1; j.failed <= j.count; j.failed++) {
        const struct edit *e = &j.edits[j.failed - 1];
        struct buf next = BUF_INIT(EDIT_TEXT_MAX);
        r = edit_apply(text, e, &next, &j.match);
        if (r == -ENOENT)
            edit_explain(text, e, &j.why, &j.nearest);
        if (r == -ENOENT || r == -ENOTUNIQ)
            return edit_answer_refused(&j, r);
        if (r == -E2BIG)
            return error_set(err, EFBIG, "%.400s: would have more than %u MiB", c->path,
                             EDIT_TEXT_MAX >> 20);
        if (r < 0)
            return error_errno(err, -r, "%.400s", c->path);
        j.replaced += j.match.count;
        j.endings |= j.match.endings;
        buf_free(&j.after);
        j.after = next;
        text = span_of(&j.after);
    }
    if (!span_same(before, text))
        r = edit_write_file(&j, err);
    if (r == -EBUSY || r == -ETXTBSY)
        return edit_answer_refused(&j, r);
    return r < 0 ? r : edit_answer_done(&j);
}
