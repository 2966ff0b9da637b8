/*
 * hutch-guest: process 1 of a box, or a scribe.
 *
 * It is started with one descriptor, 3, the control socket, and shares its user id with the agent's code. So
 * the first thing it does is to become undumpable: nobody of the same user can then trace it, read its
 * memory, open its /proc folder's links or take its descriptors. All signals are blocked for good; SIGCHLD is
 * read from a descriptor, and the others mean nothing to it.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest.h"
#include "scribe/scribe.h"
#include "sys.h"
#include "weaken.h"
#include "banned.h"

#define CONTROL 3

/* Ignored signals and blocked ones pass through exec: what the host had must not reach a command. */
static void signals_reset(void)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    /* By the system call, since the C library keeps to itself some numbers that whoever started hutch may
     * ignore. All zero is the kernel's form of SIG_DFL. */
    const struct {
        unsigned long handler, flags, restorer, mask;
    } fallback = {0};
    for (int sig = 1; sig < NSIG; sig++)
        syscall(SYS_rt_sigaction, sig, &fallback, NULL, sizeof fallback.mask);
}

/* 0, 1 and 2 are always taken, so that no descriptor we are passed lands on one of them. */
static bool fds_reset(void)
{
    if (fcntl(CONTROL, F_SETFD, FD_CLOEXEC) < 0)
        return false;
    sys_close_range(0, CONTROL - 1, 0);
    if (!weakened("fds"))
        sys_close_range(CONTROL + 1, ~0U, 0);
    for (int fd = 0; fd < CONTROL; fd++)
        if (open("/dev/null", O_RDWR) != fd && open("/", O_PATH) != fd)
            return false;
    return true;
}

int main(int argc, char **argv)
{
    if (prctl(PR_SET_DUMPABLE, 0) < 0)
        return 1;
    signals_reset();
    umask(022);
    if (!fds_reset())
        return 1;
    if (argc > 1 && strcmp(argv[1], "scribe") == 0)
        return scribe_main(CONTROL) < 0;
    /* Only in a pid namespace of its own may it kill everybody. */
    if (getpid() != 1 && !weakened("pid"))
        return 1;
    guest_serve(CONTROL);
    return 1;
}
