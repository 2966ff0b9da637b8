#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <linux/sockios.h>
#include <linux/stat.h>
#include <net/if.h>
#include <sched.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cleanup.h"
#include "helper.h"
#include "io.h"
#include "sys.h"
#include "banned.h"

#define HELPER_PID 300 /* below the smallest pid_max */

/* Makes the namespace with lo up; the socket that does it also leads to the namespace that it is
 * in, without any /proc. */
static int network_make(struct network *n)
{
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    if (unshare(CLONE_NEWNET) < 0)
        return errno;
    int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (s < 0 || ioctl(s, SIOCSIFFLAGS, &lo) < 0)
        return errno;
    n->fd = ioctl(s, SIOCGSKNS);
    return n->fd < 0 ? errno : 0;
}

static int network_main(void *data)
{
    struct network *n = data;
    n->error = network_make(n);
    __atomic_store_n(&n->ready, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &n->ready, FUTEX_WAKE, 1, NULL, NULL, 0);
    syscall(SYS_exit, 0);
    return 0;
}

int network_start(struct network *n)
{
    n->pid = clone(network_main, n->stack + sizeof n->stack, CLONE_VM | CLONE_FILES, n);
    return n->pid < 0 ? -errno : 0;
}

int network_enter(struct network *n)
{
    while (!__atomic_load_n(&n->ready, __ATOMIC_ACQUIRE))
        syscall(SYS_futex, &n->ready, FUTEX_WAIT, 0, NULL, NULL, 0);
    if (n->error)
        return -n->error;
    return setns(n->fd, CLONE_NEWNET) < 0 ? -errno : 0;
}

void network_finish(struct network *n)
{
    while (n->pid > 0 && waitpid(n->pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
}

/* What container runtimes cover: the OCI runtime specification's maskedPaths and readonlyPaths. */
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

/* In the pid namespace of the box, with root's rights: only to mount. Nobody in the box can trace
 * it, since no command runs there yet. Sends 0 and the mount, or a negative errno. */
static void outer_proc_mount(int socket)
{
    int code = 0, fd = -1;
    int fs = sys_fsopen("proc", FSOPEN_CLOEXEC);
    if (fs >= 0 && sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
        fd = sys_fsmount(fs, FSMOUNT_CLOEXEC,
                         MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    if (fd < 0)
        code = -errno;
    io_send_fds(socket, &code, sizeof code, &fd, fd >= 0 ? 1 : 0);
    syscall(SYS_exit_group, 0);
}

static void outer_proc_main(int socket)
{
    char byte;
    int pidns = -1, code = 0;
    size_t n = 0;
    pid_t pid = -1, number = HELPER_PID; /* far away: the next one, 2, is for the guest's thread */
    struct clone_args args = {.set_tid = (uint64_t)(uintptr_t)&number, .set_tid_size = 1};

    if (io_recv_fds(socket, &byte, 1, &pidns, 1, &n, 0) != 1 || n != 1)
        syscall(SYS_exit_group, 0);
    if (setns(pidns, CLONE_NEWPID) == 0)
        pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0)
        outer_proc_mount(socket);
    if (pid < 0) {
        code = -errno;
        io_send_fds(socket, &code, sizeof code, NULL, 0);
    }
    while (pid > 0 && waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
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
        outer_proc_main(ends[1]);
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
