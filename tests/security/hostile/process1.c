/*
 * Goes for process 1 of the box, the guest, which has the same user id: whoever stops, starves or
 * cripples it is free of the limits that it watches, and keeps the host from looking at the box's
 * changes.
 *
 * Calls that change process 1 are breaches if they succeed. Signals "succeed" even where the kernel
 * drops them, so those are judged by what process 1 is afterwards: its line in /proc.
 *
 *     process1                    everything that could reach it, each by itself
 *     process1 escape MEGABYTES   cripples it, then takes that much memory
 */
#include <linux/ioprio.h>
#include <mqueue.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <time.h>

#include "hostile.h"

#define IOPRIO_IDLE (IOPRIO_CLASS_IDLE << IOPRIO_CLASS_SHIFT)

struct state {
    char letter;
    long nice;
    unsigned policy;
    char processors[256];
};

static void read_processors(struct state *s)
{
    char line[256];
    FILE *f = fopen("/proc/1/status", "r");

    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, "Cpus_allowed:", 13) == 0)
            snprintf(s->processors, sizeof(s->processors), "%s", line);
    if (f)
        fclose(f);
}

static struct state look(void)
{
    struct state s = {.letter = '?'};
    char line[1024] = "";
    FILE *f = fopen("/proc/1/stat", "r");

    if (f && fgets(line, sizeof(line), f))
        sscanf(strrchr(line, ')') + 2,
               "%c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %ld %*d %*d %*u %*u "
               "%*d %*u %*u "
               "%*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*d %*d %*u %u",
               &s.letter, &s.nice, &s.policy);
    if (f)
        fclose(f);
    read_processors(&s);
    return s;
}

/* The number of each thread of process 1 stands for the whole of it in many calls. */
static int is_guest(long task)
{
    char path[32], line[256];
    int group = 0;

    snprintf(path, sizeof(path), "/proc/%ld/status", task);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof(line), f))
        sscanf(line, "Tgid: %d", &group);
    if (f)
        fclose(f);
    return group == 1;
}

static void limits(long task)
{
    static const int KINDS[] = {RLIMIT_CPU, RLIMIT_NOFILE, RLIMIT_NPROC, RLIMIT_AS, RLIMIT_FSIZE};

    for (size_t i = 0; i < sizeof(KINDS) / sizeof(*KINDS); i++) {
        struct rlimit was;
        if (syscall(SYS_prlimit64, task, KINDS[i], NULL, &was) < 0)
            was = (struct rlimit){RLIM_INFINITY, RLIM_INFINITY};
        /* What it has already: a change would end the box, and with it the rest of this program. */
        attempt(syscall(SYS_prlimit64, task, KINDS[i], &was, NULL), "set limit %d of process 1",
                KINDS[i]);
        attempt(syscall(SYS_prlimit64, task | 1L << 32, KINDS[i], &was, NULL),
                "set limit %d of process 1 with a high bit", KINDS[i]);
    }
}

static void scheduling(long task)
{
    struct sched_param none = {0};
    struct { /* as the kernel has it; not every C library does */
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } attr = {.size = sizeof(attr), .policy = SCHED_IDLE};
    unsigned long mask[16] = {1};

    attempt(syscall(SYS_sched_setscheduler, task, SCHED_IDLE, &none), "made process 1 SCHED_IDLE");
    attempt(syscall(SYS_sched_setscheduler, task, SCHED_BATCH, &none),
            "made process 1 SCHED_BATCH");
    attempt(syscall(SYS_sched_setparam, task, &none), "set the parameter of process 1");
    attempt(syscall(SYS_sched_setattr, task, &attr, 0), "set the attributes of process 1");
    attempt(syscall(SYS_sched_setaffinity, task, sizeof(mask), mask),
            "bound process 1 to a processor");
    attempt(syscall(SYS_sched_setaffinity, task | 1L << 40, sizeof(mask), mask),
            "bound process 1, with a high bit");
}

static void priorities(long task)
{
    attempt(setpriority(PRIO_PROCESS, task, 19), "made process 1 nice");
    attempt(setpriority(PRIO_PGRP, 1, 19), "made the group of process 1 nice");
    attempt(setpriority(PRIO_USER, 0, 19), "made all processes of the user nice");
    attempt(setpriority(PRIO_USER, getuid(), 19), "made all processes of the user's id nice");
    attempt(syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, task, IOPRIO_IDLE),
            "took process 1's disk priority");
    attempt(syscall(SYS_ioprio_set, IOPRIO_WHO_PGRP, 1, IOPRIO_IDLE),
            "took its group's disk priority");
    attempt(syscall(SYS_ioprio_set, IOPRIO_WHO_USER, 0, IOPRIO_IDLE),
            "took the user's disk priority");
    attempt(syscall(SYS_ioprio_set, IOPRIO_WHO_USER, getuid(), IOPRIO_IDLE),
            "took the id's disk priority");
}

