/*
 * Reaches for a process of the host: its memory, its descriptors, its life. The victim (victim.py)
 * runs as the same user as the caller of hutch and lets anybody trace it, so that only the box
 * stands between them.
 *
 *     outward PID ADDRESS FD
 *
 * Every other process that can be seen is tried as well: one that is not of this box would be a
 * breach on its own.
 */
#include <sys/ptrace.h>
#include <sys/uio.h>

#include "hostile.h"

static void take_memory(pid_t pid, unsigned long address)
{
    char data[64] = "";
    struct iovec mine = {data, sizeof(data) - 1}, theirs = {(void *)address, sizeof(data) - 1};

    attempt(process_vm_readv(pid, &mine, 1, &theirs, 1, 0), "process_vm_readv of %d", pid);
    printf("LOOT %s\n", data);
    attempt(process_vm_writev(pid, &mine, 1, &theirs, 1, 0), "process_vm_writev of %d", pid);
}

static void take_proc_mem(pid_t pid, unsigned long address)
{
    char path[64], data[64] = "";
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/mem", pid);
    fd = open(path, O_RDWR);
    attempt(fd, "open %s", path);
    if (fd >= 0 && pread(fd, data, sizeof(data) - 1, address) > 0)
        printf("LOOT %s\n", data);
}

static void take_control(pid_t pid)
{
    long r = ptrace(PTRACE_SEIZE, pid, 0, 0);

    attempt(r, "ptrace seize of %d", pid);
    if (r == 0)
        ptrace(PTRACE_DETACH, pid, 0, 0);
}

static void take_descriptor(pid_t pid, int number)
{
    int pidfd = syscall(SYS_pidfd_open, pid, 0), fd;

    if (pidfd < 0) {
        denied("pidfd_open of %d", pid);
        return;
    }
    fd = syscall(SYS_pidfd_getfd, pidfd, number, 0);
    attempt(fd, "pidfd_getfd of %d", pid);
    if (fd >= 0)
        loot(fd);
    attempt(syscall(SYS_pidfd_send_signal, pidfd, SIGUSR1, 0, 0), "pidfd_send_signal to %d", pid);
}

int main(int argc, char **argv)
{
    pid_t pid = atoi(argv[1]);

    take_memory(pid, strtoul(argv[2], NULL, 0));
    take_proc_mem(pid, strtoul(argv[2], NULL, 0));
    take_control(pid);
    take_descriptor(pid, atoi(argv[3]));
    attempt(kill(pid, SIGUSR1), "kill %d", pid);
    return verdict();
}
