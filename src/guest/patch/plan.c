#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "buf.h"
#include "plan.h"
#include "../diff/blob.h"
#include "banned.h"

struct planner {
    struct plan *plan;
    const struct plan_options *options;
    struct place_options how;
    uint64_t work;                                           /* comparisons that are left */
    void (*reject)(void *data, const struct plan_reject *r); /* NULL: nothing is reported */
    void *data;
};

struct content {
    const uint8_t *data;
    size_t size;
};

/* One part of the diff: what it starts from, and where it goes. */
struct part {
    struct planner *pl;
    const struct diff_file *f;
    struct worktree_file *old, *new;
    enum diff_kind kind;
    struct content from;
    mode_t from_mode, base; /* git's mode of it, and its permission bits */
};

void plan_free(struct plan *p)
{
    worktree_free(&p->tree);
    diff_free(&p->diff);
    free(p->outcomes);
    *p = (struct plan){0};
}

/* Reports what is wrong with a file as a whole. */
static int plan_reject(struct planner *pl, const char *path, const char *reason)
{
    if (pl->reject && pl->plan->rejects++ < PLAN_REPORTS_MAX)
        pl->reject(pl->data, &(struct plan_reject){.path = path, .reason = reason});
    return -ENOENT;
}

static void describe_failure(const struct place_failure *f, char *text, size_t size)
{
    switch (f->why) {
    case PLACE_APPLIED:
        snprintf(text, size, "its result is already in the file: it seems to be applied");
        break;
    case PLACE_ELSEWHERE:
        snprintf(text, size,
                 "its lines are at line %zu, but by its header or its missing context it belongs "
                 "at the %s of the file; give the lines around the change as context",
                 f->line, f->hunk->old_line <= 1 ? "start" : "end");
        break;
    case PLACE_BEHIND:
        snprintf(text, size,
                 "its lines are at line %zu, above or within an earlier hunk of this diff: hunks "
                 "must be in order and not overlap",
                 f->line);
        break;
    case PLACE_SPACE:
        snprintf(text, size,
                 "at line %zu only trailing whitespace, line endings (CRLF or LF) or the last "
                 "newline differ: correct them, or set ignore_whitespace",
                 f->line);
        break;
    case PLACE_SEVERAL:
        snprintf(text, size,
                 "it matches at several places, or has no context, and its @@ line has no line "
                 "numbers: add context or numbers");
        break;
    case PLACE_COSTLY:
        snprintf(text, size, "the search for its place was stopped after too many comparisons");
        break;
    case PLACE_NOWHERE:
        snprintf(text, size, "the lines that it expects are not in the file");
        break;
    }
}

struct hunk_report {
    struct planner *pl;
    const struct diff_file *f;
    const char *path;
    const struct text_lines *file;
};

static void report_hunk(void *data, const struct place_failure *failure)
{
    const struct hunk_report *h = data;
    struct planner *pl = h->pl;
    char reason[256];
    _cleanup_(hunk_lines_free) struct hunk_lines p = {0};
    struct plan_reject reject = {.path = h->path,
                                 .hunk = failure->number,
                                 .header = failure->hunk->header,
                                 .reason = reason};
    if (pl->plan->rejects++ >= PLAN_REPORTS_MAX)
        return;
    describe_failure(failure, reason, sizeof reason);
    if (hunk_lines_make(&pl->plan->diff, h->f, &p) < 0)
        return;
    hunk_lines_set(&p, &pl->plan->diff, failure->hunk);
    uint32_t old_line = failure->hunk->old_line;
    size_t guess = failure->line ? failure->line - 1 : old_line ? old_line - 1 : 0;
    if (failure->why == PLACE_NOWHERE || failure->why == PLACE_SPACE)
        hunk_nearest_find(h->file, &p, guess, &reject.near);
    else
        reject.near.line = failure->line;
    reject.file = h->file;
    reject.want = p.old;
    pl->reject(pl->data, &reject);
}

static int too_large(struct planner *pl, const char *path, int r, struct error *err)
{
    if (r == -E2BIG)
        return plan_reject(
            pl, path, "it has too many lines, or the files of this diff are too large together");
    if (r == -ENOBUFS || r == -EFBIG)
        return plan_reject(pl, path, "the patched file would be larger than 64 MiB");
    return error_errno(err, -r, "patching %.400s", path);
}

