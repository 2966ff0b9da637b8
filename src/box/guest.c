#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend.h"
#include "io.h"
#include "banned.h"

int guest_give(const struct guest *g, int theirs)
{
    ssize_t done = io_send_fds(g->control, "C", 1, &theirs, 1);
    return done < 0 ? (int)done : 0;
}

int guest_connect(const struct guest *g, struct buf *request, const int *fds, size_t n_fds,
                  int *ret_fd)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return -errno;
    _cleanup_fd_ int ours = ends[0];
    _cleanup_fd_ int theirs = ends[1];
    /* A request that fits into the socket is sent before the guest knows of it: one wake-up instead
     * of two.
     */
    bool early = request && request->len <= WIRE_DATA_MAX;
    int r = early ? wire_send(ours, request, fds, n_fds) : 0;
    if (r < 0)
        return r;
    r = guest_give(g, theirs);
    if (r < 0)
        return r;
    /* A guest that is stopped does not take what is larger than the socket: -EAGAIN after a while.
     */
    const struct timeval patience = {.tv_sec = GUEST_SEND_S};
    if (request && !early) {
        setsockopt(ours, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        if ((r = wire_send(ours, request, fds, n_fds)) < 0)
            return r;
    }
    *ret_fd = TAKE_FD(ours);
    return 0;
}

/* Code in the box can starve its guest; whoever waits for an answer must not wait for ever. */
int guest_connect_patient(const struct guest *g, struct buf *request, int *ret_fd)
{
    const struct timeval patience = {.tv_sec = GUEST_PATIENCE_S};
    int fd = -1;
    int r = guest_connect(g, request, NULL, 0, &fd);
    if (r < 0)
        return r;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    *ret_fd = fd;
    return 0;
}

void guest_kill(const struct guest *g)
{
    if (g->pidfd >= 0)
        syscall(SYS_pidfd_send_signal, g->pidfd, SIGKILL, NULL, 0);
    else if (g->pid > 0)
        kill(g->pid, SIGKILL);
}

/* By its descriptor: in a program that waits for any child, somebody else may have been told of its
 * end, and the number may be another process's by now. */
static int wait_for(const struct guest *g)
{
    siginfo_t info;
    return g->pidfd >= 0 ? waitid(P_PIDFD, (id_t)g->pidfd, &info, WEXITED | __WALL)
                         : (int)waitpid(g->pid, NULL, __WALL);
}

void guest_end(struct guest *g)
{
    if (g->pid > 0) {
        guest_kill(g);
        while (wait_for(g) < 0 && errno == EINTR)
            ;
    }
    cleanup_close(&g->pidfd);
    cleanup_close(&g->control);
    *g = GUEST_NONE;
}
