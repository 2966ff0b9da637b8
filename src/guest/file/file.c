/*
 * File requests: how the guest serves them, and LIST, STAT and READ themselves.
 *
 * A forked process, the worker, serves each request in blocking code, so that a slow file never
 * holds up the loop and a crash costs one request. The worker owns the connection; the guest only
 * remembers its process.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "file.h"
#include "guest.h"
#include "io.h"
#include "text.h"
#include "sys.h"
#include "banned.h"

#define WORKERS_MAX  128
#define DEFAULT_ROOT "/workspace"
#define OUT_MAX      (WIRE_BODY_MAX + 4096)
#define RETRIES      64 /* of a resolution that a rename disturbed */
#define ENTRIES_MAX  10000

struct worker {
    LIST_ENTRY(worker) link;
    pid_t pid;
};

static struct worker *worker_find(struct guest *g, pid_t pid)
{
    struct worker *w = LIST_FIRST(&g->workers);
    while (w && w->pid != pid)
        w = LIST_NEXT(w, link);
    return w;
}

bool worker_is(struct guest *g, pid_t pid)
{
    return worker_find(g, pid) != NULL;
}

bool worker_ended(struct guest *g, pid_t pid)
{
    struct worker *w = worker_find(g, pid);
    if (!w)
        return false;
    LIST_REMOVE(w, link);
    g->n_workers--;
    free(w);
    return true;
}

/*
 * Code in the box may stop a worker, which has its user id, and the host would wait for nothing. A
 * worker that is killed closes its stream. While the box is frozen all workers are stopped, by us.
 */
void worker_kill_stopped(struct guest *g)
{
    struct worker *w;
    if (g->freeze.state != FREEZE_OFF)
        return;
    LIST_FOREACH(w, &g->workers, link)
    {
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)w->pid, &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 && info.si_pid)
            kill(w->pid, SIGKILL);
    }
}

int file_send(struct file_call *c)
{
    return wire_send(c->in->fd, &c->out, NULL, 0);
}

/* Runs in a worker process that ends right after: what it allocates ends with that. */
void file_answer(struct wire_reader *in, const struct wire_frame *request, file_serve serve)
{
    struct file_call c = {.in = in, .request = *request, .out = BUF_INIT(OUT_MAX), .root = -1};
    struct error err = {0};
    struct wire_field field;
    int r;
    c.path =
        wire_find(request, WIRE_K_PATH, &field) ? wire_find_str(request, WIRE_K_PATH) : strdup(".");
    c.root_path = wire_find(request, WIRE_K_NAME, &field) ? wire_find_str(request, WIRE_K_NAME)
                                                          : strdup(DEFAULT_ROOT);
    if (!c.path || !c.root_path) {
        r = error_set(&err, EINVAL, "a path holds a NUL byte");
    } else if (c.root_path[0] != '/') {
        r = error_set(&err, EINVAL, "%.400s: the root of a request is an absolute path",
                      c.root_path);
    } else {
        c.whole = strcmp(c.root_path, "/") == 0;
        c.root = open(c.root_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        r = c.root < 0 ? error_errno(&err, errno, "%.400s", c.root_path) : serve(&c, &err);
    }
    if (r < 0) {
        c.out.len = 0;
        conn_put_error(&c.out, err.code ? err.code : -r, err.text);
    }
    file_send(&c);
}

void worker_start(struct conn *conn, const struct wire_frame *f, file_serve serve)
{
    struct guest *g = conn->guest;
    struct worker *w = g->n_workers < WORKERS_MAX ? calloc(1, sizeof *w) : NULL;
    pid_t pid = w ? fork() : -1;
    if (pid == 0) { /* nothing is open in it but the connection, which now blocks */
        int fd = conn->in.fd;
        sys_close_range(3, (unsigned)fd - 1, 0);
        sys_close_range((unsigned)fd + 1, ~0U, 0);
        if (io_set_nonblock(fd, false) >= 0)
            file_answer(&conn->in, f, serve);
        _exit(0);
    }
    if (pid < 0) {
        bool full = w && errno == EAGAIN;
        free(w);
        conn_error(conn, EAGAIN,
                   full ? "the file cannot be reached: the box has as many processes as it may "
                          "have (--pids)"
                        : "too many file requests are being served");
        return;
    }
    w->pid = pid;
    LIST_INSERT_HEAD(&g->workers, w, link);
    g->n_workers++;
    g->has_children = true;
    close(conn_take_fd(conn));
}

int file_resolve(struct file_call *c, const char *path, int flags, int *ret_fd)
{
    /* With the whole filesystem as root an absolute link leads nowhere else; beneath any other it
     * is an escape. */
    struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC),
                           .resolve = RESOLVE_NO_MAGICLINKS |
                                      (c->whole ? RESOLVE_IN_ROOT : RESOLVE_BENEATH)};
    for (int i = 0; i < RETRIES; i++) {
        long fd = syscall(SYS_openat2, c->root, path, &how, sizeof how);
        if (fd >= 0) {
            *ret_fd = (int)fd;
            return 0;
        }
        if (errno != EAGAIN && errno != EINTR)
            return -errno;
    }
    return -EAGAIN;
}

