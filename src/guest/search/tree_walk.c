#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file.h"
#include "relpath.h"
#include "search.h"
#include "sys.h"
#include "banned.h"

#define BATCH         64 /* files of a folder in one job */
#define STACK_SIZE    (256u << 10)
#define SCRATCH       (64u << 10)
#define NAMES_MAX     (1u << 31) /* bytes of the names in one folder */
#define KEEP_MAX      2000000u   /* entries of a TREE that are kept */
#define LIMIT_DEFAULT 1000
#define DEPTHS        (RELPATH_MAX / 2 + 2) /* more levels do not fit a path */

struct tree_thread {
    struct tree_walk *walk;
    pthread_t thread;
    void *state;     /* of the walk's user */
    struct buf path; /* of an entry */
    char scratch[SCRATCH] __attribute__((aligned(16)));
};

/* As the kernel writes it (getdents64). */
struct kernel_entry {
    uint64_t ino;
    int64_t off;
    uint16_t size;
    uint8_t type;
    char name[];
};

/* A folder that is not read yet. `name` is added to the path of `above`, unless that is NULL. */
static struct folder *folder_new(const struct folder *above, const char *name, size_t n)
{
    size_t base = above ? folder_base(above) : 0;
    struct folder *f = calloc(1, sizeof *f);
    char *path = malloc(base + n + 1);
    if (!f || !path) {
        free(f);
        free(path);
        return NULL;
    }
    if (base > 0) {
        memcpy(path, above->path, base - 1);
        path[base - 1] = '/';
    }
    memcpy(path + base, name, n);
    path[base + n] = 0;
    *f = (struct folder){.path = path, .n_path = base + n};
    atomic_init(&f->uses, 1);
    if (above) {
        f->depth = above->depth + 1;
        f->ignore = above->ignore;
    }
    return f;
}

