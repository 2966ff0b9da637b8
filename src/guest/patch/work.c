#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "work.h"
#include "banned.h"

/* One file on its way: where it comes from, where it goes. */
struct job {
    struct work *w;
    const struct diff_file *f;
    struct world_file *old, *new;
    enum diff_kind kind;
    struct work_content from; /* what it holds now */
    mode_t from_mode, base;   /* git's mode of it, and its permission bits */
};

int work_reject(struct work *w, const char *path, const char *reason)
{
    if (w->reject && w->plan->rejects++ < PLAN_REPORTS_MAX)
        w->reject(w->data, &(struct plan_reject){.path = path, .reason = reason});
    return -ENOENT;
}

/* The same with the words of an error, unless it is about the diff as a whole. */
static int reject_error(struct work *w, const char *path, const struct error *why,
                        struct error *err)
{
    if (why->code == ENOMEM)
        return error_set(err, ENOMEM, "%s", why->text);
    return work_reject(w, path, why->text);
}

static mode_t git_mode(mode_t mode)
{
    return S_ISLNK(mode) ? 0120000 : mode & S_IXUSR ? 0100755 : 0100644;
}

static const char *kind_of(mode_t mode)
{
    return S_ISDIR(mode)    ? "is a folder, not a file"
           : S_ISFIFO(mode) ? "is a FIFO, not a file"
           : S_ISSOCK(mode) ? "is a socket, not a file"
                            : "is a device, not a file";
}

static int get(struct job *j, const char *path, struct world_file **ret, struct error *err)
{
    int r = world_get(&j->w->plan->world, path, ret);
    if (r == -ENOMEM)
        return error_errno(err, ENOMEM, "patching %.400s", path);
    if (r == -ELOOP)
        return work_reject(j->w, path,
                           "a folder on its way is a symbolic link; name the file itself");
    if (r < 0) {
        char text[128];
        snprintf(text, sizeof text, "cannot be looked at: %.90s", strerror(-r));
        return work_reject(j->w, path, text);
    }
    return 0;
}

static bool is_there(const struct world_file *e)
{
    return e->written || (e->seen.mode != 0 && !e->gone);
}

/* A diff of a symbolic link says so by its mode; one that only moves the file need not. */
static bool may_be_link(const struct diff_file *f)
{
    return (f->old_mode && S_ISLNK(f->old_mode)) ||
           (f->new_mode && S_ISLNK(f->new_mode) && !f->old_mode) || (f->hunks == 0 && !f->binary);
}

static int check_type(struct job *j)
{
    mode_t mode = j->old->seen.mode;
    if (!S_ISREG(mode) && !S_ISLNK(mode))
        return work_reject(j->w, j->old->path, kind_of(mode));
    if (S_ISLNK(mode) && !may_be_link(j->f))
        return work_reject(j->w, j->old->path,
                           "is a symbolic link; name the file that it leads to");
    if (S_ISREG(mode) && j->f->old_mode && S_ISLNK(j->f->old_mode))
        return work_reject(j->w, j->old->path, "is a file, but the diff is about a symbolic link");
    return 0;
}

/* No part of the way to a new file may be a file or a link, unless it goes; and a link must be
 * deleted for that, as git has it. */
static int check_way(struct job *j, const char *path, struct error *err)
{
    char way[PATH_MAX];
    if (strlen(path) >= sizeof way)
        return work_reject(j->w, path, "the path is too long");
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        struct world_file *e;
        memcpy(way, path, (size_t)(slash - path));
        way[slash - path] = 0;
        int r = get(j, way, &e, err);
        if (r < 0)
            return r;
        bool goes = (e->gone || e->doomed) && !(S_ISLNK(e->seen.mode) && e->moves);
        bool stays = e->seen.mode && !S_ISDIR(e->seen.mode) && !goes;
        if (e->written || stays)
            return work_reject(j->w, path, "a folder on its way is a file or a link");
    }
    return 0;
}

/* The content that the diff starts from. Renames and copies start from what is on disk, in whatever
 * order the parts of the diff stand; everything else from what earlier parts have made of it. */
