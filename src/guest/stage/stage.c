#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "io.h"
#include "relpath.h"
#include "stage.h"
#include "sys.h"
#include "diff/empty.h"
#include "banned.h"

#define STAGE_FILES_MAX   100000u
#define STAGE_ROOTS_MAX   1000u
#define STAGE_REPORTS_MAX 1000u
#define STAGE_DEPTH_MAX   128u
#define REPORT_BYTES      (WIRE_BODY_MAX / 2) /* of all reports; they are kept until the end */
#define PIECE             (32u << 10)
#define LOOKUP            (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

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
#define STAGE_INIT(c) ((struct stage){.call = (c), .folder = -1})

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

/* Takes a copy. -ENOBUFS beyond max. */
static int stage_paths_add(struct stage_paths *p, const void *path, size_t n, size_t max)
{
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
    char *copy = strndup(path, n);
    if (!copy)
        return -ENOMEM;
    p->items[p->count++] = copy;
    return 0;
}

/* The first file whose path is not before this one, which may be continued by one more character.
 */
static size_t stage_lower_bound(const struct stage_paths *p, const char *path, char behind)
{
    size_t low = 0, high = p->count, n = strlen(path);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strncmp(p->items[middle], path, n);
        if (order == 0)
            order = (unsigned char)p->items[middle][n] - (unsigned char)behind;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Is a file of that path among those that were sent? */
static bool stage_has(const struct stage *s, const char *path)
{
    size_t at = stage_lower_bound(&s->files, path, 0);
    return at < s->files.count && strcmp(s->files.items[at], path) == 0;
}

static bool is_beneath(const char *path, const char *above)
{
    size_t n = strlen(above);
    return strncmp(path, above, n) == 0 && path[n] == '/';
}

/* Is there one beneath it? */
static bool stage_has_beneath(const struct stage *s, const char *path)
{
    size_t at = stage_lower_bound(&s->files, path, '/');
    return at < s->files.count && is_beneath(s->files.items[at], path);
}

/* Is the path one of `own`, or beneath one? */
static bool stage_is_own(const struct stage *s, const char *path)
{
    for (size_t i = 0; i < s->own.count; i++)
        if (strcmp(path, s->own.items[i]) == 0 || is_beneath(path, s->own.items[i]))
            return true;
    return false;
}

static void stage_report(struct stage *s, enum wire_change kind, const char *path, bool folder)
{
    struct buf *out = &s->call->out;
    size_t n = strlen(path);
    s->changes++;
    if (s->reported == STAGE_REPORTS_MAX || out->len + n > REPORT_BYTES)
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
    _cleanup_fd_ int fd = openat(dir, name, LOOKUP);
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

/* The folder of that name, made if it is not there; 1 if something was in its way. */
static int stage_make_folder(int dir, const char *name, int *ret_fd)
{
    int r = stage_open_folder(dir, name, ret_fd), in_the_way = 0;
    if (r == -ENOTDIR) {
        in_the_way = 1;
        r = stage_remove(dir, name);
        if (r == 0)
            r = -ENOENT;
    }
    if (r == -ENOENT)
        r = mkdirat(dir, name, 0755) < 0 ? -errno : stage_open_folder(dir, name, ret_fd);
    return r < 0 ? r : in_the_way;
}

/* Component by component; `path` is that of the folder, and is changed meanwhile. */
static int stage_walk(struct stage *s, char *path, int *ret_fd)
{
    _cleanup_fd_ int dir = -1;
    int r = stage_open_folder(AT_FDCWD, s->call->root_path, &dir);
    for (char *at = path; r >= 0 && *at;) {
        char *end = at + strcspn(at, "/"), kept = *end;
        int next = -1;
        *end = 0;
        r = stage_make_folder(dir, at, &next);
        if (r > 0)
            stage_report(s, WIRE_MODIFIED, path, false);
        *end = kept;
        if (r < 0)
            return r;
        close(dir);
        dir = next;
        at = end + (kept == '/');
    }
    if (r < 0)
        return r;
    *ret_fd = TAKE_FD(dir);
    return 0;
}

/* The folder that is to hold `path`, in s->folder. What is in the way of a folder is removed and
 * reported. */
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
        r = stage_walk(s, folder, &fd);
    }
    if (r < 0)
        return r;
    cleanup_close(&s->folder);
    s->folder = TAKE_FD(fd);
    free(s->folder_path);
    s->folder_path = TAKE_PTR(folder);
    return 0;
}

/* One step down the path; 1 when there is nothing left to remove behind it. */
static int clear_step(int *dir, const char *name)
{
    int next = -1;
    int r = stage_open_folder(*dir, name, &next);
    if (r == -ENOTDIR && (r = stage_remove(*dir, name)) == 0)
        return 1;
    if (r == -ENOENT)
        return 1;
    if (r < 0)
        return r;
    close(*dir);
    *dir = next;
    return 0;
}

