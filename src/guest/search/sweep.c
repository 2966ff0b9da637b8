#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>

#include "relpath.h"
#include "ignore.h"
#include "sys.h"
#include "sweep.h"
#include "sweep_thread.h"
#include "banned.h"

#define BATCH 64 /* files of a folder that one job looks at */

int sweep_fail(struct sweep *w, int code, const struct error *err)
{
    pthread_mutex_lock(&w->lock);
    if (!w->failed) {
        w->failed = code;
        if (err)
            w->error = *err;
    }
    pthread_mutex_unlock(&w->lock);
    jobs_end(&w->jobs);
    return code;
}

int sweep_open_folder(const struct sweep *w, const struct folder *f, int *ret_fd)
{
    const char *path = f == w->top ? "." : f->path + w->skip;
    struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    long fd;
    do
        fd = syscall(SYS_openat2, w->start, path, &how, sizeof how);
    while (fd < 0 && (errno == EINTR || errno == EAGAIN));
    if (fd < 0 && errno == ENAMETOOLONG) {
        /* Longer than the kernel takes at once. */
        _cleanup_fd_ int place = -1;
        int r = beneath_open_dir(w->start, path, &place);
        if (r < 0)
            return r;
        fd = openat(place, ".", (int)how.flags);
    }
    if (fd < 0)
        return -errno;
    *ret_fd = (int)fd;
    return 0;
}

/* Is the entry to be left out? Marks a folder that is only walked through. */
static bool leave_out(struct sweep *w, const struct folder *f, struct entry *e,
                      struct sweep_path *path)
{
    const char *name = folder_name(f, e);
    bool is_folder = e->type == ENTRY_FOLDER;
    if (name[0] == '.' && (!w->hidden || strcmp(name, ".git") == 0))
        return true;
    if (!w->user->everything && !is_folder && e->type != ENTRY_FILE)
        return true;
    if (!f->ignore && !w->filter.rules)
        return false;
    size_t n = sweep_path_set(path, f, name, e->n);
    if (f->ignore && ignore_has(f->ignore, path->text, n, e->n, is_folder))
        return true;
    enum filter_say said = filter_asks(&w->filter, path->text, n, w->skip, e->n, is_folder);
    e->unlisted = is_folder && said == FILTER_LACKS;
    return said == FILTER_REFUSES || (said == FILTER_LACKS && !is_folder);
}

/* Leaves only what is wanted. */
static int sift(struct sweep *w, struct folder *f, struct sweep_path *path)
{
    size_t kept = 0;
    if (sweep_path_reserve(path, f) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < f->count; i++)
        if (!leave_out(w, f, &f->entries[i], path))
            f->entries[kept++] = f->entries[i];
    f->count = kept;
    return 0;
}

/* Files to the front: those that are not looked at are gone by now. */
static size_t files_first(struct folder *f)
{
    size_t files = 0;
    for (size_t i = 0; i < f->count; i++)
        if (f->entries[i].type == ENTRY_FILE) {
            struct entry e = f->entries[i];
            f->entries[i] = f->entries[files];
            f->entries[files++] = e;
        }
    return files;
}

static int push_folders(struct sweep *w, struct folder *f)
{
    size_t n = 0, count = 0;
    for (size_t i = 0; i < f->count; i++)
        n += f->entries[i].type == ENTRY_FOLDER;
    if (n == 0 || (w->depth_max > 0 && f->depth + 1 >= w->depth_max))
        return 0;
    _cleanup_free_ struct job *jobs = calloc(n, sizeof *jobs);
    f->children = w->user->keeps ? calloc(n, sizeof(struct folder *)) : NULL;
    if (!jobs || (w->user->keeps && !f->children))
        return -ENOMEM;
    /* From the last to the first, so that the first is on top. */
    for (size_t i = f->count; i > 0; i--) {
        const struct entry *e = &f->entries[i - 1];
        if (e->type != ENTRY_FOLDER)
            continue;
        struct folder *child = folder_new(f, folder_name(f, e), e->n);
        if (!child)
            return -ENOMEM;
        if (f->children) {
            atomic_fetch_add(&child->uses, 1);
            f->children[n - 1 - count] = child;
        }
        jobs[count++] = (struct job){.folder = child};
    }
    f->n_children = f->children ? n : 0;
    return jobs_push(&w->jobs, jobs, n);
}

/* Hands out the files beyond the first batch, so that one large folder keeps all threads busy. */
static int push_files(struct sweep *w, struct folder *f, size_t files)
{
    size_t n = (files - 1) / BATCH;
    if (n == 0)
        return 0;
    _cleanup_free_ struct job *jobs = calloc(n, sizeof *jobs);
    if (!jobs)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        size_t first = (i + 1) * BATCH, count = files - first < BATCH ? files - first : BATCH;
        jobs[i] = (struct job){f, (uint32_t)first, (uint32_t)count};
    }
    atomic_fetch_add(&f->uses, (unsigned)n);
    return jobs_push(&w->jobs, jobs, n);
}

static int look_at_files(struct sweep *w, struct sweep_thread *t, struct folder *f, int fd)
{
    size_t files = w->user->files ? files_first(f) : 0;
    if (files == 0)
        return 0;
    int r = push_files(w, f, files);
    return r < 0 ? r : w->user->files(w, t->mine, f, fd, 0, files < BATCH ? files : BATCH);
}

/* Beyond the number that may be kept, entries are counted, and folders still walked. */
static void keep(struct sweep *w, struct folder *f)
{
    uint64_t listed = 0;
    for (size_t i = 0; i < f->count; i++)
        listed += !f->entries[i].unlisted;
    if (atomic_fetch_add(&w->kept, listed) + listed <= w->keep_max)
        return;
    atomic_fetch_sub(&w->kept, listed);
    atomic_fetch_add(&w->unkept, listed);
    f->count = 0;
}

static int read_folder(struct sweep *w, struct sweep_thread *t, struct folder *f)
{
    _cleanup_fd_ int fd = -1;
    unsigned interest = 0;
    int r = f->n_path > RELPATH_MAX ? -ENAMETOOLONG : sweep_open_folder(w, f, &fd);
    if (r >= 0)
        r = folder_read(f, fd, t->scratch, SWEEP_SCRATCH, &interest);
    if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -EXDEV)
        return 0; /* gone, or something else by now */
    if (r < 0 && r != -ENOMEM && r != -E2BIG) {
        atomic_fetch_add(&w->unreadable, 1);
        return 0;
    }
    if (r >= 0 && !w->ignored)
        r = ignore_extend(f->ignore, fd, interest, folder_base(f), &w->memory, &f->ignore);
    if (r >= 0)
        r = sift(w, f, &t->path);
    if (r >= 0 && w->user->keeps)
        r = folder_sort(f);
    if (r >= 0)
        r = push_folders(w, f);
    if (r >= 0 && w->user->keeps)
        keep(w, f);
    return r < 0 ? r : look_at_files(w, t, f, fd);
}

static int look_at_batch(struct sweep *w, struct sweep_thread *t, const struct job *job)
{
    _cleanup_fd_ int fd = -1;
    if (sweep_open_folder(w, job->folder, &fd) < 0)
        return 0;
    return w->user->files(w, t->mine, job->folder, fd, job->first, job->count);
}

void sweep_do(struct sweep *w, struct sweep_thread *t)
{
    struct job job;
    for (bool again = false; jobs_take(&w->jobs, again, &job); again = true) {
        int r = job.count ? look_at_batch(w, t, &job) : read_folder(w, t, job.folder);
        folder_release(job.folder);
        if (r < 0)
            sweep_fail(w, r, NULL);
    }
}