static int load_old(struct job *j, struct error *err)
{
    struct world_file *e = j->old;
    bool moves = j->kind == DIFF_RENAME || j->kind == DIFF_COPY;
    struct error why = {0};
    if (e->written && !moves) {
        j->from = (struct work_content){e->new_data, e->new_size};
        j->from_mode = e->new_mode;
        j->base = e->base;
        return 0;
    }
    if (e->gone && !moves)
        return work_reject(j->w, e->path, "an earlier part of this diff deletes or renames it");
    int r = e->seen.mode == 0 ? check_way(j, e->path, err) : check_type(j);
    if (r >= 0 && e->seen.mode == 0)
        return work_reject(j->w, e->path, "there is no such file");
    if (r < 0)
        return r;
    if (world_load(&j->w->plan->world, e, &why) < 0)
        return reject_error(j->w, e->path, &why, err);
    j->from = (struct work_content){e->data, e->size};
    j->from_mode = git_mode(e->seen.mode);
    j->base = e->seen.mode & 07777;
    return 0;
}

/* Will anything beneath this folder go? Then the folder may be empty by then, which is found out
 * when it is carried out. */
static bool loses_files(const struct world *w, const char *folder)
{
    size_t n = strlen(folder);
    for (size_t i = 0; i < w->count; i++) {
        const struct world_file *e = w->entries[i];
        if ((e->doomed || e->gone) && strncmp(e->path, folder, n) == 0 && e->path[n] == '/')
            return true;
    }
    return false;
}

/* A file that is added, or that another becomes, must not be there. */
static int check_new(struct job *j, struct error *err)
{
    struct world_file *e = j->new;
    bool on_disk = e->seen.mode && !e->gone && !e->doomed;
    if (on_disk && S_ISDIR(e->seen.mode) && loses_files(&j->w->plan->world, e->path))
        on_disk = false;
    if (on_disk && S_ISDIR(e->seen.mode))
        return work_reject(j->w, e->path, kind_of(e->seen.mode));
    /* An empty file holds nothing that could be lost: patch takes it for none. */
    if (on_disk && j->kind == DIFF_ADD && S_ISREG(e->seen.mode) && e->seen.size == 0)
        on_disk = false;
    if (e->written)
        return work_reject(j->w, e->path, "an earlier part of this diff makes it already");
    if (on_disk)
        return work_reject(j->w, e->path, "exists already, and the diff would make it anew");
    return check_way(j, e->path, err);
}

/* A diff with nothing but new lines for a file that is not there makes it, whatever its names say.
 */
static bool only_adds(const struct diff *d, const struct diff_file *f)
{
    return f->hunks == 1 && !f->binary && d->hunks[f->first_hunk].old_count == 0;
}

static int prepare(struct job *j, struct error *err)
{
    const struct diff *d = &j->w->plan->diff;
    int r = 0;
    if (j->kind == DIFF_MODIFY && j->old != j->new)
        j->kind = DIFF_RENAME;
    if (j->kind == DIFF_MODIFY && !is_there(j->old) && !j->old->gone && only_adds(d, j->f))
        j->kind = DIFF_ADD;
    if (j->kind != DIFF_ADD)
        r = load_old(j, err);
    bool moves = (j->kind == DIFF_RENAME || j->kind == DIFF_COPY) && j->new != j->old;
    if (r >= 0 && (j->kind == DIFF_ADD || moves))
        r = check_new(j, err);
    return r;
}

/* The mode that the file will have. */
static int find_mode(struct job *j, mode_t *ret)
{
    mode_t mode = j->f->new_mode ? j->f->new_mode : j->from_mode ? j->from_mode : 0100644;
    if (j->from_mode && (mode & S_IFMT) != (j->from_mode & S_IFMT))
        return work_reject(j->w, j->new->path,
                           "is a file on one side of the diff and a link on the other");
    *ret = mode;
    return 0;
}

static int check_link(struct job *j, struct work_content c)
{
    if (c.size == 0 || c.size >= PATH_MAX || memchr(c.data, 0, c.size))
        return work_reject(j->w, j->new->path, "this cannot be the target of a symbolic link");
    return 0;
}

static void count_lines(const struct diff *d, const struct diff_file *f, struct plan_outcome *o)
{
    for (size_t i = 0; i < f->hunks; i++) {
        const struct diff_hunk *h = &d->hunks[f->first_hunk + i];
        for (size_t k = 0; k < h->count; k++) {
            o->added += d->lines[h->first + k].kind == '+';
            o->removed += d->lines[h->first + k].kind == '-';
        }
    }
}

