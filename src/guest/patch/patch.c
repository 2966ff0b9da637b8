/*
 * PATCH: the plan, and the request. patch.h says how a diff is tried.
 *
 * A part of the diff is what it says about one file. Parts are applied one after the other to the
 * tree in memory, so that a later one sees what an earlier one has made.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "patch.h"
#include "../diff/content.h"
#include "banned.h"

#define FUZZ_DEFAULT 2u
#define STRIP_MAX    64u
#define LINES_SENT   40u  /* of the expected lines, and of those found */
#define LINE_SENT    500u /* bytes of one of them */
#define HEADER_SENT  200u

struct planner {
    struct plan *plan;
    const struct patch_options *options;
    bool ignore_space;
    uint64_t work;                                            /* comparisons that are left */
    void (*reject)(void *data, const struct patch_reject *r); /* NULL: nothing is reported */
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
    mode_t from_mode, base;        /* git's mode of it, and its permission bits */
    const struct text_lines *file; /* the lines of `from`, while hunks are placed in them */
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
        pl->reject(pl->data, &(struct patch_reject){.path = path, .reason = reason});
    return -ENOENT;
}

static void part_reject_hunk(void *data, const struct place_failure *failure)
{
    static const char *const REASONS[] = {
        [PLACE_NOWHERE] = "the lines that it expects are not in the file",
        [PLACE_APPLIED] = "its result is already in the file: it seems to be applied",
        [PLACE_ELSEWHERE] =
            "its lines are at line %zu, but its missing context says that it belongs "
            "at the %s of the file; give the lines around the change as context",
        [PLACE_BEHIND] = "its lines are at line %zu, above or within an earlier hunk of this diff: "
                         "hunks must be in order and not overlap",
        [PLACE_SPACE] =
            "at line %zu only trailing whitespace, line endings (CRLF or LF) or the last "
            "newline differ: correct them, or set ignore_whitespace",
        [PLACE_SEVERAL] = "it matches at several places, or has no context, and its @@ line has no "
                          "line numbers: add context or numbers",
        [PLACE_COSTLY] = "the search for its place was stopped after too many comparisons",
    };
    const struct part *p = data;
    struct planner *pl = p->pl;
    const struct diff_hunk *h = failure->hunk->hunk;
    char reason[256];
    struct patch_reject reject = {.path = p->new->path,
                                  .hunk = failure->number,
                                  .header = h->header,
                                  .reason = reason,
                                  .near.line = failure->line,
                                  .file = p->file,
                                  .want = failure->hunk->old};
    if (pl->plan->rejects++ >= PLAN_REPORTS_MAX)
        return;
    snprintf(reason, sizeof reason, REASONS[failure->why], failure->line,
             h->old_line <= 1 ? "start" : "end");
    size_t guess = failure->line ? failure->line - 1 : h->old_line ? h->old_line - 1 : 0;
    if (failure->why == PLACE_NOWHERE || failure->why == PLACE_SPACE)
        hunk_nearest_find(p->file, failure->hunk, guess, &reject.near);
    pl->reject(pl->data, &reject);
}

static int part_too_large(const struct part *p, int r, struct error *err)
{
    const char *path = p->new->path;
    if (r == -E2BIG)
        return plan_reject(
            p->pl, path, "it has too many lines, or the files of this diff are too large together");
    if (r == -ENOBUFS || r == -EFBIG)
        return plan_reject(p->pl, path, "the patched file would be larger than 64 MiB");
    return error_errno(err, -r, "patching %.400s", path);
}

