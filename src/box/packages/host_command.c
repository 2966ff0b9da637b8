/* Programs of the person, run on the host to learn what is configured. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "packages.h"
#include "banned.h"

#define COMMAND_NS (20 * NS_PER_S)

extern char **environ;

/* Absolute, and not in the workspace, whose files are anybody's. */
static bool folder_is_trusted(const char *folder, const char *workspace)
{
    _cleanup_free_ char *real = folder[0] == '/' ? realpath(folder, NULL) : NULL;
    size_t n = workspace ? strlen(workspace) : 0;
    if (!real)
        return false;
    return !n || strncmp(real, workspace, n) != 0 || (real[n] && real[n] != '/');
}

/* "PATH=" and the folders of PATH that are trusted. */
static char *trusted_path(const char *workspace)
{
    const char *given = getenv("PATH");
    _cleanup_free_ char *copy = strdup(given ? given : "/usr/local/bin:/usr/bin:/bin");
    char *path = copy ? malloc(strlen(copy) + sizeof "PATH=") : NULL;
    if (!path)
        return NULL;
    char *end = stpcpy(path, "PATH=");
    for (char *rest = copy, *folder; (folder = strsep(&rest, ":"));)
        if (folder_is_trusted(folder, workspace)) {
            if (end[-1] != '=')
                *end++ = ':';
            end = stpcpy(end, folder);
        }
    return path;
}

/* The first program of that name in "PATH=…". */
static char *find_program(const char *name, const char *path)
{
    _cleanup_free_ char *copy = strdup(path + strlen("PATH="));
    for (char *rest = copy, *folder; rest && (folder = strsep(&rest, ":"));) {
        char *program = NULL;
        struct stat st;
        if (asprintf(&program, "%s/%s", folder, name) < 0)
            return NULL;
        if (stat(program, &st) == 0 && S_ISREG(st.st_mode) && access(program, X_OK) == 0)
            return program;
        free(program);
    }
    return NULL;
}

/* The environment with another PATH and more variables; all strings are borrowed. */
static char **command_env(const char *path, const char *const *more)
{
    size_t n = 0, have = 0, extra = 0;
    while (environ[have])
        have++;
    while (more && more[extra])
        extra++;
    char **env = calloc(have + extra + 3, sizeof *env);
    if (!env)
        return NULL;
    env[n++] = (char *)path;
    env[n++] = (char *)"PWD=/";
    for (size_t i = 0; i < extra; i++)
        env[n++] = (char *)more[i];
    for (size_t i = 0; i < have; i++)
        if (strncmp(environ[i], "PATH=", 5) != 0 && strncmp(environ[i], "PWD=", 4) != 0)
            env[n++] = environ[i];
    return env;
}

/* Between fork and exec only system calls: the caller may have threads. */
static void become_program(const struct host_command *c, const char *program, char **env, int out)
{
    const struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t none;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    setpgid(0, 0);
    for (int number = 1; number < NSIG; number++)
        sigaction(number, &plain, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (null >= 0 && chdir("/") == 0 && dup2(null, 0) == 0 &&
        dup2(c->errors ? null : out, 1) == 1 && dup2(c->errors ? out : null, 2) == 2)
        execve(program, (char *const *)c->argv, env);
    _exit(127);
}

static int start(const struct host_command *c, const char *program, char **env, int out, pid_t *ret)
{
    pid_t pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0)
        become_program(c, program, env, out);
    setpgid(pid, pid);
    *ret = pid;
    return 0;
}

/* All that it prints, until the end or the deadline. */
static int read_output(int fd, struct buf *out)
{
    int64_t deadline = clock_now() + COMMAND_NS;
    for (;;) {
        char data[4096];
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (clock_now() >= deadline)
            return -ETIMEDOUT;
        if (poll(&p, 1, clock_poll_ms(deadline)) <= 0)
            continue;
        ssize_t n = read(fd, data, sizeof data);
        if (n == 0)
            return 0;
        if (n > 0 && buf_append(out, data, (size_t)n) < 0)
            return -E2BIG;
        if (n < 0 && errno != EINTR)
            return -errno;
    }
}

int host_command_run(const struct host_command *c, struct buf *out, struct error *err)
{
    int ends[2], status = 0;
    pid_t pid = -1;
    _cleanup_free_ char *path = trusted_path(c->workspace);
    _cleanup_free_ char *program = path ? find_program(c->argv[0], path) : NULL;
    if (!program)
        return error_set(err, ENOENT, "there is no program '%s' in PATH", c->argv[0]);
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_errno(err, errno, "cannot make a pipe");
    _cleanup_fd_ int from = ends[0];
    _cleanup_fd_ int to = ends[1];
    char **env = command_env(path, c->env);
    int r = env ? start(c, program, env, to, &pid) : -ENOMEM;
    free(env);
    close(TAKE_FD(to));
    if (r < 0)
        return error_errno(err, -r, "cannot run %s", program);
    r = read_output(from, out);
    kill(-pid, SIGKILL); /* all that it started; one that ended by itself has its status already */
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (r < 0)
        return error_errno(err, -r, "cannot read what %s prints", program);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}