static int finish_delete(struct job *j, struct work_content left)
{
    if (left.size > 0 && !j->f->plain)
        return work_reject(j->w, j->old->path,
                           j->f->hunks || j->f->binary
                               ? "the diff deletes it, but it holds more than the diff takes out"
                               : "the diff deletes it without telling what it holds");
    j->old->gone = true;
    j->old->written = false;
    return 0;
}

static int finish_write(struct job *j, struct work_content made)
{
    mode_t mode = 0;
    int r = find_mode(j, &mode);
    if (r >= 0 && S_ISLNK(mode))
        r = check_link(j, made);
    if (r < 0)
        return r;
    struct world_file *e = j->new;
    e->written = true;
    e->new_data = (uint8_t *)made.data;
    e->new_size = made.size;
    e->new_mode = mode;
    e->base = j->base;
    if (j->kind == DIFF_RENAME && j->old != j->new)
        j->old->gone = true;
    return 0;
}

static enum plan_kind kind_made(const struct job *j)
{
    static const enum plan_kind KINDS[] = {[DIFF_MODIFY] = PLAN_MODIFIED,
                                           [DIFF_ADD] = PLAN_ADDED,
                                           [DIFF_DELETE] = PLAN_DELETED,
                                           [DIFF_RENAME] = PLAN_RENAMED,
                                           [DIFF_COPY] = PLAN_COPIED};
    bool content = j->f->hunks || j->f->binary;
    return j->kind == DIFF_MODIFY && !content ? PLAN_MODE : KINDS[j->kind];
}

static void note(struct job *j, const struct plan_outcome *o)
{
    const struct diff *d = &j->w->plan->diff;
    for (size_t i = 0; i < j->f->hunks; i++)
        if (d->hunks[j->f->first_hunk + i].recounted)
            world_note(&j->w->plan->world,
                       "%.400s: the line counts in the @@ line of hunk %zu were wrong", o->path,
                       i + 1);
    if (j->f->plain && j->kind == DIFF_DELETE)
        world_note(&j->w->plan->world, "%.400s: deleted without comparing what it held", o->path);
}

static int finish(struct job *j, struct work_content made, struct plan_outcome *o)
{
    int r = j->kind == DIFF_DELETE ? finish_delete(j, made) : finish_write(j, made);
    if (r < 0)
        return r;
    o->path = j->kind == DIFF_DELETE ? j->old->path : j->new->path;
    o->from = j->kind == DIFF_RENAME || j->kind == DIFF_COPY ? j->old->path : NULL;
    o->kind = kind_made(j);
    count_lines(&j->w->plan->diff, j->f, o);
    note(j, o);
    return 0;
}

static int work_job(struct job *j, const struct paths *p, struct plan_outcome *ret,
                    struct error *err)
{
    struct plan_outcome o = {0};
    struct work_content made = {0};
    int r = get(j, p->old, &j->old, err);
    if (r >= 0)
        r = get(j, p->new, &j->new, err);
    if (r >= 0)
        r = prepare(j, err);
    if (r >= 0)
        r = work_content(j->w, j->f, j->new->path, j->from, &made, &o, err);
    if (r >= 0)
        r = finish(j, made, &o);
    if (r >= 0)
        *ret = o;
    return r;
}

int work_file(struct work *w, const struct diff_file *f, struct plan_outcome *ret,
              struct error *err)
{
    _cleanup_(paths_free) struct paths p = {0};
    struct error why = {0};
    struct job j = {.w = w, .f = f, .kind = f->kind};
    if (paths_find(f, &w->options->paths, &w->plan->world, &p, &why) < 0)
        return reject_error(w, paths_shown(f), &why, err);
    return work_job(&j, &p, ret, err);
}

void work_doom(struct work *w)
{
    const struct diff *d = &w->plan->diff;
    for (size_t i = 0; i < d->n_files; i++) {
        _cleanup_(paths_free) struct paths p = {0};
        struct world_file *e;
        if ((d->files[i].kind == DIFF_DELETE || d->files[i].kind == DIFF_RENAME) &&
            paths_find(&d->files[i], &w->options->paths, &w->plan->world, &p, NULL) >= 0 &&
            world_get(&w->plan->world, p.old, &e) >= 0) {
            e->doomed = true;
            e->moves |= d->files[i].kind == DIFF_RENAME;
        }
    }
}
