#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "apply_file.h"
#include "apply_memory.h"
#include "beneath.h"
#include "fetch.h"
#include "io.h"
#include "relpath.h"
#include "sys.h"
#include "banned.h"

#define TEMP_NAME  24
#define TEMP_TRIES 16

/* Makes or opens one folder; never what a link points to. */
static int step_into(const struct apply *ap, int dir, const char *name, int *ret_fd)
{
    int r = beneath_open_dir(dir, name, ret_fd);
    if (r != -ENOENT)
        return r;
    bool made = mkdirat(dir, name, 0777) == 0;
    if (!made && errno != EEXIST)
        return -errno;
    if (made && ap->as_root &&
        fchownat(dir, name, ap->owner.st_uid, ap->owner.st_gid, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return beneath_open_dir(dir, name, ret_fd);
}

static int make_parents(const struct apply *ap, const char *path, int *ret_fd)
{
    _cleanup_fd_ int dir = -1;
    int r = beneath_open_dir(ap->folder, "", &dir);
    for (const char *slash; r >= 0 && (slash = strchr(path, '/')); path = slash + 1) {
        _cleanup_free_ char *name = strndup(path, (size_t)(slash - path));
        int next = -1;
        r = name ? step_into(ap, dir, name, &next) : -ENOMEM;
        if (r < 0)
            break;
        close(dir);
        dir = next;
    }
    if (r < 0)
        return r;
    *ret_fd = TAKE_FD(dir);
    return 0;
}

int apply_open_parent(const struct apply *ap, const char *path, bool create, int *ret_fd)
{
    int r = beneath_open_parent(ap->folder, path, ret_fd);
    return r == -ENOENT && create ? make_parents(ap, path, ret_fd) : r;
}

/* A name that nobody can have prepared for. */
static int make_temp_name(char name[TEMP_NAME])
{
    static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyz012345";
    uint8_t random[12];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return -EIO;
    int n = snprintf(name, TEMP_NAME, ".hutch-");
    for (size_t i = 0; i < sizeof random; i++)
        name[n++] = LETTERS[random[i] % 32];
    name[n] = 0;
    return 0;
}

struct writing {
    int fd;
    int status;
};

static int put_bytes(void *data, uint64_t offset, const void *bytes, size_t n)
{
    struct writing *w = data;
    if (lseek(w->fd, (off_t)offset, SEEK_SET) < 0)
        return w->status = -errno;
    return w->status = io_write_all(w->fd, bytes, n);
}

static int fetch_into(const struct apply *ap, const struct changes_entry *e, const struct fetch_sink *sink,
                      struct error *err)
{
    _cleanup_fd_ int conn = -1;
    int r = ap->connect(ap->data, &conn);
    if (r < 0)
        return error_errno(err, -r, "cannot reach the scribe");
    return fetch_file(conn, e->path, e->size, sink, err);
}

/* Fills a new file and gives it its length, owner and mode. Of the mode only the permissions are taken. */
static int fill_file(const struct apply *ap, int fd, const struct changes_entry *e, const struct stat *owner,
                     struct error *err)
{
    struct writing w = {.fd = fd};
    int r = fetch_into(ap, e, &(struct fetch_sink){put_bytes, &w}, err);
    if (r == -ECANCELED)
        return error_errno(err, -w.status, "cannot write");
    if (r < 0)
        return r;
    if (ftruncate(fd, (off_t)e->size) < 0 || (ap->as_root && fchown(fd, owner->st_uid, owner->st_gid) < 0) ||
        fchmod(fd, e->mode & 0777) < 0)
        return error_errno(err, errno, "cannot finish writing");
    return 0;
}

static int make_file(const struct apply *ap, int dir, const char *temp, const struct changes_entry *e,
                     const struct stat *owner, struct error *err)
{
    _cleanup_fd_ int fd = openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno == EEXIST ? -EEXIST : error_errno(err, errno, "cannot create a file");
    int r = fill_file(ap, fd, e, owner, err);
    if (r < 0)
        unlinkat(dir, temp, 0);
    return r;
}

static int make_link(const struct apply *ap, int dir, const char *temp, const struct changes_entry *e,
                     const struct stat *owner, struct error *err)
{
    if (!e->target || !*e->target)
        return error_set(err, EPROTO, "the link has no target");
    if (symlinkat(e->target, dir, temp) < 0)
        return errno == EEXIST ? -EEXIST : error_errno(err, errno, "cannot create a link");
    if (ap->as_root && fchownat(dir, temp, owner->st_uid, owner->st_gid, AT_SYMLINK_NOFOLLOW) < 0) {
        int r = error_errno(err, errno, "cannot give the link to its owner");
        unlinkat(dir, temp, 0);
        return r;
    }
    return 0;
}

static int make_temp(const struct apply *ap, int dir, char temp[TEMP_NAME], const struct changes_entry *e,
                     const struct stat *owner, struct error *err)
{
    for (int i = 0; i < TEMP_TRIES; i++) {
        int r = make_temp_name(temp);
        if (r < 0)
            return error_errno(err, -r, "no random name");
        r = S_ISLNK(e->mode) ? make_link(ap, dir, temp, e, owner, err)
                             : make_file(ap, dir, temp, e, owner, err);
        if (r != -EEXIST)
            return r;
    }
    return error_errno(err, EEXIST, "cannot create a file");
}

/* Puts the new file in its place. What appeared there meanwhile is not overwritten, if the filesystem can do
 * that. */
static int move_into_place(int dir, const char *temp, const char *name, bool replace)
{
    if (!replace && sys_renameat2(dir, temp, dir, name, RENAME_NOREPLACE) == 0)
        return 0;
    if (!replace && errno != EINVAL && errno != ENOSYS)
        return -errno;
    return renameat(dir, temp, dir, name) < 0 ? -errno : 0;
}

/* Taking one name away from a file moves the time of change that its other names show. It was as the box
 * found it before, so it is remembered as it is now. */
static void remember_others(const struct apply *ap, int old)
{
    struct stat st;
    if (old >= 0 && fstat(old, &st) == 0)
        apply_memory_add(ap->memory, &st);
}

static int open_others(int dir, const char *name, const struct stat *old)
{
    return old && old->st_nlink > 1 ? openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC) : -1;
}

int apply_write(const struct apply *ap, int dir, const struct changes_entry *e, const struct stat *old,
                struct error *err)
{
    char temp[TEMP_NAME];
    struct stat st;
    const char *name = relpath_name(e->path);
    _cleanup_fd_ int others = open_others(dir, name, old);
    int r = make_temp(ap, dir, temp, e, old ? old : &ap->owner, err);
    if (r < 0)
        return r;
    r = move_into_place(dir, temp, name, old != NULL);
    if (r < 0) {
        unlinkat(dir, temp, 0);
        return r == -EEXIST ? r : error_errno(err, -r, "cannot put the new file in its place");
    }
    remember_others(ap, others);
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && apply_memory_add(ap->memory, &st) < 0)
        return error_errno(err, ENOMEM, "cannot remember what was written");
    return 0;
}

