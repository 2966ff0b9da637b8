#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cleanup.h"
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

void spawn_close(struct spawn *s)
{
    for (size_t i = 0; i < ARRAY_SIZE(s->fds); i++)
        cleanup_close(&s->fds[i]);
}

void search_path_begin(struct search_path *s, const char *name, char *const *envp)
{
    s->name = name;
    s->rest = SEARCH_PATH_DEFAULT;
    for (; *envp; envp++)
        if (strncmp(*envp, "PATH=", 5) == 0) {
            s->rest = *envp + 5;
            break;
        }
}

const char *search_path_next(struct search_path *s)
{
    size_t name_len = strlen(s->name);
    if (strchr(s->name, '/')) {
        const char *only = s->rest ? s->name : NULL;
        s->rest = NULL;
        return only;
    }
    while (s->rest && name_len > 0) {
        const char *folder = s->rest;
        size_t len = strcspn(folder, ":");
        s->rest = folder[len] ? folder + len + 1 : NULL;
        if (len + 1 + name_len + 1 > sizeof s->candidate)
            continue;
        char *at = mempcpy(s->candidate, folder, len);
        /* An empty folder is the current one. */
        if (len > 0)
            *at++ = '/';
        memcpy(at, s->name, name_len + 1);
        return s->candidate;
    }
    return NULL;
}

bool search_path_goes_on(int code)
{
    return code == ENOENT || code == ENOTDIR || code == EACCES || code == ENAMETOOLONG ||
           code == ELOOP;
}

/* Returns only on failure, with the errno that a person should see: a denied candidate says more
 * than a missing one. */
static int spawn_exec(struct spawn *s)
{
    int code = ENOENT;
    const char *path;
    search_path_begin(&s->search, s->argv[0], s->envp);
    while ((path = search_path_next(&s->search))) {
        execve(path, s->argv, s->envp);
        if (errno == ENOEXEC) { /* a script without #! is given to the shell, as execvp does */
            char **argv = s->argv - 1, *name = s->argv[0];
            argv[0] = (char *)"sh";
            argv[1] = (char *)path;
            execve("/bin/sh", argv, s->envp);
            argv[1] = name;
        }
        if (!search_path_goes_on(errno))
            return errno;
        if (errno == EACCES)
            code = EACCES;
    }
    return code;
}

/* In the child: all that comes before its program. Only system calls: its memory may be the
 * parent's. Returns the errno of what failed. */
static int spawn_child(struct spawn *s)
{
    struct spawn_report *report = s->report;
    report->call = "setsid";
    if (setsid() < 0)
        return errno;
    report->call = "setrlimit(RLIMIT_RTTIME)";
    const struct rlimit tag = {.rlim_cur = s->tag, .rlim_max = s->tag};
    if (setrlimit(RLIMIT_RTTIME, &tag) < 0)
        return errno;

    report->call = "dup2";
    for (int i = 0; i < 3; i++)
        if (s->fds[i] >= 0 && dup2(s->fds[i], i) < 0)
            return errno;
    report->call = "ioctl(TIOCSCTTY)";
    if (s->tty && ioctl(0, TIOCSCTTY, 0) < 0)
        return errno;
    /* The further descriptors move to 3 and on, where others of them may be: aside first. */
    report->call = "dup2";
    int away[SPAWN_MORE_MAX];
    for (size_t i = 0; i < s->n_more; i++)
        if ((away[i] = fcntl(s->more[i], F_DUPFD, 3 + SPAWN_MORE_MAX)) < 0)
            return errno;
    for (size_t i = 0; i < s->n_more; i++)
        if (dup2(away[i], 3 + (int)i) < 0)
            return errno;
    if (!weakened("fds") && sys_close_range(3 + (unsigned)s->n_more, ~0U, 0) < 0)
        return errno;
    if (s->anchor && dup2(0, s->anchor) < 0)
        return errno;

    /* Only the soft limit: programs that need more (ulimit -n, JVMs, servers) raise it up to the
     * guest's own. */
    report->call = "setrlimit(RLIMIT_NOFILE)";
    struct rlimit files = {0};
    if (s->files && getrlimit(RLIMIT_NOFILE, &files) < 0)
        return errno;
    files.rlim_cur = s->files < files.rlim_max ? s->files : files.rlim_max;
    if (s->files && setrlimit(RLIMIT_NOFILE, &files) < 0)
        return errno;

    report->step = SPAWN_CWD;
    if (chdir(s->cwd) < 0 && !(s->or_cwd && (chdir(s->or_cwd) == 0 || chdir("/") == 0)))
        return errno;
    report->step = SPAWN_EXEC;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    return spawn_exec(s);
}

pid_t spawn_start(struct spawn *s)
{
    /* No process can stop a child that is alone with us, and it writes only to the report. */
    pid_t pid = s->alone ? vfork() : fork(); /* NOLINT(clang-analyzer-*) */
    if (pid == 0) {
        s->report->error = spawn_child(s);
        _exit(127);
    }
    return pid < 0 ? -errno : pid;
}
