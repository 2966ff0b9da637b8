#include <errno.h>
#include <err.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "thread.h"
#include "cleanup.h"
#include "command.h"
#include "banned.h"

#define SEPARATOR "::"
#define READ_SIZE (1u << 20)

extern char **environ;

/* One command that begins at argv; returns where the next separator or the end is. */
static char **parse_one(char **argv, struct command *c, struct contestant *ret)
{
    *c = (struct command){.open_fd = -1};
    *ret = (struct contestant){.name = *argv++, .run = command_run, .data = c};
    char *less = *argv ? strchr(*argv, '<') : NULL;
    if (less && **argv >= '3' && **argv <= '9') {
        c->open_fd = atoi(*argv++);
        c->open_path = less + 1;
    }
    c->argv = argv;
    while (*argv && strcmp(*argv, SEPARATOR) != 0)
        argv++;
    if (argv == c->argv)
        errx(2, "%s: there is no program to run", ret->name);
    return argv;
}

void command_parse(char **argv, struct command *commands, struct contestant *list, size_t *n)
{
    while (*argv) {
        if (strcmp(*argv, SEPARATOR) != 0 || !argv[1] || *n == CONTEST_MAX)
            errx(2, "expected " SEPARATOR " NAME [FD<PATH] PROGRAM ARG…, at most %d times",
                 CONTEST_MAX);
        *argv = NULL; /* ends the argv of the command before */
        argv = parse_one(argv + 1, &commands[*n], &list[*n]);
        (*n)++;
    }
}

int command_start(const struct command *c, int out)
{
    posix_spawn_file_actions_t actions;
    pid_t pid;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return -ENOMEM;
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (out < 0)
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    else
        posix_spawn_file_actions_adddup2(&actions, out, 1);
    if (c->open_path)
        posix_spawn_file_actions_addopen(&actions, c->open_fd, c->open_path, O_RDONLY, 0);
    int r = posix_spawnp(&pid, c->argv[0], &actions, NULL, c->argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return r ? -r : pid;
}

int command_wait(int pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    if (status == 0)
        return 0;
    warnx("a command ended with wait status %#x", (unsigned)status);
    return -EIO;
}

int command_run(void *data, int64_t *ret_ns)
{
    int64_t begin = clock_now();
    int pid = command_start(data, -1);
    int r = pid < 0 ? pid : command_wait(pid);
    *ret_ns = clock_now() - begin;
    return r;
}

static int64_t count_bytes(int fd)
{
    int64_t total = 0;
    _cleanup_free_ char *buffer = malloc(READ_SIZE);
    for (ssize_t n; buffer && (n = read(fd, buffer, READ_SIZE)) != 0;) {
        if (n < 0 && errno != EINTR)
            return -errno;
        total += n > 0 ? n : 0;
    }
    return buffer ? total : -ENOMEM;
}

int command_run_piped(void *data, int64_t *ret_ns_and_bytes)
{
    int ends[2];
    int64_t begin = clock_now();
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    _cleanup_fd_ int from = ends[0];
    int pid = command_start(data, ends[1]);
    close(ends[1]);
    if (pid < 0)
        return pid;
    ret_ns_and_bytes[1] = count_bytes(from);
    int r = command_wait(pid);
    ret_ns_and_bytes[0] = clock_now() - begin;
    return ret_ns_and_bytes[1] < 0 ? (int)ret_ns_and_bytes[1] : r;
}
