/*
 * The heart of the guest: takes connections from the control socket and notices children that end.
 * Everything else happens in the handlers that these two set off.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conn.h"
#include "guest.h"
#include "io.h"
#include "reap.h"
#include "request.h"
#include "spawn.h"
#include "ptree.h"
#include "worker.h"
#include "banned.h"

static void control_ready(struct loop_source *s, short events)
{
    struct guest *g = CONTAINER_OF(s, struct guest, control);
    char byte;
    int fd = -1;
    size_t n_fds = 0;
    ssize_t got = io_recv_fds(s->fd, &byte, 1, &fd, 1, &n_fds, MSG_DONTWAIT);
    if (got == -EAGAIN)
        return;
    /* The host is gone or wants an end: leave at once, the kernel ends everything else in this pid
     * namespace.
     */
    if (got <= 0)
        _exit(0);
    if (n_fds == 1)
        conn_open(g, fd, &request_user);
}

static void signals_ready(struct loop_source *s, short events)
{
    struct guest *g = CONTAINER_OF(s, struct guest, signals);
    struct signalfd_siginfo info;
    if (read(s->fd, &info, sizeof info) <= 0)
        return;
    worker_kill_stopped(g);
    reap_children(g);
}

int guest_serve(int control, int listener, const char **ret_call)
{
    sigset_t child;
    struct guest *g = calloc(1, sizeof *g);
    *ret_call = "calloc";
    if (!g)
        return -ENOMEM;
    g->control = (struct loop_source){.fd = control, .ready = control_ready};
    g->signals = (struct loop_source){.fd = -1, .ready = signals_ready};
    g->next_handle = 1;
    freeze_init(g);
    ptree_init(g);
    loop_init(&g->loop);
    *ret_call = "pthread_create";
    int r = notify_start(g, listener);
    if (r < 0)
        return r;
    *ret_call = "mmap";
    g->reports = spawn_reports_map(GUEST_COMMANDS_MAX);
    if (!g->reports)
        return -errno;
    *ret_call = "signalfd";
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    g->signals.fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    if (g->signals.fd < 0)
        return -errno;
    *ret_call = "malloc";
    if (loop_watch(&g->loop, &g->signals, POLLIN) < 0 ||
        loop_watch(&g->loop, &g->control, POLLIN) < 0)
        return -ENOMEM;
    for (;;)
        loop_step(&g->loop);
}
