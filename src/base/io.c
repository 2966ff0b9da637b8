#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "io.h"
#include "text.h"
#include "banned.h"

#define FDS_MAX 8

int io_write_all(int fd, const void *data, size_t n)
{
    const char *at = data;
    while (n > 0) {
        ssize_t done = write(fd, at, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -errno;
        at += done;
        n -= (size_t)done;
    }
    return 0;
}

ssize_t io_read_at(int fd, void *data, size_t n, uint64_t offset)
{
    size_t done = 0;
    while (done < n) {
        ssize_t got = pread(fd, (char *)data + done, n - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

int io_write_at(int fd, const void *data, size_t n, uint64_t offset)
{
    for (size_t done = 0; done < n;) {
        ssize_t put = pwrite(fd, (const char *)data + done, n - done, (off_t)(offset + done));
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return put < 0 ? -errno : -ENOSPC;
        done += (size_t)put;
    }
    return 0;
}

int io_read_all(int fd, struct buf *b)
{
    for (;;) {
        if (b->len == b->max)
            return -ENOBUFS;
        /* Most files are small, and a large buffer costs a mapping: begin with a page, then take
         * more. The read that finds the end of a small file needs no more room. */
        size_t want = b->len < 4000 ? 4000 : 65536, left = b->cap - b->len;
        if (left >= 1024 && left < want)
            want = left;
        if (want > b->max - b->len)
            want = b->max - b->len;
        void *at = buf_reserve(b, want);
        if (!at)
            return -ENOMEM;
        ssize_t got = read(fd, at, want);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            return 0;
        b->len += (size_t)got;
    }
}

int io_read_file(int dirfd, const char *path, struct buf *b)
{
    _cleanup_fd_ int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return -errno;
    return io_read_all(fd, b);
}

int io_open_beneath(const char *folder, const char *path, struct stat *ret_st)
{
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    _cleanup_fd_ int dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return -errno;
    _cleanup_fd_ int fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
    if (fd < 0 || fstat(fd, ret_st) < 0)
        return -errno;
    return S_ISREG(ret_st->st_mode) ? TAKE_FD(fd) : -EINVAL;
}

size_t io_folder_with(const char *folder, const char *name)
{
    char path[PATH_MAX];
    for (size_t n = strlen(folder); n > 0; n -= n > 0) {
        if (snprintf(path, sizeof path, "%.*s/%s", (int)n, folder, name) < (int)sizeof path &&
            access(path, F_OK) == 0)
            return n;
        while (n > 0 && folder[n - 1] != '/')
            n--;
    }
    return 0;
}

int io_write_file(int dirfd, const char *path, const char *text)
{
    _cleanup_fd_ int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return -errno;
    ssize_t done;
    do /* a control group that must shrink first can be interrupted */
        done = write(fd, text, strlen(text));
    while (done < 0 && errno == EINTR);
    return done < 0 ? -errno : 0;
}

int io_set_nonblock(int fd, bool on)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0)
        return -errno;
    flags = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
    return fcntl(fd, F_SETFL, flags) < 0 ? -errno : 0;
}

ssize_t io_send_fds(int sock, const void *data, size_t n, const int *fds, size_t n_fds)
{
    if (n_fds > FDS_MAX)
        return -EINVAL;
    union {
        char space[CMSG_SPACE(sizeof(int) * FDS_MAX)];
        struct cmsghdr align;
    } control = {0};
    struct iovec iov = {.iov_base = (void *)data, .iov_len = n};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (n_fds) {
        msg.msg_control = control.space;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
    }
    ssize_t done;
    do
        done = sendmsg(sock, &msg, MSG_NOSIGNAL);
    while (done < 0 && errno == EINTR);
    return done < 0 ? -errno : done;
}

ssize_t io_recv_fds(int sock, void *data, size_t n, int *fds, size_t max_fds, size_t *ret_n_fds,
                    int flags)
{
    union {
        char space[CMSG_SPACE(sizeof(int) * FDS_MAX)];
        struct cmsghdr align;
    } control;
    struct iovec iov = {.iov_base = data, .iov_len = n};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.space,
                         .msg_controllen = sizeof control.space};
    ssize_t got;
    do
        got = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC | flags);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return -errno;
    size_t n_fds = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
            if (n_fds < max_fds)
                fds[n_fds++] = fd;
            else
                close(fd); /* more than the caller expects: not leaked */
        }
    }
    *ret_n_fds = n_fds;
    return got;
}

