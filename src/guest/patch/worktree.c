/*
 * The files that a diff is about, in memory; and writing what was planned for them.
 *
 * 1. Every new content is written to a temporary file, in the folder of its file or, if that does
 *    not exist yet, in the nearest one above. Lack of space or permission shows here.
 * 2. Everything that the diff is about must still be what was read, and every folder that loses a
 *    file must be writable.
 * 3. Files that go are removed, then the temporary files are renamed to their places: each file
 *    changes in one step, and a new file never replaces another one.
 * 4. Folders that lost their last file are removed, as git does.
 *
 * A failure in the first two steps leaves everything as it was. In the third only another process
 * that changes the same files in the same moment can cause one; the error says what was done.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "io.h"
#include "patch.h"
#include "relpath.h"
#include "sys.h"
#include "../diff/content.h"
#include "banned.h"

#define DEPTH_MAX 64u

static int file_state_read(int root, const char *path, struct file_state *ret)
{
    _cleanup_fd_ int dir = -1;
    struct stat st = {0};
    int r = beneath_open_parent(root, path, &dir);
    if (r >= 0 && fstatat(dir, relpath_name(path), &st, AT_SYMLINK_NOFOLLOW) < 0)
        r = -errno;
    if (r < 0 && r != -ENOENT && r != -ENOTDIR)
        return r;
    *ret = r < 0 ? (struct file_state){0}
                 : (struct file_state){.mode = st.st_mode,
                                       .size = (uint64_t)st.st_size,
                                       .ino = st.st_ino,
                                       .dev = st.st_dev,
                                       .mtime = st.st_mtim,
                                       .ctime = st.st_ctim};
    return 0;
}

static bool file_state_same(const struct file_state *a, const struct file_state *b)
{
    if (S_ISDIR(a->mode) || a->mode == 0)
        return a->mode == b->mode;
    return a->mode == b->mode && a->size == b->size && a->ino == b->ino && a->dev == b->dev &&
           a->mtime.tv_sec == b->mtime.tv_sec && a->mtime.tv_nsec == b->mtime.tv_nsec &&
           a->ctime.tv_sec == b->ctime.tv_sec && a->ctime.tv_nsec == b->ctime.tv_nsec;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(((const struct worktree_file *)a)->path, ((const struct worktree_file *)b)->path);
}

void worktree_free(struct worktree *w)
{
    for (size_t i = 0; i < w->count; i++) {
        tdelete(w->entries[i], &w->by_path, compare_paths);
        free(w->entries[i]->path);
        free(w->entries[i]->data);
        free(w->entries[i]);
    }
    for (size_t i = 0; i < w->n_made; i++)
        free(w->made[i]);
    free(w->entries);
    free(w->made);
    buf_free(&w->notes);
    *w = (struct worktree){0};
}

void worktree_reset(struct worktree *w)
{
    w->total = 0;
    for (size_t i = 0; i < w->count; i++) {
        struct worktree_file *f = w->entries[i];
        f->will_go = f->moves = f->gone = f->written = false;
        w->total += f->loaded ? f->size : 0;
    }
    for (; w->n_made > 0; w->n_made--)
        free(w->made[w->n_made - 1]);
    w->notes.len = 0;
    w->notes.failed = false;
}

int worktree_get(struct worktree *w, const char *path, struct worktree_file **ret)
{
    struct worktree_file key = {.path = (char *)path};
    struct worktree_file **found = tfind(&key, &w->by_path, compare_paths);
    if (found) {
        *ret = *found;
        return 0;
    }
    struct worktree_file *f = calloc(1, sizeof *f);
    if (f)
        f->path = strdup(path);
    int r = f && f->path && ARRAY_GROW(w->entries, w->count, w->room)
                ? file_state_read(w->root, path, &f->seen)
                : -ENOMEM;
    if (r >= 0 && !tsearch(f, &w->by_path, compare_paths))
        r = -ENOMEM;
    if (r < 0) {
        if (f)
            free(f->path);
        free(f);
        return r;
    }
    w->entries[w->count++] = f;
    *ret = f;
    return 0;
}

bool worktree_file_exists(const struct worktree_file *f)
{
    return f->written || (f->seen.mode != 0 && !f->gone);
}

bool worktree_exists(struct worktree *w, const char *path)
{
    struct worktree_file *f;
    return worktree_get(w, path, &f) >= 0 && worktree_file_exists(f);
}

static int worktree_count(struct worktree *w, uint64_t size)
{
    if (size > WORKTREE_TOTAL_MAX || w->total > WORKTREE_TOTAL_MAX - size)
        return -E2BIG;
    w->total += size;
    return 0;
}

int worktree_load(struct worktree *w, struct worktree_file *f, struct error *err)
{
    _cleanup_fd_ int dir = -1, fd = -1;
    struct file_state now;
    const char *name = relpath_name(f->path);
    if (f->loaded)
        return 0;
    if (f->seen.size > WORKTREE_FILE_MAX)
        return error_set(err, EFBIG, "is larger than %u MiB, too large to be patched",
                         WORKTREE_FILE_MAX >> 20);
    if (worktree_count(w, f->seen.size) < 0)
        return error_set(err, E2BIG,
                         "the files of this diff have more than %u MiB together: apply it in parts",
                         WORKTREE_TOTAL_MAX >> 20);
    int r = beneath_open_parent(w->root, f->path, &dir) < 0 ? -ESTALE : 0;
    if (r == 0 && S_ISLNK(f->seen.mode)) {
        char *target = NULL;
        r = content_read_link(dir, name, &target);
        f->data = (uint8_t *)target;
        f->size = target ? strlen(target) : 0;
    } else if (r == 0 && (r = content_open(dir, name, &fd)) == 0) {
        uint8_t *content = f->data = malloc((size_t)f->seen.size + 1);
        ssize_t n = content ? io_read_at(fd, content, (size_t)f->seen.size + 1, 0) : -ENOMEM;
        f->size = n < 0 ? 0 : (size_t)n;
        r = n < 0 ? (int)n : 0;
        if (r == 0 && (f->size != f->seen.size || file_state_read(w->root, f->path, &now) < 0 ||
                       !file_state_same(&now, &f->seen)))
            r = -ESTALE;
    }
    f->loaded = r == 0;
    if (r == 0)
        return 0;
    free(TAKE_PTR(f->data));
    /* It is a link, a file or something else by now. */
    if (r == -ESTALE || r == -EINVAL || r == -ENXIO || r == -ELOOP)
        return error_set(err, ESTALE, "another process is changing it; try again");
    return error_errno(err, -r, "cannot be read");
}