static void memory(long task, int pidfd)
{
    static char byte;
    struct iovec ours = {&byte, 1}, theirs = {(void *)0x400000, 4096};

    attempt(ptrace(PTRACE_SEIZE, task, 0, 0), "traced process 1");
    attempt(ptrace(PTRACE_ATTACH, task, 0, 0), "attached to process 1");
    attempt(process_vm_readv(task, &ours, 1, &theirs, 1, 0), "read memory of process 1");
    attempt(process_vm_writev(task, &ours, 1, &theirs, 1, 0), "wrote memory of process 1");
    attempt(syscall(SYS_process_madvise, pidfd, &theirs, 1, MADV_COLD, 0),
            "made memory of process 1 cold");
    attempt(syscall(SYS_process_madvise, pidfd, &theirs, 1, MADV_PAGEOUT, 0),
            "paged process 1 out");
    attempt(syscall(SYS_process_mrelease, pidfd, 0), "reaped memory of process 1");
    attempt(syscall(SYS_pidfd_getfd, pidfd, 3, 0), "took a descriptor of process 1");
    attempt(syscall(SYS_kcmp, task, getpid(), 0, 0, 0), "compared with process 1");
    attempt(syscall(SYS_migrate_pages, task, 8, &(long){1}, &(long){1}),
            "moved pages of process 1");
    attempt(syscall(SYS_move_pages, task, 0, NULL, NULL, NULL, 0),
            "moved single pages of process 1");
    attempt(setpgid(1, getpid()), "took process 1 into a group");
}

static void files(void)
{
    static const char *const NAMES[] = {"/proc/1/oom_score_adj", "/proc/1/autogroup",
                                        "/proc/1/timerslack_ns", "/proc/1/coredump_filter",
                                        "/proc/1/clear_refs",    "/proc/1/mem",
                                        "/proc/1/sched",         "/proc/1/comm"};

    for (size_t i = 0; i < sizeof(NAMES) / sizeof(*NAMES); i++)
        attempt(open(NAMES[i], O_WRONLY), "opened %s", NAMES[i]);
    attempt(open("/proc/1/task/1/mem", O_RDONLY), "opened its memory");
}

/* A pipe that signals process 1, with any signal one likes, when something can be read from it. */
static void owned(int sig)
{
    int ends[2];

    if (pipe(ends) < 0 || fcntl(ends[0], F_SETOWN, 1) < 0 || fcntl(ends[0], F_SETSIG, sig) < 0 ||
        fcntl(ends[0], F_SETFL, O_ASYNC | O_NONBLOCK) < 0)
        return;
    write(ends[1], "x", 1);
    close(ends[0]);
    close(ends[1]);
}

static void signals(int pidfd)
{
    for (int sig = 1; sig < NSIG; sig++) {
        siginfo_t info = {.si_signo = sig, .si_code = SI_QUEUE};
        kill(1, sig);
        syscall(SYS_tkill, 1, sig);
        syscall(SYS_tgkill, 1, 1, sig);
        kill(2, sig);
        syscall(SYS_tgkill, 1, 2, sig);
        syscall(SYS_rt_sigqueueinfo, 1, sig, &info);
        syscall(SYS_rt_tgsigqueueinfo, 1, 1, sig, &info);
        syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0);
        for (unsigned flags = 1; flags <= 4; flags <<= 1) /* thread, thread group, process group */
            syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, flags);
        owned(sig);
    }
}

/* Each of these reaches all processes but the caller's own; only process 1 may be left to tell. */
static void everybody(void)
{
    if (fork() == 0) {
        setsid();
        kill(-1, SIGSTOP); /* stops our parent as well, */
        usleep(100000);
        kill(-1, SIGCONT); /* and lets it go on */
        _exit(0);
    }
    wait(NULL);
}

/* Cripples process 1 by all that works, then takes more memory than the box may have and keeps
 * it. */
static int escape(long megabytes)
{
    struct rlimit nothing = {0, 0};
    struct sched_param none = {0};

    syscall(SYS_prlimit64, 1, RLIMIT_NOFILE, &nothing, NULL);
    syscall(SYS_sched_setscheduler, 1, SCHED_IDLE, &none);
    setpriority(PRIO_USER, 0, 19);
    for (long i = 0; i < megabytes; i++) {
        char *block = malloc(1 << 20);
        if (!block)
            return 0;
        memset(block, 1, 1 << 20);
        usleep(4000);
    }
    sleep(2);
    breach("%ld MB held, past process 1", megabytes);
    return verdict();
}

int main(int argc, char **argv)
{
    struct state before = look(), after;
    int pidfd = (int)syscall(SYS_pidfd_open, 1, 0);

    if (argc == 3 && strcmp(argv[1], "escape") == 0)
        return escape(atol(argv[2]));
    for (long task = 1; task < 400; task++)
        if (is_guest(task)) {
            limits(task);
            scheduling(task);
            priorities(task);
            memory(task, pidfd);
        }
    files();
    signals(pidfd);
    everybody();
    after = look();
    if (strchr("TtZX?", after.letter))
        breach("process 1 is in state %c", after.letter);
    if (after.nice != before.nice || after.policy != before.policy)
        breach("process 1 has nice %ld and policy %u", after.nice, after.policy);
    if (strcmp(after.processors, before.processors) != 0)
        breach("process 1 may use other processors");
    return verdict();
}
