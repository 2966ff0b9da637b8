/*
 * PUT and STAGE: the host makes paths of the box what it says. Both never follow a link, neither on
 * the way nor at the end, and replace whatever is there.
 *
 * PUT restores an earlier state of the workspace: each path becomes a file, a link, a folder, or is
 * gone. A folder that holds other files stays. What cannot be put is reported and the rest goes on.
 *
 * STAGE makes parts of the box exactly what the host says. The files come in the order of their
 * paths; one is written only if it differs from what is there. Then whatever else lies at the paths
 * of `own` is removed, and what differed is reported. The tree is hostile: nothing but a regular
 * file is ever opened, and a folder that its owner may not enter is made accessible first. No other
 * process may write there at the same time: the host stages boxes in which nothing runs.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "diff/content.h"
#include "file.h"
#include "io.h"
#include "relpath.h"
#include "sys.h"
#include "banned.h"

#define LOOK              (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define STAGE_FILES_MAX   100000u
#define STAGE_ROOTS_MAX   1000u
#define STAGE_REPORTS_MAX 1000u
#define STAGE_DEPTH_MAX   128u
#define REPORT_BYTES      (WIRE_BODY_MAX / 2) /* of all reports; they are kept until the end */

/* Changes the mode of a folder that is open with O_PATH only. */
static int put_chmod(int dir, mode_t mode)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", dir);
    return chmod(path, mode) < 0 ? -errno : 0;
}

/* Opens the folder that holds the path. To delete something, a missing folder is as good as an
 * empty one: 1. To create something, the folders are made, in place of whatever else is there. */
static int put_open_parent(int root, char *path, bool make, int *ret_fd)
{
    _cleanup_fd_ int dir = fcntl(root, F_DUPFD_CLOEXEC, 3);
    if (dir < 0)
        return -errno;
    for (char *at = path, *slash; (slash = strchr(at, '/')); at = slash + 1) {
        *slash = 0;
        int next = openat(dir, at, LOOK);
        if (next < 0 && make && (errno == ENOTDIR || errno == ELOOP) && unlinkat(dir, at, 0) == 0)
            errno = ENOENT;
        if (next < 0 && make && errno == ENOENT && mkdirat(dir, at, 0755) == 0)
            next = openat(dir, at, LOOK);
        int code = errno;
        *slash = '/';
        if (next < 0)
            return !make && (code == ENOENT || code == ENOTDIR || code == ELOOP) ? 1 : -code;
        close(dir);
        dir = next;
    }
    *ret_fd = TAKE_FD(dir);
    return 0;
}

/* Removes what has the name. A folder goes only if it is empty: what else is in it was not put
 * there. */
static int put_remove(int dir, const char *name)
{
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    return unlinkat(dir, name, AT_REMOVEDIR) == 0 ? 0 : -errno;
}

/* A regular file, from the DATA frames that follow. */
static int put_file(struct file_call *c, int dir, const char *name, mode_t mode)
{
    char fresh[TEMPORARY_NAME_MAX];
    _cleanup_fd_ int fd = -1;
    int r = temporary_open(dir, fresh, &fd);
    int received = file_receive(c, NULL, fd, NULL);
    if (r < 0 || received == -EPROTO)
        return received == -EPROTO ? received : r;
    r = received;
    if (r == 0 && fchmod(fd, mode) < 0)
        r = -errno;
    if (r == 0 && sys_renameat2(dir, fresh, dir, name, 0) < 0) {
        r = errno == EISDIR ? put_remove(dir, name) : -errno;
        if (r == 0 && sys_renameat2(dir, fresh, dir, name, 0) < 0)
            r = -errno;
    }
    if (r < 0)
        unlinkat(dir, fresh, 0);
    return r;
}

