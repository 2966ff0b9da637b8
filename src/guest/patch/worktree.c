#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "patch.h"
#include "relpath.h"
#include "../diff/content.h"
#include "io.h"
#include "banned.h"

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

bool worktree_file_unchanged(const struct worktree *w, const struct worktree_file *f)
{
    _cleanup_fd_ int dir = -1, fd = -1;
    struct file_state now;
    if (file_state_read(w->root, f->path, &now) < 0 || !file_state_same(&f->seen, &now))
        return false;
    if (!f->loaded || !S_ISREG(f->seen.mode))
        return true;
    /* Its times are too coarse to be enough. */
    return beneath_open_parent(w->root, f->path, &dir) >= 0 &&
           content_open(dir, relpath_name(f->path), &fd) >= 0 &&
           content_holds(fd, f->data, f->size);
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
    if (w->count == w->room) {
        size_t room = w->room ? w->room * 2 : 16;
        struct worktree_file **more = realloc(w->entries, room * sizeof *more);
        if (!more)
            return -ENOMEM;
        w->entries = more;
        w->room = room;
    }
    struct worktree_file *f = calloc(1, sizeof *f);
    if (f)
        f->path = strdup(path);
    int r = f && f->path ? file_state_read(w->root, path, &f->seen) : -ENOMEM;
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

/* -ESTALE: it is not the file any more that was examined. */
static int worktree_read(struct worktree *w, struct worktree_file *f)
{
    _cleanup_fd_ int dir = -1, fd = -1;
    struct file_state now;
    const char *name = relpath_name(f->path);
    if (beneath_open_parent(w->root, f->path, &dir) < 0)
        return -ESTALE;
    if (S_ISLNK(f->seen.mode)) {
        char *target = NULL;
        int r = content_read_link(dir, name, &target);
        f->data = (uint8_t *)target;
        f->size = target ? strlen(target) : 0;
        return r == -EINVAL ? -ESTALE : r;
    }
    int r = content_open(dir, name, &fd);
    if (r < 0)
        return r == -ENXIO || r == -ELOOP ? -ESTALE : r;
    _cleanup_free_ uint8_t *content = malloc((size_t)f->seen.size + 1);
    if (!content)
        return -ENOMEM;
    ssize_t n = io_read_at(fd, content, (size_t)f->seen.size + 1, 0);
    if (n < 0)
        return (int)n;
    if ((uint64_t)n != f->seen.size || file_state_read(w->root, f->path, &now) < 0 ||
        !file_state_same(&now, &f->seen))
        return -ESTALE;
    f->data = TAKE_PTR(content);
    f->size = (size_t)n;
    return 0;
}

int worktree_load(struct worktree *w, struct worktree_file *f, struct error *err)
{
    if (f->loaded)
        return 0;
    if (f->seen.size > WORKTREE_FILE_MAX)
        return error_set(err, EFBIG, "is larger than %u MiB, too large to be patched",
                         WORKTREE_FILE_MAX >> 20);
    if (worktree_count(w, f->seen.size) < 0)
        return error_set(err, E2BIG,
                         "the files of this diff have more than %u MiB together: apply it in parts",
                         WORKTREE_TOTAL_MAX >> 20);
    int r = worktree_read(w, f);
    if (r == -ESTALE)
        return error_set(err, ESTALE, "another process is changing it; try again");
    if (r < 0)
        return error_errno(err, -r, "cannot be read");
    f->loaded = true;
    return 0;
}

int worktree_keep(struct worktree *w, uint8_t *data, size_t size)
{
    int r = 0;
    if (w->n_made == w->made_room) {
        size_t room = w->made_room ? w->made_room * 2 : 16;
        uint8_t **more = realloc(w->made, room * sizeof *more);
        if (more) {
            w->made = more;
            w->made_room = room;
        } else {
            r = -ENOMEM;
        }
    }
    if (r >= 0)
        r = worktree_count(w, size);
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
