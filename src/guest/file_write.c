/*
 * WRITE: replaces a file's content in one step.
 *
 * The bytes go to a new file beside it, which then takes its name: whoever looks sees the old content or the
 * new. Missing folders are made. A link is followed within the root, by hand, since it is its target that is
 * replaced; each step is resolved beneath the root again, so a link that is swapped meanwhile cannot lead
 * out.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "file.h"
#include "io.h"
#include "banned.h"

#define LINKS_MAX    16
#define DEFAULT_MODE 0644

/* Where a file is to be: an open folder and a name in it. */
struct place {
    char path[PATH_MAX]; /* as it was asked for or as a link said; changed while folders are walked */
    const char *name;    /* within path */
    int dir;
    bool exists;
    struct stat st;
};

static void place_close(struct place *p)
{
    cleanup_close(&p->dir);
}

/* Opens the folder `path`, making what is missing of it. Each prefix is resolved from the root anew. */
static int make_folders(struct file_call *c, char *path, int *ret_fd)
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

/* Splits the place's path into a folder, which is opened, and a name, which is looked at. */
static int place_open(struct file_call *c, struct place *p)
{
    char *slash = strrchr(p->path, '/');
    p->name = slash ? slash + 1 : p->path;
    if (!*p->name || strcmp(p->name, ".") == 0 || strcmp(p->name, "..") == 0)
        return -EISDIR;
    if (p->path[0] == '/' && !c->whole)
        return -EXDEV;
    cleanup_close(&p->dir);
    p->dir = -1;
    if (slash)
        *slash = 0;
    int r = make_folders(c, slash ? p->path : (char[]){""}, &p->dir);
    if (slash)
        *slash = '/';
    if (r < 0)
        return r;
    p->exists = fstatat(p->dir, p->name, &p->st, AT_SYMLINK_NOFOLLOW) == 0;
    return p->exists || errno == ENOENT ? 0 : -errno;
}

/* Replaces the place's path by what the link there says, beside it. */
static int place_follow(struct file_call *c, struct place *p)
{
    char target[PATH_MAX], next[PATH_MAX];
    ssize_t n = readlinkat(p->dir, p->name, target, sizeof target);
    if (n < 0)
        return -errno;
    int kept = (int)(p->name - p->path);
    if (n > 0 && target[0] == '/') {
        if (!c->whole)
            return -EXDEV;
        kept = 0;
    }
    int len = snprintf(next, sizeof next, "%.*s%.*s", kept, p->path, (int)n, target);
    if (len < 0 || (size_t)len >= sizeof next)
        return -ENAMETOOLONG;
    memcpy(p->path, next, (size_t)len + 1);
    return 0;
}

static int place_find(struct file_call *c, struct place *p)
{
    size_t n = strlen(c->path);
    if (n >= sizeof p->path)
        return -ENAMETOOLONG;
    memcpy(p->path, c->path, n + 1);
    for (int i = 0; i < LINKS_MAX; i++) {
        int r = place_open(c, p);
        if (r < 0 || !p->exists || !S_ISLNK(p->st.st_mode))
            return r;
        r = place_follow(c, p);
        if (r < 0)
            return r;
    }
    return -ELOOP;
}

int file_next_data(struct file_call *c, struct wire_field *ret)
{
    struct wire_frame f;
    int r = wire_read(c->in, &f);
    if (r <= 0 || f.type != WIRE_DATA)
        return -EPROTO;
    if (!wire_find(&f, WIRE_K_DATA, ret))
        *ret = (struct wire_field){0};
    return !wire_find_u64(&f, WIRE_K_EOF, 0);
}

/* Writes the content to fd, all of it or none that counts; it is read to its end even after a failure, so
 * that the host may send it whole before it reads our answer. With fd -1 it is only read. */
static int receive(struct file_call *c, int fd, uint64_t *ret_size)
{
    uint64_t size = 0;
    int more, failed = 0;
    do {
        struct wire_field data = {0};
        more = file_next_data(c, &data);
        if (more >= 0 && fd >= 0 && failed == 0)
            failed = io_write_all(fd, data.data, data.size);
        size += data.size;
    } while (more > 0);
    if (more < 0 || failed < 0)
        return more < 0 ? more : failed;
    *ret_size = size;
    return 0;
}

static int open_beside(const struct place *p, char *name, size_t size)
{
    uint64_t chance;
    if (getrandom(&chance, sizeof chance, 0) != (ssize_t)sizeof chance)
        return -EIO;
    snprintf(name, size, ".hutch-%016llx.tmp", (unsigned long long)chance);
    int fd = openat(p->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : fd;
}

static int replace(struct file_call *c, const struct place *p, mode_t mode, uint64_t *ret_size)
{
    char name[64];
    _cleanup_fd_ int fd = open_beside(p, name, sizeof name);
    if (fd < 0) {
        receive(c, -1, ret_size);
        return fd;
    }
    int r = receive(c, fd, ret_size);
    if (r >= 0 && (fchmod(fd, mode) < 0 || renameat(p->dir, name, p->dir, p->name) < 0))
        r = -errno;
    if (r < 0)
        unlinkat(p->dir, name, 0);
    return r;
}

/* Finds the place, and what mode the file there will have. */
static int prepare(struct file_call *c, struct place *p, mode_t *ret_mode, struct error *err)
{
    int r = place_find(c, p);
    if (r < 0)
        return file_error(c, -r, c->path, err);
    if (!p->exists) {
        *ret_mode = (mode_t)wire_find_u64(&c->request, WIRE_K_MODE, DEFAULT_MODE) & 0777;
        return 0;
    }
    r = file_need_regular(c->path, p->st.st_mode, err);
    if (r < 0)
        return r;
    *ret_mode = p->st.st_mode & 07777;
    return 0;
}

int file_write(struct file_call *c, struct error *err)
{
    _cleanup_(place_close) struct place p = {.dir = -1};
    mode_t mode = 0;
    uint64_t size = 0;
    int r = prepare(c, &p, &mode, err);
    if (r < 0) {
        receive(c, -1, &size);
        return r;
    }
    r = replace(c, &p, mode, &size);
    if (r < 0)
        return file_error(c, -r, c->path, err);
    size_t at = wire_begin(&c->out, WIRE_RESULT);
    wire_put_u64(&c->out, WIRE_K_MODE, S_IFREG | mode);
    wire_put_u64(&c->out, WIRE_K_SIZE, size);
    wire_end(&c->out, at);
    return 0;
}