int file_error(struct file_call *c, int code, const char *path, struct error *err)
{
    if (code == EXDEV)
        return error_set(err, code, "%.400s: leads out of %.100s", path, c->root_path);
    return error_errno(err, code, "%.400s", path);
}

int file_need_regular(const char *path, mode_t mode, struct error *err)
{
    if (S_ISREG(mode))
        return 0;
    const char *kind = S_ISDIR(mode)    ? "a folder"
                       : S_ISFIFO(mode) ? "a FIFO"
                       : S_ISSOCK(mode) ? "a socket"
                       : S_ISLNK(mode)  ? "a symbolic link"
                                        : "a device";
    return error_set(err, S_ISDIR(mode) ? EISDIR : EINVAL, "%.400s: is %s, not a regular file",
                     path, kind);
}

/* Adds to the error the name in a folder (path; "" is the root) that is most like `wanted`. */
static void file_suggest_name(struct file_call *c, const char *folder, const char *wanted,
                              struct error *err)
{
    int fd = -1;
    char best[NAME_MAX + 1];
    struct nearest near = nearest_to(wanted, strlen(wanted));
    if (file_resolve(c, *folder ? folder : ".", O_RDONLY | O_DIRECTORY | O_NONBLOCK, &fd) < 0)
        return;
    DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return;
    }
    const struct dirent *e;
    for (int i = 0; i < ENTRIES_MAX && (e = readdir(dir)); i++) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        nearest_offer(&near, e->d_name);
        if (near.best == e->d_name) {
            snprintf(best, sizeof best, "%s", e->d_name);
            near.best = best;
        }
    }
    closedir(dir);
    size_t n = strlen(err->text);
    if (near.best)
        snprintf(err->text + n, sizeof err->text - n, "; did you mean '%.200s%s%.200s'?", folder,
                 *folder && strcmp(folder, "/") != 0 ? "/" : "", best);
}

/* Fills err for c->path, which does not exist: a link that leads nowhere, or the first name on the
 * way that is missing, with a name that is spelled alike. */
