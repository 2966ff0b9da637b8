/* The content of one file: its hunks or its binary patch put into what is there. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "binary.h"
#include "buf.h"
#include "match.h"
#include "work.h"
#include "../diff/blob.h"
#include "banned.h"

/* What the callback of place.h needs. */
struct telling {
    struct work *work;
    const struct diff_file *file;
    const char *path;
    const struct image *img;
};

static void describe(const struct place_failure *f, char *text, size_t size)
{
    switch (f->why) {
    case PLACE_APPLIED:
        snprintf(text, size, "its result is already in the file: it seems to be applied");
        break;
    case PLACE_ELSEWHERE:
        snprintf(text, size,
                 "its lines are at line %zu, but by its header or its missing context it belongs "
                 "at the %s of the "
                 "file; give the lines around the change as context",
                 f->line, f->hunk->old_line <= 1 ? "start" : "end");
        break;
    case PLACE_BEHIND:
        snprintf(text, size,
                 "its lines are at line %zu, above or within an earlier hunk of this diff: hunks "
                 "must be in order "
                 "and not overlap",
                 f->line);
        break;
    case PLACE_SPACE:
        snprintf(text, size,
                 "at line %zu only blanks at the ends of lines, line ends (CRLF or LF) or a "
                 "missing last newline "
                 "differ: correct them, or set ignore_whitespace",
                 f->line);
        break;
    case PLACE_SEVERAL:
        snprintf(
            text, size,
            "it matches at several places, or has no context, and its @@ line has no line numbers: "
            "add context or numbers");
        break;
    case PLACE_COSTLY:
        snprintf(text, size, "the search for its place was given up after too many comparisons");
        break;
    case PLACE_NOWHERE:
        snprintf(text, size, "the lines that it expects are not in the file");
        break;
    }
}

static void tell(void *data, const struct place_failure *f)
{
    const struct telling *t = data;
    struct work *w = t->work;
    char reason[256];
    struct hunk_lines p = {0};
    struct plan_reject reject = {
        .path = t->path, .hunk = f->number, .header = f->hunk->header, .reason = reason};
    if (w->plan->rejects++ >= PLAN_REPORTS_MAX)
        return;
    describe(f, reason, sizeof reason);
    if (hunk_lines_make(&w->plan->diff, t->file, &p) < 0)
        return;
    hunk_lines_set(&p, &w->plan->diff, f->hunk);
    size_t guess = f->line ? f->line - 1 : f->hunk->old_line ? f->hunk->old_line - 1 : 0;
    if (f->why == PLACE_NOWHERE || f->why == PLACE_SPACE)
        nearest_find(t->img, p.old, p.n_old, guess, &reject.near);
    else
        reject.near.line = f->line;
    reject.img = t->img;
    reject.want = p.old;
    w->reject(w->data, &reject);
    hunk_lines_free(&p);
}

static int too_large(struct work *w, const char *path, int r, struct error *err)
{
    if (r == -E2BIG)
        return work_reject(
            w, path, "it has too many lines, or the files of this diff are too large together");
    if (r == -ENOBUFS || r == -EFBIG)
        return work_reject(w, path, "the patched file would be larger than 64 MiB");
    return error_errno(err, -r, "patching %.400s", path);
}

static int put_hunks(struct work *w, const struct diff_file *f, const char *path,
                     struct work_content old, struct work_content *ret,
                     struct plan_outcome *outcome, struct error *err)
{
    struct image img = {0};
    struct buf out = BUF_INIT(WORLD_FILE_MAX);
    struct place_result result;
    struct telling telling = {w, f, path, &img};
    struct place_call call = {&w->plan->diff,          f,       w->how, &w->left,
                              w->reject ? tell : NULL, &telling};
    int r = image_split(old.data, old.size, &img);
    if (r >= 0)
        r = place_hunks(&call, &img, &out, &result);
    image_free(&img);
    if (r >= 0 && result.failures == 0)
        r = world_keep(&w->plan->world, TAKE_PTR(out.data), out.len);
    else
        buf_free(&out);
    if (r < 0)
        return too_large(w, path, r, err);
    if (result.failures)
        return -ENOENT;
    *ret = (struct work_content){w->plan->world.made[w->plan->world.n_made - 1], out.len};
    outcome->hunks = f->hunks;
    outcome->offset = result.offset;
    outcome->fuzz = result.fuzz;
    return 0;
}

/* Is this the content that the diff's index line names? */
static bool has_id(struct work_content c, const char *id)
{
    struct blob b = {.mode = 0100644,
                     .size = c.size,
                     .data = (uint8_t *)(c.size ? c.data : (const uint8_t *)""),
                     .fd = -1};
    return blob_make_name(&b) >= 0 && strcmp(b.name, id) == 0;
}

static bool is_no_id(const char *id)
{
    return strspn(id, "0") == strlen(id);
}

/* What the binary patch makes of `old`, as new memory. */
static int decode(const struct diff_file *f, struct work_content old, uint8_t **ret,
                  size_t *ret_size)
{
    _cleanup_free_ uint8_t *data = NULL;
    size_t size;
    int r = binary_decode(&f->forward, &data, &size);
    if (r < 0)
        return r;
    if (f->forward.form == DIFF_BINARY_DELTA)
        return binary_follow(old.data, old.size, data, size, ret, ret_size);
    *ret = TAKE_PTR(data);
    *ret_size = size;
    return 0;
}

/* As git, only onto the very content that it was made for. */
static int put_binary(struct work *w, const struct diff_file *f, const char *path,
                      struct work_content old, struct work_content *ret, struct error *err)
{
    uint8_t *data;
    size_t size;
    if (strlen(f->old_id) != BLOB_NAME - 1 || strlen(f->new_id) != BLOB_NAME - 1)
        return work_reject(
            w, path,
            "a binary patch needs an index line with both full SHA-1 names (git diff --binary)");
    if (is_no_id(f->old_id) ? old.size > 0 : !has_id(old, f->old_id))
        return work_reject(w, path,
                           !is_no_id(f->new_id) && has_id(old, f->new_id)
                               ? "its result is already in the file: it seems to be applied"
                               : "the binary patch is for another content than the file has");
    int r = decode(f, old, &data, &size);
    if (r == -EBADMSG)
        return work_reject(w, path, "the binary patch is damaged");
    if (r >= 0)
        r = world_keep(&w->plan->world, data, size);
    if (r < 0)
        return too_large(w, path, r, err);
    struct work_content made = {data, size};
    if (!is_no_id(f->new_id) && !has_id(made, f->new_id))
        return work_reject(
            w, path, "the binary patch is damaged: its result is not what its index line names");
    *ret = made;
    return 0;
}

/* The end of a binary file needs no telling, if the diff names what it held. */
static bool is_told_by_ids(const struct diff_file *f, struct work_content old)
{
    return f->kind == DIFF_DELETE && strlen(f->old_id) == BLOB_NAME - 1 && has_id(old, f->old_id);
}

int work_content(struct work *w, const struct diff_file *f, const char *path,
                 struct work_content old, struct work_content *ret, struct plan_outcome *outcome,
                 struct error *err)
{
    if (f->untold && is_told_by_ids(f, old)) {
        *ret = (struct work_content){0};
        return 0;
    }
    if (f->untold)
        return work_reject(
            w, path, "the diff only says that binary files differ: make it with git diff --binary");
    if (f->binary)
        return put_binary(w, f, path, old, ret, err);
    if (f->hunks > 0)
        return put_hunks(w, f, path, old, ret, outcome, err);
    *ret = old;
    return 0;
}