/* What lies before the last component: opened for removing, or also made. */
static int clear_parent(char *path, bool make, int *ret_fd)
{
    _cleanup_fd_ int dir = open("/", LOOKUP);
    int r = dir < 0 ? -errno : 0;
    for (char *at = path, *end; r == 0 && *(end = at + strcspn(at, "/")); at = end + 1) {
        int next = -1;
        *end = 0;
        if (!make) {
            r = clear_step(&dir, at);
        } else if ((r = stage_make_folder(dir, at, &next)) >= 0) {
            close(dir);
            dir = next;
            r = 0;
        }
        *end = '/';
    }
    if (r == 0)
        *ret_fd = TAKE_FD(dir);
    return r;
}

/* Removes an absolute path of the box; a link or a file on the way goes instead, since behind it
 * nothing is left of that path then. With a slash at its end it is made again, as an empty folder.
 */
static int stage_clear(const char *path)
{
    size_t n = strlen(path);
    bool make = n > 1 && path[n - 1] == '/';
    if (path[0] != '/' || !relpath_is_valid(path + 1, n - 1 - make))
        return -EINVAL;
    _cleanup_free_ char *rest = strndup(path + 1, n - 1 - make);
    _cleanup_fd_ int dir = -1, made = -1;
    if (!rest)
        return -ENOMEM;
    int r = clear_parent(rest, false, &dir);
    if (r == 0)
        r = stage_remove(dir, relpath_name(rest));
    if (r < 0 || !make)
        return r < 0 ? r : 0;
    cleanup_close(&dir);
    dir = -1;
    r = clear_parent(rest, true, &dir);
    return r < 0 ? r : stage_make_folder(dir, relpath_name(rest), &made);
}

/* One file on its way in: its content is compared with what is there as it comes, and only from the
 * first difference on (or if something else than this file is there) it is written anew. */
struct incoming {
    int dir; /* borrowed */
    const char *name;
    mode_t mode; /* permissions */
    uint64_t size, at;
    int old;      /* what is there, as long as it is the same */
    int fresh;    /* the new file */
    bool existed; /* something had the name */
    bool linked;  /* what is there has other names, too, by which it could be written */
    bool differs;
};
#define INCOMING_INIT ((struct incoming){.old = -1, .fresh = -1})

static void incoming_close(struct incoming *p)
{
    cleanup_close(&p->old);
    cleanup_close(&p->fresh);
    p->old = p->fresh = -1;
}

static int incoming_copy_head(struct incoming *p)
{
    char piece[PIECE];
    for (uint64_t at = 0; at < p->at;) {
        size_t want = p->at - at < sizeof piece ? (size_t)(p->at - at) : sizeof piece;
        ssize_t n = pread(p->old, piece, want, (off_t)at);
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        int r = io_write_all(p->fresh, piece, (size_t)n);
        if (r < 0)
            return r;
        at += (uint64_t)n;
    }
    return 0;
}

