/*
 * Processes that will not go. All hold stdout open and end by themselves after SECONDS, so that
 * nothing stays for good where a box fails.
 *
 *     linger deaf SECONDS        ignores every signal that can be ignored
 *     linger daemon SECONDS      the real one forks twice, calls setsid and ignores signals; this
 * one exits at once linger stopped SECONDS     a child stops itself; this one exits at once linger
 * stop-self SECONDS stops itself linger holder SECONDS      closes its stdout and waits, while a
 * grandchild holds it linger burn SECONDS        burns CPU time in eight children, each
 * short-lived, one after another linger burn-idle SECONDS   burns CPU time in a child while this
 * one sleeps
 */
#include <sys/resource.h>
#include <time.h>

#include "hostile.h"

static double seconds;

static void deaf(void)
{
    for (int i = 1; i < NSIG; i++)
        signal(i, SIG_IGN);
}

static double now(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

/* Signals do not shorten it. */
static void stay(void)
{
    double end = now(CLOCK_MONOTONIC) + seconds;

    while (now(CLOCK_MONOTONIC) < end)
        usleep(50000);
}

static void burn(double cpu)
{
    double end = now(CLOCK_PROCESS_CPUTIME_ID) + cpu;

    while (now(CLOCK_PROCESS_CPUTIME_ID) < end)
        ;
}

static void spawn_daemon(void)
{
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            deaf();
            setsid();
            chdir("/");
            stay();
        }
        _exit(0);
    }
}

static void spawn_stopped(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        deaf();
        raise(SIGSTOP);
        stay();
        _exit(0);
    }
    waitpid(pid, NULL, WUNTRACED);
}

static void spawn_holder(void)
{
    if (fork() == 0) {
        if (fork() == 0)
            stay();
        _exit(0);
    }
    close(1);
    close(2);
    usleep(300000);
}

/* Alarm ends a child that a limit stops from burning, so that the children cannot pile up. */
static void burn_in_turns(void)
{
    for (double spent = 0; spent < seconds; spent += 0.1) {
        pid_t pid = fork();

        if (pid == 0) {
            burn(0.1);
            _exit(0);
        }
        waitpid(pid, NULL, 0);
    }
}

static void burn_below(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        burn(seconds);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
    const char *kind = argv[1];

    seconds = atof(argv[2]);
    printf("STARTED %s\n", kind);
    fflush(stdout);
    if (!strcmp(kind, "deaf"))
        deaf(), stay();
    else if (!strcmp(kind, "daemon"))
        spawn_daemon();
    else if (!strcmp(kind, "stopped"))
        spawn_stopped();
    else if (!strcmp(kind, "stop-self"))
        raise(SIGSTOP), stay();
    else if (!strcmp(kind, "holder"))
        spawn_holder();
    else if (!strcmp(kind, "burn"))
        burn_in_turns();
    else if (!strcmp(kind, "burn-idle"))
        burn_below();
    if (fcntl(1, F_GETFD) >= 0 && strcmp(kind, "daemon") && strcmp(kind, "stopped"))
        printf("OUTLIVED %s\n", kind);
    return 0;
}