static int file_explain_missing(struct file_call *c, struct error *err)
{
    char path[PATH_MAX], target[256];
    size_t n = strlen(c->path), above = 0;
    _cleanup_fd_ int link = -1;
    if (n >= sizeof path)
        return file_error(c, ENOENT, c->path, err);
    ssize_t size = file_resolve(c, c->path, O_PATH | O_NOFOLLOW, &link) < 0
                       ? -1
                       : readlinkat(link, "", target, sizeof target);
    if (size >= 0)
        return error_set(err, ENOENT, "%.400s: is a link to '%.*s', which does not exist", c->path,
                         (int)size, target);
    /* Goes down the path to the first name that is missing. */
    memcpy(path, c->path, n + 1);
    for (size_t at = strspn(path, "/"); path[at];) {
        size_t end = at + strcspn(path + at, "/");
        char kept = path[end];
        _cleanup_fd_ int fd = -1;
        path[end] = 0;
        if (file_resolve(c, path, O_PATH, &fd) < 0) {
            char name[NAME_MAX + 1];
            snprintf(name, sizeof name, "%s", path + at);
            if (kept)
                error_set(err, ENOENT, "%.400s: there is no folder '%.400s'", c->path, path);
            else
                error_set(err, ENOENT, "%.400s: there is no such file", c->path);
            if (at > 0)
                path[above ? above : 1] = 0; /* "a/b" → "a", "/a" → "/" */
            file_suggest_name(c, at > 0 ? path : "", name, err);
            return -ENOENT;
        }
        path[end] = kept;
        above = end;
        at = end + strspn(path + end, "/");
    }
    return file_error(c, ENOENT, c->path, err);
}

int file_open_regular(struct file_call *c, int *ret_fd, struct stat *ret_st, struct error *err)
{
    _cleanup_fd_ int look = -1, fd = -1;
    struct stat st;
    int r = file_resolve(c, c->path, O_PATH, &look);
    if (r == -ENOENT)
        return file_explain_missing(c, err);
    if (r < 0)
        return file_error(c, -r, c->path, err);
    if (fstat(look, &st) < 0)
        return file_error(c, errno, c->path, err);
    r = file_need_regular(c->path, st.st_mode, err);
    if (r < 0)
        return r;
    r = file_resolve(c, c->path, O_RDONLY | O_NONBLOCK | O_NOCTTY, &fd);
    if (r < 0)
        return file_error(c, -r, c->path, err);
    /* It may have been replaced since: look again at what was really opened. */
    if (fstat(fd, &st) < 0)
        return file_error(c, errno, c->path, err);
    r = file_need_regular(c->path, st.st_mode, err);
    if (r < 0)
        return r;
    *ret_fd = TAKE_FD(fd);
    *ret_st = st;
    return 0;
}

int file_receive(struct file_call *c, struct buf *b, int fd, uint64_t *ret_size)
{
    uint64_t size = 0;
    int failed = 0;
    for (bool more = true; more;) {
        struct wire_frame f;
        struct wire_field data = {0};
        if (wire_read(c->in, &f) <= 0 || f.type != WIRE_DATA)
            return -EPROTO;
        wire_find(&f, WIRE_K_DATA, &data);
        if (b)
            buf_append(b, data.data, data.size);
        if (fd >= 0 && failed == 0)
            failed = io_write_all(fd, data.data, data.size);
        size += data.size;
        more = !wire_find_u64(&f, WIRE_K_EOF, 0);
    }
    if (ret_size)
        *ret_size = size;
    return b && b->failed ? -ENOBUFS : failed;
}

void file_put_stat(struct buf *b, const struct stat *st)
{
    int64_t mtime = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
    wire_put_u64(b, WIRE_K_MODE, st->st_mode);
    wire_put_u64(b, WIRE_K_SIZE, (uint64_t)st->st_size);
    wire_put_u64(b, WIRE_K_MTIME_NS, (uint64_t)mtime);
}

void file_put_data(struct buf *b, const void *data, size_t n)
{
    size_t at = wire_begin(b, WIRE_DATA);
    wire_put(b, WIRE_K_DATA, data, n);
    wire_end(b, at);
}