/* From here on it is written anew. */
static int incoming_renew(struct incoming *p)
{
    int r = stage_remove(p->dir, p->name);
    if (r < 0)
        return r;
    p->fresh = openat(p->dir, p->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (p->fresh < 0)
        return -errno;
    r = p->old >= 0 ? incoming_copy_head(p) : 0;
    cleanup_close(&p->old);
    p->old = -1;
    return r;
}

/* Looks before it opens: a FIFO or a device is never opened. */
static int incoming_begin(struct incoming *p)
{
    struct stat st;
    p->existed = fstatat(p->dir, p->name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (!p->existed && errno != ENOENT)
        return -errno;
    if (p->existed && S_ISREG(st.st_mode) && (uint64_t)st.st_size == p->size &&
        (st.st_mode & 07777) == p->mode) {
        p->linked = st.st_nlink > 1;
        p->old = openat(p->dir, p->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    }
    if (p->old >= 0)
        return 0;
    p->differs = true; /* also what cannot be read */
    return incoming_renew(p);
}

static bool incoming_is_same(struct incoming *p, const char *bytes, size_t n)
{
    char piece[PIECE];
    for (size_t done = 0; done < n;) {
        size_t want = n - done < sizeof piece ? n - done : sizeof piece;
        ssize_t got = pread(p->old, piece, want, (off_t)(p->at + done));
        if (got <= 0 || memcmp(piece, bytes + done, (size_t)got) != 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

static int incoming_bytes(struct incoming *p, const void *bytes, size_t n)
{
    if (n > p->size - p->at)
        return -EINVAL;
    int r = 0;
    if (p->old >= 0 && !incoming_is_same(p, bytes, n)) {
        p->differs = true;
        r = incoming_renew(p);
    }
    if (r == 0 && p->old < 0)
        r = io_write_all(p->fresh, bytes, n);
    p->at += n;
    return r;
}

static int incoming_end(struct incoming *p)
{
    int r = p->at != p->size ? -EINVAL : 0;
    if (r == 0 && p->old >= 0 && p->linked)
        r = incoming_renew(p);
    if (r == 0 && p->fresh >= 0 && fchmod(p->fresh, p->mode) < 0)
        r = -errno;
    incoming_close(p);
    return r;
}

/* A symbolic link with that target. */
static int incoming_link(struct incoming *p, const char *target)
{
    char there[PATH_MAX];
    struct stat st;
    p->existed = fstatat(p->dir, p->name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    ssize_t n =
        p->existed && S_ISLNK(st.st_mode) ? readlinkat(p->dir, p->name, there, sizeof there) : -1;
    if (n >= 0 && (size_t)n == strlen(target) && memcmp(there, target, (size_t)n) == 0)
        return 0;
    p->differs = true;
    int r = p->existed ? stage_remove(p->dir, p->name) : 0;
    return r < 0 ? r : symlinkat(target, p->dir, p->name) < 0 ? -errno : 0;
}

/*
 * What else lies at the paths of `own` is removed and reported. Only folders that hold files of the
 * host are entered, so the depth is that of the host's paths. Everything else is removed at once,
 * however deep it is (diff/empty.c), and reported as one thing.
 */
static int sweep_folder(struct stage *s, int dir, struct buf *path);

static int sweep_remove(struct stage *s, int dir, const char *name, const char *path,
                        enum wire_change kind)
{
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    stage_report(s, kind, path, S_ISDIR(st.st_mode));
    return stage_remove(dir, name);
}

/* `path` is that of the entry. */
static int sweep_entry(struct stage *s, int dir, const char *name, struct buf *path)
{
    const char *full = buf_cstr(path);
    if (!full)
        return -ENOMEM;
    if (stage_has(s, full))
        return 0;
    if (!stage_has_beneath(s, full))
        return sweep_remove(s, dir, name, full, WIRE_ADDED);
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
            buf_append_str(path, "/");
            buf_append_str(path, entry->d_name);
            int r = path->failed ? -ENAMETOOLONG : sweep_entry(s, dir, entry->d_name, path);
            path->len = base;
            if (r < 0)
                return r;
        }
    }
}

/* The folder that holds this one of `own`. 1: nothing is left of it. */
static int sweep_open_above(struct stage *s, const char *own, int *ret_fd)
{
    _cleanup_free_ char *path = strdup(own);
    _cleanup_fd_ int dir = -1;
    int r = path ? stage_open_folder(AT_FDCWD, s->call->root_path, &dir) : -ENOMEM;
    for (char *at = path, *end; r == 0 && *(end = at + strcspn(at, "/")); at = end + 1) {
        int next = -1;
        *end = 0;
        r = stage_open_folder(dir, at, &next);
        if (r == -ENOTDIR) /* a link to elsewhere: then there is nothing of that path */
            r = sweep_remove(s, dir, at, path, WIRE_MODIFIED);
        else if (r == -ENOENT)
            r = 0;
        if (r == 0 && next < 0)
            r = 1;
        *end = '/';
        if (r == 0) {
            close(dir);
            dir = next;
        }
    }
    if (r == 0)
        *ret_fd = TAKE_FD(dir);
    return r;
}

static int stage_sweep(struct stage *s, struct error *err)
{
    for (size_t i = 0; i < s->own.count; i++) {
        const char *own = s->own.items[i];
        _cleanup_fd_ int dir = -1;
        _cleanup_buf_ struct buf path = BUF_INIT(RELPATH_MAX);
        buf_append_str(&path, own);
        int r = sweep_open_above(s, own, &dir);
        if (r == 0)
            r = sweep_entry(s, dir, relpath_name(own), &path);
        if (r < 0)
            return error_errno(err, -r, "cannot put %.400s back", own);
    }
    return 0;
}

static bool path_is_sane(const struct wire_field *f)
{
    unsigned depth = 1;
    if (f->size >= PATH_MAX || !relpath_is_valid(f->data, f->size))
        return false;
    for (size_t i = 0; i < f->size; i++)
        depth += f->data[i] == '/';
    return depth <= STAGE_DEPTH_MAX;
}

static int stage_take_request(struct stage *s, struct error *err)
{
    struct wire_field f;
    for (size_t at = 0; wire_next(&s->call->request, &at, &f);) {
        int r = 0;
        if (f.key == WIRE_K_CLEAR) {
            _cleanup_free_ char *path = strndup((const char *)f.data, f.size);
            r = path ? stage_clear(path) : -ENOMEM;
            if (r < 0)
                return error_errno(err, -r, "cannot clear %.400s", path ? path : "");
        }
        if (f.key != WIRE_K_OWN)
            continue;
        if (!path_is_sane(&f))
            return error_set(err, EINVAL, "%.*s: is no path beneath the workspace",
                             (int)(f.size < 400 ? f.size : 400), (const char *)f.data);
        r = stage_paths_add(&s->own, f.data, f.size, STAGE_ROOTS_MAX);
        if (r < 0)
            return error_errno(err, -r, "too many paths to stage");
    }
    return 0;
}

/* The path of the next file, which must come behind the one before. */
static int stage_take_path(struct stage *s, const struct wire_frame *f, const char **ret,
                           struct error *err)
{
    struct wire_field path = {0};
    const char *before = s->files.count ? s->files.items[s->files.count - 1] : "";
    if (!wire_find(f, WIRE_K_PATH, &path) || !path_is_sane(&path))
        return error_set(err, EINVAL, "a file to stage has no path beneath the workspace");
    int r = stage_paths_add(&s->files, path.data, path.size, STAGE_FILES_MAX);
    if (r < 0)
        return error_errno(err, -r, "too many files to stage");
    *ret = s->files.items[s->files.count - 1];
    if (s->files.count > 1 && strcmp(before, *ret) >= 0)
        return error_set(err, EINVAL, "%.400s: the files to stage do not come in order", *ret);
    return 0;
}

static int stage_put_link(struct incoming *p, const struct wire_field *data)
{
    char target[PATH_MAX];
    if (data->size == 0 || data->size >= sizeof target || memchr(data->data, 0, data->size))
        return -EINVAL;
    memcpy(target, data->data, data->size);
    target[data->size] = 0;
    return incoming_link(p, target);
}

/* What does not fit into the ENTRY follows in DATA frames, which are read to their end. */
static int stage_put_file(struct stage *s, struct incoming *p, const struct wire_field *data)
{
    int r = incoming_begin(p);
    if (r == 0)
        r = incoming_bytes(p, data->data, data->size);
    for (uint64_t at = data->size; at < p->size;) {
        struct wire_frame f;
        struct wire_field more = {0};
        if (wire_read(s->call->in, &f) <= 0 || f.type != WIRE_DATA ||
            !wire_find(&f, WIRE_K_DATA, &more) || more.size == 0)
            r = -EPROTO;
        if (r == -EPROTO)
            break;
        if (r == 0)
            r = incoming_bytes(p, more.data, more.size);
        at += more.size;
    }
    if (r == 0)
        r = incoming_end(p);
    incoming_close(p);
    return r;
}

static int stage_put(struct stage *s, const struct wire_frame *f, struct error *err)
{
    struct wire_field data = {0};
    struct incoming p = INCOMING_INIT;
    const char *path = NULL;
    int r = stage_take_path(s, f, &path, err);
    if (r < 0)
        return r;
    wire_find(f, WIRE_K_DATA, &data);
    mode_t mode = (mode_t)wire_find_u64(f, WIRE_K_MODE, 0644);
    r = stage_open_parent(s, path);
    if (r == 0) {
        p.dir = s->folder;
        p.name = relpath_name(path);
        p.mode = mode & 0777;
        p.size = wire_find_u64(f, WIRE_K_SIZE, data.size);
        r = S_ISLNK(mode) ? stage_put_link(&p, &data) : stage_put_file(s, &p, &data);
    }
    if (r < 0)
        return error_errno(err, -r, "cannot stage %.400s", path);
    if (p.differs && p.existed)
        stage_report(s, WIRE_MODIFIED, path, false);
    else if (p.differs && stage_is_own(s, path))
        stage_report(s, WIRE_DELETED, path, false);
    return 0;
}

static int stage_take_files(struct stage *s, struct error *err)
{
    for (;;) {
        struct wire_frame f;
        if (wire_read(s->call->in, &f) <= 0 || f.type != WIRE_ENTRY)
            return error_set(err, EPROTO, "the files to stage broke off");
        if (wire_find_u64(&f, WIRE_K_EOF, 0))
            return 0;
        int r = stage_put(s, &f, err);
        if (r < 0)
            return r;
    }
}

int stage_serve(struct file_call *c, struct error *err)
{
    _cleanup_(stage_free) struct stage s = STAGE_INIT(c);
    int r = stage_take_request(&s, err);
    if (r == 0)
        r = stage_take_files(&s, err);
    if (r == 0)
        r = stage_sweep(&s, err);
    if (r < 0)
        return r;
    size_t at = wire_begin(&c->out, WIRE_RESULT);
    wire_put_u64(&c->out, WIRE_K_COUNT, s.changes);
    if (s.reported < s.changes)
        wire_put_u64(&c->out, WIRE_K_TOO_MANY, s.changes - s.reported);
    wire_end(&c->out, at);
    return 0;
}
