#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cause.h"
#include "cleanup.h"
#include "plan.h"
#include "idmap.h"
#include "spawn.h"
#include "banned.h"

#define DESCRIPTORS_MAX 256 /* more than a launch opens */
#define STACK_SIZE      (64u << 10)
#define FIRST_FREE      10 /* our descriptors stay clear of those that the guest has by number */

/* What the two processes share; the host has its own copy and learns the result from a pipe. */
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

const char *const ENTER_WORDS[ENTER_STEPS] = {
    "join the control group", "leave the groups of root",  "enter the user namespace",
    "become the box's user",  "enter the mount namespace",
};

int enter_family(int userns, int mntns, enum enter_step *ret_step)
{
    *ret_step = ENTER_GROUPS;
    /* Without CAP_SETGID root keeps its groups, as an ordinary user does. */
    if (geteuid() == 0 && syscall(SYS_setgroups, 0, NULL) < 0 && errno != EPERM)
        return -errno;
    *ret_step = ENTER_USER;
    if (setns(userns, CLONE_NEWUSER) < 0)
        return -errno;
    *ret_step = ENTER_ID;
    if (syscall(SYS_setresgid, AGENT_ID, AGENT_ID, AGENT_ID) < 0 ||
        syscall(SYS_setresuid, AGENT_ID, AGENT_ID, AGENT_ID) < 0)
        return -errno;
    *ret_step = ENTER_MOUNTS;
    return mntns >= 0 && setns(mntns, CLONE_NEWNS) < 0 ? -errno : 0;
}

static int launch_fail(struct launch *l, int stage, int index, int code)
{
    l->exec.failure = (struct plan_failure){.stage = stage, .index = index, .code = code};
    return -code;
}

/* The box's place in the host, up to the end of stage 1. */
static int launch_enter(struct launch *l)
{
    const struct spawn *s = l->s;
    enum enter_step step;

    /* The helper comes first, as it needs our rights and is no part of the box; then the cgroup,
     * while we may still write there. */
    int r = s->outer_proc ? outer_proc_start(&l->outer_proc) : 0;
    if (r < 0)
        return launch_fail(l, STAGE_HELPER, 0, -r);
    l->exec.outer_proc = s->outer_proc ? &l->outer_proc : NULL;
    for (size_t i = 0; i < s->n_cgroups; i++)
        if (write(s->cgroups[i], "0", 1) < 0)
            return launch_fail(l, STAGE_ENTER, ENTER_CGROUP, errno);
    cpu_set_t have, want;
    int left = (int)(s->cpus + 0.999);
    if (left > 0 && sched_getaffinity(0, sizeof have, &have) == 0) {
        CPU_ZERO(&want);
        for (int i = 0; i < CPU_SETSIZE && left > 0; i++)
            if (CPU_ISSET(i, &have)) {
                CPU_SET(i, &want);
                left--;
            }
        sched_setaffinity(0, sizeof want, &want);
    }
    r = enter_family(s->userns, -1, &step);
    if (r < 0)
        return launch_fail(l, STAGE_ENTER, (int)step, -r);

    /* Stage 0 picks up files of the host in a copy of its mounts, which this process leaves again.
     * The family's user namespace owns the copy, so this shows nothing that a fresh box could not
     * show. */
    if (s->plan->n_stage0 && unshare(CLONE_NEWNS) < 0)
        return launch_fail(l, STAGE_ENTER, ENTER_MOUNTS, errno);
    r = plan_exec_stage(&l->exec, 0);
    if (r == 0 && s->mntns >= 0 && setns(s->mntns, CLONE_NEWNS) < 0)
        return launch_fail(l, STAGE_ENTER, ENTER_MOUNTS, errno);
    return r < 0 ? r : plan_exec_stage(&l->exec, 1);
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

static void launch_child(struct launch *l)
{
    struct report report = {0};
    const int namespaces = l->s->namespaces & ~CLONE_NEWNET;

    umask(0);
    /* A table of descriptors that is shared and too small for one more grows only after a grace
     * period of the kernel, ten milliseconds on an idle machine. So it is made large enough
     * before. */
    int last = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, DESCRIPTORS_MAX - 1);
    if (last >= 0)
        close(last);
    l->exec.network = &l->network;
    if (launch_enter(l) == 0) {
        /* Descriptors are shared, until the exec gives process 1 its own, so that the network's
         * arrives there. */
        int r = l->s->namespaces & CLONE_NEWNET ? network_start(&l->network) : 0;
        if (r == 0)
            report.pid = clone(first_process, l->stack + STACK_SIZE,
                               CLONE_VM | CLONE_FILES | CLONE_VFORK | CLONE_PARENT | namespaces, l);
        if (r == 0 && report.pid < 0)
            r = -errno;
        network_finish(&l->network);
        if (r < 0)
            launch_fail(l, STAGE_CLONE, 0, -r);
    }
    outer_proc_finish(&l->outer_proc);
    report.failure = l->exec.failure;
    if (write(l->report, &report, sizeof report) < 0)
        syscall(SYS_exit_group, 2);
    syscall(SYS_exit_group, 0);
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

    const struct plan_failure *f = &report.failure;
    char what[256] = "make its namespaces (clone)";
    enum cause_step step = CAUSE_OTHER;
    if (f->stage == STAGE_ENTER) {
        snprintf(what, sizeof what, "%s", ENTER_WORDS[f->index]);
    } else if (f->stage == STAGE_HELPER) {
        snprintf(what, sizeof what, "start a helper that mounts /proc");
    } else if (f->stage != STAGE_CLONE) {
        size_t n;
        const struct op *op = &plan_stage(p, f->stage, &n)[f->index];
        plan_describe(op, what, sizeof what);
        step = op->kind == OP_PROC ? CAUSE_PROC : CAUSE_OTHER;
    }
    return start_error(err, step, f->code, what);
}