int worktree_keep(struct worktree *w, uint8_t *data, size_t size)
{
    int r = ARRAY_GROW(w->made, w->n_made, w->made_room) ? worktree_count(w, size) : -ENOMEM;
    if (r < 0) {
        free(data);
        return r;
    }
    w->made[w->n_made++] = data;
    return 0;
}

void worktree_note(struct worktree *w, const char *fmt, ...)
{
    char text[600];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n > 0 && w->notes.len + sizeof text < WORKTREE_NOTES_MAX)
        buf_append(&w->notes, text, strlen(text) + 1);
}

/* The new content of a file, in a temporary file. */
struct staged {
    size_t folder; /* bytes of the file's path that are the folder of the temporary file */
    char name[TEMPORARY_NAME_MAX]; /* empty if there is none */
};

static bool file_goes(const struct worktree_file *f)
{
    return f->gone && !f->written && f->seen.mode;
}

/* Opens the folder whose path is the first n bytes of a path. */
static int commit_open_folder(const struct worktree *w, const char *path, size_t n, int *ret_fd)
{
    _cleanup_free_ char *folder = strndup(path, n);
    return folder ? beneath_open_dir(w->root, folder, ret_fd) : -ENOMEM;
}

static int commit_stage(const struct worktree *w, const struct worktree_file *f, struct staged *s)
{
    _cleanup_fd_ int dir = -1, fd = -1;
    size_t n = strlen(f->path);
    int r;
    do {
        while (n > 0 && f->path[--n] != '/')
            ;
        r = commit_open_folder(w, f->path, n, &dir);
    } while ((r == -ENOENT || r == -ENOTDIR) && n > 0);
    if (r >= 0)
        r = temporary_open(dir, s->name, &fd);
    if (r < 0)
        return r;
    s->folder = n;
    if (S_ISLNK(f->new_mode)) {
        _cleanup_free_ char *target = strndup((const char *)f->new_data, f->new_size);
        if (!target)
            return -ENOMEM;
        return unlinkat(dir, s->name, 0) < 0 || symlinkat(target, dir, s->name) < 0 ? -errno : 0;
    }
    /* A file keeps its permission bits, but for the right to execute; a new file gets git's. */
    bool runs = f->new_mode == 0100755;
    mode_t mode = f->base;
    if (f->base == 0)
        mode = runs ? 0755 : 0644;
    else if (((f->base & S_IXUSR) != 0) != runs)
        mode = runs ? f->base | (f->base & 0444) >> 2 : f->base & ~(mode_t)0111;
    r = f->new_size ? io_write_all(fd, f->new_data, f->new_size) : 0;
    return r >= 0 && fchmod(fd, mode) < 0 ? -errno : r;
}