static int apply_hunks(const struct part *p, struct content *ret, struct plan_outcome *outcome,
                       struct error *err)
{
    struct planner *pl = p->pl;
    struct text_lines file = {0};
    struct buf out = BUF_INIT(WORKTREE_FILE_MAX);
    struct place_result result;
    struct hunk_report report = {pl, p->f, p->new->path, &file};
    struct place_call call = {
        &pl->plan->diff, p->f, pl->how, &pl->work, pl->reject ? report_hunk : NULL, &report};
    int r = text_lines_split(p->from.data, p->from.size, &file);
    if (r >= 0)
        r = place_hunks(&call, &file, &out, &result);
    text_lines_free(&file);
    if (r >= 0 && result.failures == 0)
        r = worktree_keep(&pl->plan->tree, TAKE_PTR(out.data), out.len);
    else
        buf_free(&out);
    if (r < 0)
        return too_large(pl, p->new->path, r, err);
    if (result.failures)
        return -ENOENT;
    *ret = (struct content){pl->plan->tree.made[pl->plan->tree.n_made - 1], out.len};
    outcome->hunks = p->f->hunks;
    outcome->offset = result.offset;
    outcome->fuzz = result.fuzz;
    return 0;
}

/* Is this the content that the diff's index line names? */
static bool content_has_id(struct content c, const char *id)
{
    struct blob b = {.mode = 0100644,
                     .size = c.size,
                     .data = (uint8_t *)(c.size ? c.data : (const uint8_t *)""),
                     .fd = -1};
    return blob_make_name(&b) >= 0 && strcmp(b.name, id) == 0;
}

static bool id_is_zero(const char *id)
{
    return strspn(id, "0") == strlen(id);
}

/* As git, only onto the very content that the patch was made for. */
static int apply_binary(const struct part *p, struct content *ret, struct error *err)
{
    const struct diff_file *f = p->f;
    const char *path = p->new->path;
    _cleanup_free_ uint8_t *data = NULL;
    uint8_t *made = NULL;
    size_t size;
    if (strlen(f->old_id) != BLOB_NAME - 1 || strlen(f->new_id) != BLOB_NAME - 1)
        return plan_reject(p->pl, path,
                           "a binary patch needs an index line with both full SHA-1 names (git "
                           "diff --binary)");
    if (id_is_zero(f->old_id) ? p->from.size > 0 : !content_has_id(p->from, f->old_id))
        return plan_reject(p->pl, path,
                           !id_is_zero(f->new_id) && content_has_id(p->from, f->new_id)
                               ? "its result is already in the file: it seems to be applied"
                               : "the binary patch was made for other content than the file has");
    int r = diff_binary_decode(&f->forward, &data, &size);
    if (r >= 0 && f->forward.form == DIFF_BINARY_DELTA)
        r = diff_binary_apply_delta(p->from.data, p->from.size, data, size, &made, &size);
    else if (r >= 0)
        made = TAKE_PTR(data);
    if (r == -EBADMSG)
        return plan_reject(p->pl, path, "the binary patch is damaged");
    if (r >= 0)
        r = worktree_keep(&p->pl->plan->tree, made, size);
    if (r < 0)
        return too_large(p->pl, path, r, err);
    *ret = (struct content){made, size};
    if (!id_is_zero(f->new_id) && !content_has_id(*ret, f->new_id))
        return plan_reject(
            p->pl, path,
            "the binary patch is damaged: its result is not what its index line names");
    return 0;
}

/* The new content of the file. */
static int apply_content(const struct part *p, struct content *ret, struct plan_outcome *outcome,
                         struct error *err)
{
    const struct diff_file *f = p->f;
    if (f->only_differs) {
        /* To delete a binary file the name of its content is enough. */
        if (f->kind == DIFF_DELETE && strlen(f->old_id) == BLOB_NAME - 1 &&
            content_has_id(p->from, f->old_id)) {
            *ret = (struct content){0};
            return 0;
        }
        return plan_reject(
            p->pl, p->new->path,
            "the diff only says that binary files differ: make it with git diff --binary");
    }
    if (f->binary)
        return apply_binary(p, ret, err);
    if (f->hunks > 0)
        return apply_hunks(p, ret, outcome, err);
    *ret = p->from;
    return 0;
}

static const char *describe_type(mode_t mode)
{
    return S_ISDIR(mode)    ? "is a folder, not a file"
           : S_ISFIFO(mode) ? "is a FIFO, not a file"
           : S_ISSOCK(mode) ? "is a socket, not a file"
                            : "is a device, not a file";
}

