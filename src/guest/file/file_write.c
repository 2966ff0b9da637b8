/*
 * WRITE: replaces a file's content in one step, or adds to its end.
 *
 * The bytes go to a new file beside it, which then takes its name: readers see the old content or
 * the new. Missing folders are made. What is appended goes to the file itself, so that readers that
 * follow it see it grow; room for it is allocated first, so that a full disk leaves no half of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "file.h"
#include "io.h"
#include "sys.h"
#include "banned.h"

#define LINKS_MAX    16
#define DEFAULT_MODE 0644
#define APPEND_MAX   (64u << 20)

void write_target_close(struct write_target *p)
{
    cleanup_close(&p->dir);
    p->dir = -1;
}

/* Opens the folder `path`, making what is missing of it. Each prefix is resolved from the root
 * anew. */
static int write_target_make_folders(struct file_call *c, char *path, int *ret_fd)
{
    _cleanup_fd_ int above = fcntl(c->root, F_DUPFD_CLOEXEC, 3);
    for (char *at = path + strspn(path, "/"); *at;) {
        size_t n = strcspn(at, "/");
        char *end = at + n, kept = *end;
        _cleanup_fd_ int here = -1;
        *end = 0;
        int r = file_resolve(c, path, O_PATH | O_DIRECTORY, &here);
        if (r == -ENOENT && (mkdirat(above, at, 0777) == 0 || errno == EEXIST))
            r = file_resolve(c, path, O_PATH | O_DIRECTORY, &here);
        else if (r == -ENOENT)
            r = -errno;
        *end = kept;
        if (r < 0)
            return r;
        close(above);
        above = TAKE_FD(here);
        at = end + strspn(end, "/");
    }
    *ret_fd = TAKE_FD(above);
    return 0;
}

int write_target_find(struct file_call *c, struct write_target *p)
{
    size_t n = strlen(c->path);
    if (n >= sizeof p->path)
        return -ENAMETOOLONG;
    memcpy(p->path, c->path, n + 1);
    for (int i = 0; i < LINKS_MAX; i++) {
        /* The folder is opened, the name in it is examined. */
        char *slash = strrchr(p->path, '/');
        p->name = slash ? slash + 1 : p->path;
        if (!*p->name || strcmp(p->name, ".") == 0 || strcmp(p->name, "..") == 0)
            return -EISDIR;
        if (p->path[0] == '/' && !c->whole)
            return -EXDEV;
        write_target_close(p);
        if (slash)
            *slash = 0;
        int r = write_target_make_folders(c, slash ? p->path : (char[]){""}, &p->dir);
        if (slash)
            *slash = '/';
        if (r < 0)
            return r;
        p->exists = fstatat(p->dir, p->name, &p->st, AT_SYMLINK_NOFOLLOW) == 0;
        if (!p->exists)
            return errno == ENOENT ? 0 : -errno;
        if (!S_ISLNK(p->st.st_mode))
            return 0;

        /* The target of a link, relative to its folder, is the next path. */
        char target[PATH_MAX], next[PATH_MAX];
        ssize_t len = readlinkat(p->dir, p->name, target, sizeof target);
        if (len < 0)
            return -errno;
        bool absolute = len > 0 && target[0] == '/';
        if (absolute && !c->whole)
            return -EXDEV;
        int used = snprintf(next, sizeof next, "%.*s%.*s", absolute ? 0 : (int)(p->name - p->path),
                            p->path, (int)len, target);
        if (used < 0 || (size_t)used >= sizeof next)
            return -ENAMETOOLONG;
        memcpy(p->path, next, (size_t)used + 1);
    }
    return -ELOOP;
}

int write_target_need_writable(const struct write_target *p, const char *path, struct error *err)
{
    if (!p->exists || faccessat(p->dir, p->name, W_OK, 0) == 0)
        return 0;
    if (errno != EACCES)
        return error_errno(err, errno, "%.400s", path);
    return error_set(err, EACCES, "%.400s: is write-protected (mode %04o)", path,
                     p->st.st_mode & 07777);
}