int io_unnamed_file(void)
{
    const char *folder = getenv("TMPDIR");
    int fd =
        open(folder && folder[0] == '/' ? folder : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        fd = memfd_create("unnamed", MFD_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int io_memory_file(const void *data, size_t n)
{
    _cleanup_fd_ int fd = memfd_create("input", MFD_CLOEXEC);
    int r = fd < 0 ? -errno : io_write_all(fd, data, n);
    if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
        r = -errno;
    return r < 0 ? r : TAKE_FD(fd);
}

void sigpipe_block(struct sigpipe *ret_before)
{
    sigset_t pipe, pending;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    ret_before->was_pending = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe, &ret_before->mask);
}

void sigpipe_restore(const struct sigpipe *before)
{
    static const struct timespec now = {0};
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    while (!before->was_pending && sigtimedwait(&pipe, NULL, &now) < 0 && errno == EINTR)
        ;
    pthread_sigmask(SIG_SETMASK, &before->mask, NULL);
}

/* A folder with O_DIRECTORY, else a regular file. Does not wait for the writer of a FIFO, and does
 * not make a terminal the controlling one. */
static int ownfile_open_checked(const char *path, int flags, int *ret_fd, struct stat *ret_st,
                                struct error *err)
{
    struct stat st;
    _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | flags);
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_errno(err, errno, "cannot open %s", path);
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return error_set(err, EPERM,
                         "%s belongs to another user, so hutch does not read it; chown it", path);
    if (st.st_mode & S_IWOTH)
        return error_set(err, EPERM, "%s is writable by everybody; run 'chmod o-w %s'", path, path);
    if (!(flags & O_DIRECTORY) && !S_ISREG(st.st_mode))
        return error_set(err, S_ISDIR(st.st_mode) ? EISDIR : EINVAL, "%s is not a regular file",
                         path);
    *ret_st = st;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int ownfile_open(const char *path, int *ret_fd, struct stat *ret_st, struct error *err)
{
    return ownfile_open_checked(path, 0, ret_fd, ret_st, err);
}

int ownfile_open_folder(const char *path, int *ret_fd, struct error *err)
{
    struct stat st;
    return ownfile_open_checked(path, O_DIRECTORY, ret_fd, &st, err);
}

int ownfile_read(const char *path, struct buf *b, struct error *err)
{
    _cleanup_fd_ int fd = -1;
    struct stat st;
    int r = ownfile_open(path, &fd, &st, err);
    if (r < 0)
        return r;
    r = io_read_all(fd, b);
    if (r == -ENOBUFS)
        return error_set(err, EFBIG, "%s is larger than %zu bytes", path, b->max - 1);
    return r < 0 ? error_errno(err, -r, "cannot read %s", path) : 0;
}

static char *ownfile_base_path(const char *variable, const char *usual, const char *name)
{
    const char *base = getenv(variable), *middle = "";
    if (!base || base[0] != '/') { /* the XDG specification says to ignore a relative one */
        const struct passwd *me = NULL;
        base = getenv("HOME");
        middle = usual;
        if (!base || base[0] != '/')
            me = getpwuid(geteuid());
        if (me)
            base = me->pw_dir;
    }
    if (!base || base[0] != '/')
        return NULL;
    return str_printf("%s%s/hutch%s%s", base, middle, name ? "/" : "", name ? name : "");
}

char *ownfile_config_path(const char *name)
{
    return ownfile_base_path("XDG_CONFIG_HOME", "/.config", name);
}

char *ownfile_state_path(const char *name)
{
    return ownfile_base_path("XDG_STATE_HOME", "/.local/state", name);
}

int ownfile_make_folders(char *path)
{
    int r = 0;
    for (char *end = path; r == 0 && end;) {
        end = strchr(end + 1, '/');
        if (end)
            *end = 0;
        r = mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
        if (end)
            *end = '/';
    }
    return r;
}
