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
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cleanup.h"
#include "confine.h"
#include "module.h"
#include "python_abi.h"
#include "sys.h"
#include "weaken.h"
#include "wire.h"
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

/*
 * A child of a warm process, from its start to the moment when it is like any command of the box.
 *
 *   control groups   first, so that all it does from here on counts as the box's
 *   its parent       gone: it is process 1's child, which nobody in the box can take it from
 *   namespaces       all of the box's at once, its nested user namespace among them; root and
 *                    working folder are the box's with that. It has every right in that user
 *                    namespace for a moment, and none outside; it is not dumpable, so nobody in
 *                    the box can trace it meanwhile
 *   limits           process 1's own: the plan's, and the processors it may use
 *   confine.h        as process 1 did: capabilities, no_new_privs, Landlock, seccomp
 *   hello            the guest knows it now and gives it its tag
 *   descriptors      0 to 4, nothing else: all that the warm process had is closed
 *   dumpable         last: from here on it is one of the box's processes, and no more than that
 *
 * Whatever fails, it says so and leaves. Nothing of a request was looked at until all of it is
 * done.
 */

#define PARENT_TRIES                                                                               \
    100000             /* of a tenth of a millisecond: longer than the forker is waited for  \
                             */
#define LOST       125 /* exit status of a child that could not enter the box */
#define FIRST_FREE 32  /* above all descriptors that a child is given by number */

static struct {
    struct warm_rules head;
    struct landlock_rule rules[WARM_RULES_MAX];
    char bytes[WARM_RULES_BYTES];
} learnt;

static int child_parse_rules(const char *at, const char *end)
{
    if (learnt.head.n_rules > WARM_RULES_MAX)
        return -E2BIG;
    for (uint32_t i = 0; i < learnt.head.n_rules; i++) {
        const char *nul = at < end ? memchr(at, 0, (size_t)(end - at)) : NULL;
        if (!nul || at == nul)
            return -EPROTO;
        learnt.rules[i] =
            (struct landlock_rule){.class = (enum landlock_class)(*at - 1), .path = at + 1};
        at = nul + 1;
    }
    return 0;
}

int child_learn(void)
{
    ssize_t n = read(WARM_FD_RULES, learnt.bytes, sizeof learnt.bytes);
    close(WARM_FD_RULES);
    if (n < (ssize_t)sizeof learnt.head)
        return n < 0 ? -errno : -EPROTO;
    memcpy(&learnt.head, learnt.bytes, sizeof learnt.head);
    return child_parse_rules(learnt.bytes + sizeof learnt.head, learnt.bytes + n);
}

void child_report_failure(int guest, const char *step, int code)
{
    struct adopt_hello hello = {.code = code};
    for (size_t i = 0; i < sizeof hello.step - 1 && step[i]; i++)
        hello.step[i] = step[i];
    send(guest, &hello, sizeof hello, MSG_NOSIGNAL);
}

/* Version 1 is joined by the thread that writes, version 2 by its whole process: here that is the
 * same. */
static int child_join_groups(const struct warm_run_fds *run)
{
    for (size_t i = WARM_RUN_FIXED; i < run->n; i++)
        if (write(run->fds[i], "0", 1) < 0)
            return -errno;
    return 0;
}

/* The forker ends as soon as we have started; it may be stopped on the way, and is killed then. */
static int child_await_adoption(const struct warm_run_fds *run)
{
    const struct timespec pause = {.tv_nsec = 100000};
    for (int i = 0; i < PARENT_TRIES; i++) {
        if (getppid() == 1)
            return 0;
        if (i < 100)
            sched_yield();
        else
            nanosleep(&pause, NULL);
    }
    return -ETIMEDOUT;
}

static int child_enter_namespaces(const struct warm_run_fds *run)
{
    return setns(run->fds[WARM_RUN_BOX], (int)learnt.head.namespaces) < 0 || setsid() < 0 ? -errno
                                                                                          : 0;
}

