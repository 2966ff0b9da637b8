#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"
#include "proc.h"
#include "banned.h"

/* Positions of the numbers after "pid (name) state", counted from the parent's. */
enum { PARENT = 0, UTIME = 10, STIME = 11, CUTIME = 12, CSTIME = 13, THREADS = 16, NUMBERS };

int proc_rewind(struct proc *p)
{
    if (p->dir) {
        rewinddir(p->dir);
        return 0;
    }
    p->dir = opendir("/proc");
    return p->dir ? 0 : -errno;
}

/* A name that is a number above 0, else 0. */
static pid_t proc_number(const char *name)
{
    char *end;
    if (*name < '1' || *name > '9')
        return 0;
    long v = strtol(name, &end, 10);
    return *end ? 0 : (pid_t)v;
}

pid_t proc_next(struct proc *p)
{
    for (struct dirent *e; (e = readdir(p->dir));) {
        pid_t pid = proc_number(e->d_name);
        if (pid > 1)
            return pid;
    }
    return 0;
}

static ssize_t proc_read_file(int dir, const char *path, char *text, size_t size)
{
    _cleanup_fd_ int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t n = read(fd, text, size - 1);
    if (n < 0)
        return -errno;
    text[n] = 0;
    return n;
}

int proc_parse_stat(const char *text, size_t n, uint64_t ticks_per_second, struct proc_stat *ret)
{
    uint64_t v[NUMBERS];
    const char *name_end = memrchr(text, ')', n);
    if (!name_end || text + n - name_end < 4 || name_end[1] != ' ' || name_end[3] != ' ')
        return -EINVAL;
    const char *at = name_end + 4;
    for (size_t i = 0; i < NUMBERS; i++) {
        char *end;
        v[i] = strtoull(at, &end, 10);
        if (end == at)
            return -EINVAL;
        at = end;
    }
    uint64_t ticks = v[UTIME] + v[STIME] + v[CUTIME] + v[CSTIME];
    *ret = (struct proc_stat){.state = name_end[2],
                              .parent = (pid_t)v[PARENT],
                              .cpu_us = ticks * (1000000 / ticks_per_second),
                              .threads = v[THREADS]};
    return 0;
}

static int proc_read_stat_at(int dir, const char *path, struct proc_stat *ret)
{
    char text[1024];
    ssize_t n = proc_read_file(dir, path, text, sizeof text);
    return n < 0 ? (int)n : proc_parse_stat(text, (size_t)n, (uint64_t)sysconf(_SC_CLK_TCK), ret);
}

int proc_read_stat(struct proc *p, pid_t pid, struct proc_stat *ret)
{
    char path[32];
    snprintf(path, sizeof path, "%d/stat", (int)pid);
    return proc_read_stat_at(dirfd(p->dir), path, ret);
}

uint64_t proc_own_memory(struct proc *p, pid_t pid)
{
    char path[32], text[256];
    snprintf(path, sizeof path, "%d/statm", (int)pid);
    if (proc_read_file(dirfd(p->dir), path, text, sizeof text) < 0)
        return 0;
    char *at = text;
    strtoull(at, &at, 10); /* its address space */
    uint64_t resident = strtoull(at, &at, 10);
    uint64_t shared = strtoull(at, &at, 10);
    return shared > resident ? 0 : (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Lines are "address perms offset dev inode path"; device 00:01 is shared memory without a file. */
bool proc_maps_files(struct proc *p, pid_t pid)
{
    char path[32], line[512];
    snprintf(path, sizeof path, "%d/maps", (int)pid);
    int fd = openat(dirfd(p->dir), path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno != ENOENT && errno != ESRCH;
    _cleanup_fclose_ FILE *f = fdopen(fd, "r");
    if (!f) {
        close(fd);
        return true;
    }
    for (bool begins = true; fgets(line, sizeof line, f); begins = strchr(line, '\n') != NULL) {
        char perms[8] = "", dev[16] = "";
        unsigned long long inode = 0;
        if (begins && sscanf(line, "%*s %7s %*s %15s %llu", perms, dev, &inode) == 3 &&
            perms[1] == 'w' && perms[3] == 's' && inode != 0 && strcmp(dev, "00:01") != 0)
            return true;
    }
    return false;
}

bool proc_stat_is_dead(const struct proc_stat *s)
{
    return memchr("ZXx", s->state, 3) && s->threads <= 1;
}

static bool state_is_still(char state)
{
    return memchr("TtZXx", state, 5) != NULL;
}

bool proc_is_stopped(struct proc *p, pid_t pid, const struct proc_stat *s)
{
    if (!state_is_still(s->state) || s->threads <= 1)
        return state_is_still(s->state);
    /* The leader may have stopped while another thread is still on its way out of a system call. */
    char path[32];
    snprintf(path, sizeof path, "%d/task", (int)pid);
    int fd = openat(dirfd(p->dir), path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *tasks = fd < 0 ? NULL : fdopendir(fd);
    if (!tasks)
        return fd < 0;
    bool still = true;
    for (struct dirent *e; still && (e = readdir(tasks));) {
        struct proc_stat thread;
        char stat[64];
        if (!proc_number(e->d_name))
            continue;
        snprintf(stat, sizeof stat, "%.32s/stat", e->d_name);
        still = proc_read_stat_at(dirfd(tasks), stat, &thread) < 0 || state_is_still(thread.state);
    }
    closedir(tasks);
    return still;
}