/* Will a folder be empty once the files are gone that the diff removes? */
static bool folder_gets_empty(const struct worktree *w, const char *path, unsigned depth)
{
    _cleanup_fd_ int dir = -1;
    bool empty = true;
    if (depth == DEPTH_MAX || beneath_open_dir(w->root, path, &dir) < 0)
        return false;
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    if (!list) {
        cleanup_close(&fd);
        return false;
    }
    for (const struct dirent *e; empty && (e = readdir(list));) {
        _cleanup_free_ char *inner = NULL;
        bool goes = false;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (asprintf(&inner, "%s/%s", path, e->d_name) < 0) {
            inner = NULL;
            empty = false;
            break;
        }
        for (size_t i = 0; i < w->count && !goes; i++)
            goes = file_goes(w->entries[i]) && strcmp(w->entries[i]->path, inner) == 0;
        empty = goes || folder_gets_empty(w, inner, depth + 1);
    }
    closedir(list);
    return empty;
}

/* Removes the empty folders above a path whose own paths have at least `least` bytes. */
static void remove_empty_above(const struct worktree *w, const char *path, size_t least)
{
    _cleanup_free_ char *folder = strdup(path);
    char *slash;
    while (folder && (slash = strrchr(folder, '/')) && (size_t)(slash - folder) >= least) {
        _cleanup_fd_ int dir = -1;
        *slash = 0;
        if (beneath_open_parent(w->root, folder, &dir) < 0 ||
            unlinkat(dir, relpath_name(folder), AT_REMOVEDIR) < 0)
            return;
    }
}

/* Gives the temporary file its name, making the folders on the way. */
static int commit_place(const struct worktree *w, const struct worktree_file *f, struct staged *s)
{
    _cleanup_fd_ int from = -1, to = -1;
    _cleanup_free_ char *way = strdup(f->path);
    size_t n = strlen(f->path);
    bool replaces = f->seen.mode && !S_ISDIR(f->seen.mode);
    if (!way)
        return -ENOMEM;
    for (size_t i = 0; i < w->count && S_ISDIR(f->seen.mode); i++) {
        const struct worktree_file *other = w->entries[i];
        if (file_goes(other) && strncmp(other->path, f->path, n) == 0 && other->path[n] == '/')
            remove_empty_above(w, other->path, n);
    }
    for (char *slash = strchr(way, '/'); slash && !replaces; slash = strchr(slash + 1, '/')) {
        _cleanup_fd_ int above = -1;
        *slash = 0;
        int r = beneath_open_parent(w->root, way, &above);
        if (r >= 0 && mkdirat(above, relpath_name(way), 0777) < 0 && errno != EEXIST)
            r = -errno;
        if (r < 0)
            return r;
        *slash = '/';
    }
    int r = commit_open_folder(w, f->path, s->folder, &from);
    if (r >= 0)
        r = beneath_open_parent(w->root, f->path, &to);
    if (r < 0)
        return r;
    const char *name = relpath_name(f->path);
    r = sys_renameat2(from, s->name, to, name, replaces ? 0 : RENAME_NOREPLACE);
    if (r < 0 && !replaces && (errno == EINVAL || errno == ENOSYS)) /* a filesystem without it */
        r = sys_renameat2(from, s->name, to, name, 0);
    if (r < 0)
        return -errno;
    s->name[0] = 0;
    return 0;
}

