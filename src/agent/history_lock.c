/*
 * Who has a session: the lock (flock) is on the file itself and ends with the program, so there is
 * nothing to clean up after a crash. The kernel tells who holds it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "history_private.h"
#include "io.h"
#include "banned.h"

#define TRIES 10

/* `1: FLOCK  ADVISORY  WRITE 1234 08:01:131074 0 EOF`. Some filesystems number their devices
 * otherwise here than in stat, so the inode alone has to do. */
pid_t history_holder(int fd)
{
    struct stat st;
    char line[256];
    _cleanup_fclose_ FILE *f = fopen("/proc/locks", "re");
    if (!f || fstat(fd, &st) < 0)
        return 0;
    while (fgets(line, sizeof line, f)) {
        int pid;
        uint64_t inode;
        if (sscanf(line, "%*d: FLOCK %*s WRITE %d %*x:%*x:%" SCNu64, &pid, &inode) == 2 &&
            inode == (uint64_t)st.st_ino)
            return pid > 0 ? pid : 0;
    }
    return 0;
}

static int say_busy(const struct history *h, int fd, struct error *err)
{
    char name[64] = "", path[64];
    pid_t pid = history_holder(fd);
    if (pid == getpid())
        return error_set(err, EBUSY, "the session %s is open in this program already", h->id);
    if (pid == 0)
        return error_set(err, EBUSY,
                         "the session %s is open in another program; end it there first", h->id);
    snprintf(path, sizeof path, "/proc/%d/comm", pid);
    _cleanup_buf_ struct buf comm = BUF_INIT(sizeof name);
    if (io_read_file(AT_FDCWD, path, &comm) >= 0 && comm.len > 1 && buf_cstr(&comm))
        snprintf(name, sizeof name, " (%.*s)", (int)comm.len - 1, (char *)comm.data);
    return error_set(err, EBUSY,
                     "the session %s is open in another program, process %d%s; end it there first",
                     h->id, pid, name);
}

static int open_regular(const struct history *h, int *ret_fd, struct error *err)
{
    struct stat st;
    int flags = (h->read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    _cleanup_fd_ int fd = openat(h->folder, h->name, flags);
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_errno(err, errno, "cannot open %s", h->path);
    if (!S_ISREG(st.st_mode))
        return error_set(err, EINVAL, "%s is no regular file", h->path);
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* Is this still the file of that name? A program that repaired it meanwhile has put another there.
 */
static bool is_current(const struct history *h, int fd)
{
    struct stat a, b;
    return fstat(fd, &a) == 0 && fstatat(h->folder, h->name, &b, 0) == 0 && a.st_ino == b.st_ino &&
           a.st_dev == b.st_dev;
}

int history_open_file(struct history *h, struct error *err)
{
    for (int i = 0; i < TRIES; i++) {
        _cleanup_fd_ int fd = -1;
        int r = open_regular(h, &fd, err);
        if (r < 0)
            return r;
        if (!h->read_only && flock(fd, LOCK_EX | LOCK_NB) < 0)
            return errno == EWOULDBLOCK ? say_busy(h, fd, err)
                                        : error_errno(err, errno, "cannot lock %s", h->path);
        if (h->read_only || is_current(h, fd)) {
            h->fd = TAKE_FD(fd);
            return 0;
        }
    }
    return error_set(err, EBUSY, "the session %s is being replaced again and again", h->id);
}
