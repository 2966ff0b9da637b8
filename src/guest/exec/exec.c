/*
 * The requests that start a command: EXEC, and ADOPT for a process that the guest did not start.
 *
 * The child of a warm process is born outside of the box and enters it (src/box/warm.h). Its
 * parents end on the way, so it becomes a child of process 1. The request comes first, so that the
 * guest knows the command before its process:
 *
 *     ADOPT ──▶ WAITING ── the process sends its pid and gets its tag ──▶ ARRIVED ── … ──▶ RESULT
 *
 * From then on it is a command like any other: its limits hold, a freeze stops it, its tree dies
 * with it.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "command.h"
#include "error.h"
#include "thread.h"
#include "wire_adopt.h"
#include "banned.h"

#define DEFAULT_CWD "/workspace"
#define MS_MAX      (INT64_MAX / 2000000)

void words_free(struct words *s)
{
    if (s->list)
        free(s->list - 1);
    *s = (struct words){0};
}

int words_collect(const struct wire_frame *f, uint16_t key, struct words *ret)
{
    struct wire_field field;
    size_t count = 0, bytes = 0;
    for (size_t at = 0; wire_next(f, &at, &field);)
        if (field.key == key) {
            if (memchr(field.data, 0, field.size))
                return -EINVAL;
            count++;
            bytes += field.size + 1;
        }
    /* One block: the free slot, the list, its end, then the bytes. The frame's size bounds it. */
    char **list = malloc((count + 2) * sizeof *list + bytes);
    if (!list)
        return -ENOMEM;
    char *text = (char *)(list + count + 2);
    *list++ = NULL;
    size_t i = 0;
    for (size_t at = 0; wire_next(f, &at, &field);)
        if (field.key == key) {
            list[i++] = text;
            text = mempcpy(text, field.data, field.size);
            *text++ = 0;
        }
    list[i] = NULL;
    *ret = (struct words){.list = list, .count = count};
    return 0;
}

void exec_parse_limits(struct command_limits *l, const struct wire_frame *f)
{
    uint64_t timeout_ms = wire_find_u64(f, WIRE_K_TIMEOUT_MS, 0);
    uint64_t cpu_ms = wire_find_u64(f, WIRE_K_CPU_MS, 0);
    *l = (struct command_limits){.timeout_ms = timeout_ms < MS_MAX ? timeout_ms : MS_MAX,
                                 .cpu_us = (cpu_ms < MS_MAX ? cpu_ms : MS_MAX) * 1000,
                                 .memory = wire_find_u64(f, WIRE_K_MEMORY, 0),
                                 .pids = wire_find_u64(f, WIRE_K_PIDS, 0),
                                 .files = wire_find_u64(f, WIRE_K_FILES, 0),
                                 .log = wire_find_u64(f, WIRE_K_LIMIT_BYTES, OUTPUT_LOG_DEFAULT),
                                 .output_total = wire_find_u64(f, WIRE_K_OUTPUT_TOTAL, 0),
                                 .sockets = wire_find_u64(f, WIRE_K_SOCKETS, 0)};
    /* The caller of hutch may have a lower limit than boxes have; it cannot be raised. */
    struct rlimit own;
    if (getrlimit(RLIMIT_NOFILE, &own) == 0 && l->files > own.rlim_max)
        l->files = own.rlim_max;
}

/* Fills in the descriptors of s as the request says. */
static int exec_open_stdio(struct command *c, struct conn *conn, const struct wire_frame *f,
                           struct spawn *s, struct error *err)
{
    enum wire_stdio stdio = (enum wire_stdio)wire_find_u64(f, WIRE_K_STDIO, WIRE_STDIO_FDS);
    int r = 0;
    if (stdio == WIRE_STDIO_FDS) {
        if (conn->in.n_fds != ARRAY_SIZE(s->fds))
            return error_set(err, EINVAL, "three descriptors must come with the request, %zu did",
                             conn->in.n_fds);
        c->last = wire_find_u64(f, WIRE_K_LAST, 0) != 0;
        memcpy(s->fds, conn->in.fds, sizeof s->fds);
        conn->in.n_fds = 0;
        return 0;
    }
    if (c->background && stdio != WIRE_STDIO_NULL)
        return error_set(err, EINVAL,
                         "the output of a background command cannot be sent in frames");
    if (c->background)
        return background_open_output(c, &s->fds[1], &s->fds[2], err);
    s->tty = stdio == WIRE_STDIO_PTY;
    if (stdio == WIRE_STDIO_FRAMES)
        r = relay_open_pipes(&c->relay, RELAY_STDIN | RELAY_STDOUT | RELAY_STDERR, s->fds);
    else if (s->tty)
        r = relay_open_pty(&c->relay, wire_find_u64(f, WIRE_K_ROWS, 0),
                           wire_find_u64(f, WIRE_K_COLS, 0), s->fds);
    else if (stdio != WIRE_STDIO_NULL)
        r = -EINVAL;
    return r < 0 ? error_errno(err, -r, "cannot connect the command's input and output") : 0;
}