static int part_get(struct part *p, const char *path, struct worktree_file **ret, struct error *err)
{
    char text[128];
    int r = worktree_get(&p->pl->plan->tree, path, ret);
    if (r >= 0)
        return 0;
    if (r == -ENOMEM)
        return error_errno(err, ENOMEM, "patching %.400s", path);
    if (r == -ELOOP)
        return plan_reject(p->pl, path,
                           "a folder on its way is a symbolic link; name the file itself");
    snprintf(text, sizeof text, "cannot be examined: %.90s", strerror(-r));
    return plan_reject(p->pl, path, text);
}

static int check_type(struct part *p)
{
    const struct diff_file *f = p->f;
    mode_t mode = p->old->seen.mode;
    if (!S_ISREG(mode) && !S_ISLNK(mode))
        return plan_reject(p->pl, p->old->path, describe_type(mode));
    /* A diff of a symbolic link says so by its mode; one that only moves the file need not. */
    bool link = (f->old_mode && S_ISLNK(f->old_mode)) ||
                (f->new_mode && S_ISLNK(f->new_mode) && !f->old_mode) ||
                (f->hunks == 0 && !f->binary);
    if (S_ISLNK(mode) && !link)
        return plan_reject(p->pl, p->old->path,
                           "is a symbolic link; name the file that it leads to");
    if (S_ISREG(mode) && f->old_mode && S_ISLNK(f->old_mode))
        return plan_reject(p->pl, p->old->path, "is a file, but the diff is about a symbolic link");
    return 0;
}

/* No folder on the way to a new file may be a file or a link, unless the diff removes it; a link
 * must be deleted, as git has it, not renamed. */
static int check_way(struct part *p, const char *path, struct error *err)
{
    char way[PATH_MAX];
    if (strlen(path) >= sizeof way)
        return plan_reject(p->pl, path, "the path is too long");
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        struct worktree_file *e;
        memcpy(way, path, (size_t)(slash - path));
        way[slash - path] = 0;
        int r = part_get(p, way, &e, err);
        if (r < 0)
            return r;
        bool goes = (e->gone || e->will_go) && !(S_ISLNK(e->seen.mode) && e->moves);
        if (e->written || (e->seen.mode && !S_ISDIR(e->seen.mode) && !goes))
            return plan_reject(p->pl, path, "a folder on its way is a file or a link");
    }
    return 0;
}

/* The content that the part starts from. Renames and copies start from what is on disk, in whatever
 * order the parts of the diff stand; everything else from what earlier parts have made of it. */
static int load_old(struct part *p, struct error *err)
{
    struct worktree_file *e = p->old;
    bool moves = p->kind == DIFF_RENAME || p->kind == DIFF_COPY;
    struct error why = {0};
    if (e->written && !moves) {
        p->from = (struct content){e->new_data, e->new_size};
        p->from_mode = e->new_mode;
        p->base = e->base;
        return 0;
    }
    if (e->gone && !moves)
        return plan_reject(p->pl, e->path, "an earlier part of this diff deletes or renames it");
    int r = e->seen.mode == 0 ? check_way(p, e->path, err) : check_type(p);
    if (r < 0)
        return r;
    if (e->seen.mode == 0)
        return plan_reject(p->pl, e->path, "there is no such file");
    if (worktree_load(&p->pl->plan->tree, e, &why) < 0)
        return why.code == ENOMEM ? error_set(err, ENOMEM, "%s", why.text)
                                  : plan_reject(p->pl, e->path, why.text);
    p->from = (struct content){e->data, e->size};
    p->from_mode = S_ISLNK(e->seen.mode) ? 0120000 : e->seen.mode & S_IXUSR ? 0100755 : 0100644;
    p->base = e->seen.mode & 07777;
    return 0;
}

/* Does the diff remove anything from this folder? Then it may be empty by the time that it must
 * make room; commit.c finds out. */
static bool folder_loses_files(const struct worktree *w, const char *folder)
{
    size_t n = strlen(folder);
    for (size_t i = 0; i < w->count; i++) {
        const struct worktree_file *e = w->entries[i];
        if ((e->will_go || e->gone) && strncmp(e->path, folder, n) == 0 && e->path[n] == '/')
            return true;
    }
    return false;
}

/* A file that is added, or that another becomes, must not exist yet. */
static int check_new(struct part *p, struct error *err)
{
    struct worktree_file *e = p->new;
    bool folder = S_ISDIR(e->seen.mode), on_disk = e->seen.mode && !e->gone && !e->will_go;
    if (on_disk && folder && !folder_loses_files(&p->pl->plan->tree, e->path))
        return plan_reject(p->pl, e->path, describe_type(e->seen.mode));
    if (e->written)
        return plan_reject(p->pl, e->path, "an earlier part of this diff creates it already");
    /* As for patch, an empty file is as good as none: nothing can be lost. */
    bool empty = p->kind == DIFF_ADD && S_ISREG(e->seen.mode) && e->seen.size == 0;
    if (on_disk && !folder && !empty)
        return plan_reject(p->pl, e->path, "exists already, but the diff creates it");
    return check_way(p, e->path, err);
}