/* Reads the names; `scratch` is memory for getdents64. *ret_ignore_files are the bits above. */
static int folder_read(struct folder *f, int fd, void *scratch, size_t size,
                       unsigned *ret_ignore_files)
{
    size_t room_names = 0, room_entries = 0;
    unsigned ignore_files = 0;
    for (;;) {
        ssize_t n = sys_getdents64(fd, scratch, size);
        if (n <= 0) {
            *ret_ignore_files = ignore_files;
            return n < 0 ? -errno : 0;
        }
        /* Room for what one block of the kernel's entries can need at most. */
        size_t names = f->n_names + (size_t)n;
        size_t entries = f->count + (size_t)n / sizeof(struct kernel_entry);
        if (names > NAMES_MAX)
            return -E2BIG;
        if (names > room_names) {
            room_names = names + f->n_names;
            char *more = realloc(f->names, room_names);
            if (!more)
                return -ENOMEM;
            f->names = more;
        }
        if (entries > room_entries) {
            room_entries = entries + f->count;
            struct entry *more = reallocarray(f->entries, room_entries, sizeof *more);
            if (!more)
                return -ENOMEM;
            f->entries = more;
        }
        for (const char *at = scratch, *end = at + n; at < end;) {
            const struct kernel_entry *k = (const void *)at;
            at += k->size;
            if (strcmp(k->name, ".") == 0 || strcmp(k->name, "..") == 0)
                continue;
            size_t n_name = strlen(k->name);
            mode_t mode = DTTOIF(k->type);
            struct stat st;
            if (k->type == DT_UNKNOWN && fstatat(fd, k->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
                mode = st.st_mode;
            ignore_files |= ignore_file_bit(k->name, n_name);
            f->entries[f->count++] = (struct entry){.name = (uint32_t)f->n_names,
                                                    .n = (uint16_t)n_name,
                                                    .type = S_ISREG(mode)   ? ENTRY_FILE
                                                            : S_ISDIR(mode) ? ENTRY_FOLDER
                                                            : S_ISLNK(mode) ? ENTRY_LINK
                                                                            : ENTRY_OTHER};
            memcpy(f->names + f->n_names, k->name, n_name + 1);
            f->n_names += n_name + 1;
        }
    }
}

static int entry_compare(const void *a, const void *b, void *names)
{
    return strcmp((const char *)names + ((const struct entry *)a)->name,
                  (const char *)names + ((const struct entry *)b)->name);
}

int entry_path_set(struct buf *path, const struct folder *f, const struct entry *e)
{
    path->len = 0;
    if (f->n_path > 0) {
        buf_append(path, f->path, f->n_path);
        buf_append(path, "/", 1);
    }
    return buf_append(path, folder_name(f, e), (size_t)e->n + 1);
}

void tree_walk_clean_path(char *path)
{
    char *from = path, *to = path;
    while (*from) {
        size_t n = strcspn(from, "/");
        char *next = from + n + (from[n] == '/');
        bool up = n == 2 && memcmp(from, "..", 2) == 0;
        /* The component before, if it is one that `..` can take back. */
        char *back = to;
        while (up && back > path && back[-1] != '/')
            back--;
        if (up && back < to && strncmp(back, "..", (size_t)(to - back)) != 0) {
            to = back > path ? back - 1 : back;
        } else if (n > 0 && !(n == 1 && *from == '.')) {
            if (to > path)
                *to++ = '/';
            memmove(to, from, n);
            to += n;
        }
        from = next;
    }
    *to = 0;
}

/* -ENOMEM. */
static int tree_walk_push(struct tree_walk *w, const struct tree_job *list, size_t n)
{
    if (n == 0)
        return 0;
    int r = 0;
    pthread_mutex_lock(&w->lock);
    for (size_t i = 0; i < n && r == 0; i++) {
        r = ARRAY_GROW(w->jobs, w->n_jobs, w->room) ? 0 : -ENOMEM;
        if (r == 0)
            w->jobs[w->n_jobs++] = list[i];
    }
    pthread_cond_broadcast(&w->more);
    pthread_mutex_unlock(&w->lock);
    return r;
}

int tree_walk_fail(struct tree_walk *w, int code, const struct error *err)
{
    pthread_mutex_lock(&w->lock);
    if (!w->failed) {
        w->failed = code;
        if (err)
            w->error = *err;
    }
    w->ended = true;
    pthread_cond_broadcast(&w->more);
    pthread_mutex_unlock(&w->lock);
    return code;
}

int tree_walk_open_folder(const struct tree_walk *w, const struct folder *f, int *ret_fd)
{
    _cleanup_fd_ int dir = -1;
    int r = beneath_open_dir(w->start, f == w->top ? "" : f->path + w->skip, &dir);
    if (r < 0)
        return r;
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    return 0;
}

/* Whether the walk wants the entry. Marks a folder that is only walked through. */
static bool tree_walk_wants(struct tree_walk *w, const struct folder *f, struct entry *e,
                            struct buf *path)
{
    const char *name = folder_name(f, e);
    bool is_folder = e->type == ENTRY_FOLDER;
    if (name[0] == '.' && (!w->hidden || strcmp(name, ".git") == 0))
        return false;
    if (!w->ops->everything && !is_folder && e->type != ENTRY_FILE)
        return false;
    if (!f->ignore && !w->filter.rules)
        return true;
    if (entry_path_set(path, f, e) < 0)
        return false; /* the caller notices */
    const char *text = (const char *)path->data;
    size_t n = path->len - 1;
    if (f->ignore && ignore_has(f->ignore, text, n, e->n, is_folder))
        return false;
    enum filter_verdict verdict = filter_match(&w->filter, text, n, w->skip, e->n, is_folder);
    e->unlisted = is_folder && verdict == FILTER_LACKS;
    return verdict == FILTER_WANTS || e->unlisted;
}

static int tree_walk_push_folders(struct tree_walk *w, struct folder *f)
{
    size_t n = 0, count = 0;
    for (size_t i = 0; i < f->count; i++)
        n += f->entries[i].type == ENTRY_FOLDER;
    if (n == 0 || (w->depth_max > 0 && f->depth + 1 >= w->depth_max))
        return 0;
    _cleanup_free_ struct tree_job *jobs = calloc(n, sizeof *jobs);
    f->children = w->ops->keeps ? calloc(n, sizeof(struct folder *)) : NULL;
    if (!jobs || (w->ops->keeps && !f->children))
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
        jobs[count++] = (struct tree_job){.folder = child};
    }
    f->n_children = f->children ? n : 0;
    return tree_walk_push(w, jobs, n);
}

/* Passes the first batch of files to the user, and the others on as jobs, so that one large folder
 * keeps all threads busy. */
static int tree_walk_do_files(struct tree_walk *w, struct tree_thread *t, struct folder *f, int fd)
{
    size_t files = 0;
    for (size_t i = 0; i < f->count; i++) /* files to the front */
        if (f->entries[i].type == ENTRY_FILE) {
            struct entry e = f->entries[i];
            f->entries[i] = f->entries[files];
            f->entries[files++] = e;
        }
    if (files == 0)
        return 0;
    size_t n = (files - 1) / BATCH;
    _cleanup_free_ struct tree_job *jobs = calloc(n + 1, sizeof *jobs);
    if (!jobs)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        size_t first = (i + 1) * BATCH, count = files - first < BATCH ? files - first : BATCH;
        jobs[i] = (struct tree_job){f, (uint32_t)first, (uint32_t)count};
    }
    atomic_fetch_add(&f->uses, (unsigned)n);
    int r = tree_walk_push(w, jobs, n);
    return r < 0 ? r : w->ops->files(w, t->state, f, fd, 0, files < BATCH ? files : BATCH);
}

