#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
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
#include "outer_proc.h"
#include "spawn.h"
#include "weaken.h"
#include "banned.h"

#define DESCRIPTORS_MAX 256 /* more than a launch opens */
#define STACK_SIZE      (64u << 10)
#define FIRST_FREE      10 /* our descriptors stay clear of those that the guest is given by number */

/* What the two processes share; the host has its own copy and is told by a pipe. */
struct launch {
    const struct spawn *s;
    struct plan_exec exec;
    char *stack;
    int report;
    struct network network;
    struct outer_proc outer_proc;
};

struct report {
    pid_t pid;
    struct plan_failure failure;
};

/* Stages that are no operation of the plan, for the failure's text. */
enum { STAGE_CLONE = 3, STAGE_ENTER, STAGE_HELPER };

static int fail(struct plan_exec *c, int stage, int index)
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

/* Picks up files of the host in a copy of its mounts, which this process leaves again. The family's
 * user namespace owns the copy, so this shows nothing that a fresh box could not show. */
static int visit_host(struct launch *l)
{
    if (l->s->plan->n_stage0 == 0)
        return 0;
    if (unshare(CLONE_NEWNS) < 0)
        return fail(&l->exec, STAGE_ENTER, ENTER_MOUNTS);
    return plan_exec_stage(&l->exec, 0);
}

/* The helper is started first, as it needs our rights and is no part of the box; then the cgroup is
 * joined, while we may still write there. */
static int enter(struct launch *l)
{
    const struct spawn *s = l->s;
    enum enter_step step;
    int r = s->outer_proc ? outer_proc_start(&l->outer_proc) : 0;
    if (r < 0) {
        errno = -r;
        return fail(&l->exec, STAGE_HELPER, 0);
    }
    l->exec.outer_proc = s->outer_proc ? &l->outer_proc : NULL;
    for (size_t i = 0; i < s->n_cgroups; i++)
        if (write(s->cgroups[i], "0", 1) < 0)
            return fail(&l->exec, STAGE_ENTER, ENTER_CGROUP);
    if (s->cpus > 0)
        limit_processors(s->cpus);
    r = enter_family(s->userns, -1, &step);
    if (r < 0) {
        errno = -r;
        return fail(&l->exec, STAGE_ENTER, (int)step);
    }
    r = visit_host(l);
    if (r == 0 && s->mntns >= 0 && setns(s->mntns, CLONE_NEWNS) < 0)
        return fail(&l->exec, STAGE_ENTER, ENTER_MOUNTS);
    return r;
}

/* Process 1: shares memory with the launcher's child, which sleeps until this one has become the
 * guest. */
static int first_process(void *data)
{
    struct launch *l = data;
    plan_exec_stage(&l->exec, 2);
    syscall(SYS_exit_group, 1);
    return 1;
}

/* Descriptors are shared (until the exec, which gives process 1 its own) so that the network's
 * arrives there.
 */
static pid_t start_first_process(struct launch *l)
{
    int flags =
        CLONE_VM | CLONE_FILES | CLONE_VFORK | CLONE_PARENT | (l->s->namespaces & ~CLONE_NEWNET);
    if (l->s->namespaces & CLONE_NEWNET && network_start(&l->network) < 0)
        return -1;
    pid_t pid = clone(first_process, l->stack + STACK_SIZE, flags, l);
    int code = errno;
    network_finish(&l->network);
    errno = code;
    return pid;
}

