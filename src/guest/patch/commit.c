/*
 * Writing what was planned, all or nothing.
 *
 * 1. Every new content is written to a staging folder. What fails for lack of space or permission
 *    fails here, before anything has changed.
 * 2. Every file that the diff is about must still be the one that was read.
 * 3. Files that go are moved to the staging folder; files that change are exchanged with their new
 *    content, in one step each. What came out must hold what was read.
 * 4. New files are moved in, into folders that are made for them, and never over something else.
 * 5. The staging folders are removed, and folders that lost their last file.
 *
 * If anything fails up to step 4, the old files are put back, unless another process has put a
 * newer file there meanwhile. A process that looks sees some files before and some after the
 * change, but never half of one.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "relpath.h"
#include "cleanup.h"
#include "io.h"
#include "plan.h"
#include "sys.h"
#include "../diff/content.h"
#include "banned.h"

#define STAGES_MAX 32u
#define STAGE_NAME 32

/* A staging folder, which only its owner can enter. A rename only works within a filesystem, so
 * there is one for each: as far up in the tree as possible, since folders further down may go. */
struct stage {
    int above, dir; /* the folder it is in; itself */
    uint64_t dev;
    char name[STAGE_NAME];
};

/* A file of the diff. */
struct item {
    struct worktree_file *file;
    struct stage *stage;                             /* NULL: it was only read */
    char new_name[STAGE_NAME], old_name[STAGE_NAME]; /* of both contents in the stage */
    const char *kept;                                /* the name of the old file in the stage */
    ino_t placed; /* of the new file at its place; 0 while it is not there */
};

/* A folder that was made or removed. */
struct folder_change {
    char *path;
    bool made;
    mode_t mode;
};

struct commit {
    int root;
    struct stage stages[STAGES_MAX];
    size_t n_stages;
    struct item *items;
    size_t count;
    struct folder_change *folders;
    size_t n_folders, folders_room;
};