static int part_apply_hunks(struct part *p, struct content *ret, struct patch_outcome *outcome,
                            struct error *err)
{
    struct planner *pl = p->pl;
    struct text_lines file = {0};
    struct buf out = BUF_INIT(WORKTREE_FILE_MAX);
    struct place_result result;
    struct place_call call = {.diff = &pl->plan->diff,
                              .file = p->f,
                              .fuzz = pl->options->fuzz,
                              .ignore_space = pl->ignore_space,
                              .work = &pl->work,
                              .failed = pl->reject ? part_reject_hunk : NULL,
                              .data = p};
    int r = text_lines_split(p->from.data, p->from.size, &file);
    p->file = &file;
    if (r >= 0)
        r = place_hunks(&call, &file, &out, &result);
    p->file = NULL;
    text_lines_free(&file);
    *ret = (struct content){out.data, out.len};
    if (r >= 0 && result.failures == 0)
        r = worktree_keep(&pl->plan->tree, TAKE_PTR(out.data), out.len);
    else
        buf_free(&out);
    if (r < 0)
        return part_too_large(p, r, err);
    if (result.failures)
        return -ENOENT;
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
static int part_apply_binary(const struct part *p, struct content *ret, struct error *err)
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
        return part_too_large(p, r, err);
    *ret = (struct content){made, size};
    if (!id_is_zero(f->new_id) && !content_has_id(*ret, f->new_id))
        return plan_reject(
            p->pl, path,
            "the binary patch is damaged: its result is not what its index line names");
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

/* No folder on the way to a new file may be a file or a link, unless the diff removes it; a link
 * must be deleted, as git requires, not renamed. */
static int part_check_folders(struct part *p, const char *path, struct error *err)
{
    char folder[PATH_MAX];
    if (strlen(path) >= sizeof folder)
        return plan_reject(p->pl, path, "the path is too long");
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        struct worktree_file *e;
        memcpy(folder, path, (size_t)(slash - path));
        folder[slash - path] = 0;
        int r = part_get(p, folder, &e, err);
        if (r < 0)
            return r;
        bool goes = (e->gone || e->will_go) && !(S_ISLNK(e->seen.mode) && e->moves);
        if (e->written || (e->seen.mode && !S_ISDIR(e->seen.mode) && !goes))
            return plan_reject(p->pl, path, "a folder on its way is a file or a link");
    }
    return 0;
}

/* The content that the part starts from. Renames and copies start from what is on disk, in whatever
 * order the parts of the diff come; everything else from what earlier parts have made of it. */
static int part_load_old(struct part *p, struct error *err)
{
    const struct diff_file *f = p->f;
    struct worktree_file *e = p->old;
    bool moves = p->kind == DIFF_RENAME || p->kind == DIFF_COPY;
    mode_t mode = e->seen.mode;
    struct error why = {0};
    if (e->written && !moves) {
        p->from = (struct content){e->new_data, e->new_size};
        p->from_mode = e->new_mode;
        p->base = e->base;
        return 0;
    }
    if (e->gone && !moves)
        return plan_reject(p->pl, e->path, "an earlier part of this diff deletes or renames it");
    if (mode == 0) {
        int r = part_check_folders(p, e->path, err);
        return r < 0 ? r : plan_reject(p->pl, e->path, "there is no such file");
    }
    if (!S_ISREG(mode) && !S_ISLNK(mode))
        return plan_reject(p->pl, e->path, describe_type(mode));
    /* A diff of a symbolic link says so by its mode; one that only moves the file need not. */
    bool link = (f->old_mode && S_ISLNK(f->old_mode)) ||
                (f->new_mode && S_ISLNK(f->new_mode) && !f->old_mode) ||
                (f->hunks == 0 && !f->binary);
    if (S_ISLNK(mode) && !link)
        return plan_reject(p->pl, e->path, "is a symbolic link; name the file that it leads to");
    if (S_ISREG(mode) && f->old_mode && S_ISLNK(f->old_mode))
        return plan_reject(p->pl, e->path, "is a file, but the diff is about a symbolic link");
    if (worktree_load(&p->pl->plan->tree, e, &why) < 0)
        return why.code == ENOMEM ? error_set(err, ENOMEM, "%s", why.text)
                                  : plan_reject(p->pl, e->path, why.text);
    p->from = (struct content){e->data, e->size};
    p->from_mode = S_ISLNK(mode) ? 0120000 : mode & S_IXUSR ? 0100755 : 0100644;
    p->base = mode & 07777;
    return 0;
}

/* A file that is added, or that another becomes, must not exist yet. */
static int part_check_new(struct part *p, struct error *err)
{
    const struct worktree *w = &p->pl->plan->tree;
    struct worktree_file *e = p->new;
    bool folder = S_ISDIR(e->seen.mode), on_disk = e->seen.mode && !e->gone && !e->will_go;
    if (on_disk && folder) {
        /* A folder from which the diff removes files may be empty by the time that it must make
         * room; commit_run finds out. */
        size_t n = strlen(e->path);
        bool loses = false;
        for (size_t i = 0; i < w->count && !loses; i++) {
            const struct worktree_file *f = w->entries[i];
            loses =
                (f->will_go || f->gone) && strncmp(f->path, e->path, n) == 0 && f->path[n] == '/';
        }
        if (!loses)
            return plan_reject(p->pl, e->path, describe_type(e->seen.mode));
    }
    if (e->written)
        return plan_reject(p->pl, e->path, "an earlier part of this diff creates it already");
    /* As for patch, an empty file is as good as none: nothing can be lost. */
    bool empty = p->kind == DIFF_ADD && S_ISREG(e->seen.mode) && e->seen.size == 0;
    if (on_disk && !folder && !empty)
        return plan_reject(p->pl, e->path, "exists already, but the diff creates it");
    return part_check_folders(p, e->path, err);
}

