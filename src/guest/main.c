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
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "serve.h"
#include "diff/diff_worker.h"
#include "store/store.h"
#include "sys.h"
#include "weaken.h"
#include "wire.h"
#include "banned.h"

#define CONTROL  3
#define LISTENER 4

/* Ignored signals and blocked ones pass through exec: what the host had must not reach a command.
 */
static void signals_reset(void)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    /* By the system call, since the C library reserves some numbers that the caller of hutch
     * may ignore. All zero is the kernel's form of SIG_DFL. */
    const struct {
        unsigned long handler, flags, restorer, mask;
    } fallback = {0};
    for (int sig = 1; sig < NSIG; sig++)
        syscall(SYS_rt_sigaction, sig, &fallback, NULL, sizeof fallback.mask);
}

/* 0, 1 and 2 are always taken, so that no descriptor we are passed lands on one of them. */
static bool fds_reset(bool listens)
{
    if (fcntl(CONTROL, F_SETFD, FD_CLOEXEC) < 0 ||
        (listens && fcntl(LISTENER, F_SETFD, FD_CLOEXEC) < 0))
        return false;
    sys_close_range(0, CONTROL - 1, 0);
    if (!weakened("fds"))
        sys_close_range(listens ? LISTENER + 1 : CONTROL + 1, ~0U, 0);
    for (int fd = 0; fd < CONTROL; fd++)
        if (open("/dev/null", O_RDWR) != fd && open("/", O_PATH) != fd)
            return false;
    return true;
}

/* The host waits for the first answer: instead it gets the reason why the guest cannot start. */
static int report_failure(const char *call, int code)
{
    char text[256];
    int n = snprintf(text, sizeof text, "%c%s: %s", WIRE_START_FAILED, call, strerror(code));
    send(CONTROL, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1,
         MSG_NOSIGNAL | MSG_DONTWAIT);
    return 1;
}

/* As a helper of the host, not in a box: writes one line to a file of /proc (group_map.c of the
 * host). It runs as another group of its user's and does nothing else. */
static int map_group(const char *path, const char *map)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    size_t n = strlen(map);
    return fd < 0 || write(fd, map, n) != (ssize_t)n;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "map-group") == 0)
        return map_group(argv[2], argv[3]);
    if (prctl(PR_SET_DUMPABLE, 0) < 0)
        return report_failure("prctl(PR_SET_DUMPABLE)", errno);
    bool listens = argc > 1 && strcmp(argv[1], "listen") == 0;
    signals_reset();
    umask(022);
    if (!fds_reset(listens))
        return report_failure("opening /dev/null", errno);
    if (argc > 1 && strcmp(argv[1], "diff") == 0)
        return diff_worker_main(CONTROL) < 0;
    if (argc > 1 && strcmp(argv[1], "store") == 0)
        return store_main(CONTROL);
    /* Only in a pid namespace of its own may it kill everybody. */
    if (getpid() != 1 && !weakened("pid"))
        return 1;
    const char *call = "";
    int r = guest_serve(CONTROL, listens ? LISTENER : -1, &call);
    return report_failure(call, -r);
}
