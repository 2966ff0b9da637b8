#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "beneath.h"
#include "commit.h"
#include "disk.h"
#include "io.h"
#include "relpath.h"
#include "stage.h"
#include "undo.h"
#include "../diff/content.h"
#include "banned.h"

/* One file of the diff and the stage that serves it. */
struct item {
    struct world_file *file;
    struct stage *stage;
    size_t number;
};

struct commit {
    struct world *world;
    struct stages stages;
    struct item *items;
    size_t count;
    struct undo undo;
};

static bool is_written_over(const struct world_file *f)
{
    return f->written && f->seen.mode && !S_ISDIR(f->seen.mode);
}

static bool goes(const struct world_file *f)
{
    return f->gone && !f->written && f->seen.mode;
}

/* Permission bits: those it had, but for the right to execute; a new file's are git's. */
static mode_t permissions(const struct world_file *f)
{
    bool runs = f->new_mode == 0100755;
    if (f->base == 0)
        return runs ? 0755 : 0644;
    if (((f->base & S_IXUSR) != 0) == runs)
        return f->base;
    return runs ? f->base | (f->base & 0444) >> 2 : f->base & ~(mode_t)0111;
}

static int write_new(const struct item *it)
{
    const struct world_file *f = it->file;
    char name[STAGE_NAME];
    stage_name(name, 'n', it->number);
    if (S_ISLNK(f->new_mode)) {
        _cleanup_free_ char *target = strndup((const char *)f->new_data, f->new_size);
        return !target ? -ENOMEM : symlinkat(target, it->stage->dir, name) < 0 ? -errno : 0;
    }
    _cleanup_fd_ int fd =
        openat(it->stage->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int r = f->new_size ? io_write_all(fd, f->new_data, f->new_size) : 0;
    if (r >= 0 && fchmod(fd, permissions(f)) < 0)
        r = -errno;
    return r;
}

static bool is_touched(const struct commit *c, const struct item *it)
{
    struct seen now;
    return disk_look(c->stages.root, it->file->path, &now) < 0 ||
           !disk_is_same(&now, &it->file->seen);
}

/* Does what waits under a name hold anything but what was read? Times do not tell: two writes of
 * one tick have the same. */
static bool holds_other(const struct stage *st, const char *name, const struct world_file *f)
{
    _cleanup_fd_ int fd = -1;
    if (!f->loaded || !S_ISREG(f->seen.mode))
        return false;
    return content_open(st->dir, name, &fd) < 0 || !content_holds(fd, f->data, f->size);
}

/* What came out of its place must be what was read. Moving it may have changed its inode's number
 * and times of change, on an overlay; not its size and time of writing. */
static bool is_other(const struct stage *st, const char *name, const struct world_file *f)
{
    const struct seen *seen = &f->seen;
    struct stat s;
    return fstatat(st->dir, name, &s, AT_SYMLINK_NOFOLLOW) < 0 ||
           (uint64_t)s.st_size != seen->size || (s.st_mode & S_IFMT) != (seen->mode & S_IFMT) ||
           s.st_mtim.tv_sec != seen->mtime.tv_sec || s.st_mtim.tv_nsec != seen->mtime.tv_nsec ||
           holds_other(st, name, f);
}

static int take_out(struct commit *c, const struct item *it)
{
    int r = undo_do(&c->undo, (struct step){STEP_TAKE, it->file->path, it->stage, it->number});
    char name[STAGE_NAME];
    stage_name(name, 'o', it->number);
    return r >= 0 && is_other(it->stage, name, it->file) ? -ESTALE : r;
}

static int put_in(struct commit *c, const struct item *it)
{
    return undo_do(&c->undo, (struct step){STEP_PUT, it->file->path, it->stage, it->number});
}

static int replace(struct commit *c, const struct item *it)
{
    int r = undo_do(&c->undo, (struct step){STEP_SWAP, it->file->path, it->stage, it->number});
    if (r == -EINVAL || r == -ENOSYS) { /* a filesystem that cannot exchange */
        r = take_out(c, it);
        return r < 0 ? r : put_in(c, it);
    }
    char name[STAGE_NAME];
    stage_name(name, 'n', it->number);
    return r >= 0 && is_other(it->stage, name, it->file) ? -ESTALE : r;
}

/* A folder whose files all go makes room for a file of its name. */
static int clear_folder(struct commit *c, const char *folder)
{
    size_t n = strlen(folder);
    for (size_t i = 0; i < c->count; i++) {
        const struct world_file *f = c->items[i].file;
        if (goes(f) && strncmp(f->path, folder, n) == 0 && f->path[n] == '/')
            undo_prune(&c->undo, f->path, folder);
    }
    struct seen now;
    int r = disk_look(c->stages.root, folder, &now);
    return r < 0 ? r : now.mode ? -EISDIR : 0;
}

static int add(struct commit *c, const struct item *it)
{
    int r = S_ISDIR(it->file->seen.mode) ? clear_folder(c, it->file->path) : 0;
    if (r >= 0)
        r = undo_make_folders(&c->undo, it->file->path);
    return r < 0 ? r : put_in(c, it);
}

static int fail(const struct item *it, int r, struct error *err)
{
    if (r == -ESTALE || r == -EEXIST)
        return error_set(
            err, ESTALE,
            "%.400s: was changed by somebody else while the diff was applied; try again",
            it->file->path);
    if (r == -EISDIR)
        return error_set(err, EISDIR, "%.400s: is a folder with other files in it", it->file->path);
    return error_errno(err, -r, "%.400s: cannot be written", it->file->path);
}

/* Does `act` for every file that `is` picks. */
static int each(struct commit *c, bool (*is)(const struct world_file *),
                int (*act)(struct commit *, const struct item *), struct error *err)
{
    for (size_t i = 0; i < c->count; i++) {
        int r = is(c->items[i].file) ? act(c, &c->items[i]) : 0;
        if (r < 0)
            return fail(&c->items[i], r, err);
    }
    return 0;
}

static bool is_new(const struct world_file *f)
{
    return f->written && !is_written_over(f);
}

static bool is_written(const struct world_file *f)
{
    return f->written;
}

static bool is_any(const struct world_file *f)
{
    return true;
}

static int prepare_new(struct commit *c, const struct item *it)
{
    return write_new(it);
}

static int check(struct commit *c, const struct item *it)
{
    return is_touched(c, it) && !(S_ISDIR(it->file->seen.mode) && it->file->written) ? -ESTALE : 0;
}

static int carry_out(struct commit *c, struct error *err)
{
    int r = each(c, is_written, prepare_new, err);
    if (r >= 0)
        r = each(c, is_any, check, err);
    if (r >= 0)
        r = each(c, goes, take_out, err);
    if (r >= 0)
        r = each(c, is_written_over, replace, err);
    return r < 0 ? r : each(c, is_new, add, err);
}

/* The files that change, and those that were only read, each with its stage. */
static int collect(struct commit *c, struct error *err)
{
    struct world *w = c->world;
    c->count = 0;
    c->items = calloc(w->count + 1, sizeof *c->items);
    if (!c->items)
        return error_errno(err, ENOMEM, "applying the diff");
    for (size_t i = 0; i < w->count; i++) {
        struct item it = {.file = w->entries[i], .number = c->count};
        bool changes = it.file->written || goes(it.file);
        if (!changes && !it.file->loaded)
            continue;
        int r = changes ? stage_for(&c->stages, it.file->path, &it.stage) : 0;
        if (r < 0)
            return fail(&it, r, err);
        c->items[c->count++] = it;
    }
    return 0;
}

static int give_up(struct commit *c, int r, struct error *err)
{
    size_t left = undo_all(&c->undo);
    bool lost = left > 0;
    if (!lost)
        error_wrap(err, "nothing was changed");
    else
        error_wrap(err, "%zu changes could not be undone, the old files are in %s", left,
                   c->stages.count ? c->stages.list[0].name : "");
    stages_end(&c->stages, !lost, c->count);
    return r;
}

int commit_run(int root, struct world *w, struct error *err)
{
    struct commit c = {.world = w, .stages = {.root = root}};
    undo_init(&c.undo, root);
    int r = collect(&c, err);
    if (r >= 0)
        r = carry_out(&c, err);
    if (r < 0) {
        r = give_up(&c, r, err);
    } else {
        stages_end(&c.stages, true, c.count);
        for (size_t i = 0; i < c.count; i++)
            if (goes(c.items[i].file))
                undo_prune(&c.undo, c.items[i].file->path, "");
    }
    undo_free(&c.undo);
    free(c.items);
    return r;
}