static int tree_walk_do_folder(struct tree_walk *w, struct tree_thread *t, struct folder *f)
{
    _cleanup_fd_ int fd = -1;
    unsigned ignore_files = 0;
    int r = f->n_path > RELPATH_MAX ? -ENAMETOOLONG : tree_walk_open_folder(w, f, &fd);
    if (r >= 0)
        r = folder_read(f, fd, t->scratch, SCRATCH, &ignore_files);
    if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -EXDEV)
        return 0; /* gone, or something else by now */
    if (r < 0 && r != -ENOMEM && r != -E2BIG) {
        atomic_fetch_add(&w->unreadable, 1);
        return 0;
    }
    if (r >= 0 && !w->ignored)
        r = ignore_extend(f->ignore, fd, ignore_files, folder_base(f), &w->memory, &f->ignore);
    if (r < 0)
        return r;
    size_t wanted = 0;
    for (size_t i = 0; i < f->count; i++)
        if (tree_walk_wants(w, f, &f->entries[i], &t->path))
            f->entries[wanted++] = f->entries[i];
    f->count = wanted;
    if (t->path.failed)
        return -ENOMEM;
    if (w->ops->keeps && f->count > 1)
        qsort_r(f->entries, f->count, sizeof *f->entries, entry_compare, f->names);
    r = tree_walk_push_folders(w, f);
    if (r < 0)
        return r;
    if (w->ops->keeps) {
        /* Entries beyond the number that may be kept are only counted; folders are still walked. */
        uint64_t listed = 0;
        for (size_t i = 0; i < f->count; i++)
            listed += !f->entries[i].unlisted;
        if (atomic_fetch_add(&w->kept, listed) + listed > w->keep_max) {
            atomic_fetch_sub(&w->kept, listed);
            atomic_fetch_add(&w->unkept, listed);
            f->count = 0;
        }
    }
    return w->ops->files ? tree_walk_do_files(w, t, f, fd) : 0;
}

/* Does jobs until there will be no more: none is left, and no thread does one. */
static void *tree_thread_main(void *data)
{
    struct tree_thread *t = data;
    struct tree_walk *w = t->walk;
    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (w->n_jobs == 0 && w->busy > 0 && !w->ended)
            pthread_cond_wait(&w->more, &w->lock);
        if (w->n_jobs == 0 || w->ended)
            break;
        struct tree_job job = w->jobs[--w->n_jobs];
        struct folder *f = job.folder;
        _cleanup_fd_ int fd = -1;
        int r = 0;
        w->busy++;
        pthread_mutex_unlock(&w->lock);
        if (job.count == 0)
            r = tree_walk_do_folder(w, t, f);
        else if (tree_walk_open_folder(w, f, &fd) >= 0)
            r = w->ops->files(w, t->state, f, fd, job.first, job.count);
        if (atomic_fetch_sub(&f->uses, 1) == 1) {
            free(f->path);
            free(f->names);
            free(f->entries);
            free(f->children);
            free(f);
        }
        if (r < 0)
            tree_walk_fail(w, r, NULL);
        pthread_mutex_lock(&w->lock);
        w->busy--;
    }
    w->ended = true;
    pthread_cond_broadcast(&w->more);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