/* Finds out what kind of change it is and what it starts from. */
static int part_prepare(struct part *p, struct error *err)
{
    const struct diff_file *f = p->f;
    int r = 0;
    if (p->kind == DIFF_MODIFY && p->old != p->new)
        p->kind = DIFF_RENAME;
    /* Nothing but new lines for a file that is missing: it is created, whatever the names say. */
    if (p->kind == DIFF_MODIFY && !worktree_file_exists(p->old) && !p->old->gone && f->hunks == 1 &&
        !f->binary && p->pl->plan->diff.hunks[f->first_hunk].old_count == 0)
        p->kind = DIFF_ADD;
    if (p->kind != DIFF_ADD)
        r = load_old(p, err);
    bool moves = (p->kind == DIFF_RENAME || p->kind == DIFF_COPY) && p->new != p->old;
    if (r >= 0 && (p->kind == DIFF_ADD || moves))
        r = check_new(p, err);
    return r;
}

static int part_delete(struct part *p, struct content left)
{
    if (left.size > 0 && !p->f->codex)
        return plan_reject(p->pl, p->old->path,
                           p->f->hunks || p->f->binary
                               ? "the diff deletes it, but it has more lines than the diff removes"
                               : "the diff deletes it without showing its content");
    p->old->gone = true;
    p->old->written = false;
    return 0;
}

static int part_write(struct part *p, struct content made)
{
    struct worktree_file *e = p->new;
    mode_t mode = p->f->new_mode ? p->f->new_mode : p->from_mode ? p->from_mode : 0100644;
    if (p->from_mode && (mode & S_IFMT) != (p->from_mode & S_IFMT))
        return plan_reject(p->pl, e->path,
                           "is a file on one side of the diff and a link on the other");
    if (S_ISLNK(mode) &&
        (made.size == 0 || made.size >= PATH_MAX || memchr(made.data, 0, made.size)))
        return plan_reject(p->pl, e->path, "its content cannot be the target of a symbolic link");
    e->written = true;
    e->new_data = (uint8_t *)made.data;
    e->new_size = made.size;
    e->new_mode = mode;
    e->base = p->base;
    if (p->kind == DIFF_RENAME && p->old != p->new)
        p->old->gone = true;
    return 0;
}

static void part_outcome(const struct part *p, struct plan_outcome *o)
{
    static const enum plan_kind KINDS[] = {[DIFF_MODIFY] = PLAN_MODIFIED,
                                           [DIFF_ADD] = PLAN_ADDED,
                                           [DIFF_DELETE] = PLAN_DELETED,
                                           [DIFF_RENAME] = PLAN_RENAMED,
                                           [DIFF_COPY] = PLAN_COPIED};
    const struct diff *d = &p->pl->plan->diff;
    struct worktree *tree = &p->pl->plan->tree;
    bool content = p->f->hunks || p->f->binary;
    o->path = p->kind == DIFF_DELETE ? p->old->path : p->new->path;
    o->from = p->kind == DIFF_RENAME || p->kind == DIFF_COPY ? p->old->path : NULL;
    o->kind = p->kind == DIFF_MODIFY && !content ? PLAN_MODE : KINDS[p->kind];
    for (size_t i = 0; i < p->f->hunks; i++) {
        const struct diff_hunk *h = &d->hunks[p->f->first_hunk + i];
        for (size_t k = 0; k < h->count; k++) {
            o->added += d->lines[h->first + k].kind == '+';
            o->removed += d->lines[h->first + k].kind == '-';
        }
        if (h->recounted)
            worktree_note(tree, "%.400s: the line counts in the @@ line of hunk %zu were wrong",
                          o->path, i + 1);
    }
    if (p->f->codex && p->kind == DIFF_DELETE)
        worktree_note(tree, "%.400s: deleted without comparing its content", o->path);
}

/* Applies one part of the diff to the tree in memory. -ENOENT if it does not apply, which was
 * reported. */