/* The guest's own, so that no list of them is kept in two places. A limit can only be lowered. */
static int child_take_limits(const struct warm_run_fds *run)
{
    struct rlimit limit, own;
    cpu_set_t processors;
    for (int which = 0; which < RLIM_NLIMITS && !weakened("rlimits"); which++) {
        if (prlimit(1, which, NULL, &limit) < 0 || getrlimit(which, &own) < 0)
            return -errno;
        if (limit.rlim_max > own.rlim_max)
            limit.rlim_max = own.rlim_max;
        if (limit.rlim_cur > limit.rlim_max)
            limit.rlim_cur = limit.rlim_max;
        if (setrlimit(which, &limit) < 0)
            return -errno;
    }
    if (sched_getaffinity(1, sizeof processors, &processors) < 0 ||
        sched_setaffinity(0, sizeof processors, &processors) < 0)
        return -errno;
    return 0;
}

static int child_confine(const struct warm_run_fds *run)
{
    int nobody, r = confine_capabilities(0);
    if (r == 0)
        r = confine_new_privileges();
    if (r == 0)
        r = confine_landlock(learnt.rules, learnt.head.n_rules, learnt.head.landlock);
    return r < 0 ? r : confine_system_calls(SECCOMP_ALONE, !learnt.head.on_disk, &nobody);
}

static int child_enter_workspace(const struct warm_run_fds *run)
{
    return chdir("/workspace") < 0 ? -errno : 0;
}

static const struct {
    const char *name; /* for the weakened build */
    const char *what;
    int (*take)(const struct warm_run_fds *run);
} STEPS[] = {
    {"warm-groups", "join the control groups", child_join_groups},
    {"warm-adoption", "become a child of process 1", child_await_adoption},
    {"warm-namespaces", "enter its namespaces", child_enter_namespaces},
    {"warm-limits", "take on its limits", child_take_limits},
    {"warm-confine", "drop all privileges", child_confine},
    {"warm-folder", "enter /workspace", child_enter_workspace},
};

static int child_say_hello(int guest, struct adopt_go *ret)
{
    const struct adopt_hello hello = {.pid = getpid()};
    ssize_t n = send(guest, &hello, sizeof hello, MSG_NOSIGNAL);
    if (n < 0)
        return -errno;
    do
        n = recv(guest, ret, sizeof *ret, 0);
    while (n < 0 && errno == EINTR);
    return n == sizeof *ret ? 0 : -ECANCELED;
}

/* Out of the way first: where they are to be may be where others of them are. */
static int child_arrange_descriptors(const struct warm_run_fds *run)
{
    int output = fcntl(run->fds[WARM_RUN_OUTPUT], F_DUPFD, FIRST_FREE);
    int said = fcntl(run->fds[WARM_RUN_SAID], F_DUPFD, FIRST_FREE);
    int request = fcntl(run->fds[WARM_RUN_REQUEST], F_DUPFD, FIRST_FREE);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (output < 0 || said < 0 || request < 0 || null < 0)
        return -errno;
    if (dup2(null, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0 ||
        dup2(said, WARM_CHILD_SAID) < 0 || dup2(request, WARM_CHILD_REQUEST) < 0)
        return -errno;
    return !weakened("warm-fds") && sys_close_range(WARM_CHILD_END, ~0U, 0) < 0 ? -errno : 0;
}

static int child_take_tag(const struct adopt_go *go)
{
    const struct rlimit tag = {.rlim_cur = go->tag, .rlim_max = go->tag};
    struct rlimit files;
    if (setrlimit(RLIMIT_RTTIME, &tag) < 0 || getrlimit(RLIMIT_NOFILE, &files) < 0)
        return -errno;
    if (go->files && go->files < files.rlim_cur)
        files.rlim_cur = go->files;
    return setrlimit(RLIMIT_NOFILE, &files) < 0 ? -errno : 0;
}

void child_enter(const struct warm_run_fds *run)
{
    struct adopt_go go;
    int guest = run->fds[WARM_RUN_GUEST];
    for (size_t i = 0; i < sizeof STEPS / sizeof *STEPS; i++) {
        int r = weakened(STEPS[i].name) ? 0 : STEPS[i].take(run);
        if (r < 0) {
            child_report_failure(guest, STEPS[i].what, -r);
            _exit(LOST);
        }
    }
    if (child_say_hello(guest, &go) < 0 || child_arrange_descriptors(run) < 0 ||
        child_take_tag(&go) < 0 || prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
        _exit(LOST);
}
