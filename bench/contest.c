#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cleanup.h"
#include "contest.h"
#include "thread.h"
#include "banned.h"

#define WARM_UP_MAX 20
#define SEPARATOR   "::"
#define READ_SIZE   (1u << 20)

/* Runs all of them once, in the same random order in every run of the program: a xorshift with a
 * fixed seed. */
static int contest_round(const struct contestant *list, size_t *order, size_t n,
                         int64_t (*values)[CONTEST_PARTS_MAX])
{
    static uint32_t state = 2463534242u;
    for (size_t i = n; i > 1; i--) {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        size_t j = state % i, kept = order[i - 1];
        order[i - 1] = order[j];
        order[j] = kept;
    }
    for (size_t i = 0; i < n; i++) {
        int r = list[order[i]].run(list[order[i]].data, values[order[i]]);
        if (r < 0) {
            fprintf(stderr, "bench: %s failed\n", list[order[i]].name);
            return r;
        }
    }
    return 0;
}

int contest_print(const struct contestant *list, size_t n, unsigned rounds)
{
    size_t order[CONTEST_MAX];
    int64_t warm_up[CONTEST_MAX][CONTEST_PARTS_MAX];
    if (n == 0 || n > CONTEST_MAX)
        return -EINVAL;
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    _cleanup_free_ int64_t(*values)[CONTEST_PARTS_MAX] = calloc(rounds * n, sizeof *values);
    if (!values)
        return -ENOMEM;
    int r = 0;
    for (unsigned i = 0; r == 0 && i < rounds / 5 + 1 && i < WARM_UP_MAX; i++)
        r = contest_round(list, order, n, warm_up);
    for (unsigned i = 0; r == 0 && i < rounds; i++)
        r = contest_round(list, order, n, values + i * n);
    for (size_t i = 0; r == 0 && i < n; i++)
        for (size_t part = 0; part == 0 || (list[i].parts && list[i].parts[part]); part++) {
            const char *name = list[i].parts ? list[i].parts[part] : NULL;
            printf("%s\"%s%s%s\":[", i || part ? ",\n" : "{", list[i].name, name ? "/" : "",
                   name ? name : "");
            for (unsigned round = 0; round < rounds; round++)
                printf("%s%" PRId64, round ? "," : "", values[round * n + i][part]);
            putchar(']');
        }
    if (r == 0)
        printf("}\n");
    return r;
}

extern char **environ;

static int command_start(const struct command *c, int out)
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

static int command_wait(int pid)
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

static int command_run(void *data, int64_t *ret_ns)
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

static int command_run_piped(void *data, int64_t *ret_ns_and_bytes)
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

void command_parse(char **argv, struct command *commands, struct contestant *list, size_t *n)
{
    for (; *argv; ++*n) {
        if (strcmp(*argv, SEPARATOR) != 0 || !argv[1] || *n == CONTEST_MAX)
            errx(2, "expected " SEPARATOR " NAME [FD<PATH] PROGRAM ARG…, at most %d times",
                 CONTEST_MAX);
        *argv++ = NULL; /* ends the argv of the command before */
        struct command *c = &commands[*n];
        *c = (struct command){.open_fd = -1};
        list[*n] = (struct contestant){.name = *argv++, .run = command_run, .data = c};
        char *less = *argv ? strchr(*argv, '<') : NULL;
        if (less && **argv >= '3' && **argv <= '9') {
            c->open_fd = atoi(*argv++);
            c->open_path = less + 1;
        }
        c->argv = argv;
        while (*argv && strcmp(*argv, SEPARATOR) != 0)
            argv++;
        if (argv == c->argv)
            errx(2, "%s: there is no program to run", list[*n].name);
    }
}

void command_set_piped(struct contestant *c)
{
    static const char *const PARTS[] = {"ns", "bytes", NULL};
    c->parts = PARTS;
    c->run = command_run_piped;
}