int file_read(struct file_call *c, struct error *err)
{
    static uint8_t piece[WIRE_DATA_MAX];
    _cleanup_fd_ int fd = -1;
    struct stat st;
    uint64_t offset = wire_find_u64(&c->request, WIRE_K_OFFSET, 0);
    uint64_t limit = wire_find_u64(&c->request, WIRE_K_LIMIT_BYTES, UINT64_MAX);
    if (offset > INT64_MAX)
        return error_set(err, EINVAL, "the offset is too large");
    int r = file_open_regular(c, &fd, &st, err);
    if (r < 0)
        return r;
    /* The file may grow or shrink while it is read. */
    while (limit > 0) {
        size_t want = limit < sizeof piece ? (size_t)limit : sizeof piece;
        ssize_t n = pread(fd, piece, want, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return file_error(c, errno, c->path, err);
        if (n == 0)
            break;
        file_put_data(&c->out, piece, (size_t)n);
        r = file_send(c);
        if (r < 0)
            return error_errno(err, -r, "the host closed the connection");
        offset += (uint64_t)n;
        limit -= (uint64_t)n;
    }
    size_t at = wire_begin(&c->out, WIRE_RESULT);
    file_put_stat(&c->out, &st);
    wire_end(&c->out, at);
    return 0;
}

static int file_names_compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void file_put_target(struct buf *b, int dir, const char *name)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(dir, name, target, sizeof target);
    if (n >= 0)
        wire_put(b, WIRE_K_TARGET, target, (size_t)n);
}

int file_list(struct file_call *c, struct error *err)
{
    _cleanup_buf_ struct buf text = BUF_INIT((size_t)ENTRIES_MAX * (NAME_MAX + 1));
    _cleanup_free_ const char **names = NULL;
    size_t count = 0;
    bool cut = false;
    int fd = -1;
    int r = file_resolve(c, c->path, O_RDONLY | O_DIRECTORY | O_NONBLOCK, &fd);
    DIR *dir = r < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        r = r < 0 ? r : -errno;
        cleanup_close(&fd);
        return file_error(c, -r, c->path, err);
    }

    /* The names, each with its NUL; then sorted. */
    for (;;) {
        errno = 0;
        struct dirent *e = readdir(dir);
        if (e && (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0))
            continue;
        r = e ? 0 : -errno;
        cut = e && count == ENTRIES_MAX;
        if (!e || cut || (r = buf_append(&text, e->d_name, strlen(e->d_name) + 1)) < 0)
            break;
        count++;
    }
    if (r >= 0 && !(names = calloc(count + 1, sizeof *names)))
        r = -ENOMEM;
    const char *name = (const char *)text.data;
    for (size_t i = 0; r >= 0 && i < count; i++, name += strlen(name) + 1)
        names[i] = name;
    if (r >= 0)
        qsort(names, count, sizeof *names, file_names_compare);

    for (size_t i = 0; r >= 0 && i < count; i++) {
        struct stat st;
        if (fstatat(dirfd(dir), names[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue; /* it vanished since it was listed */
        size_t at = wire_begin(&c->out, WIRE_ENTRY);
        wire_put_str(&c->out, WIRE_K_NAME, names[i]);
        file_put_stat(&c->out, &st);
        if (S_ISLNK(st.st_mode))
            file_put_target(&c->out, dirfd(dir), names[i]);
        wire_end(&c->out, at);
        r = c->out.len > WIRE_DATA_MAX ? file_send(c) : 0;
    }
    closedir(dir);
    if (r < 0)
        return file_error(c, -r, c->path, err);
    size_t at = wire_begin(&c->out, WIRE_RESULT);
    wire_put_u64(&c->out, WIRE_K_COUNT, count);
    if (cut)
        wire_put_u64(&c->out, WIRE_K_TOO_MANY, 1);
    wire_end(&c->out, at);
    return 0;
}

int file_stat(struct file_call *c, struct error *err)
{
    _cleanup_fd_ int fd = -1;
    struct stat st;
    int r = file_resolve(c, c->path, O_PATH | O_NOFOLLOW, &fd);
    if (r < 0)
        return file_error(c, -r, c->path, err);
    if (fstat(fd, &st) < 0)
        return file_error(c, errno, c->path, err);
    size_t at = wire_begin(&c->out, WIRE_RESULT);
    file_put_stat(&c->out, &st);
    if (S_ISLNK(st.st_mode))
        file_put_target(&c->out, fd, "");
    wire_end(&c->out, at);
    return 0;
}
