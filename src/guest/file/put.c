/*
 * PUT: makes paths of the workspace what the host says, one after the other: gone, a file, a link
 * or a folder.
 *
 * The host restores an earlier state with it. Unlike WRITE it never follows a link, neither on the
 * way nor at the end, and it replaces whatever is there. What cannot be put is reported and the
 * rest goes on.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file_write.h"
#include "relpath.h"
#include "sys.h"
#include "banned.h"

#define LOOK         (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define REPORTED_MAX (WIRE_BODY_MAX / 2)

/* One path and what it shall be. */
struct put {
    char *path, *target;
    enum wire_change kind; /* WIRE_DELETED, or anything else */
    mode_t mode;
    int dir; /* the folder that holds it; -1: there is none */
};

static void put_free(struct put *p)
{
    free(p->path);
    free(p->target);
    cleanup_close(&p->dir);
}

/* Changes the mode of a folder that is open with O_PATH only. */
static int put_chmod(int dir, mode_t mode)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", dir);
    return chmod(path, mode) < 0 ? -errno : 0;
}

/* Opens the folder that holds the path. To delete something, a missing folder is as good as an
 * empty one; to create something, the folders are made, in place of whatever else is there. */
static int put_open_parent(struct file_call *c, struct put *p)
{
    bool make = p->kind != WIRE_DELETED;
    int dir = fcntl(c->root, F_DUPFD_CLOEXEC, 3);
    if (dir < 0)
        return -errno;
    for (char *at = p->path, *slash; (slash = strchr(at, '/')); at = slash + 1) {
        *slash = 0;
        int next = openat(dir, at, LOOK);
        if (next < 0 && make && (errno == ENOTDIR || errno == ELOOP) && unlinkat(dir, at, 0) == 0)
            errno = ENOENT;
        if (next < 0 && make && errno == ENOENT && mkdirat(dir, at, 0755) == 0)
            next = openat(dir, at, LOOK);
        int r = next < 0 ? -errno : 0;
        *slash = '/';
        close(dir);
        if (r < 0)
            return !make && (r == -ENOENT || r == -ENOTDIR || r == -ELOOP) ? 0 : r;
        dir = next;
    }
    p->dir = dir;
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

static int put_file(struct file_call *c, const struct put *p, const char *name)
{
    char fresh[TEMPORARY_NAME_MAX];
    _cleanup_fd_ int fd = -1;
    int r = write_target_open_temporary(p->dir, fresh, &fd);
    int received = file_receive_to(c, fd, NULL);
    if (r < 0 || received == -EPROTO)
        return received == -EPROTO ? received : r;
    r = received;
    if (r == 0 && fchmod(fd, p->mode & 0777) < 0)
        r = -errno;
    if (r == 0 && sys_renameat2(p->dir, fresh, p->dir, name, 0) < 0) {
        r = errno == EISDIR ? put_remove(p->dir, name) : -errno;
        if (r == 0 && sys_renameat2(p->dir, fresh, p->dir, name, 0) < 0)
            r = -errno;
    }
    if (r < 0)
        unlinkat(p->dir, fresh, 0);
    return r;
}

static int put_folder(const struct put *p, const char *name)
{
    _cleanup_fd_ int dir = openat(p->dir, name, LOOK);
    if (dir < 0) {
        int r = put_remove(p->dir, name);
        if (r < 0 || mkdirat(p->dir, name, 0700) < 0 || (dir = openat(p->dir, name, LOOK)) < 0)
            return r < 0 ? r : -errno;
    }
    return put_chmod(dir, p->mode & 0777);
}

static int put_one(struct file_call *c, struct put *p)
{
    const char *name = relpath_name(p->path);
    bool is_file = p->kind != WIRE_DELETED && S_ISREG(p->mode);
    struct stat st;
    int r = put_open_parent(c, p);
    if (r < 0 || p->dir < 0) {
        int received = is_file ? file_receive_to(c, -1, NULL) : 0;
        return received < 0 ? received : r;
    }
    /* A folder that the agent made read-only must not keep its own earlier state out. */
    bool unlocked = fstat(p->dir, &st) == 0 && (st.st_mode & 0300) != 0300 &&
                    put_chmod(p->dir, (st.st_mode & 07777) | 0700) == 0;
    if (p->kind == WIRE_DELETED) {
        r = put_remove(p->dir, name);
        if (r == -ENOTEMPTY)
            r = 0;
    } else if (is_file) {
        r = put_file(c, p, name);
    } else if (S_ISLNK(p->mode)) {
        r = p->target ? put_remove(p->dir, name) : -EPROTO;
        if (r == 0 && symlinkat(p->target, p->dir, name) < 0)
            r = -errno;
    } else {
        r = S_ISDIR(p->mode) ? put_folder(p, name) : -EINVAL;
    }
    if (unlocked)
        put_chmod(p->dir, st.st_mode & 07777);
    return r;
}

int file_put(struct file_call *c, struct error *err)
{
    struct buf *out = &c->out;
    int r;
    umask(0);
    for (;;) {
        struct wire_frame f;
        struct wire_field path;
        r = wire_read(c->in, &f) <= 0 || f.type != WIRE_ENTRY ? -EPROTO : 0;
        if (r < 0 || wire_find_u64(&f, WIRE_K_EOF, 0))
            break;
        _cleanup_(put_free) struct put p = {.path = wire_find_str(&f, WIRE_K_PATH),
                                            .target = wire_find_str(&f, WIRE_K_TARGET),
                                            .kind =
                                                (enum wire_change)wire_find_u64(&f, WIRE_K_KIND, 0),
                                            .mode = (mode_t)wire_find_u64(&f, WIRE_K_MODE, 0),
                                            .dir = -1};
        bool valid =
            p.path && wire_find(&f, WIRE_K_PATH, &path) && relpath_is_valid(path.data, path.size);
        r = valid ? put_one(c, &p) : -EPROTO;
        if (r == -EPROTO)
            break;
        if (r < 0 && out->len + strlen(p.path) <= REPORTED_MAX) {
            size_t at = wire_begin(out, WIRE_ENTRY);
            wire_put_str(out, WIRE_K_PATH, p.path);
            wire_put_u64(out, WIRE_K_CODE, (uint64_t)-r);
            wire_end(out, at);
        }
    }
    if (r < 0)
        return error_set(err, EPROTO, "malformed list of paths to put");
    wire_end(out, wire_begin(out, WIRE_RESULT));
    return 0;
}