/* Notes what becomes of the files. */
static int part_finish(struct part *p, struct content made)
{
    struct worktree_file *e = p->new;
    if (p->kind == DIFF_DELETE) {
        if (made.size > 0 && !p->f->codex)
            return plan_reject(
                p->pl, p->old->path,
                p->f->hunks || p->f->binary
                    ? "the diff deletes it, but it has more lines than the diff removes"
                    : "the diff deletes it without showing its content");
        p->old->gone = true;
        p->old->written = false;
        return 0;
    }
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

static void part_describe(const struct part *p, struct patch_outcome *o)
{
    static const enum wire_patch KINDS[] = {[DIFF_MODIFY] = WIRE_PATCH_MODIFIED,
                                            [DIFF_ADD] = WIRE_PATCH_ADDED,
                                            [DIFF_DELETE] = WIRE_PATCH_DELETED,
                                            [DIFF_RENAME] = WIRE_PATCH_RENAMED,
                                            [DIFF_COPY] = WIRE_PATCH_COPIED};
    const struct diff *d = &p->pl->plan->diff;
    struct worktree *tree = &p->pl->plan->tree;
    bool content = p->f->hunks || p->f->binary;
    o->path = p->kind == DIFF_DELETE ? p->old->path : p->new->path;
    o->from = p->kind == DIFF_RENAME || p->kind == DIFF_COPY ? p->old->path : NULL;
    o->kind = p->kind == DIFF_MODIFY && !content ? WIRE_PATCH_MODE : KINDS[p->kind];
    for (size_t i = 0; i < p->f->hunks; i++) {
        const struct diff_hunk *h = &d->hunks[p->f->first_hunk + i];
        o->added += h->count - h->old_count;
        o->removed += h->count - h->new_count;
        if (h->recounted)
            worktree_note(tree, "%.400s: the line counts in the @@ line of hunk %zu were wrong",
                          o->path, i + 1);
    }
    if (p->f->codex && p->kind == DIFF_DELETE)
        worktree_note(tree, "%.400s: deleted without comparing its content", o->path);
}

/* Applies one part of the diff to the tree in memory. -ENOENT if it does not apply, which was
 * reported. */
static int plan_part(struct planner *pl, const struct diff_file *f, struct patch_outcome *ret,
                     struct error *err)
{
    _cleanup_(patch_paths_free) struct patch_paths paths = {0};
    struct part p = {.pl = pl, .f = f, .kind = f->kind};
    struct patch_outcome o = {0};
    struct content made = {0};
    struct error why = {0};
    if (patch_paths_find(f, pl->options, &pl->plan->tree, &paths, &why) < 0) {
        const char *shown = f->to ? f->to : f->new_name ? f->new_name : f->old_name;
        return why.code == ENOMEM ? error_set(err, ENOMEM, "%s", why.text)
                                  : plan_reject(pl, shown ? shown : "", why.text);
    }
    int r = part_get(&p, paths.old, &p.old, err);
    if (r >= 0)
        r = part_get(&p, paths.new, &p.new, err);
    if (r < 0)
        return r;

    if (p.kind == DIFF_MODIFY && p.old != p.new)
        p.kind = DIFF_RENAME;
    /* Nothing but new lines for a file that is missing: it is created, whatever the names say. */
    if (p.kind == DIFF_MODIFY && !worktree_file_exists(p.old) && !p.old->gone && f->hunks == 1 &&
        !f->binary && pl->plan->diff.hunks[f->first_hunk].old_count == 0)
        p.kind = DIFF_ADD;
    if (p.kind != DIFF_ADD)
        r = part_load_old(&p, err);
    bool moves = (p.kind == DIFF_RENAME || p.kind == DIFF_COPY) && p.new != p.old;
    if (r >= 0 && (p.kind == DIFF_ADD || moves))
        r = part_check_new(&p, err);

    if (r < 0)
        return r;
    made = p.from;
    if (f->binary) {
        r = part_apply_binary(&p, &made, err);
    } else if (f->hunks > 0) {
        r = part_apply_hunks(&p, &made, &o, err);
    } else if (f->only_differs) {
        /* To delete a binary file the id of its content is enough. */
        made = (struct content){0};
        if (f->kind != DIFF_DELETE || strlen(f->old_id) != BLOB_NAME - 1 ||
            !content_has_id(p.from, f->old_id))
            r = plan_reject(
                pl, p.new->path,
                "the diff only says that binary files differ: make it with git diff --binary");
    }
    if (r >= 0)
        r = part_finish(&p, made);
    if (r < 0)
        return r;
    part_describe(&p, &o);
    *ret = o;
    return 0;
}

/* One attempt at all files. -ENOENT if one of them does not apply; with reports, all are tried. */
static int plan_attempt(struct planner *pl, struct error *err)
{
    struct plan *p = pl->plan;
    int result = 0;
    worktree_reset(&p->tree);
    p->rejects = 0;
    pl->work = PLACE_WORK_MAX;
    /* What the diff deletes or renames is not in the way of a file that takes its name. */
    for (size_t i = 0; i < p->diff.n_files; i++) {
        const struct diff_file *f = &p->diff.files[i];
        _cleanup_(patch_paths_free) struct patch_paths paths = {0};
        struct worktree_file *e;
        if ((f->kind == DIFF_DELETE || f->kind == DIFF_RENAME) &&
            patch_paths_find(f, pl->options, &p->tree, &paths, NULL) >= 0 &&
            worktree_get(&p->tree, paths.old, &e) >= 0) {
            e->will_go = true;
            e->moves |= f->kind == DIFF_RENAME;
        }
    }
    for (p->count = 0; p->count < p->diff.n_files; p->count++) {
        int r = plan_part(pl, &p->diff.files[p->count], &p->outcomes[p->count], err);
        if (r < 0 && (r != -ENOENT || !pl->reject))
            return r;
        result = r < 0 ? r : result;
    }
    return result;
}

int plan_make(int root, const void *text, size_t size, const struct patch_options *o,
              void (*reject)(void *data, const struct patch_reject *r), void *data,
              struct plan *plan, struct error *err)
{
    struct planner pl = {.plan = plan, .options = o, .data = data};
    int r = -ENOENT;
    *plan = (struct plan){.tree = WORKTREE_INIT(root)};
    for (int strip_cr = 0; r == -ENOENT && strip_cr <= (int)plan->diff.crlf; strip_cr++) {
        diff_free(&plan->diff);
        r = diff_parse(text, size, strip_cr, &plan->diff, err);
        if (r >= 0 && o->reverse)
            r = diff_reverse(&plan->diff, err);
        if (r < 0)
            return r;
        free(plan->outcomes);
        plan->outcomes = calloc(plan->diff.n_files + 1, sizeof *plan->outcomes);
        if (!plan->outcomes)
            return error_errno(err, ENOMEM, "reading the diff");
        pl.ignore_space = false;
        r = plan_attempt(&pl, err);
        if (r == -ENOENT && o->ignore_space) {
            pl.ignore_space = true;
            r = plan_attempt(&pl, err);
            if (r == 0)
                worktree_note(&plan->tree, "trailing whitespace and line endings were ignored");
        }
        if (r == 0 && strip_cr)
            worktree_note(&plan->tree,
                          "carriage returns at the ends of the diff's lines were removed");
    }
    if (r == -ENOENT) { /* once more, to report */
        pl.reject = reject;
        r = plan_attempt(&pl, err);
    }
    return r;
}

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
    int r = file_receive(c, &diff, -1, NULL);
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
        const struct patch_outcome *one = &p.outcomes[i];
        size_t at = wire_begin(&c->out, WIRE_ENTRY);
        wire_put_str(&c->out, WIRE_K_PATH, one->path);
        wire_put_u64(&c->out, WIRE_K_KIND, one->kind);
        if (one->from)
            wire_put_str(&c->out, WIRE_K_FROM, one->from);
        wire_put_u64(&c->out, WIRE_K_HUNKS, one->hunks);
        wire_put_u64(&c->out, WIRE_K_SHIFT, (uint64_t)one->offset);
        wire_put_u64(&c->out, WIRE_K_FUZZ, one->fuzz);
        wire_put_u64(&c->out, WIRE_K_ADDED, one->added);
        wire_put_u64(&c->out, WIRE_K_REMOVED, one->removed);
        wire_end(&c->out, at);
        r = file_send(c);
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
