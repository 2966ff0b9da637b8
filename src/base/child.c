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

/* What the child could not do, told through a pipe that a successful exec closes. */
enum stage { STAGE_CWD, STAGE_EXEC, STAGE_OTHER };

struct complaint {
    enum stage stage;
    int code;
};

struct pipes {
    int in[2], out[2], err[2], told[2];
};

static void pipes_close(struct pipes *p)
{
    int *all = (int *)p;
    for (size_t i = 0; i < sizeof *p / sizeof *all; i++)
        cleanup_close(&all[i]);
}

static int pipes_open(struct pipes *p)
{
    *p = (struct pipes){{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
    bool good = pipe2(p->in, O_CLOEXEC) == 0 && pipe2(p->out, O_CLOEXEC) == 0 &&
                pipe2(p->err, O_CLOEXEC) == 0 && pipe2(p->told, O_CLOEXEC) == 0;
    return good ? 0 : -errno;
}

static const char *path_in(char *const *env)
{
    for (; *env; env++)
        if (strncmp(*env, "PATH=", 5) == 0)
            return *env + 5;
    return "/usr/local/bin:/usr/bin:/bin";
}

static bool is_program(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* Absolute folders only: what lies in the folder that one happens to be in is not meant. */
static int find_program(const struct child_options *o, char path[PATH_MAX], struct error *err)
{
    if (strchr(o->command, '/')) {
        snprintf(path, PATH_MAX, "%s", o->command);
        return 0;
    }
    for (const char *at = path_in(o->env); *at;) {
        size_t n = strcspn(at, ":");
        if (*at == '/' && n < PATH_MAX / 2) {
            snprintf(path, PATH_MAX, "%.*s/%s", (int)n, at, o->command);
            if (is_program(path))
                return 0;
        }
        at += n + (at[n] == ':');
    }
    return error_set(err, ENOENT, "there is no program '%.200s' in the PATH", o->command);
}

static _Noreturn void complain(int fd, enum stage stage)
{
    const struct complaint c = {stage, errno};
    (void)!write(fd, &c, sizeof c);
    _exit(127);
}

static void reset_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    for (int i = 1; i < NSIG; i++)
        signal(i, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The system calls themselves: those of the C library would change all threads of the parent's
 * copy. No supplementary group of root's stays. */
static bool become(const struct child_user *u)
{
    return syscall(SYS_setgroups, 0, NULL) == 0 &&
           syscall(SYS_setresgid, u->gid, u->gid, u->gid) == 0 &&
           syscall(SYS_setresuid, u->uid, u->uid, u->uid) == 0;
}

/* Between fork and exec in a process of threads: system calls only. */
static _Noreturn void be_child(const struct child_options *o, const char *path,
                               const struct pipes *p, pid_t parent)
{
    /* The death signal is cleared by a change of user, so it is set behind it. */
    if (setpgid(0, 0) < 0 || (o->user && !become(o->user)) ||
        prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent)
        complain(p->told[1], STAGE_OTHER);
    reset_signals();
    if (dup2(p->in[0], STDIN_FILENO) < 0 || dup2(p->out[1], STDOUT_FILENO) < 0 ||
        dup2(p->err[1], STDERR_FILENO) < 0 || sys_close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) < 0)
        complain(p->told[1], STAGE_OTHER);
    if (chdir(o->cwd) < 0)
        complain(p->told[1], STAGE_CWD);
    execve(path, o->argv, o->env);
    complain(p->told[1], STAGE_EXEC);
}

static int hear_complaint(const struct child_options *o, const char *path, int fd,
                          struct error *err)
{
    struct complaint c;
    ssize_t n;
    do
        n = read(fd, &c, sizeof c);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof c)
        return 0;
    if (c.stage == STAGE_CWD)
        return error_errno(err, c.code, "cannot enter its folder %.300s", o->cwd);
    return error_errno(err, c.code, "cannot start %.300s", path);
}

int child_start(const struct child_options *o, struct child *ret, struct error *err)
{
    char path[PATH_MAX];
    _cleanup_(pipes_close) struct pipes p;
    struct child c = CHILD_NONE;
    int r = pipes_open(&p);
    if (r < 0)
        return error_errno(err, -r, "cannot make a pipe");
    r = find_program(o, path, err);
    if (r < 0)
        return r;
    pid_t parent = getpid();
    c.pid = fork();
    if (c.pid == 0)
        be_child(o, path, &p, parent);
    if (c.pid < 0)
        return error_errno(err, errno, "cannot start a process");
    close(TAKE_FD(p.told[1]));
    r = hear_complaint(o, path, p.told[0], err);
    if (r < 0) {
        waitpid(c.pid, NULL, 0);
        return r;
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

/* Has it ended by then? It stays a zombie, so that its group keeps its number. Its output is thrown
 * away meanwhile: it may be waiting for somebody to take it. */
static bool ended_within(struct child *c, int ms)
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
    if (!ended_within(c, patience_ms)) {
        kill(-c->pid, SIGTERM);
        ended_within(c, patience_ms);
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