int spawn_begin(const struct spawn *s, struct spawning *ret, struct error *err)
{
    int ends[2];
    if (s->plan->overflow)
        return error_set(err, E2BIG, "the box did not start: too many folders to show");
    if (pipe2(ends, O_CLOEXEC) < 0)
        return start_error(err, CAUSE_OTHER, errno, "make a pipe");
    _cleanup_fd_ int report_in = ends[0];
    _cleanup_fd_ int low = ends[1];
    _cleanup_fd_ int report_out = fcntl(low, F_DUPFD_CLOEXEC, FIRST_FREE);
    _cleanup_fd_ int control = fcntl(s->control, F_DUPFD_CLOEXEC, FIRST_FREE);
    if (report_out < 0 || control < 0) /* EINVAL: the limit is below FIRST_FREE */
        return start_error(err, CAUSE_OTHER, errno == EINVAL ? EMFILE : errno,
                           "duplicate a descriptor");
    _cleanup_free_ char *stack = malloc(STACK_SIZE);
    _cleanup_free_ struct launch *l = calloc(1, sizeof *l);
    if (!stack || !l)
        return start_error(err, CAUSE_OTHER, ENOMEM, "start its launcher");
    close(TAKE_FD(low));
    *l = (struct launch){.s = s,
                         .outer_proc.socket = -1,
                         .exec = {.plan = s->plan, .control = control, .listener = -1},
                         .stack = stack,
                         .report = report_out};
    memcpy(l->exec.fds, s->plan->fds, sizeof l->exec.fds);

    /* A signal handler of the host's must not run in the child, on its copy of the host's
     * memory. */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    struct clone_args args = {.flags = CLONE_INTO_CGROUP, .cgroup = (uint64_t)s->birthplace};
    pid_t child = s->birthplace >= 0 ? (pid_t)syscall(SYS_clone3, &args, sizeof args)
                                     /* filters of containers often know no clone3 */
                                     : (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);
    if (child == 0)
        launch_child(l);
    int code = errno;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (child < 0)
        return start_error(err, CAUSE_OTHER, code, "make a process (clone)");
    *ret = (struct spawning){.child = child, .report = TAKE_FD(report_in)};
    return 0;
}

int spawn(const struct spawn *s, pid_t *ret_pid, struct error *err)
{
    struct spawning spawning = {.report = -1};
    int r = spawn_begin(s, &spawning, err);
    return r < 0 ? r : spawn_finish(&spawning, s->plan, ret_pid, err);
}