static int exec_start(struct command *c, struct conn *conn, const struct wire_frame *f,
                      struct error *err)
{
    _cleanup_words_ struct words argv = {0}, env = {0};
    _cleanup_(spawn_close) struct spawn s = {.fds = {-1, -1, -1}};
    struct wire_field field;
    c->background = wire_find_u64(f, WIRE_K_BACKGROUND, 0) != 0;
    exec_parse_limits(&c->limits, f);
    int r = words_collect(f, WIRE_K_ARG, &argv);
    if (r >= 0)
        r = words_collect(f, WIRE_K_ENV, &env);
    if (r < 0)
        return error_errno(err, -r, "cannot read the command's words");
    if (!argv.list[0])
        return error_set(err, EINVAL, "there is no command to run");
    c->cwd = wire_find(f, WIRE_K_CWD, &field) ? wire_find_str(f, WIRE_K_CWD) : strdup(DEFAULT_CWD);
    c->name = strdup(argv.list[0]);
    if (!c->cwd || !c->name)
        return error_set(err, EINVAL, "the working directory is not a path");

    r = exec_open_stdio(c, conn, f, &s, err);
    if (r < 0)
        return r;
    s.argv = argv.list;
    s.envp = env.list;
    s.cwd = c->cwd;
    r = command_spawn(c, &s);
    if (r == -EAGAIN)
        return error_set(
            err, EAGAIN,
            "cannot start the command: the box has as many processes as it may have (--pids)");
    if (r < 0)
        return error_errno(err, -r, "cannot start the command: fork");
    command_arm(c);
    return 0;
}

int exec_request(struct conn *conn, const struct wire_frame *f)
{
    struct error err = {0};
    struct command *c = command_new(conn->guest);
    if (!c) {
        conn_error(conn, EAGAIN, "too many commands are running");
    } else if (exec_start(c, conn, f, &err) < 0) {
        command_free(c);
        conn_error(conn, err.code, "%s", err.text);
    } else if (c->background) {
        background_answer(c, conn);
    } else {
        command_serve(c, conn);
    }
    return 0;
}

static void adopt_send(struct command *c, enum wire_type type)
{
    wire_end(&c->conn->out, wire_begin(&c->conn->out, type));
    conn_push(c->conn);
}

/* The process has entered the box, or says why it cannot. */
static void adopt_arrival_ready(struct loop_source *s, short events)
{
    struct command *c = CONTAINER_OF(s, struct command, arrival);
    struct adopt_hello hello = {0};
    ssize_t n = recv(s->fd, &hello, sizeof hello, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    hello.step[sizeof hello.step - 1] = 0;

    /* Alive or dead already, a child of ours can be waited for. */
    siginfo_t info;
    int code = 0;
    const char *step = hello.step;
    if (n != sizeof hello) {
        code = ENOLINK;
        step = "reach the process";
    } else if (hello.pid == 0) {
        code = hello.code;
    } else if (hello.pid == 1 ||
               waitid(P_PID, (id_t)hello.pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0) {
        code = ESRCH;
        step = "find the process";
    }
    if (code || hello.pid == 0) {
        conn_error(TAKE_PTR(c->conn), code, "the box cannot be entered: cannot %s: %s", step,
                   strerror(code));
        command_free(c);
        return;
    }

    c->pid = hello.pid;
    c->started = clock_now();
    c->guest->has_children = true;
    /* If this fails, the process is gone, and SIGCHLD is about to come. */
    const struct adopt_go go = {.tag = c->tag, .files = c->limits.files};
    send(s->fd, &go, sizeof go, MSG_NOSIGNAL | MSG_DONTWAIT);
    loop_close(&c->guest->loop, s);
    command_arm(c);
    adopt_send(c, WIRE_ARRIVED);
}

int adopt_request(struct conn *conn, const struct wire_frame *f)
{
    struct command *c = command_new(conn->guest);
    if (!c) {
        conn_error(conn, EAGAIN, "too many commands are running");
        return 0;
    }
    exec_parse_limits(&c->limits, f);
    c->status = SIGKILL; /* if it never comes */
    int r = conn->in.n_fds == 1 ? 0 : -EINVAL;
    if (r == 0) {
        conn->in.n_fds = 0;
        c->arrival = (struct loop_source){.fd = conn->in.fds[0], .ready = adopt_arrival_ready};
        r = loop_watch(&c->guest->loop, &c->arrival, POLLIN);
    }
    if (r < 0) {
        command_free(c);
        conn_error(conn, -r, "cannot wait for the process");
        return 0;
    }
    command_serve(c, conn);
    adopt_send(c, WIRE_WAITING);
    return 0;
}