int tree_walk_open(struct tree_walk *w, struct file_call *c, struct error *err)
{
    const struct wire_frame *f = &c->request;
    uint64_t depth = wire_find_u64(f, WIRE_K_DEPTH, 0);
    w->start = -1;
    w->hidden = wire_find_u64(f, WIRE_K_HIDDEN, 1);
    w->ignored = wire_find_u64(f, WIRE_K_IGNORED, 0);
    w->depth_max = depth > UINT_MAX ? UINT_MAX : (unsigned)depth;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->more, NULL);
    tree_walk_clean_path(c->path);
    int r = filter_read(f, &w->filter, err);
    if (r < 0)
        return r;
    r = file_resolve(c, *c->path ? c->path : ".", O_RDONLY | O_DIRECTORY | O_NONBLOCK, &w->start);
    if (r < 0)
        return file_error(c, -r, *c->path ? c->path : ".", err);
    w->top = folder_new(NULL, c->path, strlen(c->path));
    r = w->top ? 0 : -ENOMEM;
    /* The ignore files between the root and the first folder. */
    char *path = w->top ? w->top->path : NULL;
    for (size_t n = 0; r >= 0 && !w->ignored && n < w->top->n_path;) {
        static const char *const names[] = {".ignore", ".gitignore", ".git"};
        _cleanup_fd_ int fd = -1;
        unsigned has = 0;
        char kept = path[n];
        path[n] = 0;
        r = file_resolve(c, n ? path : ".", O_PATH | O_DIRECTORY, &fd);
        path[n] = kept;
        for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(names); i++)
            if (faccessat(fd, names[i], F_OK, AT_SYMLINK_NOFOLLOW) == 0)
                has |= ignore_file_bit(names[i], strlen(names[i]));
        if (r >= 0)
            r = ignore_extend(w->top->ignore, fd, has, n ? n + 1 : 0, &w->memory, &w->top->ignore);
        if (r != -ENOMEM && r != -E2BIG)
            r = 0; /* a folder that cannot be read has no rules */
        n += n > 0;
        n += strcspn(path + n, "/");
    }
    if (r < 0)
        return error_errno(err, -r, "%.400s", c->path);
    w->skip = folder_base(w->top);
    return 0;
}

/* If the host closes the connection, the answer is not needed: the worker ends, with all
 * threads. */
static void *hangup_main(void *data)
{
    struct pollfd connection = {.fd = *(int *)data};
    while (poll(&connection, 1, -1) <= 0)
        ;
    _exit(0);
}

int tree_walk_run(struct tree_walk *w, struct file_call *c, struct error *err)
{
    struct tree_thread *list[TREE_WALK_THREADS_MAX];
    pthread_t hangup;
    pthread_attr_t attr;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN), n = 0;
    int r = tree_walk_push(w, &(struct tree_job){.folder = w->top}, 1);
    atomic_fetch_add(&w->top->uses, 1); /* by its job */
    if (pthread_create(&hangup, NULL, hangup_main, &c->in->fd) == 0)
        pthread_detach(hangup);

    /* As many threads as the box has room for; the first is this one. */
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_SIZE);
    for (; r >= 0 && n < TREE_WALK_THREADS_MAX && (n == 0 || n < cpus); n++) {
        struct tree_thread *t = list[n] = calloc(1, sizeof *t);
        r = t ? 0 : -ENOMEM;
        if (r >= 0 && w->ops->thread_begin)
            r = w->ops->thread_begin(w->data, &t->state);
        if (r < 0)
            break;
        t->walk = w;
        t->path = ENTRY_PATH_INIT;
        if (n > 0 && pthread_create(&t->thread, &attr, tree_thread_main, t) != 0) {
            if (w->ops->thread_end)
                w->ops->thread_end(w->data, t->state);
            break;
        }
    }
    if (n == 0)
        return error_errno(err, -r, "%.400s", c->path);
    tree_thread_main(list[0]);
    for (long i = 0; i < n; i++) {
        if (i > 0)
            pthread_join(list[i]->thread, NULL);
        if (w->ops->thread_end)
            w->ops->thread_end(w->data, list[i]->state);
    }
    if (w->error.code)
        *err = w->error;
    else if (w->failed == -E2BIG)
        return error_set(err, E2BIG,
                         "%.400s: holds too many files or ignore rules; name a smaller folder",
                         c->path);
    else if (w->failed < 0)
        return error_errno(err, -w->failed, "%.400s", c->path);
    return w->failed;
}

/*
 * TREE: the names beneath a folder, in the order of a walk.
 *
 * If there are more than asked for, those nearer to the folder come first: all of a depth before
 * any that lie deeper, so that the list gives a picture of the whole. The rest is counted.
 */
static const struct tree_walk_ops TREE_OPS = {.keeps = true, .everything = true};

struct tree {
    struct file_call *call;
    const struct tree_walk *walk;
    bool sizes;
    unsigned depth; /* all entries of this depth and above are listed, */
    uint64_t more;  /* and so many of the next */
    uint64_t listed;
    struct buf path;
};

/* A folder that is being listed, with its descriptor once one of its entries must be examined. */
struct level {
    const struct folder *folder;
    size_t entry, child;
    int fd;
};

