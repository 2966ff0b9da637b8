/*
 * Workers: a forked process serves each file request, in blocking code, so that a slow file never
 * holds up the loop and a crash costs one request. A worker owns the connection; the guest only
 * remembers its process.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/wait.h>
#include <unistd.h>

#include "file.h"
#include "guest.h"
#include "io.h"
#include "sys.h"
#include "banned.h"

#define WORKERS_MAX 128

struct worker {
    LIST_ENTRY(worker) link;
    pid_t pid;
};

bool worker_is(struct guest *g, pid_t pid)
{
    struct worker *w = LIST_FIRST(&g->workers);
    while (w && w->pid != pid)
        w = LIST_NEXT(w, link);
    return w != NULL;
}

bool worker_ended(struct guest *g, pid_t pid)
{
    struct worker *w = LIST_FIRST(&g->workers);
    while (w && w->pid != pid)
        w = LIST_NEXT(w, link);
    if (!w)
        return false;
    LIST_REMOVE(w, link);
    g->n_workers--;
    free(w);
    return true;
}

/*
 * Code in the box may stop a worker, which has its user id, and the host would wait for nothing. A
 * worker that is killed closes its stream. While the box is frozen all workers are stopped, by us.
 */
void worker_kill_stopped(struct guest *g)
{
    struct worker *w;
    if (g->freeze.state != FREEZE_OFF)
        return;
    LIST_FOREACH(w, &g->workers, link)
    {
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)w->pid, &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 && info.si_pid)
            kill(w->pid, SIGKILL);
    }
}

void worker_start(struct conn *conn, const struct wire_frame *f, file_serve serve)
{
    struct guest *g = conn->guest;
    struct worker *w = g->n_workers < WORKERS_MAX ? calloc(1, sizeof *w) : NULL;
    pid_t pid = w ? fork() : -1;
    if (pid == 0) { /* nothing is open in it but the connection, which now blocks */
        int fd = conn->in.fd;
        sys_close_range(3, (unsigned)fd - 1, 0);
        sys_close_range((unsigned)fd + 1, ~0U, 0);
        if (io_set_nonblock(fd, false) >= 0)
            file_answer(&conn->in, f, serve);
        _exit(0);
    }
    if (pid < 0) {
        bool full = w && errno == EAGAIN;
        free(w);
        conn_error(conn, EAGAIN,
                   full ? "the file cannot be reached: the box has as many processes as it may "
                          "have (--pids)"
                        : "too many file requests are being served");
        return;
    }
    w->pid = pid;
    LIST_INSERT_HEAD(&g->workers, w, link);
    g->n_workers++;
    g->has_children = true;
    close(conn_take_fd(conn));
}
