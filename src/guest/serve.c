/*
 * The guest's main loop: takes connections from the control socket and reaps children. Everything
 * else happens in the handlers that these two start.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "freeze.h"
#include "io.h"
#include "ptree.h"
#include "request.h"
#include "serve.h"
#include "worker.h"
#include "banned.h"

/* Process 1 reaps everything: its commands, its workers, and orphans. */
static void reap_one(struct guest *g, pid_t pid)
{
    struct command *c;
    LIST_FOREACH(c, &g->commands, link)
    if (c->pid == pid)
        break;
    /* An orphan is known by its tag, which it has until it is reaped. */
    struct command *family = c ? c : ptree_command(g, ptree_tag_of(pid));
    struct rusage ru;
    int status;
    if (wait4(pid, &status, WNOHANG, &ru) != pid)
        return;
    if (c)
        command_exited(c, status, &ru);
    else if (!worker_ended(g, pid) && family)
        command_account(family, &ru);
}

static void reap_children(struct guest *g)
{
    for (;;) {
        siginfo_t info = {0};
        int r = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            break;
        if (info.si_pid == 0)
            return;
        reap_one(g, info.si_pid);
    }
    g->has_children = false;
    command_none_left(g);
}

static void serve_control_ready(struct loop_source *s, short events)
{
    struct guest *g = CONTAINER_OF(s, struct guest, control);
    char byte;
    int fd = -1;
    size_t n_fds = 0;
    ssize_t got = io_recv_fds(s->fd, &byte, 1, &fd, 1, &n_fds, MSG_DONTWAIT);
    if (got == -EAGAIN)
        return;
    /* The host is gone or ends the box: leave at once, the kernel kills everything else in this pid
     * namespace. */
    if (got <= 0)
        _exit(0);
    if (n_fds == 1)
        conn_open(g, &g->conns, fd, &request_user);
}

static void serve_signals_ready(struct loop_source *s, short events)
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
    g->control = (struct loop_source){.fd = control, .ready = serve_control_ready};
    g->signals = (struct loop_source){.fd = -1, .ready = serve_signals_ready};
    g->next_handle = 1;
    g->conns.loop = &g->loop;
    freeze_init(g);
    ptree_init(g);
    loop_init(&g->loop);
    *ret_call = "pthread_create";
    int r = notify_start(&g->notify, listener);
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