static int tree_put_entry(struct tree *t, struct level *l, const struct entry *e)
{
    struct buf *b = &t->call->out;
    const char *name = folder_name(l->folder, e);
    char target[PATH_MAX];
    struct stat st;
    size_t at = wire_begin(b, WIRE_ENTRY);
    if (entry_path_set(&t->path, l->folder, e) < 0)
        return -ENOMEM;
    wire_put_str(b, WIRE_K_PATH, (const char *)t->path.data);
    wire_put_u64(b, WIRE_K_KIND, e->type);
    /* The fields that need a system call for the entry: none, if it is gone. */
    if ((t->sizes || e->type == ENTRY_LINK) &&
        (l->fd >= 0 || tree_walk_open_folder(t->walk, l->folder, &l->fd) >= 0)) {
        ssize_t n = e->type == ENTRY_LINK ? readlinkat(l->fd, name, target, sizeof target) : -1;
        if (n >= 0)
            wire_put(b, WIRE_K_TARGET, target, (size_t)n);
        if (t->sizes && fstatat(l->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            file_put_stat(b, &st);
    }
    wire_end(b, at);
    t->listed++;
    return b->len > WIRE_DATA_MAX ? file_send(t->call) : 0;
}

/* Entries of the folder on top, up to and with the next folder in it; that one is put on top. */
static int tree_step(struct tree *t, struct level *stack, size_t *n)
{
    struct level *l = &stack[*n - 1];
    const struct folder *f = l->folder;
    while (l->entry < f->count) {
        const struct entry *e = &f->entries[l->entry++];
        bool next = f->depth == t->depth; /* it is of the depth that does not fit as a whole */
        bool listed = !e->unlisted && (f->depth < t->depth || (next && t->more > 0));
        t->more -= listed && next;
        int r = listed ? tree_put_entry(t, l, e) : 0;
        if (r < 0)
            return r;
        if (e->type == ENTRY_FOLDER && l->child < f->n_children && *n < DEPTHS &&
            f->depth <= t->depth) {
            stack[(*n)++] = (struct level){.folder = f->children[l->child++], .fd = -1};
            return 0;
        }
    }
    cleanup_close(&l->fd);
    (*n)--;
    return 0;
}

static int tree_answer(struct tree *t, uint64_t limit)
{
    const struct tree_walk *w = t->walk;
    _cleanup_free_ struct level *stack = calloc(DEPTHS, sizeof *stack);
    _cleanup_free_ uint64_t *counts = calloc(DEPTHS + 2, sizeof *counts);
    if (!stack || !counts)
        return -ENOMEM;
    /* Up to which depth all entries fit in the limit, and how many of the next do. */
    stack[0] = (struct level){.folder = w->top};
    for (size_t n = 1; n > 0;) {
        struct level *l = &stack[n - 1];
        const struct folder *f = l->folder;
        for (size_t i = 0; l->child == 0 && i < f->count; i++)
            counts[f->depth + 1] += !f->entries[i].unlisted;
        if (l->child == f->n_children || n == DEPTHS)
            n--;
        else
            stack[n++] = (struct level){.folder = f->children[l->child++]};
    }
    while (t->depth + 1 < DEPTHS && counts[t->depth + 1] <= limit)
        limit -= counts[++t->depth];
    t->more = limit;

    stack[0] = (struct level){.folder = w->top, .fd = -1};
    for (size_t n = 1; n > 0;) {
        int r = tree_step(t, stack, &n);
        if (r < 0)
            return r;
    }
    uint64_t count = w->kept + w->unkept;
    struct buf *b = &t->call->out;
    size_t at = wire_begin(b, WIRE_RESULT);
    wire_put_u64(b, WIRE_K_COUNT, count);
    wire_put_u64(b, WIRE_K_REST, count - t->listed);
    wire_put_u64(b, WIRE_K_UNREADABLE, w->unreadable);
    if (count > t->listed)
        wire_put_u64(b, WIRE_K_TOO_MANY, 1);
    wire_end(b, at);
    return 0;
}

int search_tree(struct file_call *c, struct error *err)
{
    uint64_t limit = wire_find_u64(&c->request, WIRE_K_LIMIT_ENTRIES, LIMIT_DEFAULT);
    struct tree_walk w = {.ops = &TREE_OPS, .keep_max = KEEP_MAX};
    struct tree t = {.call = c, .walk = &w, .path = ENTRY_PATH_INIT};
    t.sizes = wire_find_u64(&c->request, WIRE_K_SIZES, 0);
    int r = tree_walk_open(&w, c, err);
    if (r >= 0)
        r = tree_walk_run(&w, c, err);
    if (r >= 0 && tree_answer(&t, limit) < 0)
        r = error_errno(err, ENOMEM, "%.400s", c->path);
    return r;
}
