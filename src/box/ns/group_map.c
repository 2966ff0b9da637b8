/*
 * A process can run as another of its user's groups without a privilege: by executing a file of its
 * own that belongs to the group and has the set-group-id bit. The file is a copy of hutch-guest,
 * which as "hutch-guest map-group" does nothing but write the map; it never has a name, and is gone
 * when it has ended. Nobody gains anything: the user is a member of that group.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "box.h"
#include "cleanup.h"
#include "idmap.h"
#include "libexec.h"
#include "banned.h"

#define GROUPS_MAX 65536
#define BUSY_TRIES                                                                                 \
    50           /* of a millisecond, while a child that another thread just forked has it open */
#define BUSY 126 /* exit status: the program could not be executed for that reason */

static bool is_member(gid_t gid)
{
    int n = getgroups(0, NULL);
    if (n <= 0 || n > GROUPS_MAX)
        return false;
    _cleanup_free_ gid_t *groups = calloc((size_t)n, sizeof *groups);
    n = groups ? getgroups(n, groups) : 0;
    for (int i = 0; i < n; i++)
        if (groups[i] == gid)
            return true;
    return false;
}

gid_t group_map_choose(const char *folder)
{
    struct stat st;
    if (!folder || stat(folder, &st) < 0 || st.st_gid == getegid() || !is_member(st.st_gid))
        return getegid();
    return st.st_gid;
}

/* A file without a name, on a mount that respects set-group-id. */
static int open_nameless(void)
{
    const char *const folders[] = {"/var/tmp", "/tmp", getenv("HOME")};
    for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
        struct statvfs fs;
        if (!folders[i] || statvfs(folders[i], &fs) < 0 || fs.f_flag & (ST_NOSUID | ST_NOEXEC))
            continue;
        int fd = open(folders[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        if (fd >= 0)
            return fd;
    }
    return -EACCES;
}

/* A copy of hutch-guest that runs as `group`. */
static int make_program(gid_t group, int *ret_fd)
{
    char path[LIBEXEC_PATH_MAX], own[32];
    struct error err = {0};
    struct stat st;
    _cleanup_fd_ int fd = open_nameless();
    if (fd < 0)
        return fd;
    if (libexec_find("hutch-guest", path, &err) < 0)
        return -err.code;
    _cleanup_fd_ int from = open(path, O_RDONLY | O_CLOEXEC);
    if (from < 0 || fstat(from, &st) < 0)
        return -errno;
    for (off_t at = 0; at < st.st_size;) {
        ssize_t n = sendfile(fd, from, &at, (size_t)(st.st_size - at));
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
    }
    if (fchown(fd, (uid_t)-1, group) < 0 || fchmod(fd, S_ISGID | 0710) < 0)
        return -errno;
    /* Opened for reading alone: a file that somebody has open for writing is not executed. */
    snprintf(own, sizeof own, "/proc/self/fd/%d", fd);
    int program = open(own, O_RDONLY | O_CLOEXEC);
    if (program < 0)
        return -errno;
    *ret_fd = program;
    return 0;
}

/* The program's exit status, or 1 if somebody else has reaped it. */
static int run_program(int fd, char *const *argv)
{
    char *none[] = {NULL};
    sigset_t all, old;
    int status = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid ==
        0) { /* system calls only: the memory is a copy of a program's that may have threads */
        syscall(SYS_setsid);
        syscall(SYS_close_range, 0, 2, 0);
        syscall(SYS_execveat, fd, "", argv, none, AT_EMPTY_PATH);
        syscall(SYS_exit_group, errno == ETXTBSY ? BUSY : 1);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (pid < 0)
        return 1;
    while (waitpid(pid, &status, __WALL) < 0)
        if (errno != EINTR)
            return 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int group_map_write(pid_t pid, gid_t inside, gid_t outside)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    char path[64], map[64], byte;
    _cleanup_fd_ int program = -1;
    snprintf(path, sizeof path, "/proc/%d/gid_map", (int)pid);
    snprintf(map, sizeof map, "%u %u 1", inside, outside);
    char *argv[] = {(char *)"hutch-guest", (char *)"map-group", path, map, NULL};
    int r = make_program(outside, &program);
    if (r < 0)
        return r;
    for (int i = 0; i < BUSY_TRIES && run_program(program, argv) == BUSY; i++)
        nanosleep(&pause, NULL);
    /* A program that embeds hutch may reap all children: the kernel knows whether the map was
     * written. */
    _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && read(fd, &byte, 1) == 1 ? 0 : -EPERM;
}

bool box_group_warning(const char *folder, char *text, size_t size)
{
    struct stat st;
    if (geteuid() == 0 || stat(folder, &st) < 0 || st.st_gid == getegid())
        return false;
    bool member = is_member(st.st_gid);
    if (!member &&
        st.st_uid != geteuid()) /* somebody else's folder, of which little can be changed */
        return false;
    if (member && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0) {
        _cleanup_fd_ int nameless = open_nameless();
        if (nameless >= 0)
            return false;
    }
    char name[64];
    const struct group *g = getgrgid(st.st_gid);
    snprintf(name, sizeof name, "%u", st.st_gid);
    if (g)
        snprintf(name, sizeof name, "%.63s", g->gr_name);
    if (member)
        snprintf(text, size,
                 "a box cannot change files of the group %s here: hutch runs with no_new_privs, or "
                 "/var/tmp, /tmp and the home folder are mounted nosuid; start it as sg %s -c "
                 "'hutch …'",
                 name, name);
    else
        snprintf(text, size,
                 "a box cannot change files of the group %s, of which you are no member; chgrp -R "
                 "them to a group of yours",
                 name);
    return true;
}
