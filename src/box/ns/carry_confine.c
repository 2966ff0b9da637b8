/*
 * The last steps of process 1: it gives away every privilege, in an order in which each step still
 * may be done and none can be undone, then becomes the guest.
 *
 *   nested user namespace   the box's mounts belong to the outer one: even a process that regained
 *                           capabilities in its own could change no mount; and the kernel counts
 *                           processes per namespace (RLIMIT_NPROC)
 *   capabilities            cleared from every set, so that no exec can bring one back
 *   no_new_privs            setuid and file-capability programs mean nothing; also what lets us
 *                           install filters
 *   Landlock                a second opinion on the file system that needs no mounts to be right
 *   seccomp                 last, since it forbids most of the above
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "carry.h"
#include "cleanup.h"
#include "confine.h"
#include "io.h"
#include "sys.h"
#include "weaken.h"
#include "banned.h"

#define CONTROL_FD  3
#define LISTENER_FD 4

int carry_rlimit(struct carry *c, const struct op *op)
{
    return confine_rlimit(op->from, op->flags);
}

/* The map of the nested namespace: the one id there is, to itself. Files of /proc/self are ours
 * only while dumpable. */
static int nest_user_namespace(struct carry *c)
{
    if (unshare(CLONE_NEWUSER) < 0)
        return -errno;
    if (prctl(PR_SET_DUMPABLE, 1) < 0)
        return -errno;
    int proc = c->fds[SLOT_PROC], r;
    if ((r = io_write_file(proc, "self/setgroups", "deny")) < 0 ||
        (r = io_write_file(proc, "self/uid_map", "1000 1000 1")) < 0 ||
        (r = io_write_file(proc, "self/gid_map", "1000 1000 1")) < 0)
        return r;
    /* The kernel's own refusal of further user namespaces, beside the filter's. And what it counts
     * per user, of whom the box is one: a box must not use up what the person's own programs need.
     */
    if ((r = io_write_file(proc, "sys/user/max_user_namespaces", "0")) < 0 ||
        (r = io_write_file(proc, "sys/user/max_inotify_instances", "16")) < 0 ||
        (r = io_write_file(proc, "sys/user/max_inotify_watches", "16384")) < 0)
        return r;
    return 0;
}

/* flags: the capabilities that stay; none for a box, reading any file for a diff worker, which then
 * is not nested.
 */
int carry_confine(struct carry *c, const struct op *op)
{
    int r = weakened("caps") || op->flags ? 0 : nest_user_namespace(c);
    if (r == 0)
        r = confine_capabilities(op->flags);
    return r < 0 ? r : confine_new_privileges();
}

int carry_landlock(struct carry *c, const struct op *op)
{
    return confine_landlock(c->plan->rules, c->plan->n_rules, (unsigned)op->flags);
}

int carry_seccomp(struct carry *c, const struct op *op)
{
    return confine_system_calls(op->flags & OP_SECCOMP_DIFF_WORKER ? SECCOMP_DIFF_WORKER
                                                                   : SECCOMP_BOX,
                                !(op->flags & OP_SECCOMP_NO_ALLOCATION), &c->listener);
}

/* Moves a descriptor to the number at which the guest looks for it. */
static int pass_on(int fd, int number)
{
    if (fd != number && dup2(fd, number) < 0)
        return -errno;
    return fcntl(number, F_SETFD, 0) < 0 ? -errno : 0;
}

/* Only the wire and the filter's listener go along: everything else is closed by the exec itself.
 */
int carry_exec(struct carry *c, const struct op *op)
{
    bool heard = c->listener >= 0;
    int program = fcntl(c->fds[op->slot], F_DUPFD_CLOEXEC, LISTENER_FD + 1);
    int listener = heard ? fcntl(c->listener, F_DUPFD_CLOEXEC, LISTENER_FD + 1) : -1;
    if (program < 0 || (heard && listener < 0))
        return -errno;
    int r = pass_on(c->control, CONTROL_FD);
    if (r == 0 && heard)
        r = pass_on(listener, LISTENER_FD);
    if (r < 0)
        return r;
    if (!weakened("fds") &&
        (sys_close_range(0, CONTROL_FD - 1, 0) < 0 ||
         sys_close_range(heard ? LISTENER_FD + 1 : LISTENER_FD, ~0U, CLOSE_RANGE_CLOEXEC) < 0))
        return -errno;
    umask(022);
    char *argv[] = {(char *)"hutch-guest", (char *)(heard ? "listen" : op->text), NULL};
    char *none[] = {NULL};
    extern char **environ;
    syscall(SYS_execveat, program, "", argv, weakened("guest") ? environ : none, AT_EMPTY_PATH);
    return -errno;
}