/* One ENTRY of PUT. -EPROTO if it is malformed. */
static int put_entry(struct file_call *c, const struct wire_frame *f, char *path)
{
    _cleanup_free_ char *target = wire_find_str(f, WIRE_K_TARGET);
    _cleanup_fd_ int dir = -1;
    mode_t mode = (mode_t)wire_find_u64(f, WIRE_K_MODE, 0);
    bool gone = wire_find_u64(f, WIRE_K_KIND, 0) == WIRE_DELETED, is_file = !gone && S_ISREG(mode);
    const char *name = relpath_name(path);
    struct stat st;
    int r = put_open_parent(c->root, path, !gone, &dir);
    if (r != 0) {
        int received = is_file ? file_receive(c, NULL, -1, NULL) : 0;
        return received < 0 ? received : r;
    }
    /* A folder that the agent made read-only must not keep its own earlier state out. */
    bool unlocked = fstat(dir, &st) == 0 && (st.st_mode & 0300) != 0300 &&
                    put_chmod(dir, (st.st_mode & 07777) | 0700) == 0;
    if (gone) {
        r = put_remove(dir, name);
        if (r == -ENOTEMPTY)
            r = 0;
    } else if (is_file) {
        r = put_file(c, dir, name, mode & 0777);
    } else if (S_ISLNK(mode)) {
        r = target ? put_remove(dir, name) : -EPROTO;
        if (r == 0 && symlinkat(target, dir, name) < 0)
            r = -errno;
    } else if (S_ISDIR(mode)) {
        _cleanup_fd_ int folder = openat(dir, name, LOOK);
        r = folder < 0 ? put_remove(dir, name) : 0;
        if (r == 0 && folder < 0 &&
            (mkdirat(dir, name, 0700) < 0 || (folder = openat(dir, name, LOOK)) < 0))
            r = -errno;
        if (r == 0)
            r = put_chmod(folder, mode & 0777);
    } else {
        r = -EINVAL;
    }
    if (unlocked)
        put_chmod(dir, st.st_mode & 07777);
    return r;
}

int file_put(struct file_call *c, struct error *err)
{
    struct buf *out = &c->out;
    umask(0);
    for (;;) {
        struct wire_frame f;
        struct wire_field field;
        int r = wire_read(c->in, &f) <= 0 || f.type != WIRE_ENTRY ? -EPROTO : 0;
        if (r == 0 && wire_find_u64(&f, WIRE_K_EOF, 0))
            break;
        _cleanup_free_ char *path = r == 0 ? wire_find_str(&f, WIRE_K_PATH) : NULL;
        bool valid =
            path && wire_find(&f, WIRE_K_PATH, &field) && relpath_is_valid(field.data, field.size);
        r = valid ? put_entry(c, &f, path) : -EPROTO;
        if (r == -EPROTO)
            return error_set(err, EPROTO, "malformed list of paths to put");
        if (r < 0 && out->len + strlen(path) <= REPORT_BYTES) {
            size_t at = wire_begin(out, WIRE_ENTRY);
            wire_put_str(out, WIRE_K_PATH, path);
            wire_put_u64(out, WIRE_K_CODE, (uint64_t)-r);
            wire_end(out, at);
        }
    }
    wire_end(out, wire_begin(out, WIRE_RESULT));
    return 0;
}

struct stage_paths {
    char **items;
    size_t count, room;
};

/* Lives as long as the worker process. */
struct stage {
    struct file_call *call;
    struct stage_paths files; /* in ascending order of their bytes */
    struct stage_paths own;
    uint64_t changes, reported;
};

/* Takes a copy of a path from the host. -EINVAL if it is not one beneath the root or too deep,
 * -ENOBUFS beyond max. */