struct comparing {
    int fd;
    uint64_t at;
    bool same;
};

static int compare_bytes(void *data, uint64_t offset, const void *bytes, size_t n)
{
    struct comparing *c = data;
    c->same = c->same && offset == c->at; /* what has holes is taken to differ */
    for (size_t done = 0; c->same && done < n;) {
        char space[16384];
        size_t want = n - done < sizeof space ? n - done : sizeof space;
        ssize_t got = pread(c->fd, space, want, (off_t)(offset + done));
        c->same = got > 0 && memcmp(space, (const char *)bytes + done, (size_t)got) == 0;
        done += got > 0 ? (size_t)got : 0;
    }
    c->at = offset + n;
    return c->same ? 0 : -ECANCELED;
}

static int is_same_file(const struct apply *ap, int dir, const struct changes_entry *e, struct error *err)
{
    struct stat st;
    _cleanup_fd_ int fd =
        openat(dir, relpath_name(e->path), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != e->size)
        return 0;
    struct comparing c = {.fd = fd, .same = true};
    int r = fetch_into(ap, e, &(struct fetch_sink){compare_bytes, &c}, err);
    if (r < 0 && r != -ECANCELED)
        return r;
    return r == 0 && c.at == e->size;
}

static bool is_same_link(int dir, const struct changes_entry *e)
{
    char target[PATH_MAX + 1];
    ssize_t n = readlinkat(dir, relpath_name(e->path), target, sizeof target);
    return e->target && n >= 0 && (size_t)n == strlen(e->target) && memcmp(target, e->target, (size_t)n) == 0;
}

int apply_is_same(const struct apply *ap, int dir, const struct changes_entry *e, const struct stat *old,
                  struct error *err)
{
    if ((old->st_mode & S_IFMT) != (e->mode & S_IFMT))
        return 0;
    if (S_ISLNK(e->mode))
        return is_same_link(dir, e);
    return (old->st_mode & 0777) == (e->mode & 0777) ? is_same_file(ap, dir, e, err) : 0;
}

int apply_remove(const struct apply *ap, int dir, const char *name, const struct stat *old)
{
    if (S_ISDIR(old->st_mode))
        return unlinkat(dir, name, AT_REMOVEDIR) < 0 ? -errno : 0;
    _cleanup_fd_ int others = open_others(dir, name, old);
    if (unlinkat(dir, name, 0) < 0)
        return -errno;
    remember_others(ap, others);
    return 0;
}

void apply_remove_parents(const struct apply *ap, const char *path, size_t count)
{
    _cleanup_free_ char *rest = strdup(path);
    for (char *slash; rest && count > 0 && (slash = strrchr(rest, '/')); count--) {
        _cleanup_fd_ int dir = -1;
        *slash = 0;
        if (beneath_open_parent(ap->folder, rest, &dir) < 0 ||
            unlinkat(dir, relpath_name(rest), AT_REMOVEDIR) < 0)
            return;
    }
}
