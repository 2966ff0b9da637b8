/* The table of backends, and what backends share whose guest is a child process of this one. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend.h"
#include "io.h"
#include "text.h"
#include "banned.h"

const struct backend *const BACKENDS[] = {
#define BACKEND(row, name, summary) &row,
#include "backends.def"
#undef BACKEND
    NULL,
};

int backend_cannot(const struct backend *b, const char *what, struct error *err)
{
    return error_set(err, EOPNOTSUPP, "the backend %s cannot %s", b->name, what);
}

int machine_connect(struct machine *m, struct buf *request, int *ret_fd)
{
    const struct timeval patience = {.tv_sec = GUEST_PATIENCE_S};
    int fd = -1;
    int r = m->backend->connect(m, request, NULL, 0, &fd);
    if (r < 0)
        return r;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    *ret_fd = fd;
    return 0;
}

int guest_control(struct guest *g, int *ret_theirs)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return -errno;
    /* A guest that is stopped takes no more streams after some hundreds: nobody waits for ever to
     * send one. */
    const struct timeval patience = {.tv_sec = GUEST_SEND_S};
    setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    g->control = ends[0];
    *ret_theirs = ends[1];
    return 0;
}

int guest_connect(const struct guest *g, struct buf *request, const int *fds, size_t n_fds,
                  int *ret_fd)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return -errno;
    _cleanup_fd_ int ours = ends[0];
    _cleanup_fd_ int theirs = ends[1];
    /* A request that fits into the socket is sent before the guest has its end: one wake-up instead
     * of two. */
    bool early = request && request->len <= WIRE_DATA_MAX;
    int r = early ? wire_send(ours, request, fds, n_fds) : 0;
    if (r < 0)
        return r;
    ssize_t sent = io_send_fds(g->control, "C", 1, &theirs, 1);
    if (sent < 0)
        return (int)sent;
    /* A guest that is stopped does not take what is larger than the socket: -EAGAIN after a
     * while. */
    const struct timeval patience = {.tv_sec = GUEST_SEND_S};
    if (request && !early) {
        setsockopt(ours, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        if ((r = wire_send(ours, request, fds, n_fds)) < 0)
            return r;
    }
    *ret_fd = TAKE_FD(ours);
    return 0;
}

void guest_kill(const struct guest *g)
{
    if (g->pidfd >= 0)
        syscall(SYS_pidfd_send_signal, g->pidfd, SIGKILL, NULL, 0);
    else if (g->pid > 0)
        kill(g->pid, SIGKILL);
}

/* Waits by the descriptor: in a program that waits for any child, another thread may have reaped
 * this one, and the number may be another process's by now. */
void guest_end(struct guest *g)
{
    siginfo_t info;
    if (g->pid > 0) {
        guest_kill(g);
        while ((g->pidfd >= 0 ? waitid(P_PIDFD, (id_t)g->pidfd, &info, WEXITED | __WALL)
                              : (int)waitpid(g->pid, NULL, __WALL)) < 0 &&
               errno == EINTR)
            ;
    }
    cleanup_close(&g->pidfd);
    cleanup_close(&g->control);
    *g = GUEST_NONE;
}

/* The reason that a guest sent when it could not start, in printable characters. */
static bool guest_start_failure(const struct guest *g, char *text, size_t size)
{
    char said[256];
    const int look = MSG_PEEK | MSG_DONTWAIT;
    ssize_t n = g->control < 0 ? -1 : recv(g->control, said, sizeof said - 1, look);
    if (n < 0 && errno == ECONNRESET) /* it left requests unread; what it sent comes after that */
        n = recv(g->control, said, sizeof said - 1, look);
    if (n <= 1 || said[0] != WIRE_START_FAILED)
        return false;
    for (ssize_t i = 1; i < n; i++)
        if (said[i] < ' ' || said[i] > '~')
            said[i] = '?';
    said[n] = 0;
    snprintf(text, size, "its process 1 (hutch-guest) failed at %s", said + 1);
    return true;
}

void guest_status(const struct guest *g, int wait_ms, struct machine_status *ret)
{
    siginfo_t info = {0};
    struct pollfd end = {.fd = g->pidfd, .events = POLLIN};
    *ret = (struct machine_status){.pid = g->pid, .has_ended = g->pid <= 0};
    ret->failed_start = guest_start_failure(g, ret->why, sizeof ret->why);
    if (ret->failed_start) {
        ret->has_ended = true;
        return;
    }
    /* Its streams close a moment before it can be waited for. */
    if (g->pidfd >= 0 && poll(&end, 1, wait_ms) > 0) {
        char name[32] = "";
        ret->has_ended = true;
        if (waitid(P_PIDFD, (id_t)g->pidfd, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0)
            snprintf(ret->why, sizeof ret->why, "its process 1 (hutch-guest) is gone");
        else if (info.si_code == CLD_EXITED)
            snprintf(ret->why, sizeof ret->why, "its process 1 (hutch-guest) exited with status %d",
                     info.si_status);
        else {
            signame_format(info.si_status, name, sizeof name);
            snprintf(ret->why, sizeof ret->why,
                     "something killed its process 1 (hutch-guest) with %s", name);
        }
        return;
    }
    /* The state in /proc: 'R' wants to run, 'D' waits for a disk or for a program to be
     * executed. */
    char path[32];
    _cleanup_buf_ struct buf stat = BUF_INIT(1024);
    snprintf(path, sizeof path, "/proc/%d/stat", (int)g->pid);
    if (g->pid > 0 && io_read_file(AT_FDCWD, path, &stat) >= 0 && buf_cstr(&stat)) {
        const char *name_end = strrchr(buf_cstr(&stat), ')');
        ret->is_waiting = name_end && name_end[1] && (name_end[2] == 'R' || name_end[2] == 'D');
    }
}