static int stage_paths_add(struct stage_paths *p, const struct wire_field *f, size_t max)
{
    unsigned depth = 1;
    for (size_t i = 0; i < f->size; i++)
        depth += f->data[i] == '/';
    if (f->size >= PATH_MAX || depth > STAGE_DEPTH_MAX || !relpath_is_valid(f->data, f->size))
        return -EINVAL;
    if (p->count >= max)
        return -ENOBUFS;
    char *copy = strndup((const char *)f->data, f->size);
    if (!copy || !ARRAY_GROW(p->items, p->count, p->room)) {
        free(copy);
        return -ENOMEM;
    }
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
    _cleanup_fd_ int fd = openat(dir, name, LOOK);
    if (fd < 0 || fstat(fd, &st) < 0)
        return errno == ELOOP ? -ENOTDIR : -errno;
    if ((st.st_mode & 0700) != 0700 && put_chmod(fd, 0755) < 0)
        return -EACCES;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* Removes whatever has that name, with everything in it. 0 also if nothing has. */
static int stage_remove(int dir, const char *name)
{
    int r = put_remove(dir, name);
    if (r != -ENOTEMPTY && r != -EACCES)
        return r;
    _cleanup_fd_ int folder = -1;
    r = stage_open_folder(dir, name, &folder);
    if (r == 0)
        r = empty_dir(folder);
    return r < 0 ? r : unlinkat(dir, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

/*
 * Opens the folder that holds the last component of `path`, beneath `root`. Anything else where a
 * folder must be is removed, and reported if s is given. Missing folders are made; without `make`
 * the walk ends there with 1, since nothing has that path.
 */
static int stage_open_parent(struct stage *s, const char *root, const char *path, bool make,
                             int *ret_fd)
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

/* Removes an absolute path of the box; a link or a file on the way goes instead, since nothing is
 * left of that path then. With a slash at its end it is made again, as an empty folder. */
static int stage_clear(const char *path)
{
    size_t n = strlen(path);
    bool make = n > 1 && path[n - 1] == '/';
    if (path[0] != '/' || !relpath_is_valid(path + 1, n - 1 - make))
        return -EINVAL;
    _cleanup_free_ char *rest = strndup(path + 1, n - 1 - make);
    _cleanup_fd_ int dir = -1;
    int r = rest ? stage_open_parent(NULL, "/", rest, make, &dir) : -ENOMEM;
    if (r == 0)
        r = stage_remove(dir, relpath_name(rest));
    if (r == 0 && make && mkdirat(dir, relpath_name(rest), 0755) < 0)
        r = -errno;
    return r < 0 ? r : 0;
}

/* Makes `name` this file. *ret_differs if it was not, with this content and mode, before. Content
 * that does not fit into the ENTRY follows in DATA frames. */
static int stage_put_file(struct stage *s, int dir, const char *name, const struct wire_frame *f,
                          bool *ret_differs)
{
    char temporary[TEMPORARY_NAME_MAX];
    _cleanup_fd_ int old = -1, fresh = -1;
    struct wire_field data = {0};
    struct wire_frame next;
    struct stat st;
    mode_t mode = (mode_t)wire_find_u64(f, WIRE_K_MODE, 0644) & 0777;
    wire_find(f, WIRE_K_DATA, &data);
    uint64_t size = wire_find_u64(f, WIRE_K_SIZE, data.size), done = data.size;
    if (done > size)
        return -EINVAL;
    /* Looks before it opens: a FIFO or a device is never opened. What cannot be read differs. */
    bool alike = fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
                 (uint64_t)st.st_size == size && (st.st_mode & 07777) == mode &&
                 content_open(dir, name, &old) >= 0;
    bool alone = alike && st.st_nlink == 1; /* a file with other names could be written by those */
    *ret_differs = !alike;
    if (alone && done == size && content_holds(old, data.data, data.size))
        return 0;

    /* What differs for certain goes first: the box's disk may have no room for both. */
    int r = alike ? 0 : stage_remove(dir, name);
    if (r == 0)
        r = temporary_open(dir, temporary, &fresh);
    if (r == 0)
        r = io_write_all(fresh, data.data, data.size);
    /* After a failure the rest is still read: the sender reads the answer only then. */
    while (done < size) {
        if (wire_read(s->call->in, &next) <= 0 || next.type != WIRE_DATA ||
            !wire_find(&next, WIRE_K_DATA, &data) || data.size == 0 || data.size > size - done) {
            r = -EPROTO;
            break;
        }
        if (r == 0)
            r = io_write_all(fresh, data.data, data.size);
        done += data.size;
    }
    if (fresh < 0)
        return r;
    if (r == 0 && fchmod(fresh, mode) < 0)
        r = -errno;
    if (r == 0) {
        *ret_differs = !alike || content_same(old, fresh) <= 0;
        if (*ret_differs || !alone) {
            r = stage_remove(dir, name);
            if (r == 0 && sys_renameat2(dir, temporary, dir, name, 0) == 0)
                return 0;
            r = r == 0 ? -errno : r;
        }
    }
    unlinkat(dir, temporary, 0);
    return r;
}

/* The file or link of one ENTRY, whose path must sort after the one before. */
static int stage_put(struct stage *s, const struct wire_frame *f, struct error *err)
{
    _cleanup_fd_ int dir = -1;
    struct wire_field field = {0};
    struct stat st;
    size_t count = s->files.count;
    int r = wire_find(f, WIRE_K_PATH, &field) ? stage_paths_add(&s->files, &field, STAGE_FILES_MAX)
                                              : -EINVAL;
    if (r == -EINVAL)
        return error_set(err, EINVAL, "a file to stage has no path beneath the workspace");
    if (r < 0)
        return error_errno(err, -r, "too many files to stage");
    const char *path = s->files.items[count], *name = relpath_name(path);
    if (count && strcmp(s->files.items[count - 1], path) >= 0)
        return error_set(err, EINVAL, "%.400s: the files to stage do not come in order", path);

    _cleanup_free_ char *target = NULL, *there = NULL;
    bool differs = false, existed = false, missed = false, link = false;
    r = stage_open_parent(s, s->call->root_path, path, true, &dir);
    if (r == 0) {
        existed = fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
        link = S_ISLNK((mode_t)wire_find_u64(f, WIRE_K_MODE, 0));
        r = link ? 0 : stage_put_file(s, dir, name, f, &differs);
    }
    if (r == 0 && link) {
        target = wire_find_str(f, WIRE_K_DATA);
        r = target && *target && strlen(target) < PATH_MAX ? 0 : -EINVAL;
        differs = r == 0 && (content_read_link(dir, name, &there) < 0 || strcmp(there, target));
        if (differs)
            r = stage_remove(dir, name);
        if (differs && r == 0 && symlinkat(target, dir, name) < 0)
            r = -errno;
    }
    if (r < 0)
        return error_errno(err, -r, "cannot stage %.400s", path);
    for (size_t i = 0; !missed && i < s->own.count; i++) /* it should have been there */
        missed = strcmp(path, s->own.items[i]) == 0 || is_beneath(path, s->own.items[i]);
    if (differs && (existed || missed))
        stage_report(s, existed ? WIRE_MODIFIED : WIRE_DELETED, path, false);
    return 0;
}

/*
 * Removes and reports what the host did not send. Only folders that hold files of the host are
 * entered, so the depth is that of the host's paths. Everything else is removed at once, however
 * deep it is, and reported as one thing. `path` is that of the entry.
 */
static int stage_sweep(struct stage *s, int dir, const char *name, struct buf *path)
{
    _Alignas(struct dirent64) char space[4096];
    _cleanup_fd_ int place = -1, child = -1;
    struct stat st;
    size_t base = path->len;
    const char *full = buf_cstr(path);
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
    int r = stage_open_folder(dir, name, &place);
    if (r < 0)
        return r;
    child = openat(place, ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (child < 0)
        return -errno;
    for (ssize_t got; (got = sys_getdents64(child, space, sizeof space)) != 0;) {
        if (got < 0)
            return -errno;
        for (ssize_t at = 0; at < got;) {
            const struct dirent64 *entry = (const struct dirent64 *)(space + at);
            at += entry->d_reclen;
            if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                continue;
            buf_printf(path, "/%s", entry->d_name);
            r = path->failed ? -ENAMETOOLONG : stage_sweep(s, child, entry->d_name, path);
            path->len = base;
            if (r < 0)
                return r;
        }
    }
    return 0;
}

int stage_serve(struct file_call *c, struct error *err)
{
    struct stage s = {.call = c};
    struct wire_field field;
    struct wire_frame f;
    for (size_t at = 0; wire_next(&c->request, &at, &field);) {
        if (field.key != WIRE_K_CLEAR && field.key != WIRE_K_OWN)
            continue;
        _cleanup_free_ char *path = strndup((const char *)field.data, field.size);
        bool clear = field.key == WIRE_K_CLEAR;
        int r = !path   ? -ENOMEM
                : clear ? stage_clear(path)
                        : stage_paths_add(&s.own, &field, STAGE_ROOTS_MAX);
        if (r == -EINVAL && !clear)
            return error_set(err, EINVAL, "%.400s: is not a path beneath the workspace", path);
        if (r < 0 && clear)
            return error_errno(err, -r, "cannot clear %.400s", path ? path : "");
        if (r < 0)
            return error_errno(err, -r, "too many paths to stage");
    }
    for (;;) {
        if (wire_read(c->in, &f) <= 0 || f.type != WIRE_ENTRY)
            return error_set(err, EPROTO, "the files to stage broke off");
        if (wire_find_u64(&f, WIRE_K_EOF, 0))
            break;
        int r = stage_put(&s, &f, err);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < s.own.count; i++) {
        const char *own = s.own.items[i];
        _cleanup_fd_ int dir = -1;
        _cleanup_buf_ struct buf path = BUF_INIT(RELPATH_MAX);
        buf_append_str(&path, own);
        int r = stage_open_parent(&s, c->root_path, own, false, &dir);
        if (r == 0)
            r = stage_sweep(&s, dir, relpath_name(own), &path);
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
