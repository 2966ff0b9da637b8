/*
 * The loop of a warm process: one run after another, each a fork into a box.
 *
 * A child must start in the box's pid namespace, and must be process 1's own, which reaps it and
 * reports how it ended. Only the loss of a parent makes it that. So between the warm process and
 * the child there is a third, the forker, which shares the warm process's memory, forks in its
 * name, and ends:
 *
 *     warm process ── clone(CLONE_VM) ──> forker ── fork ──> child ── goes on where the warm
 *     process waits
 *
 * One fork, of which only the child has the cost of a copied memory. It is what vfork does, but for
 * one thing: the forker lives in the box, where hostile code of the same user may send it signals.
 * A warm process that was suspended in vfork would wait for a stopped forker for ever; this one
 * waits for a while and kills it.
 *
 * Nothing here reads a byte that a box wrote, nor of a request: the child does, once it is
 * confined. So a child finds nothing of other runs in the memory that it inherits.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "module.h"
#include "python_abi.h"
#include "cleanup.h"
#include "banned.h"

#define EXPORT     __attribute__((visibility("default")))
#define STACK_SIZE (64u << 10)

/* Shared by the forker and the warm process. */
static struct fork_state {
    void *back[5]; /* where the child goes on */
    int code;      /* why there is no child; 0: there is one */
    char stack[STACK_SIZE] __attribute__((aligned(16)));
} fork_state;

/* What os.fork() calls before and after it. */
void PyOS_BeforeFork(void);
void PyOS_AfterFork_Child(void);
EXPORT PyObject *PyInit_hutch_part(void);

/* While the program is being prepared nobody reads the control socket: its end sends a signal that
 * ends us. */
static int module_die_with_host(bool on)
{
    int flags = fcntl(WARM_FD_CONTROL, F_GETFL);
    if (flags < 0 || (on && fcntl(WARM_FD_CONTROL, F_SETOWN, getpid()) < 0) ||
        fcntl(WARM_FD_CONTROL, F_SETFL, on ? flags | O_ASYNC : flags & ~O_ASYNC) < 0)
        return -errno;
    char byte;
    if (on && recv(WARM_FD_CONTROL, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
        _exit(0);
    return 0;
}

/*
 * The first thing that runs in a warm process. Not dumpable: while its children start in a box,
 * nobody there can trace them or look into their folder in /proc before they are confined.
 */
static PyObject *module_begin(PyObject *self, PyObject *unused)
{
    int r = prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? -errno : module_die_with_host(true);
    if (r == 0)
        r = child_learn();
    if (r == 0)
        return python_none();
    errno = -r;
    return PyErr_SetFromErrno(PyExc_OSError);
}

/* The C library's fork, which knows what a child of it must put right, on behalf of a process that
 * is waiting in one system call meanwhile. */
static int forker(void *unused)
{
    pid_t pid = fork();
    if (pid == 0)
        __builtin_longjmp(fork_state.back, 1);
    fork_state.code = pid < 0 ? errno : 0;
    syscall(SYS_exit_group, 0);
    return 0;
}

/* Waits until the forker has ended. One that is stopped never would: it is killed. */
static void forker_wait(pid_t pid)
{
    int status = 0;
    for (;;) {
        long r = syscall(SYS_wait4, pid, &status, __WALL | WUNTRACED, NULL);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0 || !WIFSTOPPED(status))
            return;
        syscall(SYS_kill, pid, SIGKILL);
    }
}

/* 1 in the child; in the warm process 0, or a negative errno if there is no child. */
__attribute__((noinline)) static int module_fork(void)
{
    fork_state.code = EINTR; /* unless the forker lives to say otherwise */
    if (__builtin_setjmp(fork_state.back))
        return 1;
    pid_t pid = clone(forker, fork_state.stack + STACK_SIZE, CLONE_VM | SIGCHLD, NULL);
    if (pid < 0)
        return -errno;
    forker_wait(pid);
    return -fork_state.code;
}

/* True in the child. */
static bool run_start(const struct warm_run_fds *run)
{
    /* Only processes that start from now on are in there, and those are children; the next run sets
     * it anew. */
    if (setns(run->fds[WARM_RUN_BOX], CLONE_NEWPID) < 0) {
        child_report_failure(run->fds[WARM_RUN_GUEST], "enter the box's process ids", errno);
        return false;
    }
    int r = module_fork();
    if (r < 0)
        child_report_failure(run->fds[WARM_RUN_GUEST], "make a process", -r);
    return r == 1;
}

/* 1, or 0 for a packet that is not a run. At the end of the socket the host is gone, and so are
 * we. */
static int run_receive(struct warm_run_fds *ret)
{
    char byte;
    union {
        char bytes[CMSG_SPACE(sizeof(int) * WARM_RUN_MAX)];
        struct cmsghdr align;
    } control;
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof control};
    ssize_t n = recvmsg(WARM_FD_CONTROL, &m, MSG_CMSG_CLOEXEC);
    if (n < 0 && errno == EINTR)
        return 0;
    if (n <= 0)
        _exit(0);
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    ret->n = c && c->cmsg_type == SCM_RIGHTS ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
    for (size_t i = 0; i < ret->n; i++)
        memcpy(&ret->fds[i], CMSG_DATA(c) + i * sizeof(int), sizeof(int));
    return ret->n >= WARM_RUN_FIXED;
}

/* Says that it is ready, only now: the first run may come at once. Returns in children only. */
static void serve_runs(void)
{
    static struct warm_run_fds run;
    if (module_die_with_host(false) < 0 || send(WARM_FD_CONTROL, "R", 1, MSG_NOSIGNAL) != 1)
        _exit(1);
    for (;;) {
        bool is_child = run_receive(&run) && run_start(&run);
        if (is_child)
            break;
        for (size_t i = 0; i < run.n; i++)
            close(run.fds[i]);
    }
    child_enter(&run);
}

/* What has to be done before a fork is done once: the parent runs no Python from here on. */
static PyObject *module_serve(PyObject *self, PyObject *unused)
{
    PyOS_BeforeFork();
    serve_runs();
    PyOS_AfterFork_Child();
    return python_none();
}

PyObject *PyInit_hutch_part(void)
{
    static const struct python_method METHODS[] = {{"begin", module_begin, METH_NOARGS, NULL},
                                                   {"serve", module_serve, METH_NOARGS, NULL},
                                                   {0}};
    static struct python_module module = PYTHON_MODULE("hutch_part", METHODS);
    return PyModule_Create2(&module, PYTHON_API_VERSION);
}
