/* A walk from the outside: its folder and its threads, while the connection is watched. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file.h"
#include "ignore.h"
#include "sweep_thread.h"
#include "banned.h"

#define STACK_SIZE (256u << 10)
#define NAME_ROOM                                                                                  \
    (64u << 10) /* no name is longer, on whatever filesystem: the kernel's entries are not */

int sweep_path_reserve(struct sweep_path *p, const struct folder *f)
{
    size_t base = folder_base(f), need = base + NAME_ROOM;
    if (p->room < need) {
        char *more = realloc(p->text, 2 * need);
        if (!more)
            return -ENOMEM;
        p->text = more;
        p->room = 2 * need;
    }
    if (base > 0) {
        memcpy(p->text, f->path, base - 1);
        p->text[base - 1] = '/';
    }
    return 0;
}

size_t sweep_path_set(struct sweep_path *p, const struct folder *f, const char *name, size_t n)
{
    memcpy(p->text + folder_base(f), name, n + 1);
    return folder_base(f) + n;
}

/* Where the component before `to` begins, if it is one that `..` can take back. */
static char *component_before(char *begin, char *to)
{
    char *at = to;
    while (at > begin && at[-1] != '/')
        at--;
    return at == to || strncmp(at, "..", (size_t)(to - at)) == 0 ? NULL : at;
}

void sweep_clean_path(char *path)
{
    char *from = path, *to = path;
    while (*from) {
        size_t n = strcspn(from, "/");
        char *next = from + n + (from[n] == '/');
        char *back = n == 2 && memcmp(from, "..", 2) == 0 ? component_before(path, to) : NULL;
        if (back) {
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

/* The ignore files between the root and the first folder. */
static int load_above(struct sweep *w, struct file_call *c)
{
    char *path = w->top->path;
    for (size_t n = 0; n < w->top->n_path;) {
        static const char *const names[] = {".ignore", ".gitignore", ".git"};
        _cleanup_fd_ int fd = -1;
        unsigned has = 0;
        char kept = path[n];
        path[n] = 0;
        int r = file_resolve(c, n ? path : ".", O_PATH | O_DIRECTORY, &fd);
        path[n] = kept;
        for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(names); i++)
            if (faccessat(fd, names[i], F_OK, AT_SYMLINK_NOFOLLOW) == 0)
                has |= ignore_interest(names[i], strlen(names[i]));
        if (r >= 0)
            r = ignore_extend(w->top->ignore, fd, has, n ? n + 1 : 0, &w->memory, &w->top->ignore);
        if (r == -ENOMEM || r == -E2BIG)
            return r;
        n += n > 0;
        n += strcspn(path + n, "/");
    }
    return 0;
}

int sweep_open(struct sweep *w, struct file_call *c, struct error *err)
{
    const struct wire_frame *f = &c->request;
    uint64_t depth = wire_find_u64(f, WIRE_K_DEPTH, 0);
    w->start = -1;
    w->hidden = wire_find_u64(f, WIRE_K_HIDDEN, 1);
    w->ignored = wire_find_u64(f, WIRE_K_IGNORED, 0);
    w->depth_max = depth > UINT_MAX ? UINT_MAX : (unsigned)depth;
    pthread_mutex_init(&w->lock, NULL);
    sweep_clean_path(c->path);
    int r = filter_read(f, &w->filter, err);
    if (r < 0)
        return r;
    r = file_resolve(c, *c->path ? c->path : ".", O_RDONLY | O_DIRECTORY | O_NONBLOCK, &w->start);
    if (r < 0)
        return file_error(c, -r, *c->path ? c->path : ".", err);
    w->top = folder_new(NULL, c->path, strlen(c->path));
    r = w->top ? jobs_init(&w->jobs) : -ENOMEM;
    if (r >= 0 && !w->ignored)
        r = load_above(w, c);
    if (r < 0)
        return error_errno(err, -r, "%.400s", c->path);
    w->skip = folder_base(w->top);
    return 0;
}

static void *thread_main(void *data)
{
    struct sweep_thread *t = data;
    sweep_do(t->sweep, t);
    return NULL;
}

/* As many threads as there are processors; fewer, if the box has no room for them. */
static unsigned count_threads(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > SWEEP_THREADS_MAX ? SWEEP_THREADS_MAX : (unsigned)n;
}

static int thread_new(struct sweep *w, struct sweep_thread **ret)
{
    struct sweep_thread *t = calloc(1, sizeof *t);
    int r = t ? 0 : -ENOMEM;
    if (r >= 0 && w->user->begin)
        r = w->user->begin(w, &t->mine);
    if (r < 0) {
        free(t);
        return r;
    }
    t->sweep = w;
    *ret = t;
    return 0;
}

static void thread_end(struct sweep *w, struct sweep_thread *t)
{
    if (t->started)
        pthread_join(t->thread, NULL);
    if (w->user->end)
        w->user->end(w, t->mine);
    free(t->path.text);
    free(t);
}

/* Starts up to *n of them. A box may have no room for that many, or for any: one is always made,
 * for the caller's own thread to run if it was not started. */
static int threads_start(struct sweep *w, struct sweep_thread **list, unsigned *n)
{
    pthread_attr_t attr;
    unsigned made = 0;
    int r = 0;
    bool room = true;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_SIZE);
    while (made < *n && room && (r = thread_new(w, &list[made])) >= 0) {
        struct sweep_thread *t = list[made];
        room = t->started = pthread_create(&t->thread, &attr, thread_main, t) == 0;
        if (room || made == 0)
            made++;
        else
            thread_end(w, t);
    }
    pthread_attr_destroy(&attr);
    *n = made;
    return made > 0 ? 0 : r;
}

static void *watch_main(void *data)
{
    struct pollfd connection = {.fd = *(int *)data};
    while (poll(&connection, 1, -1) <= 0)
        ;
    _exit(0);
}

/* Should the host close the connection, nobody wants the answer any more: the worker ends, with all
 * its threads. */
static void watch(struct file_call *c)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, watch_main, &c->in->fd) == 0)
        pthread_detach(thread);
}

static int why_failed(struct sweep *w, struct file_call *c, struct error *err)
{
    if (w->error.code)
        *err = w->error;
    else if (w->failed == -E2BIG)
        return error_set(err, E2BIG, "%.400s: there is too much beneath it: name a smaller folder",
                         c->path);
    else if (w->failed < 0)
        return error_errno(err, -w->failed, "%.400s", c->path);
    return w->failed;
}

int sweep_run(struct sweep *w, struct file_call *c, struct error *err)
{
    struct sweep_thread *list[SWEEP_THREADS_MAX];
    unsigned n = count_threads();
    atomic_fetch_add(&w->top->uses, 1); /* by its job */
    int r = jobs_push(&w->jobs, &(struct job){.folder = w->top}, 1);
    if (r >= 0)
        r = threads_start(w, list, &n);
    if (r < 0)
        return error_errno(err, -r, "%.400s", c->path);
    watch(c);
    if (!list[0]->started)
        sweep_do(w, list[0]);
    for (unsigned i = 0; i < n; i++)
        thread_end(w, list[i]);
    return why_failed(w, c, err);
}
