#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "edit.h"
#include "edit_answer.h"
#include "explain.h"
#include "filekind.h"
#include "io.h"
#include "similar.h"
#include "banned.h"

struct job {
    struct file_call *c;
    struct buf texts; /* old and new of each edit, one behind the other */
    struct edit edits[EDIT_COUNT_MAX];
    size_t count;
    struct stat st;
    struct buf before, after;
    struct edit_done done;
};

static void job_free(struct job *j)
{
    buf_free(&j->texts);
    buf_free(&j->before);
    buf_free(&j->after);
}

/* The sizes of all texts. The request is gone once further frames are read. */
static int read_sizes(struct job *j)
{
    struct wire_field f;
    size_t at = 0;
    uint64_t old_size = 0;
    while (wire_next(&j->c->request, &at, &f)) {
        uint64_t number = wire_u64(&f, 0);
        if (f.key == WIRE_K_OLD_SIZE)
            old_size = number;
        if (f.key == WIRE_K_ALL && j->count > 0)
            j->edits[j->count - 1].all = number != 0;
        if (f.key != WIRE_K_NEW_SIZE)
            continue;
        if (j->count == EDIT_COUNT_MAX)
            return -E2BIG;
        j->edits[j->count++] = (struct edit){.old = {.n = old_size}, .new = {.n = number}};
        old_size = 0;
    }
    return j->count ? 0 : -EINVAL;
}

/* Finds the next text among what was received. */
static int take_text(struct job *j, size_t *used, struct bytes *ret)
{
    if (ret->n > j->texts.len - *used)
        return -EINVAL;
    ret->data = j->texts.data + *used;
    *used += ret->n;
    return 0;
}

static int find_texts(struct job *j)
{
    size_t used = 0;
    for (size_t i = 0; i < j->count; i++)
        if (take_text(j, &used, &j->edits[i].old) < 0 || take_text(j, &used, &j->edits[i].new) < 0)
            return -EINVAL;
    return used == j->texts.len ? 0 : -EINVAL;
}

/* Refuses an edit that means nothing. */
static int check_edit(const struct edit *e, struct error *err)
{
    if (e->old.n == 0)
        return error_set(err, EINVAL, "`old` is empty: write_file writes a whole file");
    if (bytes_same(e->old, e->new))
        return error_set(err, EINVAL, "`old` and `new` are the same: there is nothing to change");
    return 0;
}

static int check_edits(struct job *j, struct error *err)
{
    for (size_t i = 0; i < j->count; i++) {
        int r = check_edit(&j->edits[i], err);
        if (r < 0)
            return j->count == 1 ? r : error_wrap(err, "edit %zu of %zu", i + 1, j->count);
    }
    return 0;
}

static int receive(struct job *j, struct error *err)
{
    int sizes = read_sizes(j), r = file_receive(j->c, &j->texts);
    if (r == -ENOBUFS)
        return error_set(err, E2BIG, "the texts of the edits have more than %u MiB",
                         EDIT_DATA_MAX >> 20);
    if (r < 0)
        return error_errno(err, -r, "the edits did not come whole");
    if (sizes == -E2BIG)
        return error_set(err, E2BIG, "more than %u edits in one request", EDIT_COUNT_MAX);
    if (sizes < 0 || find_texts(j) < 0)
        return error_set(err, EINVAL, "the edits are malformed");
    return check_edits(j, err);
}

static int read_whole(struct job *j, struct error *err)
{
    _cleanup_fd_ int fd = -1;
    const char *name;
    int r = file_open_regular(j->c, &fd, &j->st, err);
    if (r < 0)
        return similar_explain(j->c, r, err);
    r = io_read_all(fd, &j->before);
    if (r == -ENOBUFS)
        return error_set(err, EFBIG,
                         "%.400s: has more than %u MiB: edit it with a program, in bash",
                         j->c->path, MATCH_TEXT_MAX >> 20);
    if (r < 0)
        return file_error(j->c, -r, j->c->path, err);
    enum filekind kind =
        j->before.len ? filekind_of(j->before.data, j->before.len, &name) : FILEKIND_TEXT;
    if (kind == FILEKIND_UTF16LE || kind == FILEKIND_UTF16BE)
        return error_set(err, EILSEQ,
                         "%.400s: is UTF-16, which is not edited: convert it with iconv, in bash",
                         j->c->path);
    return 0;
}

static struct bytes bytes_of(const struct buf *b)
{
    return (struct bytes){b->data, b->len};
}

/* Makes one edit after the other, each in what the one before it left. */
static int make_edits(struct job *j)
{
    struct bytes text = bytes_of(&j->before);
    struct edit_done *d = &j->done;
    for (size_t i = 0; i < j->count; i++) {
        struct buf next = BUF_INIT(MATCH_TEXT_MAX);
        d->failed = i + 1;
        int r = match_apply(text, &j->edits[i], &next, &d->match);
        if (r < 0) {
            buf_free(&next);
            if (r == -ENOENT)
                explain_missing(text, &j->edits[i], &d->why, &d->place);
            return r;
        }
        d->replaced += d->match.count;
        d->endings |= d->match.endings;
        buf_free(&j->after);
        j->after = next;
        text = bytes_of(&j->after);
    }
    d->failed = 0;
    return 0;
}

static int work(struct job *j, struct error *err)
{
    struct edit_done *d = &j->done;
    int r = receive(j, err);
    if (r >= 0)
        r = read_whole(j, err);
    if (r < 0)
        return r;
    d->count = j->count;
    r = make_edits(j);
    if (r == -ENOENT || r == -ENOTUNIQ)
        return edit_answer_refused(j->c, d, r);
    if (r == -E2BIG)
        return error_set(err, EFBIG, "%.400s: would have more than %u MiB", j->c->path,
                         MATCH_TEXT_MAX >> 20);
    if (r < 0)
        return error_errno(err, -r, "%.400s", j->c->path);
    r = bytes_same(bytes_of(&j->before), bytes_of(&j->after))
            ? 0
            : edit_swap(j->c, j->st.st_mode, bytes_of(&j->before), bytes_of(&j->after), err);
    if (r == -EBUSY || r == -ETXTBSY)
        return edit_answer_refused(j->c, d, r);
    if (r < 0)
        return r;
    return edit_answer_done(j->c, d, bytes_of(&j->before), bytes_of(&j->after));
}

int file_edit(struct file_call *c, struct error *err)
{
    static struct job j;
    j = (struct job){.c = c,
                     .texts = BUF_INIT(EDIT_DATA_MAX),
                     .before = BUF_INIT(MATCH_TEXT_MAX),
                     .after = BUF_INIT(MATCH_TEXT_MAX),
                     .done = {.why = BUF_INIT(EXPLAIN_MAX)}};
    int r = work(&j, err);
    buf_free(&j.done.why);
    job_free(&j);
    return r;
}
