/*
 * Joins namespaces: those of process 1, its own by name, and those of a process of the host by
 * number.
 *
 *     enter HOSTPID
 */
#include "hostile.h"

static const char *const kinds[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"};

static void enter_by_path(const char *pid)
{
    char path[64];

    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        int fd;

        snprintf(path, sizeof(path), "/proc/%s/ns/%s", pid, kinds[i]);
        fd = open(path, O_RDONLY);
        if (fd < 0) {
            denied("open %s", path);
            continue;
        }
        attempt(setns(fd, 0), "setns %s", path);
        close(fd);
    }
}

static void enter_by_pidfd(pid_t pid)
{
    int fd = syscall(SYS_pidfd_open, pid, 0);

    if (fd < 0) {
        denied("pidfd_open of %d", pid);
        return;
    }
    attempt(setns(fd, CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET), "setns by pidfd of %d", pid);
    attempt(setns(fd, CLONE_NEWUSER), "setns user by pidfd of %d", pid);
}

int main(int argc, char **argv)
{
    enter_by_path("1");
    enter_by_path("self");
    enter_by_path(argv[1]);
    enter_by_pidfd(1);
    enter_by_pidfd(atoi(argv[1]));
    return verdict();
}
