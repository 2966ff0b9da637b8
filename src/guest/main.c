/*
 * hutch-guest: process 1 of a box, a diff worker, or a store process, which never comes near a
 * box's namespaces.
 *
 * It is started with the descriptor 3, the control socket, and as "hutch-guest listen" with 4, the
 * listener of the box's filter. It shares its user id with the agent's code. So the first thing it
 * does is to become undumpable: no process of the same user can then trace it, read its memory,
 * open its /proc folder's links or take its descriptors. All signals are blocked for good; SIGCHLD
 * is read from a descriptor, and the others mean nothing to it.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "diff/diff_worker.h"
#include "file.h"
#include "io.h"
#include "sys.h"
#include "weaken.h"
#include "wire.h"
#include "banned.h"

#define CONTROL  3
#define LISTENER 4

/* The host waits for the first answer: instead it gets the reason why the guest cannot start. */
static int guest_fail(const char *call, int code)
{
    char text[256];
    int n = snprintf(text, sizeof text, "%c%s: %s", WIRE_START_FAILED, call, strerror(code));
    send(CONTROL, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1,
         MSG_NOSIGNAL | MSG_DONTWAIT);
    return 1;
}

/* Process 1 reaps everything: its commands, its workers, and orphans. */
static void guest_signals_ready(struct loop_source *s, short events)
{
    struct guest *g = CONTAINER_OF(s, struct guest, signals);
    struct signalfd_siginfo signal;
    if (read(s->fd, &signal, sizeof signal) <= 0)
        return;
    if (g->n_workers)
        worker_kill_stopped(g);
    for (;;) {
        siginfo_t info = {0};
        int r = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            break;
        pid_t pid = info.si_pid;
        if (pid == 0)
            return;
        struct command *c = LIST_FIRST(&g->commands);
        while (c && c->pid != pid)
            c = LIST_NEXT(c, link);
        /* An orphan is known by its tag, which it has until it is reaped. */
        struct command *family = c ? c : ptree_command(g, ptree_tag_of(pid));
        struct rusage ru;
        int status;
        if (wait4(pid, &status, WNOHANG, &ru) != pid)
            continue;
        if (c)
            command_exited(c, status, &ru);
        else if (!(g->n_workers && worker_ended(g, pid)) && family)
            command_account(family, &ru);
    }
    g->has_children = false;
    command_none_left(g);
}

static void guest_control_ready(struct loop_source *s, short events)
{
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
        conn_open(CONTAINER_OF(s, struct guest, control), fd);
}

/* Serves the control socket, and the filter's listener unless it is -1. Returns only if it could
 * not start. */
static int guest_serve(int listener)
{
    static struct guest g;
    g.control = (struct loop_source){.fd = CONTROL, .ready = guest_control_ready};
    g.signals = (struct loop_source){.fd = -1, .ready = guest_signals_ready};
    g.next_handle = 1;
    ptree_init(&g);
    int r = notify_start(&g.notify, listener);
    if (r < 0)
        return guest_fail("pthread_create", -r);
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    g.signals.fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    if (g.signals.fd < 0)
        return guest_fail("signalfd", errno);
    if (loop_watch(&g.loop, &g.signals, POLLIN) < 0 || loop_watch(&g.loop, &g.control, POLLIN) < 0)
        return guest_fail("malloc", ENOMEM);
    for (;;)
        loop_step(&g.loop);
}

int main(int argc, char **argv)
{
    /* As a helper of the host, not in a box: writes one line to a file of /proc (idmap.c of the
     * host). It runs as another group of its user's and does nothing else. */
    if (argc == 4 && strcmp(argv[1], "map-group") == 0) {
        int fd = open(argv[2], O_WRONLY | O_CLOEXEC);
        size_t n = strlen(argv[3]);
        return fd < 0 || write(fd, argv[3], n) != (ssize_t)n;
    }
    if (prctl(PR_SET_DUMPABLE, 0) < 0)
        return guest_fail("prctl(PR_SET_DUMPABLE)", errno);
    bool listens = argc > 1 && strcmp(argv[1], "listen") == 0;
    umask(022);

    /* Ignored and blocked signals pass through exec: those of the host must not reach a command. By
     * the system call, since the C library reserves some numbers that the caller of hutch may
     * ignore. All zero is the kernel's form of SIG_DFL. */
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    const struct {
        unsigned long handler, flags, restorer, mask;
    } fallback = {0};
    for (int sig = 1; sig < NSIG; sig++)
        syscall(SYS_rt_sigaction, sig, &fallback, NULL, sizeof fallback.mask);

    /* 0, 1 and 2 are always open, so that no descriptor we are passed lands on one of them. */
    if (fcntl(CONTROL, F_SETFD, FD_CLOEXEC) < 0 ||
        (listens && fcntl(LISTENER, F_SETFD, FD_CLOEXEC) < 0))
        return guest_fail("fcntl(F_SETFD)", errno);
    sys_close_range(0, CONTROL - 1, 0);
    if (!weakened("fds"))
        sys_close_range(listens ? LISTENER + 1 : CONTROL + 1, ~0U, 0);
    for (int fd = 0; fd < CONTROL; fd++)
        if (open("/dev/null", O_RDWR) != fd && open("/", O_PATH) != fd)
            return guest_fail("opening /dev/null", errno);

    if (argc > 1 && strcmp(argv[1], "diff") == 0)
        return diff_worker_main(CONTROL) < 0;
    if (argc > 1 && strcmp(argv[1], "store") == 0)
        return store_main(CONTROL);
    /* Only in a pid namespace of its own may it kill everybody. */
    if (getpid() != 1 && !weakened("pid"))
        return 1;
    return guest_serve(listens ? LISTENER : -1);
}
