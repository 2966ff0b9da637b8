#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "child.h"
#include "io.h"
#include "sys.h"
#include "thread.h"
#include "banned.h"

/* Sent through a pipe by a child that cannot start its program; a successful exec closes the
 * pipe. */
struct start_failure {
    bool in_chdir;
    int code;
};

struct pipes {
    int in[2], out[2], err[2], failure[2];
};

static void pipes_close(struct pipes *p)
{
    int *all = (int *)p;
    for (size_t i = 0; i < sizeof *p / sizeof *all; i++)
        cleanup_close(&all[i]);
}

/* Searches only absolute folders of the PATH, never the current folder. */
static int child_find_program(const struct child_options *o, char path[PATH_MAX], struct error *err)
{
    const char *at = "/usr/local/bin:/usr/bin:/bin";
    if (strchr(o->command, '/')) {
        snprintf(path, PATH_MAX, "%s", o->command);
        return 0;
    }
    for (char *const *env = o->env; *env; env++)
        if (strncmp(*env, "PATH=", 5) == 0) {
            at = *env + 5;
            break;
        }
    while (*at) {
        struct stat st;
        size_t n = strcspn(at, ":");
        if (*at == '/' && n < PATH_MAX / 2) {
            snprintf(path, PATH_MAX, "%.*s/%s", (int)n, at, o->command);
            if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0)
                return 0;
        }
        at += n + (at[n] == ':');
    }
    return error_set(err, ENOENT, "there is no program '%.200s' in the PATH", o->command);
}

/* Between fork and exec in a process with threads: system calls only. The C library's functions
 * that change the user would do so in all threads of the parent's copy. */
static _Noreturn void child_exec(const struct child_options *o, const char *path,
                                 const struct pipes *p, pid_t parent)
{
    const struct child_user *u = o->user;
    struct start_failure f = {0};
    sigset_t none;
    if (setpgid(0, 0) < 0 || (u && (syscall(SYS_setgroups, 0, NULL) < 0 ||
                                    syscall(SYS_setresgid, u->gid, u->gid, u->gid) < 0 ||
                                    syscall(SYS_setresuid, u->uid, u->uid, u->uid) < 0)))
        goto fail;
    /* Behind the change of user, which clears the death signal. */
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent)
        goto fail;
    sigemptyset(&none);
    for (int i = 1; i < NSIG; i++)
        signal(i, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (dup2(p->in[0], STDIN_FILENO) < 0 || dup2(p->out[1], STDOUT_FILENO) < 0 ||
        dup2(p->err[1], STDERR_FILENO) < 0 || sys_close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) < 0)
        goto fail;
    f.in_chdir = chdir(o->cwd) < 0;
    if (!f.in_chdir)
        execve(path, o->argv, o->env);
fail:
    f.code = errno;
    (void)!write(p->failure[1], &f, sizeof f);
    _exit(127);
}

int child_start(const struct child_options *o, struct child *ret, struct error *err)
{
    char path[PATH_MAX];
    _cleanup_(pipes_close) struct pipes p = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
    struct child c = CHILD_NONE;
    if (pipe2(p.in, O_CLOEXEC) < 0 || pipe2(p.out, O_CLOEXEC) < 0 || pipe2(p.err, O_CLOEXEC) < 0 ||
        pipe2(p.failure, O_CLOEXEC) < 0)
        return error_errno(err, errno, "cannot make a pipe");
    int r = child_find_program(o, path, err);
    if (r < 0)
        return r;
    pid_t parent = getpid();
    c.pid = fork();
    if (c.pid == 0)
        child_exec(o, path, &p, parent);
    if (c.pid < 0)
        return error_errno(err, errno, "cannot start a process");
    close(TAKE_FD(p.failure[1]));
    struct start_failure f;
    ssize_t n;
    do
        n = read(p.failure[0], &f, sizeof f);
    while (n < 0 && errno == EINTR);
    if (n == (ssize_t)sizeof f) {
        waitpid(c.pid, NULL, 0);
        return f.in_chdir ? error_errno(err, f.code, "cannot enter its folder %.300s", o->cwd)
                          : error_errno(err, f.code, "cannot start %.300s", path);
    }
    c.pidfd = sys_pidfd_open(c.pid, 0);
    c.in = TAKE_FD(p.in[1]);
    c.out = TAKE_FD(p.out[0]);
    c.err = TAKE_FD(p.err[0]);
    io_set_nonblock(c.in, true);
    io_set_nonblock(c.out, true);
    io_set_nonblock(c.err, true);
    *ret = c;
    return 0;
}

/* Waits for the end of the process, which stays a zombie, so that its group keeps its number.
 * Discards its output meanwhile: the process may block in writing it. */
static bool child_ends_within(struct child *c, int ms)
{
    char waste[4096];
    int64_t deadline = clock_now() + ms * NS_PER_MS;
    for (;;) {
        struct pollfd fds[] = {{.fd = c->pidfd, .events = POLLIN},
                               {.fd = c->out, .events = POLLIN},
                               {.fd = c->err, .events = POLLIN}};
        int left = clock_poll_ms(deadline);
        if (poll(fds, ARRAY_SIZE(fds), left) < 0 && errno != EINTR)
            return false;
        if (fds[0].revents)
            return true;
        if (fds[1].revents && read(c->out, waste, sizeof waste) <= 0)
            close(TAKE_FD(c->out));
        if (fds[2].revents && read(c->err, waste, sizeof waste) <= 0)
            close(TAKE_FD(c->err));
        if (left == 0)
            return false;
    }
}

int child_end(struct child *c, int patience_ms)
{
    int status = 0;
    if (c->pid <= 0)
        return 0;
    cleanup_close(&c->in);
    if (!child_ends_within(c, patience_ms)) {
        kill(-c->pid, SIGTERM);
        child_ends_within(c, patience_ms);
    }
    kill(-c->pid, SIGKILL);
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
        ;
    cleanup_close(&c->pidfd);
    cleanup_close(&c->out);
    cleanup_close(&c->err);
    *c = CHILD_NONE;
    return status;
}
