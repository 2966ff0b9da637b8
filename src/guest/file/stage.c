/*
 * STAGE: makes parts of the box exactly what the host says, whatever was there.
 *
 * The files come one after the other in the order of their paths, each is compared with what is
 * there and written only if that differs; then whatever else lies at the paths of `own` is removed.
 * What differed is reported. The tree is hostile: no link is followed, nothing but a regular file
 * is ever opened, a folder that its owner may not enter is made accessible first, and anything else
 * where a folder must be is removed.
 *
 * No other process may write there at the same time: the host stages boxes in which nothing runs.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file.h"
#include "io.h"
#include "relpath.h"
#include "diff/empty.h"
#include "sys.h"
#include "banned.h"

#define STAGE_FILES_MAX   100000u
#define STAGE_ROOTS_MAX   1000u
#define STAGE_REPORTS_MAX 1000u
#define STAGE_DEPTH_MAX   128u
#define REPORT_BYTES      (WIRE_BODY_MAX / 2) /* of all reports; they are kept until the end */
#define PIECE             (32u << 10)

struct stage_paths {
    char **items;
    size_t count, room;
};

struct stage {
    struct file_call *call;
    struct stage_paths files; /* in ascending order of their bytes */
    struct stage_paths own;
    int folder; /* the one that was opened last, for the next file in it */
    char *folder_path;
    uint64_t changes, reported;
};

static void stage_paths_free(struct stage_paths *p)
{
    for (size_t i = 0; i < p->count; i++)
        free(p->items[i]);
    free(p->items);
}

static void stage_free(struct stage *s)
{
    stage_paths_free(&s->files);
    stage_paths_free(&s->own);
    cleanup_close(&s->folder);
    free(s->folder_path);
}

/* Takes a copy of a path from the host. -EINVAL if it is not one beneath the root or too deep,
 * -ENOBUFS beyond max. */
static int stage_paths_add(struct stage_paths *p, const struct wire_field *f, size_t max)
{
    unsigned depth = 1;
    if (f->size >= PATH_MAX || !relpath_is_valid(f->data, f->size))
        return -EINVAL;
    for (size_t i = 0; i < f->size; i++)
        depth += f->data[i] == '/';
    if (depth > STAGE_DEPTH_MAX)
        return -EINVAL;
    if (p->count >= max)
        return -ENOBUFS;
    if (p->count == p->room) {
        size_t room = p->room ? 2 * p->room : 16;
        char **items = realloc(p->items, room * sizeof *items);
        if (!items)
            return -ENOMEM;
        p->items = items;
        p->room = room;
    }
    char *copy = strndup((const char *)f->data, f->size);
    if (!copy)
        return -ENOMEM;
    p->items[p->count++] = copy;
    return 0;
}

static bool is_beneath(const char *path, const char *above)
{
    size_t n = strlen(above);
    return strncmp(path, above, n) == 0 && path[n] == '/';
}

/* The first file that was sent whose path is not before `path` with the character `next` added; ""
 * if there is none. */
static const char *stage_lower_bound(const struct stage *s, const char *path, char next)
{
    const struct stage_paths *p = &s->files;
    size_t low = 0, high = p->count, n = strlen(path);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strncmp(p->items[middle], path, n);
        if (order == 0)
            order = (unsigned char)p->items[middle][n] - (unsigned char)next;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < p->count ? p->items[low] : "";
}

static void stage_report(struct stage *s, enum wire_change kind, const char *path, bool folder)
{
    struct buf *out = &s->call->out;
    s->changes++;
    if (s->reported == STAGE_REPORTS_MAX || out->len + strlen(path) > REPORT_BYTES)
        return;
    size_t at = wire_begin(out, WIRE_ENTRY);
    wire_put_u64(out, WIRE_K_KIND, kind);
    wire_put_str(out, WIRE_K_PATH, path);
    if (folder)
        wire_put_u64(out, WIRE_K_MODE, S_IFDIR);
    wire_end(out, at);
    s->reported++;
}

/* Opens a folder to look names up in, readable and writable for its owner. -ENOENT; -ENOTDIR, also
 * for a link. */