static int stage_make(int above, struct stage *st)
{
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return -EIO;
    snprintf(st->name, sizeof st->name, ".hutch-%016llx.tmp", (unsigned long long)random);
    if (mkdirat(above, st->name, 0700) < 0)
        return -errno;
    st->dir = openat(above, st->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (st->dir >= 0)
        return 0;
    int r = -errno;
    unlinkat(above, st->name, AT_REMOVEDIR);
    return r;
}

/* Opens the folder that is `n` bytes of `path` long, if it is on the device (0: on any). */
static int open_folder(int root, const char *path, size_t n, uint64_t *dev, int *ret_fd)
{
    char folder[PATH_MAX];
    struct stat st;
    _cleanup_fd_ int fd = -1;
    if (n >= sizeof folder)
        return -ENAMETOOLONG;
    memcpy(folder, path, n);
    folder[n] = 0;
    int r = beneath_open_dir(root, folder, &fd);
    if (r < 0)
        return r;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (*dev && *dev != st.st_dev)
        return -EXDEV;
    *dev = st.st_dev;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* The stage for a path: in the first folder from the root down that is on the filesystem of the
 * path and allows it. */
static int stage_for(struct commit *c, const char *path, struct stage **ret)
{
    uint64_t dev = 0;
    size_t deepest = strlen(path);
    int r;
    do { /* the deepest folder on the way that exists */
        _cleanup_fd_ int fd = -1;
        while (deepest > 0 && path[--deepest] != '/')
            ;
        r = open_folder(c->root, path, deepest, &dev, &fd);
    } while ((r == -ENOENT || r == -ENOTDIR) && deepest > 0);
    if (r < 0)
        return r;
    for (size_t i = 0; i < c->n_stages; i++)
        if (c->stages[i].dev == dev) {
            *ret = &c->stages[i];
            return 0;
        }
    if (c->n_stages == STAGES_MAX)
        return -EXDEV;
    for (size_t n = 0; n <= deepest; n++) {
        _cleanup_fd_ int above = -1;
        struct stage *st = &c->stages[c->n_stages];
        if (n > 0 && n < deepest && path[n] != '/')
            continue;
        r = open_folder(c->root, path, n, &dev, &above);
        if (r >= 0)
            r = stage_make(above, st);
        if (r >= 0) {
            st->above = TAKE_FD(above);
            st->dev = dev;
            c->n_stages++;
            *ret = st;
            return 0;
        }
    }
    return r;
}

static bool file_goes(const struct worktree_file *f)
{
    return f->gone && !f->written && f->seen.mode;
}

static bool file_is_replaced(const struct worktree_file *f)
{
    return f->written && f->seen.mode && !S_ISDIR(f->seen.mode);
}

/* Writes the new content to the stage. A file keeps its permission bits, but for the right to
 * execute; a new file gets git's. */
static int item_stage(const struct item *it)
{
    const struct worktree_file *f = it->file;
    if (S_ISLNK(f->new_mode)) {
        _cleanup_free_ char *target = strndup((const char *)f->new_data, f->new_size);
        if (!target)
            return -ENOMEM;
        return symlinkat(target, it->stage->dir, it->new_name) < 0 ? -errno : 0;
    }
    bool runs = f->new_mode == 0100755;
    mode_t mode = f->base;
    if (f->base == 0)
        mode = runs ? 0755 : 0644;
    else if (((f->base & S_IXUSR) != 0) != runs)
        mode = runs ? f->base | (f->base & 0444) >> 2 : f->base & ~(mode_t)0111;
    _cleanup_fd_ int fd = openat(it->stage->dir, it->new_name,
                                 O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int r = f->new_size ? io_write_all(fd, f->new_data, f->new_size) : 0;
    return r >= 0 && fchmod(fd, mode) < 0 ? -errno : r;
}

/* A rename onto nothing. Where the filesystem cannot promise that, link and unlink can. */
static int move_file(int from_dir, const char *from, int to_dir, const char *to)
{
    if (sys_renameat2(from_dir, from, to_dir, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -errno;
    if (linkat(from_dir, from, to_dir, to, 0) < 0)
        return -errno;
    return unlinkat(from_dir, from, 0) < 0 ? -errno : 0;
}

/* Does the old file, out of its place now, hold what was read? Moving it may have changed its inode
 * number and ctime on an overlay; its times are too coarse to be enough. */
static int item_check_kept(const struct item *it)
{
    const struct worktree_file *f = it->file;
    const struct file_state *seen = &f->seen;
    _cleanup_fd_ int fd = -1;
    struct stat st;
    if (fstatat(it->stage->dir, it->kept, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        (uint64_t)st.st_size != seen->size || (st.st_mode & S_IFMT) != (seen->mode & S_IFMT) ||
        st.st_mtim.tv_sec != seen->mtime.tv_sec || st.st_mtim.tv_nsec != seen->mtime.tv_nsec)
        return -ESTALE;
    if (!f->loaded || !S_ISREG(seen->mode))
        return 0;
    return content_open(it->stage->dir, it->kept, &fd) < 0 || !content_holds(fd, f->data, f->size)
               ? -ESTALE
               : 0;
}

static int item_take(struct item *it, int dir)
{
    int r = move_file(dir, relpath_name(it->file->path), it->stage->dir, it->old_name);
    if (r < 0)
        return r;
    it->kept = it->old_name;
    return item_check_kept(it);
}

static int item_put(struct item *it, int dir)
{
    struct stat st;
    if (fstatat(it->stage->dir, it->new_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    int r = move_file(it->stage->dir, it->new_name, dir, relpath_name(it->file->path));
    it->placed = r < 0 ? 0 : st.st_ino;
    return r;
}

static int item_replace(struct item *it, int dir)
{
    struct stat st;
    const char *name = relpath_name(it->file->path);
    if (fstatat(it->stage->dir, it->new_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (sys_renameat2(it->stage->dir, it->new_name, dir, name, RENAME_EXCHANGE) == 0) {
        it->placed = st.st_ino;
        it->kept = it->new_name;
        return item_check_kept(it);
    }
    if (errno != EINVAL && errno != ENOSYS) /* else a filesystem that cannot exchange */
        return -errno;
    int r = item_take(it, dir);
    return r < 0 ? r : item_put(it, dir);
}

/* Makes or removes a folder and remembers it. */
static int change_folder(struct commit *c, const char *path, bool make)
{
    _cleanup_fd_ int dir = -1;
    struct stat st = {0};
    const char *name = relpath_name(path);
    int r = beneath_open_parent(c->root, path, &dir);
    if (r < 0)
        return r;
    if (!make && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (c->n_folders == c->folders_room) {
        size_t room = c->folders_room ? c->folders_room * 2 : 64;
        struct folder_change *more = realloc(c->folders, room * sizeof *more);
        if (!more)
            return -ENOMEM;
        c->folders = more;
        c->folders_room = room;
    }
    _cleanup_free_ char *copy = strdup(path);
    if (!copy)
        return -ENOMEM;
    if ((make ? mkdirat(dir, name, 0777) : unlinkat(dir, name, AT_REMOVEDIR)) < 0)
        return -errno;
    c->folders[c->n_folders++] = (struct folder_change){TAKE_PTR(copy), make, st.st_mode & 07777};
    return 0;
}

/* Removes the empty folders above a path whose own paths have at least so many bytes. */
static void remove_empty_above(struct commit *c, const char *path, size_t least)
{
    char way[PATH_MAX];
    char *slash;
    if (strlen(path) >= sizeof way)
        return;
    memcpy(way, path, strlen(path) + 1);
    while ((slash = strrchr(way, '/')) && (size_t)(slash - way) >= least) {
        *slash = 0;
        if (change_folder(c, way, false) < 0)
            return;
    }
}

static int item_add(struct commit *c, struct item *it)
{
    char way[PATH_MAX];
    const char *path = it->file->path;
    _cleanup_fd_ int dir = -1;
    size_t n = strlen(path);
    int r;
    if (n >= sizeof way)
        return -ENAMETOOLONG;
    if (S_ISDIR(it->file->seen.mode)) { /* a folder whose files all go makes room for the file */
        struct file_state now;
        for (size_t i = 0; i < c->count; i++) {
            const struct worktree_file *f = c->items[i].file;
            if (file_goes(f) && strncmp(f->path, path, n) == 0 && f->path[n] == '/')
                remove_empty_above(c, f->path, n);
        }
        r = file_state_look(c->root, path, &now);
        if (r < 0 || now.mode)
            return r < 0 ? r : -EISDIR;
    }
    memcpy(way, path, n + 1);
    for (char *slash = strchr(way, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        r = change_folder(c, way, true);
        *slash = '/';
        if (r < 0 && r != -EEXIST)
            return r;
    }
    r = beneath_open_parent(c->root, path, &dir);
    return r < 0 ? r : item_put(it, dir);
}

static int item_change(struct commit *c, struct item *it)
{
    _cleanup_fd_ int dir = -1;
    int r = beneath_open_parent(c->root, it->file->path, &dir);
    if (r < 0)
        return r;
    return file_goes(it->file) ? item_take(it, dir) : item_replace(it, dir);
}

static int item_error(const struct item *it, int r, struct error *err)
{
    const char *path = it->file->path;
    if (r == -ESTALE || r == -EEXIST || r == -ENOENT)
        return error_set(err, ESTALE,
                         "%.400s: another process changed it while the diff was applied; try again",
                         path);
    if (r == -EISDIR)
        return error_set(err, EISDIR, "%.400s: is a folder with other files in it", path);
    return error_errno(err, -r, "%.400s: cannot be written", path);
}

/* Steps 1 to 4. *ret_failed is the item that a failure is about. */
static int commit_items(struct commit *c, const struct item **ret_failed)
{
    int r = 0;
    struct item *it, *end = c->items + c->count;
    for (it = c->items; it < end; it++) {
        *ret_failed = it;
        if (it->file->written && (r = item_stage(it)) < 0)
            return r;
    }
    for (it = c->items; it < end; it++) {
        struct file_state now;
        *ret_failed = it;
        if (S_ISDIR(it->file->seen.mode) && it->file->written)
            continue; /* it will make room */
        if (file_state_look(c->root, it->file->path, &now) < 0 ||
            !file_state_same(&now, &it->file->seen))
            return -ESTALE;
    }
    for (int replace = 0; replace <= 1; replace++)
        for (it = c->items; it < end; it++) {
            *ret_failed = it;
            if ((replace ? file_is_replaced(it->file) : file_goes(it->file)) &&
                (r = item_change(c, it)) < 0)
                return r;
        }
    for (it = c->items; it < end; it++) {
        *ret_failed = it;
        if (it->file->written && !file_is_replaced(it->file) && (r = item_add(c, it)) < 0)
            return r;
    }
    return 0;
}

/* Puts the old file back. If another process has put a newer one there, that stays. */
static int item_restore(struct commit *c, const struct item *it)
{
    _cleanup_fd_ int dir = -1;
    struct stat st;
    const char *name = relpath_name(it->file->path);
    int r = beneath_open_parent(c->root, it->file->path, &dir);
    if (r < 0)
        return r;
    if (it->placed && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        if (st.st_ino != it->placed)
            return 0;
        r = it->kept ? renameat(it->stage->dir, it->kept, dir, name) : unlinkat(dir, name, 0);
        return r < 0 ? -errno : 0;
    }
    r = it->kept ? move_file(it->stage->dir, it->kept, dir, name) : 0;
    return r == -EEXIST ? 0 : r;
}

/* Puts everything back. Returns how many changes could not be undone. */
static size_t commit_restore(struct commit *c)
{
    size_t failed = 0;
    for (size_t i = 0; i < c->count; i++)
        if (c->items[i].placed && !c->items[i].kept)
            failed += item_restore(c, &c->items[i]) < 0;
    for (size_t i = c->n_folders; i-- > 0;) {
        const struct folder_change *f = &c->folders[i];
        const char *name = relpath_name(f->path);
        _cleanup_fd_ int dir = -1;
        bool ok = beneath_open_parent(c->root, f->path, &dir) >= 0;
        if (ok && f->made)
            ok = unlinkat(dir, name, AT_REMOVEDIR) == 0;
        else if (ok)
            ok = mkdirat(dir, name, 0777) == 0 && fchmodat(dir, name, f->mode, 0) == 0;
        failed += !ok;
    }
    for (size_t i = 0; i < c->count; i++)
        if (c->items[i].kept)
            failed += item_restore(c, &c->items[i]) < 0;
    return failed;
}

/* The files that change, and those that were only read. */
static int commit_collect(struct commit *c, struct worktree *w, struct error *err)
{
    c->items = calloc(w->count + 1, sizeof *c->items);
    if (!c->items)
        return error_errno(err, ENOMEM, "applying the diff");
    for (size_t i = 0; i < w->count; i++) {
        struct item it = {.file = w->entries[i]};
        bool changes = it.file->written || file_goes(it.file);
        if (!changes && !it.file->loaded)
            continue;
        snprintf(it.new_name, sizeof it.new_name, "n%zu", c->count);
        snprintf(it.old_name, sizeof it.old_name, "o%zu", c->count);
        int r = changes ? stage_for(c, it.file->path, &it.stage) : 0;
        if (r < 0)
            return item_error(&it, r, err);
        c->items[c->count++] = it;
    }
    return 0;
}

static void commit_free(struct commit *c, bool keep_stages)
{
    for (size_t i = 0; i < c->count && !keep_stages; i++)
        if (c->items[i].stage) {
            unlinkat(c->items[i].stage->dir, c->items[i].new_name, 0);
            unlinkat(c->items[i].stage->dir, c->items[i].old_name, 0);
        }
    for (size_t i = 0; i < c->n_stages; i++) {
        if (!keep_stages)
            unlinkat(c->stages[i].above, c->stages[i].name, AT_REMOVEDIR);
        close(c->stages[i].dir);
        close(c->stages[i].above);
    }
    for (size_t i = 0; i < c->n_folders; i++)
        free(c->folders[i].path);
    free(c->folders);
    free(c->items);
}

int commit_run(int root, struct worktree *w, struct error *err)
{
    struct commit c = {.root = root};
    const struct item *failed_item = NULL;
    size_t lost = 0;
    int r = commit_collect(&c, w, err);
    if (r >= 0) {
        r = commit_items(&c, &failed_item);
        if (r < 0)
            r = item_error(failed_item, r, err);
    }
    if (r < 0) {
        lost = commit_restore(&c);
        if (lost)
            error_wrap(err, "%zu changes could not be undone, the old files are in %s", lost,
                       c.n_stages ? c.stages[0].name : "");
        else
            error_wrap(err, "nothing was changed");
    } else {
        for (size_t i = 0; i < c.count; i++)
            if (file_goes(c.items[i].file))
                remove_empty_above(&c, c.items[i].file->path, 0);
    }
    commit_free(&c, lost > 0);
    return r;
}
