#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "enter.h"
#include "io.h"
#include "network.h"
#include "spawn.h"
#include "weaken.h"
#include "banned.h"

#define DESCRIPTORS_MAX 256 /* more than a launch opens */
#define STACK_SIZE      (64u << 10)
#define FIRST_FREE      10 /* our descriptors stay clear of those that the guest is given by number */

/* What the two processes share; the host has its own copy and is told by a pipe. */
struct launch {
    const struct spawn *s;
    struct carry carry;
    char *stack;
    int report;
    struct network network;
};

struct report {
    pid_t pid;
    struct plan_failure failure;
};

/* Stages that are no operation of the plan, for the failure's text. */
enum { STAGE_ENTER = 0, STAGE_CLONE = 3 };

static int fail(struct carry *c, int stage, int index)
{
    c->failure = (struct plan_failure){.stage = stage, .index = index, .code = errno};
    return -errno;
}

static void limit_processors(double cpus)
{
    cpu_set_t have, want;
    int left = (int)(cpus + 0.999);
    if (sched_getaffinity(0, sizeof have, &have) < 0)
        return;
    CPU_ZERO(&want);
    for (int i = 0; i < CPU_SETSIZE && left > 0; i++)
        if (CPU_ISSET(i, &have)) {
            CPU_SET(i, &want);
            left--;
        }
    sched_setaffinity(0, sizeof want, &want);
}

/* The cgroup is joined first, while we may still write there. */
static int enter(struct launch *l)
{
    const struct spawn *s = l->s;
    enum enter_step step;
    for (size_t i = 0; i < s->n_cgroups; i++)
        if (write(s->cgroups[i], "0", 1) < 0)
            return fail(&l->carry, STAGE_ENTER, ENTER_CGROUP);
    if (s->cpus > 0)
        limit_processors(s->cpus);
    int r = enter_family(s->userns, s->mntns, &step);
    return r < 0 ? fail(&l->carry, STAGE_ENTER, (int)step) : 0;
}

/* Process 1: shares memory with the launcher's child, which sleeps until this one has become the guest. */
static int first_process(void *data)
{
    struct launch *l = data;
    carry_stage(&l->carry, 2);
    syscall(SYS_exit_group, 1);
    return 1;
}

/* Descriptors are shared (until the exec, which gives process 1 its own) so that the network's arrives there.
 */
static pid_t start_first_process(struct launch *l)
{
    int flags = CLONE_VM | CLONE_FILES | CLONE_VFORK | CLONE_PARENT | (l->s->namespaces & ~CLONE_NEWNET);
    if (l->s->namespaces & CLONE_NEWNET && network_start(&l->network) < 0)
        return -1;
    pid_t pid = clone(first_process, l->stack + STACK_SIZE, flags, l);
    int code = errno;
    network_finish(&l->network);
    errno = code;
    return pid;
}

/*
 * Descriptors are shared from here on by two processes, and a table that is shared and too small for one more
 * descriptor grows only after a grace period of the kernel, ten milliseconds on an idle machine. So it is
 * made large enough before.
 */
static void grow_descriptors(void)
{
    int last = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, DESCRIPTORS_MAX - 1);
    if (last >= 0)
        close(last);
}

static void launch_child(struct launch *l)
{
    struct report report = {0};
    umask(0);
    grow_descriptors();
    l->carry.network = &l->network;
    if (enter(l) == 0 && carry_stage(&l->carry, 1) == 0) {
        report.pid = start_first_process(l);
        if (report.pid < 0)
            fail(&l->carry, STAGE_CLONE, 0);
    }
    report.failure = l->carry.failure;
    if (write(l->report, &report, sizeof report) < 0)
        syscall(SYS_exit_group, 2);
    syscall(SYS_exit_group, 0);
}

static int describe(const struct plan *p, const struct plan_failure *f, struct error *err)
{
    char what[256] = "make the namespaces";
    if (f->stage == STAGE_ENTER)
        return error_errno(err, f->code, "the box did not start: cannot %s", ENTER_WORDS[f->index]);
    if (f->stage != STAGE_CLONE)
        plan_describe(f->stage == 1 ? &p->stage1[f->index] : &p->stage2[f->index], what, sizeof what);
    return error_errno(err, f->code, "the box did not start: cannot %s (hutch doctor tells more)", what);
}

int spawn_finish(struct spawning *s, const struct plan *p, pid_t *ret_pid, struct error *err)
{
    struct report report;
    ssize_t got;
    do
        got = read(s->report, &report, sizeof report);
    while (got < 0 && errno == EINTR);
    while (waitpid(s->child, NULL, __WALL) < 0 && errno == EINTR)
        ;
    close(s->report);
    if (got != sizeof report)
        return error_set(err, EIO, "the box did not start: its launcher was killed");
    if (report.failure.code == 0) {
        *ret_pid = report.pid;
        return 0;
    }
    if (report.pid > 0)
        waitpid(report.pid, NULL, __WALL);
    return describe(p, &report.failure, err);
}

/* A signal handler of the host's must not run in the child, on its copy of the host's memory. */
static pid_t clone_child(struct launch *l)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    struct clone_args args = {0};
    if (l->s->birthplace >= 0) {
        args.flags = CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)l->s->birthplace;
    }
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0)
        launch_child(l);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return pid;
}

int spawn_begin(const struct spawn *s, struct spawning *ret, struct error *err)
{
    if (s->plan->overflow)
        return error_set(err, E2BIG, "the box did not start: too many folders to show");
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_errno(err, errno, "cannot make a pipe");
    _cleanup_fd_ int report_in = ends[0];
    _cleanup_fd_ int low = ends[1];
    _cleanup_fd_ int report_out = fcntl(low, F_DUPFD_CLOEXEC, FIRST_FREE);
    _cleanup_fd_ int control = fcntl(s->control, F_DUPFD_CLOEXEC, FIRST_FREE);
    _cleanup_free_ char *stack = malloc(STACK_SIZE);
    _cleanup_free_ struct launch *l = calloc(1, sizeof *l);
    if (!stack || !l || report_out < 0 || control < 0)
        return error_errno(err, ENOMEM, "the box did not start");
    close(TAKE_FD(low));
    *l = (struct launch){
        .s = s, .carry = {.plan = s->plan, .control = control}, .stack = stack, .report = report_out};
    memcpy(l->carry.fds, s->plan->fds, sizeof l->carry.fds);
    pid_t child = clone_child(l);
    if (child < 0)
        return error_errno(err, errno, "the box did not start: cannot make a process");
    *ret = (struct spawning){.child = child, .report = TAKE_FD(report_in)};
    return 0;
}

int spawn(const struct spawn *s, pid_t *ret_pid, struct error *err)
{
    struct spawning spawning;
    int r = spawn_begin(s, &spawning, err);
    return r < 0 ? r : spawn_finish(&spawning, s->plan, ret_pid, err);
}