int temporary_open(int dir, char name[TEMPORARY_NAME_MAX], int *ret_fd)
{
    uint64_t chance;
    if (getrandom(&chance, sizeof chance, 0) != (ssize_t)sizeof chance)
        return -EIO;
    snprintf(name, TEMPORARY_NAME_MAX, ".hutch-%016llx.tmp", (unsigned long long)chance);
    int fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    return 0;
}

struct written {
    uint64_t size; /* of the file */
    mode_t mode;
};

static int write_append(struct file_call *c, const struct write_target *p, struct written *w)
{
    _cleanup_buf_ struct buf content = BUF_INIT(APPEND_MAX);
    _cleanup_fd_ int fd = -1;
    struct stat st = {0};
    int r = file_receive(c, &content, -1, NULL);
    if (r < 0)
        return r;
    /* The file as it is now: it may have been replaced since it was examined. */
    fd = openat(p->dir, p->name, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EBUSY;
    if (content.len && fallocate(fd, FALLOC_FL_KEEP_SIZE, st.st_size, (off_t)content.len) < 0 &&
        errno != EOPNOTSUPP && errno != ENOSYS)
        return -errno;
    r = io_write_all(fd, content.data, content.len);
    if (r >= 0 && w->mode != (st.st_mode & 07777) && fchmod(fd, w->mode) < 0)
        r = -errno;
    w->size = (uint64_t)st.st_size + content.len;
    return r;
}

int file_write(struct file_call *c, struct error *err)
{
    _cleanup_write_target_ struct write_target p = WRITE_TARGET_INIT;
    struct written w = {0};
    int r = write_target_find(c, &p);
    if (r < 0)
        r = file_error(c, -r, c->path, err);
    if (r >= 0 && p.exists)
        r = file_need_regular(c->path, p.st.st_mode, err);
    if (r >= 0)
        r = write_target_need_writable(&p, c->path, err);
    if (r < 0) {
        file_receive(c, NULL, -1, NULL);
        return r;
    }
    w.mode = p.exists ? p.st.st_mode & 07777
                      : (mode_t)wire_find_u64(&c->request, WIRE_K_MODE, DEFAULT_MODE) & 0777;
    if (wire_find_u64(&c->request, WIRE_K_EXECUTABLE, 0)) /* for everyone who may read it */
        w.mode |= (w.mode & 0444) >> 2;
    bool appends = wire_find_u64(&c->request, WIRE_K_APPEND, 0) != 0;
    if (appends && p.exists) {
        r = write_append(c, &p, &w);
    } else {
        char name[TEMPORARY_NAME_MAX];
        _cleanup_fd_ int fd = -1;
        r = temporary_open(p.dir, name, &fd);
        int received = file_receive(c, NULL, fd, &w.size);
        bool made = r >= 0;
        r = made ? received : r;
        if (r >= 0 && (fchmod(fd, w.mode) < 0 || sys_renameat2(p.dir, name, p.dir, p.name, 0) < 0))
            r = -errno;
        if (r < 0 && made)
            unlinkat(p.dir, name, 0);
    }
    if (r == -ENOBUFS)
        return error_set(err, E2BIG, "%.400s: more than %u MiB cannot be appended at once", c->path,
                         APPEND_MAX >> 20);
    if (r < 0)
        return file_error(c, -r, c->path, err);
    size_t at = wire_begin(&c->out, WIRE_RESULT);
    wire_put_u64(&c->out, WIRE_K_MODE, S_IFREG | w.mode);
    wire_put_u64(&c->out, WIRE_K_SIZE, w.size);
    if (!p.exists)
        wire_put_u64(&c->out, WIRE_K_CREATED, 1);
    wire_end(&c->out, at);
    return 0;
}
