/*
 * The heart of the guest: takes connections from the control socket and notices children that end. Everything
 * else happens in the handlers that these two set off.
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
#include "banned.h"

static void control_ready(struct loop_source *s, uint32_t events)
{
    struct guest *g = CONTAINER_OF(s, struct guest, control);
    char byte;
    int fd = -1;
    size_t n_fds = 0;
    ssize_t got = io_recv_fds(s->fd, &byte, 1, &fd, 1, &n_fds, MSG_DONTWAIT);
    if (got == -EAGAIN)
        return;
    /* The host is gone or wants an end: leave at once, the kernel ends everything else in this pid namespace.
     */
    if (got <= 0)
        _exit(0);
    if (n_fds == 1)
        conn_open(g, fd, &request_user);
}

static void signals_ready(struct loop_source *s, uint32_t events)
{
    struct guest *g = CONTAINER_OF(s, struct guest, signals);
    struct signalfd_siginfo info;
    if (read(s->fd, &info, sizeof info) > 0)
        reap_children(g);
}

static int open_signals(struct guest *g)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    g->signals.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return g->signals.fd < 0 ? -errno : loop_watch(&g->loop, &g->signals, EPOLLIN);
}

int guest_serve(int control)
{
    struct guest *g = calloc(1, sizeof *g);
    if (!g)
        return -ENOMEM;
    g->control = (struct loop_source){.fd = control, .ready = control_ready};
    g->signals = (struct loop_source){.fd = -1, .ready = signals_ready};
    g->next_handle = 1;
    g->reports = spawn_reports_map(GUEST_COMMANDS_MAX);
    freeze_init(g);
    ptree_init(g);
    int r = g->reports ? loop_init(&g->loop) : -ENOMEM;
    if (r >= 0)
        r = open_signals(g);
    if (r >= 0)
        r = loop_watch(&g->loop, &g->control, EPOLLIN);
    if (r < 0) {
        free(g);
        return r;
    }
    for (;;)
        loop_step(&g->loop);
}