/* Steps 1 to 3. On failure *ret_file is the file that it is about. */
static int commit_steps(const struct worktree *w, struct staged *staged,
                        const struct worktree_file **ret_file, size_t *ret_done)
{
    int r;
    for (size_t i = 0; i < w->count; i++) {
        *ret_file = w->entries[i];
        if (w->entries[i]->written && (r = commit_stage(w, w->entries[i], &staged[i])) < 0)
            return r;
    }
    for (size_t i = 0; i < w->count; i++) {
        const struct worktree_file *f = *ret_file = w->entries[i];
        _cleanup_fd_ int dir = -1, above = -1, fd = -1;
        struct file_state now;
        /* Still what it was, with the content that was read: times are too coarse to be enough. Of
         * a folder, that it still is one. */
        if (file_state_read(w->root, f->path, &now) < 0 || !file_state_same(&f->seen, &now))
            return -ESTALE;
        if (f->loaded && S_ISREG(f->seen.mode) &&
            (beneath_open_parent(w->root, f->path, &above) < 0 ||
             content_open(above, relpath_name(f->path), &fd) < 0 ||
             !content_holds(fd, f->data, f->size)))
            return -ESTALE;
        if (f->written && S_ISDIR(f->seen.mode) && !folder_gets_empty(w, f->path, 0))
            return -EISDIR;
        r = file_goes(f) ? beneath_open_parent(w->root, f->path, &dir) : 0;
        if (r < 0 || (dir >= 0 && faccessat(dir, ".", W_OK | X_OK, 0) < 0))
            return r < 0 ? r : -errno;
    }
    for (size_t i = 0; i < w->count; i++) {
        const struct worktree_file *f = *ret_file = w->entries[i];
        _cleanup_fd_ int dir = -1;
        if (!file_goes(f))
            continue;
        r = beneath_open_parent(w->root, f->path, &dir);
        if (r < 0 || unlinkat(dir, relpath_name(f->path), 0) < 0)
            return r < 0 ? r : -errno;
        ++*ret_done;
    }
    for (size_t i = 0; i < w->count; i++) {
        *ret_file = w->entries[i];
        if (w->entries[i]->written && (r = commit_place(w, w->entries[i], &staged[i])) < 0)
            return r;
        *ret_done += w->entries[i]->written;
    }
    return 0;
}

int commit_run(const struct worktree *w, struct error *err)
{
    _cleanup_free_ struct staged *staged = calloc(w->count + 1, sizeof *staged);
    const struct worktree_file *file = NULL;
    size_t done = 0;
    if (!staged)
        return error_errno(err, ENOMEM, "nothing was changed");
    int r = commit_steps(w, staged, &file, &done);
    if (r >= 0) {
        for (size_t i = 0; i < w->count; i++)
            if (file_goes(w->entries[i]))
                remove_empty_above(w, w->entries[i]->path, 0);
        return 0;
    }
    for (size_t i = 0; i < w->count; i++) {
        _cleanup_fd_ int dir = -1;
        if (staged[i].name[0] &&
            commit_open_folder(w, w->entries[i]->path, staged[i].folder, &dir) >= 0)
            unlinkat(dir, staged[i].name, 0);
    }
    if (r == -ESTALE || r == -EEXIST || r == -ENOENT)
        r = error_set(err, ESTALE,
                      "%.400s: another process changed it while the diff was applied; try again",
                      file->path);
    else if (r == -EISDIR)
        error_set(err, EISDIR, "%.400s: is a folder with other files in it", file->path);
    else
        error_errno(err, -r, "%.400s: cannot be written", file->path);
    if (done)
        error_wrap(err, "%zu files were changed before this failed", done);
    else
        error_wrap(err, "nothing was changed");
    return r;
}