static int stage_open_folder(int dir, const char *name, int *ret_fd)
{
    struct stat st;
    _cleanup_fd_ int fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return errno == ELOOP ? -ENOTDIR : -errno;
    /* By its name, since a folder that may not be read has no other handle. It was no link a moment
     * ago, and no process is there to make it one. */
    if ((st.st_mode & 0700) != 0700 && fchmodat(dir, name, 0755, 0) < 0)
        return -errno;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* Removes whatever has that name, with everything in it. 0 also if nothing has. */
static int stage_remove(int dir, const char *name)
{
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR)
        return -errno;
    if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
        return 0;
    if (errno != ENOTEMPTY && errno != EACCES)
        return -errno;
    _cleanup_fd_ int folder = -1;
    int r = stage_open_folder(dir, name, &folder);
    if (r == 0)
        r = empty_dir(folder);
    return r < 0 ? r : unlinkat(dir, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

/*
 * Opens the folder that holds the last component of `path`, beneath `root`. Anything else where a
 * folder must be is removed, and reported if s is given. Missing folders are made; without `make`
 * the walk ends there with 1, since nothing has that path.
 */
static int stage_walk(struct stage *s, const char *root, const char *path, bool make, int *ret_fd)
{
    _cleanup_free_ char *rest = strdup(path);
    _cleanup_fd_ int dir = -1;
    int r = rest ? stage_open_folder(AT_FDCWD, root, &dir) : -ENOMEM;
    for (char *at = rest, *slash; r == 0 && (slash = strchr(at, '/')); at = slash + 1) {
        int next = -1;
        *slash = 0;
        r = stage_open_folder(dir, at, &next);
        if (r == -ENOTDIR) {
            if (s)
                stage_report(s, WIRE_MODIFIED, rest, false);
            r = stage_remove(dir, at);
            if (r == 0)
                r = -ENOENT;
        }
        if (r == -ENOENT && make)
            r = mkdirat(dir, at, 0755) < 0 ? -errno : stage_open_folder(dir, at, &next);
        else if (r == -ENOENT)
            r = 1;
        *slash = '/';
        if (r == 0) {
            close(dir);
            dir = next;
        }
    }
    if (r == 0)
        *ret_fd = TAKE_FD(dir);
    return r;
}

/* The folder that is to hold `path`, in s->folder. */
static int stage_open_parent(struct stage *s, const char *path)
{
    const char *name = relpath_name(path);
    size_t n = name > path ? (size_t)(name - path - 1) : 0;
    if (s->folder >= 0 && strlen(s->folder_path) == n && memcmp(s->folder_path, path, n) == 0)
        return 0;
    _cleanup_free_ char *folder = strndup(path, n);
    _cleanup_fd_ int fd = -1;
    struct stat st;
    if (!folder)
        return -ENOMEM;
    /* Most often everything is as it should be, and the kernel opens it in one step. */
    int r = beneath_open_dir(s->call->root, folder, &fd);
    if (r < 0 || fstat(fd, &st) < 0 || (st.st_mode & 0700) != 0700) {
        cleanup_close(&fd);
        fd = -1;
        r = stage_walk(s, s->call->root_path, path, true, &fd);
    }
    if (r < 0)
        return r;
    cleanup_close(&s->folder);
    s->folder = TAKE_FD(fd);
    free(s->folder_path);
    s->folder_path = TAKE_PTR(folder);
    return 0;
}

/* Removes an absolute path of the box; a link or a file on the way goes instead, since nothing is
 * left of that path then. With a slash at its end it is made again, as an empty folder. */
static int stage_clear(const char *path)
{
    size_t n = strlen(path);
    bool make = n > 1 && path[n - 1] == '/';
    if (path[0] != '/' || !relpath_is_valid(path + 1, n - 1 - make))
        return -EINVAL;
    _cleanup_free_ char *rest = strndup(path + 1, n - 1 - make);
    _cleanup_fd_ int dir = -1, above = -1;
    if (!rest)
        return -ENOMEM;
    int r = stage_walk(NULL, "/", rest, false, &dir);
    if (r == 0)
        r = stage_remove(dir, relpath_name(rest));
    if (r < 0 || !make)
        return r < 0 ? r : 0;
    r = stage_walk(NULL, "/", rest, true, &above);
    return r < 0 ? r : mkdirat(above, relpath_name(rest), 0755) < 0 ? -errno : 0;
}

/* One file on its way in: its content is compared with what is there as it comes, and only from the
 * first difference on (or if something else than this file is there) it is written anew. */
struct stage_file {
    int dir; /* borrowed */
    const char *name;
    uint64_t size, at;
    int old;      /* what is there, as long as it is the same */
    int fresh;    /* the new file */
    bool existed; /* something had the name */
    bool differs;
};

static void stage_file_close(struct stage_file *p)
{
    cleanup_close(&p->old);
    cleanup_close(&p->fresh);
}

/* From here on it is written anew; what was the same so far is copied. */
static int stage_file_renew(struct stage_file *p)
{
    int r = stage_remove(p->dir, p->name);
    if (r < 0)
        return r;
    p->fresh = openat(p->dir, p->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (p->fresh < 0)
        return -errno;
    for (off_t at = 0; p->old >= 0 && (uint64_t)at < p->at;) {
        ssize_t n = sendfile(p->fresh, p->old, &at, (size_t)(p->at - (uint64_t)at));
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
    }
    cleanup_close(&p->old);
    p->old = -1;
    return 0;
}

static int stage_file_bytes(struct stage_file *p, const uint8_t *bytes, size_t n)
{
    char piece[PIECE];
    int r = 0;
    if (n > p->size - p->at)
        return -EINVAL;
    for (size_t done = 0; p->old >= 0 && done < n;) {
        size_t want = n - done < sizeof piece ? n - done : sizeof piece;
        if (io_read_at(p->old, piece, want, p->at + done) != (ssize_t)want ||
            memcmp(piece, bytes + done, want) != 0) {
            p->differs = true;
            r = stage_file_renew(p);
            break;
        }
        done += want;
    }
    if (r == 0 && p->old < 0)
        r = io_write_all(p->fresh, bytes, n);
    p->at += n;
    return r;
}

/* What does not fit into the ENTRY follows in DATA frames, which are read to their end. */
static int stage_put_file(struct stage *s, struct stage_file *p, mode_t mode,
                          const struct wire_field *data)
{
    struct stat st;
    /* Looks before it opens: a FIFO or a device is never opened. */
    p->existed = fstatat(p->dir, p->name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    int r = p->existed || errno == ENOENT ? 0 : -errno;
    if (p->existed && S_ISREG(st.st_mode) && (uint64_t)st.st_size == p->size &&
        (st.st_mode & 07777) == mode)
        p->old = openat(p->dir, p->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    p->differs = p->old < 0; /* also what cannot be read */
    if (r == 0 && p->differs)
        r = stage_file_renew(p);
    if (r == 0)
        r = stage_file_bytes(p, data->data, data->size);
    for (uint64_t at = data->size; at < p->size;) {
        struct wire_frame f;
        struct wire_field more = {0};
        if (wire_read(s->call->in, &f) <= 0 || f.type != WIRE_DATA ||
            !wire_find(&f, WIRE_K_DATA, &more) || more.size == 0)
            return -EPROTO;
        if (r == 0)
            r = stage_file_bytes(p, more.data, more.size);
        at += more.size;
    }
    if (r == 0 && p->at != p->size)
        r = -EINVAL;
    /* A file with other names could be written by those. */
    if (r == 0 && p->old >= 0 && st.st_nlink > 1)
        r = stage_file_renew(p);
    if (r == 0 && p->fresh >= 0 && fchmod(p->fresh, mode) < 0)
        r = -errno;
    return r;
}

static int stage_put_link(struct stage_file *p, const struct wire_field *data)
{
    char target[PATH_MAX], there[PATH_MAX];
    struct stat st;
    if (data->size == 0 || data->size >= sizeof target || memchr(data->data, 0, data->size))
        return -EINVAL;
    memcpy(target, data->data, data->size);
    target[data->size] = 0;
    p->existed = fstatat(p->dir, p->name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    ssize_t n = p->existed ? readlinkat(p->dir, p->name, there, sizeof there) : -1;
    if (n >= 0 && (size_t)n == data->size && memcmp(there, target, (size_t)n) == 0)
        return 0;
    p->differs = true;
    int r = stage_remove(p->dir, p->name);
    return r < 0 ? r : symlinkat(target, p->dir, p->name) < 0 ? -errno : 0;
}

/* The file or link of one ENTRY, whose path must sort after the one before. */
static int stage_put(struct stage *s, const struct wire_frame *f, struct error *err)
{
    _cleanup_(stage_file_close) struct stage_file p = {.old = -1, .fresh = -1};
    struct wire_field field = {0}, data = {0};
    size_t count = s->files.count;
    int r = wire_find(f, WIRE_K_PATH, &field) ? stage_paths_add(&s->files, &field, STAGE_FILES_MAX)
                                              : -EINVAL;
    if (r == -EINVAL)
        return error_set(err, EINVAL, "a file to stage has no path beneath the workspace");
    if (r < 0)
        return error_errno(err, -r, "too many files to stage");
    const char *path = s->files.items[count];
    if (count && strcmp(s->files.items[count - 1], path) >= 0)
        return error_set(err, EINVAL, "%.400s: the files to stage do not come in order", path);

    wire_find(f, WIRE_K_DATA, &data);
    mode_t mode = (mode_t)wire_find_u64(f, WIRE_K_MODE, 0644);
    r = stage_open_parent(s, path);
    p.dir = s->folder;
    p.name = relpath_name(path);
    p.size = wire_find_u64(f, WIRE_K_SIZE, data.size);
    if (r == 0)
        r = S_ISLNK(mode) ? stage_put_link(&p, &data) : stage_put_file(s, &p, mode & 0777, &data);
    if (r < 0)
        return error_errno(err, -r, "cannot stage %.400s", path);
    bool missed = false; /* it was to be there */
    for (size_t i = 0; !missed && i < s->own.count; i++)
        missed = strcmp(path, s->own.items[i]) == 0 || is_beneath(path, s->own.items[i]);
    if (p.differs && (p.existed || missed))
        stage_report(s, p.existed ? WIRE_MODIFIED : WIRE_DELETED, path, false);
    return 0;
}

static int sweep_folder(struct stage *s, int dir, struct buf *path);

/*
 * What else lies at the paths of `own` is removed and reported. Only folders that hold files of the
 * host are entered, so the depth is that of the host's paths. Everything else is removed at once,
 * however deep it is, and reported as one thing. `path` is that of the entry.
 */
static int sweep_entry(struct stage *s, int dir, const char *name, struct buf *path)
{
    const char *full = buf_cstr(path);
    struct stat st;
    if (!full)
        return -ENOMEM;
    if (strcmp(stage_lower_bound(s, full, 0), full) == 0)
        return 0;
    if (!is_beneath(stage_lower_bound(s, full, '/'), full)) {
        if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            return errno == ENOENT ? 0 : -errno;
        stage_report(s, WIRE_ADDED, full, S_ISDIR(st.st_mode));
        return stage_remove(dir, name);
    }
    _cleanup_fd_ int place = -1, child = -1;
    int r = stage_open_folder(dir, name, &place);
    if (r < 0)
        return r;
    child = openat(place, ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return child < 0 ? -errno : sweep_folder(s, child, path);
}

static int sweep_folder(struct stage *s, int dir, struct buf *path)
{
    _Alignas(struct dirent64) char space[4096];
    size_t base = path->len;
    for (;;) {
        ssize_t got = sys_getdents64(dir, space, sizeof space);
        if (got <= 0)
            return got < 0 ? -errno : 0;
        for (ssize_t at = 0; at < got;) {
            const struct dirent64 *entry = (const struct dirent64 *)(space + at);
            at += entry->d_reclen;
            if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                continue;
            buf_printf(path, "/%s", entry->d_name);
            int r = path->failed ? -ENAMETOOLONG : sweep_entry(s, dir, entry->d_name, path);
            path->len = base;
            if (r < 0)
                return r;
        }
    }
}

int stage_serve(struct file_call *c, struct error *err)
{
    _cleanup_(stage_free) struct stage s = {.call = c, .folder = -1};
    struct wire_field field;
    struct wire_frame f;
    int r;
    for (size_t at = 0; wire_next(&c->request, &at, &field);) {
        _cleanup_free_ char *path = strndup((const char *)field.data, field.size);
        if (field.key != WIRE_K_CLEAR && field.key != WIRE_K_OWN)
            continue;
        if (field.key == WIRE_K_CLEAR)
            r = path ? stage_clear(path) : -ENOMEM;
        else
            r = stage_paths_add(&s.own, &field, STAGE_ROOTS_MAX);
        if (r < 0 && field.key == WIRE_K_CLEAR)
            return error_errno(err, -r, "cannot clear %.400s", path ? path : "");
        if (r == -EINVAL)
            return error_set(err, EINVAL, "%.400s: is no path beneath the workspace",
                             path ? path : "");
        if (r < 0)
            return error_errno(err, -r, "too many paths to stage");
    }
    for (;;) {
        if (wire_read(c->in, &f) <= 0 || f.type != WIRE_ENTRY)
            return error_set(err, EPROTO, "the files to stage broke off");
        if (wire_find_u64(&f, WIRE_K_EOF, 0))
            break;
        r = stage_put(&s, &f, err);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < s.own.count; i++) {
        const char *own = s.own.items[i];
        _cleanup_fd_ int dir = -1;
        _cleanup_buf_ struct buf path = BUF_INIT(RELPATH_MAX);
        buf_append_str(&path, own);
        r = stage_walk(&s, c->root_path, own, false, &dir);
        if (r == 0)
            r = sweep_entry(&s, dir, relpath_name(own), &path);
        if (r < 0)
            return error_errno(err, -r, "cannot put %.400s back", own);
    }
    size_t at = wire_begin(&c->out, WIRE_RESULT);
    wire_put_u64(&c->out, WIRE_K_COUNT, s.changes);
    if (s.reported < s.changes)
        wire_put_u64(&c->out, WIRE_K_TOO_MANY, s.changes - s.reported);
    wire_end(&c->out, at);
    return 0;
}