/*
 * Descriptors are shared from here on by two processes, and a table that is shared and too small
 * for one more descriptor grows only after a grace period of the kernel, ten milliseconds on an
 * idle machine. So it is made large enough before.
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
    l->exec.network = &l->network;
    if (enter(l) == 0 && plan_exec_stage(&l->exec, 1) == 0) {
        report.pid = start_first_process(l);
        if (report.pid < 0)
            fail(&l->exec, STAGE_CLONE, 0);
    }
    outer_proc_finish(&l->outer_proc);
    report.failure = l->exec.failure;
    if (write(l->report, &report, sizeof report) < 0)
        syscall(SYS_exit_group, 2);
    syscall(SYS_exit_group, 0);
}

int spawn_error(struct error *err, enum cause_step step, int code, const char *what)
{
    if (code == EMFILE)
        return error_errno(err, code, "the box did not start: cannot %s", what);
    char cause[CAUSE_TEXT_MAX];
    const char *remedy = "hutch doctor says what is missing on this host";
    if (cause_find(step, code, cause, sizeof cause))
        remedy = cause;
    else if (code == EAGAIN)
        remedy = "the limit on processes is reached; raise it (ulimit -u, or that of the control "
                 "group), or end some";
    else if (code == ENOSPC || code == EUSERS)
        remedy = "a limit of the user is reached (sysctl user, for one of namespaces); end some "
                 "boxes or raise it";
    else if (code == ENOMEM)
        remedy = "free some memory, or end some boxes";
    return error_set(err, code, "the box did not start: cannot %s: %s; %s", what, strerror(code),
                     remedy);
}

static int describe(const struct plan *p, const struct plan_failure *f, struct error *err)
{
    char what[256] = "make its namespaces (clone)";
    enum cause_step step = CAUSE_OTHER;
    if (f->stage == STAGE_ENTER) {
        snprintf(what, sizeof what, "%s", ENTER_WORDS[f->index]);
    } else if (f->stage == STAGE_HELPER) {
        snprintf(what, sizeof what, "start a helper that mounts /proc");
    } else if (f->stage != STAGE_CLONE) {
        const struct op *ops = f->stage == 0 ? p->stage0 : f->stage == 1 ? p->stage1 : p->stage2;
        plan_describe(&ops[f->index], what, sizeof what);
        step = ops[f->index].kind == OP_PROC ? CAUSE_PROC : CAUSE_OTHER;
    }
    return spawn_error(err, step, f->code, what);
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
    pid_t pid;
    if (l->s->birthplace >= 0) {
        struct clone_args args = {.flags = CLONE_INTO_CGROUP, .cgroup = (uint64_t)l->s->birthplace};
        pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    } else { /* filters of containers often know no clone3 */
        pid = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);
    }
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
        return spawn_error(err, CAUSE_OTHER, errno, "make a pipe");
    _cleanup_fd_ int report_in = ends[0];
    _cleanup_fd_ int low = ends[1];
    _cleanup_fd_ int report_out = fcntl(low, F_DUPFD_CLOEXEC, FIRST_FREE);
    _cleanup_fd_ int control = fcntl(s->control, F_DUPFD_CLOEXEC, FIRST_FREE);
    if (report_out < 0 || control < 0) /* EINVAL: the limit is below FIRST_FREE */
        return spawn_error(err, CAUSE_OTHER, errno == EINVAL ? EMFILE : errno,
                           "duplicate a descriptor");
    _cleanup_free_ char *stack = malloc(STACK_SIZE);
    _cleanup_free_ struct launch *l = calloc(1, sizeof *l);
    if (!stack || !l)
        return spawn_error(err, CAUSE_OTHER, ENOMEM, "start its launcher");
    close(TAKE_FD(low));
    *l = (struct launch){.s = s,
                         .outer_proc.socket = -1,
                         .exec = {.plan = s->plan, .control = control, .listener = -1},
                         .stack = stack,
                         .report = report_out};
    memcpy(l->exec.fds, s->plan->fds, sizeof l->exec.fds);
    pid_t child = clone_child(l);
    if (child < 0)
        return spawn_error(err, CAUSE_OTHER, errno, "make a process (clone)");
    *ret = (struct spawning){.child = child, .report = TAKE_FD(report_in)};
    return 0;
}

int spawn(const struct spawn *s, pid_t *ret_pid, struct error *err)
{
    struct spawning spawning;
    int r = spawn_begin(s, &spawning, err);
    return r < 0 ? r : spawn_finish(&spawning, s->plan, ret_pid, err);
}
