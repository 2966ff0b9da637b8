#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "background.h"
#include "command.h"
#include "conn.h"
#include "error.h"
#include "exec.h"
#include "guest.h"
#include "words.h"
#include "banned.h"

#define DEFAULT_CWD "/workspace"
#define MS_MAX      (INT64_MAX / 2000000)

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

static int parse_words(struct exec *x, struct command *c, const struct wire_frame *f,
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

static uint64_t find_ms(const struct wire_frame *f, uint16_t key)
{
    uint64_t ms = wire_find_u64(f, key, 0);
    return ms < MS_MAX ? ms : MS_MAX;
}

void exec_parse_limits(struct command_limits *l, const struct wire_frame *f)
{
    *l = (struct command_limits){.timeout_ms = find_ms(f, WIRE_K_TIMEOUT_MS),
                                 .cpu_us = find_ms(f, WIRE_K_CPU_MS) * 1000,
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

static int take_passed_fds(struct exec *x, struct conn *conn, struct error *err)
{
    if (conn->in.n_fds != ARRAY_SIZE(x->fds))
        return error_set(err, EINVAL, "three descriptors must come with the request, %zu did",
                         conn->in.n_fds);
    memcpy(x->fds, conn->in.fds, sizeof x->fds);
    conn->in.n_fds = 0;
    return 0;
}

static int open_stdio(struct exec *x, struct command *c, struct conn *conn,
                      const struct wire_frame *f, struct error *err)
{
    int r = 0;
    x->stdio = (enum wire_stdio)wire_find_u64(f, WIRE_K_STDIO, WIRE_STDIO_FDS);
    c->last = x->stdio == WIRE_STDIO_FDS && wire_find_u64(f, WIRE_K_LAST, 0);
    if (x->stdio == WIRE_STDIO_FDS)
        return take_passed_fds(x, conn, err);
    if (c->background && x->stdio != WIRE_STDIO_NULL)
        return error_set(err, EINVAL, "a background command cannot be carried in frames");
    if (c->background)
        return background_open_output(c, &x->fds[1], &x->fds[2], err);
    if (x->stdio == WIRE_STDIO_FRAMES)
        r = carry_open_pipes(&c->carry, x->fds);
    else if (x->stdio == WIRE_STDIO_PTY)
        r = carry_open_pty(&c->carry, wire_find_u64(f, WIRE_K_ROWS, 0),
                           wire_find_u64(f, WIRE_K_COLS, 0), x->fds);
    else if (x->stdio != WIRE_STDIO_NULL)
        r = -EINVAL;
    return r < 0 ? error_errno(err, -r, "cannot connect the command's input and output") : 0;
}

static int start(struct exec *x, struct command *c, struct error *err)
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

static int prepare_and_start(struct command *c, struct conn *conn, const struct wire_frame *f,
                             struct error *err)
{
    _cleanup_(exec_free) struct exec x = {.fds = {-1, -1, -1}};
    c->background = wire_find_u64(f, WIRE_K_BACKGROUND, 0) != 0;
    exec_parse_limits(&c->limits, f);
    int r = parse_words(&x, c, f, err);
    if (r >= 0)
        r = open_stdio(&x, c, conn, f, err);
    return r < 0 ? r : start(&x, c, err);
}

int exec_request(struct conn *conn, const struct wire_frame *f)
{
    struct error err = {0};
    struct command *c = command_new(conn->guest);
    if (!c) {
        conn_error(conn, EAGAIN, "too many commands are running");
        return 0;
    }
    if (prepare_and_start(c, conn, f, &err) < 0) {
        command_free(c);
        conn_error(conn, err.code, "%s", err.text);
    } else if (c->background) {
        background_answer(c, conn);
    } else {
        command_serve(c, conn);
    }
    return 0;
}
