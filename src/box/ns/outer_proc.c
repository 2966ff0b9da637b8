#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <linux/stat.h>
#include <sched.h>
#include <stddef.h>
#include <sys/socket.h>

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plan.h"
#include "cleanup.h"
#include "io.h"
#include "outer_proc.h"
#include "banned.h"

#define HELPER_PID 300 /* below the smallest pid_max */

/* What container runtimes cover, see the OCI runtime specification's maskedPaths and readonlyPaths.
 */
static const char *const COVERED[] = {
    "/proc/sys",           "/proc/bus",    "/proc/fs",         "/proc/irq",
    "/proc/sysrq-trigger", "/proc/kcore",  "/proc/keys",       "/proc/acpi",
    "/proc/scsi",          "/proc/asound", "/proc/timer_list", "/proc/latency_stats",
};

bool outer_proc_is_masked(void)
{
    struct statx st;
    for (size_t i = 0; i < ARRAY_SIZE(COVERED); i++)
        if (syscall(SYS_statx, AT_FDCWD, COVERED[i], AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, 0,
                    &st) == 0 &&
            st.stx_attributes & STATX_ATTR_MOUNT_ROOT)
            return true;
    return false;
}

static void helper_send(int socket, int code, int fd)
{
    io_send_fds(socket, &code, sizeof code, &fd, fd >= 0 ? 1 : 0);
}

/* In the pid namespace of the box, with root's rights: only to mount. Nobody in the box can trace
 * it, since no command runs there yet. */
static void helper_mount(int socket)
{
    int fd = -1;
    int r = plan_exec_new_proc(&fd);
    helper_send(socket, r, fd);
    syscall(SYS_exit_group, 0);
}

/* With a number far away: the next one, 2, is for the guest's thread. */
static pid_t helper_clone(void)
{
    pid_t number = HELPER_PID;
    struct clone_args args = {.set_tid = (uint64_t)(uintptr_t)&number, .set_tid_size = 1};
    return (pid_t)syscall(SYS_clone3, &args, sizeof args);
}

static void helper_main(int socket)
{
    char byte;
    int pidns = -1;
    size_t n = 0;
    ssize_t got = io_recv_fds(socket, &byte, 1, &pidns, 1, &n, 0);
    if (got == 1 && n == 1) {
        if (setns(pidns, CLONE_NEWPID) < 0) {
            helper_send(socket, -errno, -1);
        } else {
            pid_t pid = helper_clone();
            if (pid == 0)
                helper_mount(socket);
            if (pid < 0)
                helper_send(socket, -errno, -1);
            while (pid > 0 && waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
                ;
        }
    }
    syscall(SYS_exit_group, 0);
}

int outer_proc_start(struct outer_proc *p)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return -errno;
    pid_t pid = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);
    if (pid == 0) {
        close(ends[0]); /* so that the end of the others is noticed */
        helper_main(ends[1]);
    }
    int code = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return -code;
    }
    *p = (struct outer_proc){.pid = pid, .socket = ends[0]};
    return 0;
}

int outer_proc_receive(const struct outer_proc *p, int *ret_fd)
{
    _cleanup_fd_ int self = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
    if (self < 0)
        return -errno;
    ssize_t done = io_send_fds(p->socket, "P", 1, &self, 1);
    if (done < 0)
        return (int)done;
    int code = -EPROTO, fd = -1;
    size_t n = 0;
    ssize_t got = io_recv_fds(p->socket, &code, sizeof code, &fd, 1, &n, 0);
    if (got < 0)
        return (int)got;
    if (got != sizeof code || code < 0 || n != 1)
        return got == sizeof code && code < 0 ? code : -EPROTO;
    *ret_fd = fd;
    return 0;
}

void outer_proc_finish(struct outer_proc *p)
{
    if (p->socket < 0)
        return;
    close(p->socket);
    while (waitpid(p->pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
    p->socket = -1;
}
