#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "clock.h"
#include "command.h"
#include "error.h"
#include "exec.h"
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
    /* The free slot, the list, its end, then the bytes: one block, of a size that the frame's
     * bounds. */
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

/* What a request asks for, with the memory and the descriptors that it needs until the process is
 * started. */
struct exec {
    struct words argv, env;
    int fds[3];
    enum wire_stdio stdio;
};

static void exec_free(struct exec *x)
{
    words_free(&x->argv);
    words_free(&x->env);
    for (size_t i = 0; i < ARRAY_SIZE(x->fds); i++)
        cleanup_close(&x->fds[i]);
}

static int exec_parse_words(struct exec *x, struct command *c, const struct wire_frame *f,
                            struct error *err)
{
    struct wire_field field;
    int r = words_collect(f, WIRE_K_ARG, &x->argv);
    if (r >= 0)
        r = words_collect(f, WIRE_K_ENV, &x->env);
    if (r < 0)
        return error_errno(err, -r, "cannot read the command's words");
    if (x->argv.count == 0)
        return error_set(err, EINVAL, "there is no command to run");
    c->cwd = wire_find(f, WIRE_K_CWD, &field) ? wire_find_str(f, WIRE_K_CWD) : strdup(DEFAULT_CWD);
    c->name = strdup(x->argv.list[0]);
    return c->cwd && c->name ? 0 : error_set(err, EINVAL, "the working directory is not a path");
}

static uint64_t exec_find_ms(const struct wire_frame *f, uint16_t key)
{
    uint64_t ms = wire_find_u64(f, key, 0);
    return ms < MS_MAX ? ms : MS_MAX;
}

void exec_parse_limits(struct command_limits *l, const struct wire_frame *f)
{
    *l = (struct command_limits){.timeout_ms = exec_find_ms(f, WIRE_K_TIMEOUT_MS),
                                 .cpu_us = exec_find_ms(f, WIRE_K_CPU_MS) * 1000,
                                 .memory = wire_find_u64(f, WIRE_K_MEMORY, 0),
                                 .pids = wire_find_u64(f, WIRE_K_PIDS, 0),
                                 .files = wire_find_u64(f, WIRE_K_FILES, 0),
                                 .log = wire_find_u64(f, WIRE_K_LIMIT_BYTES, OUTPUT_LOG_DEFAULT),
                                 .output_total = wire_find_u64(f, WIRE_K_OUTPUT_TOTAL, 0),
                                 .sockets = wire_find_u64(f, WIRE_K_SOCKETS, 0)};
    /* Who started hutch may have a lower limit than boxes have; it cannot be raised. */
    struct rlimit own;
    if (getrlimit(RLIMIT_NOFILE, &own) == 0 && l->files > own.rlim_max)
        l->files = own.rlim_max;
}

static int exec_open_stdio(struct exec *x, struct command *c, struct conn *conn,
                           const struct wire_frame *f, struct error *err)
{
    int r = 0;
    x->stdio = (enum wire_stdio)wire_find_u64(f, WIRE_K_STDIO, WIRE_STDIO_FDS);
    c->last = x->stdio == WIRE_STDIO_FDS && wire_find_u64(f, WIRE_K_LAST, 0);
    if (x->stdio == WIRE_STDIO_FDS) {
        if (conn->in.n_fds != ARRAY_SIZE(x->fds))
            return error_set(err, EINVAL, "three descriptors must come with the request, %zu did",
                             conn->in.n_fds);
        memcpy(x->fds, conn->in.fds, sizeof x->fds);
        conn->in.n_fds = 0;
        return 0;
    }
    if (c->background && x->stdio != WIRE_STDIO_NULL)
        return error_set(err, EINVAL,
                         "the output of a background command cannot be sent in frames");
    if (c->background)
        return background_open_output(c, &x->fds[1], &x->fds[2], err);
    if (x->stdio == WIRE_STDIO_FRAMES)
        r = relay_open_pipes(&c->relay, x->fds);
    else if (x->stdio == WIRE_STDIO_PTY)
        r = relay_open_pty(&c->relay, wire_find_u64(f, WIRE_K_ROWS, 0),
                           wire_find_u64(f, WIRE_K_COLS, 0), x->fds);
    else if (x->stdio != WIRE_STDIO_NULL)
        r = -EINVAL;
    return r < 0 ? error_errno(err, -r, "cannot connect the command's input and output") : 0;
}

static int exec_start(struct exec *x, struct command *c, struct error *err)
{
    struct spawn s = {.argv = x->argv.list,
                      .envp = x->env.list,
                      .cwd = c->cwd,
                      .fds = {x->fds[0], x->fds[1], x->fds[2]},
                      .tty = x->stdio == WIRE_STDIO_PTY};
    int r = command_spawn(c, &s);
    if (r == -EAGAIN)
        return error_set(
            err, EAGAIN,
            "cannot start the command: the box has as many processes as it may have (--pids)");
    if (r < 0)
        return error_errno(err, -r, "cannot start the command: fork");
    command_arm(c);
    return 0;
}

static int exec_prepare_and_start(struct command *c, struct conn *conn, const struct wire_frame *f,
                                  struct error *err)
{
    _cleanup_(exec_free) struct exec x = {.fds = {-1, -1, -1}};
    c->background = wire_find_u64(f, WIRE_K_BACKGROUND, 0) != 0;
    exec_parse_limits(&c->limits, f);
    int r = exec_parse_words(&x, c, f, err);
    if (r >= 0)
        r = exec_open_stdio(&x, c, conn, f, err);
    return r < 0 ? r : exec_start(&x, c, err);
}

int exec_request(struct conn *conn, const struct wire_frame *f)
{
    struct error err = {0};
    struct command *c = command_new(conn->guest);
    if (!c) {
        conn_error(conn, EAGAIN, "too many commands are running");
        return 0;
    }
    if (exec_prepare_and_start(c, conn, f, &err) < 0) {
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

/* Alive or dead already, a child of ours can be waited for. */
static bool adopt_is_child(pid_t pid)
{
    siginfo_t info;
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

static void adopt_refuse(struct command *c, int code, const char *why)
{
    conn_error(TAKE_PTR(c->conn), code, "the box cannot be entered: cannot %s: %s", why,
               strerror(code));
    command_free(c);
}

static void adopt_take_in(struct command *c, pid_t pid)
{
    const struct adopt_go go = {.tag = c->tag, .files = c->limits.files};
    c->pid = pid;
    c->started = clock_now();
    c->guest->has_children = true;
    /* If this fails, the process is gone, and SIGCHLD is about to come. */
    send(c->arrival.fd, &go, sizeof go, MSG_NOSIGNAL | MSG_DONTWAIT);
    loop_close(&c->guest->loop, &c->arrival);
    command_arm(c);
    adopt_send(c, WIRE_ARRIVED);
}

static void adopt_arrival_ready(struct loop_source *s, short events)
{
    struct command *c = CONTAINER_OF(s, struct command, arrival);
    struct adopt_hello hello = {0};
    ssize_t n = recv(s->fd, &hello, sizeof hello, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    hello.step[sizeof hello.step - 1] = 0;
    if (n != sizeof hello)
        adopt_refuse(c, ENOLINK, "reach the process");
    else if (hello.pid == 0)
        adopt_refuse(c, hello.code, hello.step);
    else if (hello.pid == 1 || !adopt_is_child(hello.pid))
        adopt_refuse(c, ESRCH, "find the process");
    else
        adopt_take_in(c, hello.pid);
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
