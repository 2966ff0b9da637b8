#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "spawn.h"
#include "sys.h"
#include "weaken.h"
#include "banned.h"

struct spawn_report *spawn_reports_map(size_t n)
{
    void *p = mmap(NULL, n * sizeof(struct spawn_report), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

struct spawn_report *spawn_report_take(struct spawn_report *reports, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!reports[i].taken) {
            reports[i] = (struct spawn_report){.taken = true};
            return &reports[i];
        }
    return NULL;
}

/* A script without #! is given to the shell, as execvp does. */
static void exec_script(struct spawn *s, const char *path)
{
    char **argv = s->argv - 1, *name = s->argv[0];
    argv[0] = (char *)"sh";
    argv[1] = (char *)path;
    execve("/bin/sh", argv, s->envp);
    argv[1] = name;
}

/* Returns only on failure, with the errno that a person should see: a denied candidate says more
 * than a missing one. */
static int exec_program(struct spawn *s)
{
    int code = ENOENT;
    const char *path;
    search_path_begin(&s->search, s->argv[0], s->envp);
    while ((path = search_path_next(&s->search))) {
        execve(path, s->argv, s->envp);
        if (errno == ENOEXEC)
            exec_script(s, path);
        if (!search_path_goes_on(errno))
            return errno;
        if (errno == EACCES)
            code = EACCES;
    }
    return code;
}

/* Moves the further descriptors to 3 and on, which may be where others of them are: out of the way
 * first. The list is our own copy. */
static int place_more(const struct spawn *s)
{
    int away[SPAWN_MORE_MAX];
    for (size_t i = 0; i < s->n_more; i++)
        if ((away[i] = fcntl(s->more[i], F_DUPFD, 3 + SPAWN_MORE_MAX)) < 0)
            return errno;
    for (size_t i = 0; i < s->n_more; i++)
        if (dup2(away[i], 3 + (int)i) < 0)
            return errno;
    if (!weakened("fds") && sys_close_range(3 + (unsigned)s->n_more, ~0U, 0) < 0)
        return errno;
    return s->anchor && dup2(0, s->anchor) < 0 ? errno : 0;
}

/* Only the soft limit: programs that know they need more (ulimit -n, JVMs, servers) raise it up to
 * the guest's own. */
static int limit_files(rlim_t files)
{
    struct rlimit limit;
    if (files == 0)
        return 0;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return errno;
    limit.rlim_cur = files < limit.rlim_max ? files : limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit) < 0 ? errno : 0;
}

static int enter(const struct spawn *s)
{
    if (chdir(s->cwd) == 0 || (s->or_cwd && (chdir(s->or_cwd) == 0 || chdir("/") == 0)))
        return 0;
    return errno;
}

/* Everything that the child is before it runs its program. Only system calls: its memory may be the
 * parent's.
 */
static int become(struct spawn *s)
{
    const struct rlimit tag = {.rlim_cur = s->tag, .rlim_max = s->tag};
    sigset_t none;
    sigemptyset(&none);
    s->report->call = "setsid";
    if (setsid() < 0)
        return errno;
    s->report->call = "setrlimit(RLIMIT_RTTIME)";
    if (setrlimit(RLIMIT_RTTIME, &tag) < 0)
        return errno;
    s->report->call = "dup2";
    for (int i = 0; i < 3; i++)
        if (s->fds[i] >= 0 && dup2(s->fds[i], i) < 0)
            return errno;
    s->report->call = "ioctl(TIOCSCTTY)";
    if (s->tty && ioctl(0, TIOCSCTTY, 0) < 0)
        return errno;
    s->report->call = "dup2";
    int code = place_more(s);
    if (code)
        return code;
    s->report->call = "setrlimit(RLIMIT_NOFILE)";
    code = limit_files(s->files);
    if (code)
        return code;
    s->report->step = SPAWN_CWD;
    code = enter(s);
    if (code)
        return code;
    s->report->step = SPAWN_EXEC;
    sigprocmask(SIG_SETMASK, &none, NULL);
    return exec_program(s);
}

pid_t spawn_start(struct spawn *s)
{
    /* Nobody can stop a child that is alone with us, and all that it writes to is the report. */
    pid_t pid = s->alone ? vfork() : fork(); /* NOLINT(clang-analyzer-*) */
    if (pid == 0) {
        s->report->error = become(s);
        _exit(127);
    }
    return pid < 0 ? -errno : pid;
}