static int plan_part(struct planner *pl, const struct diff_file *f, struct plan_outcome *ret,
                     struct error *err)
{
    _cleanup_(plan_paths_free) struct plan_paths paths = {0};
    struct part p = {.pl = pl, .f = f, .kind = f->kind};
    struct plan_outcome o = {0};
    struct content made = {0};
    struct error why = {0};
    if (plan_paths_find(f, pl->options, &pl->plan->tree, &paths, &why) < 0) {
        const char *shown = f->to ? f->to : f->new_name ? f->new_name : f->old_name;
        return why.code == ENOMEM ? error_set(err, ENOMEM, "%s", why.text)
                                  : plan_reject(pl, shown ? shown : "", why.text);
    }
    int r = part_get(&p, paths.old, &p.old, err);
    if (r >= 0)
        r = part_get(&p, paths.new, &p.new, err);
    if (r >= 0)
        r = part_prepare(&p, err);
    if (r >= 0)
        r = apply_content(&p, &made, &o, err);
    if (r >= 0)
        r = p.kind == DIFF_DELETE ? part_delete(&p, made) : part_write(&p, made);
    if (r < 0)
        return r;
    part_outcome(&p, &o);
    *ret = o;
    return 0;
}

/* Marks what the diff deletes or renames: it is not in the way of a file that takes its name. */
static void mark_leaving(struct planner *pl)
{
    const struct diff *d = &pl->plan->diff;
    for (size_t i = 0; i < d->n_files; i++) {
        const struct diff_file *f = &d->files[i];
        _cleanup_(plan_paths_free) struct plan_paths paths = {0};
        struct worktree_file *e;
        if ((f->kind == DIFF_DELETE || f->kind == DIFF_RENAME) &&
            plan_paths_find(f, pl->options, &pl->plan->tree, &paths, NULL) >= 0 &&
            worktree_get(&pl->plan->tree, paths.old, &e) >= 0) {
            e->will_go = true;
            e->moves |= f->kind == DIFF_RENAME;
        }
    }
}

/* One attempt at all files. -ENOENT if one of them does not apply; with reports, all are tried. */
static int plan_attempt(struct planner *pl, struct error *err)
{
    struct plan *p = pl->plan;
    int result = 0;
    worktree_reset(&p->tree);
    p->rejects = 0;
    pl->work = PLACE_WORK_MAX;
    mark_leaving(pl);
    for (p->count = 0; p->count < p->diff.n_files; p->count++) {
        int r = plan_part(pl, &p->diff.files[p->count], &p->outcomes[p->count], err);
        if (r < 0 && (r != -ENOENT || !pl->reject))
            return r;
        result = r < 0 ? r : result;
    }
    return result;
}

/* Parses the diff, with or without its carriage returns, and tries it from strict to loose. */
static int plan_diff(struct planner *pl, const void *text, size_t size, bool strip_cr,
                     struct error *err)
{
    struct plan *p = pl->plan;
    const struct plan_options *o = pl->options;
    diff_free(&p->diff);
    int r = diff_parse(text, size, strip_cr, &p->diff, err);
    if (r >= 0 && o->reverse)
        r = diff_reverse(&p->diff, err);
    if (r < 0)
        return r;
    free(p->outcomes);
    p->outcomes = calloc(p->diff.n_files + 1, sizeof *p->outcomes);
    if (!p->outcomes)
        return error_errno(err, ENOMEM, "reading the diff");
    pl->how = (struct place_options){.strict = true};
    r = plan_attempt(pl, err);
    if (r == -ENOENT) {
        pl->how = (struct place_options){.fuzz = o->fuzz};
        r = plan_attempt(pl, err);
    }
    if (r == -ENOENT && o->ignore_space) {
        pl->how.ignore_space = true;
        r = plan_attempt(pl, err);
        if (r == 0)
            worktree_note(&p->tree, "trailing whitespace and line endings were ignored");
    }
    if (r == 0 && strip_cr)
        worktree_note(&p->tree, "carriage returns at the ends of the diff's lines were removed");
    return r;
}

int plan_make(const void *text, size_t size, const struct plan_options *o,
              struct file_source source, void (*reject)(void *data, const struct plan_reject *r),
              void *data, struct plan *ret, size_t *ret_rejects, struct error *err)
{
    struct plan p = {0};
    struct planner pl = {.plan = &p, .options = o, .data = data};
    worktree_init(&p.tree, source);
    int r = plan_diff(&pl, text, size, false, err);
    if (r == -ENOENT && p.diff.crlf)
        r = plan_diff(&pl, text, size, true, err);
    if (r == -ENOENT) { /* once more, to report */
        pl.reject = reject;
        r = plan_attempt(&pl, err);
    }
    if (r == -ENOENT)
        *ret_rejects = p.rejects;
    if (r < 0) {
        plan_free(&p);
        return r;
    }
    *ret = p;
    return 0;
}
