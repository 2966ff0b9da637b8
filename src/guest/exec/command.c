/*
 * Commands: one process with its tree, from its start to its result.
 *
 * A command ends when its process ends, not when its pipes close. Then the guest kills what is left
 * of its tree, relays what is already in its pipes, and sends the result:
 *
 *     runs ── process ends ──▶ tree is killed, pass by pass ──▶ pipes are drained ──▶ result, freed
 *
 * None of these steps blocks: a timer repeats the passes, and pipes are drained as the connection
 * takes it. A background command answers at once with a handle, its output goes to a file of the
 * box, and its tree outlives its process. The guest remembers the last ones that ended; one that it
 * forgets loses what is left of its tree.
 *
 * The child of a warm process is born outside of the box and enters it (src/box/ns/warm). Its
 * parents end on the way, so it becomes a child of process 1. The request comes first, so that the
 * guest knows the command before its process:
 *
 *     ADOPT ──▶ WAITING ── the process sends its pid and gets its tag ──▶ ARRIVED ── … ──▶ RESULT
 *
 * From then on it is a command like any other: its limits hold, a freeze stops it, its tree dies
 * with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "error.h"
#include "io.h"
#include "thread.h"
#include "wire.h"
#include "banned.h"

#define DEFAULT_CWD    "/workspace"
#define MS_MAX         (INT64_MAX / 2000000)
#define TERM_GRACE     (200 * NS_PER_MS)
#define SWEEP_EACH     (1 * NS_PER_MS)
#define SWEEP_SLOW     (20 * NS_PER_MS) /* after the first 100 ms */
#define SWEEP_LONG     (5 * NS_PER_S)
#define SAMPLE_EACH    (50 * NS_PER_MS) /* limits that no cgroup enforces */
#define REMEMBERED_MAX 256
#define DRAIN_MAX      (4u << 20) /* more than a pipe holds */

static void command_deadline_fire(struct loop_timer *t);
static void command_sweep_fire(struct loop_timer *t);
static void command_sample_fire(struct loop_timer *t);

struct command *command_new(struct guest *g)
{
    struct command *c = g->n_commands < GUEST_COMMANDS_MAX ? calloc(1, sizeof *c) : NULL;
    if (!c)
        return NULL;
    c->report =
        mmap(NULL, sizeof *c->report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (c->report == MAP_FAILED) {
        free(c);
        return NULL;
    }
    c->guest = g;
    c->tag = g->next_tag++;
    c->arrival.fd = -1;
    c->log = OUTPUT_LOG_INIT;
    c->deadline.fire = command_deadline_fire;
    c->sweep.fire = command_sweep_fire;
    c->sample.fire = command_sample_fire;
    relay_init(c);
    LIST_INSERT_HEAD(&g->commands, c, link);
    g->n_commands++;
    return c;
}

struct command *command_free(struct command *c)
{
    if (!c)
        return NULL;
    struct loop *loop = &c->guest->loop;
    loop_timer_set(loop, &c->deadline, 0);
    loop_timer_set(loop, &c->sample, 0);
    loop_timer_set(loop, &c->sweep, 0);
    relay_close(c);
    if (c->log.path && !c->handle)
        unlink(c->log.path); /* it never started, and no answer named the file */
    output_log_free(&c->log, loop);
    loop_close(loop, &c->arrival);
    munmap(c->report, sizeof *c->report);
    LIST_REMOVE(c, link);
    c->guest->n_commands--;
    if (c->hooks)
        c->hooks->free(c);
    free(c->name);
    free(c->cwd);
    free(c);
    return NULL;
}

int command_spawn(struct command *c, struct spawn *s)
{
    struct guest *g = c->guest;
    s->tag = c->tag;
    s->files = c->limits.files;
    s->report = c->report;
    s->alone = !g->has_children && !s->apart;
    if (!c->started)
        c->started = clock_now();
    pid_t pid = spawn_start(s);
    if (pid < 0)
        return (int)pid;
    c->pid = pid;
    g->has_children = true;
    return 0;
}

void command_parse_limits(struct command_limits *l, const struct wire_frame *f)
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

void command_account(struct command *c, const struct rusage *ru)
{
    const struct timeval *u = &ru->ru_utime, *s = &ru->ru_stime;
    c->cpu_us += (uint64_t)(u->tv_sec + s->tv_sec) * 1000000 + (uint64_t)(u->tv_usec + s->tv_usec);
    uint64_t rss = (uint64_t)ru->ru_maxrss * 1024;
    if (rss > c->max_rss)
        c->max_rss = rss;
}

/* Why the program was never executed. */
static void command_describe_failure(const struct command *c, char *text, size_t size)
{
    const struct spawn_report *r = c->report;
    const char *why = strerror(r->error);
    if (r->step == SPAWN_SETUP)
        snprintf(text, size, "cannot start: %s: %s", r->call, why);
    else if (r->step == SPAWN_CWD)
        snprintf(text, size, "cannot enter the working directory %.400s: %s", c->cwd, why);
    else
        snprintf(text, size, "%.400s: %s", c->name,
                 r->error == ENOENT   ? "not found"
                 : r->error == EACCES ? "permission denied"
                                      : why);
}

/* The fields of a result: how the command ended, or its use of resources so far. */
static void command_put_result(struct command *c, struct buf *b)
{
    if (!c->pid && c->report->error) {
        char text[512];
        bool missing = c->report->step == SPAWN_EXEC && c->report->error == ENOENT;
        command_describe_failure(c, text, sizeof text);
        wire_put_u64(b, WIRE_K_EXIT_CODE, missing ? 127 : 126);
        wire_put_u64(b, WIRE_K_CODE, (uint64_t)c->report->error);
        wire_put_str(b, WIRE_K_TEXT, text);
    } else if (!c->pid && WIFSIGNALED(c->status)) {
        wire_put_u64(b, WIRE_K_TERM_SIGNAL, (uint64_t)WTERMSIG(c->status));
    } else if (!c->pid) {
        wire_put_u64(b, WIRE_K_EXIT_CODE, (uint64_t)WEXITSTATUS(c->status));
    }
    if (c->limit)
        wire_put_u64(b, WIRE_K_LIMIT, c->limit);
    int64_t until = c->pid ? clock_now() : c->ended;
    wire_put_u64(b, WIRE_K_DURATION_NS, (uint64_t)(until - c->started));
    wire_put_u64(b, WIRE_K_CPU_US, c->cpu_us);
    wire_put_u64(b, WIRE_K_MAX_RSS, c->max_rss);
    if (c->hooks)
        c->hooks->put_result(c, b);
}

void command_answer(struct command *c)
{
    struct conn *conn = TAKE_PTR(c->conn);
    if (c->report->error && c->report->step != SPAWN_EXEC) {
        char text[512];
        command_describe_failure(c, text, sizeof text);
        conn_error(conn, c->report->error, "%s", text);
        return;
    }
    size_t at = wire_begin(&conn->out, WIRE_RESULT);
    command_put_result(c, &conn->out);
    conn_finish_frame(conn, at);
}

/* The process has ended and its tree is gone. Called again while the connection is full. */
static void command_over(struct command *c)
{
    if (c->background || (c->hooks && c->hooks->again(c)))
        return;
    c->draining = true;
    if (c->conn && !relay_drain(c))
        return;
    if (c->hooks) {
        c->hooks->over(c);
        return;
    }
    bool last = c->last;
    if (c->conn)
        command_answer(c);
    command_free(c);
    if (last) /* the answer is out; the host need not ask for the end */
        _exit(0);
}

static void command_sweep_fire(struct loop_timer *t)
{
    struct command *c = CONTAINER_OF(t, struct command, sweep);
    int64_t now = clock_now();
    unsigned left = ptree_kill(c->guest, c);
    if (left && (c->pid || now < c->give_up)) {
        bool young = c->give_up - now > SWEEP_LONG - 100 * NS_PER_MS;
        loop_timer_set(&c->guest->loop, t, now + (young ? SWEEP_EACH : SWEEP_SLOW));
    } else if (!c->pid) {
        command_over(c);
    }
}

void command_kill(struct command *c, enum wire_limit limit)
{
    if (!c->limit)
        c->limit = limit;
    loop_timer_set(&c->guest->loop, &c->sweep, 0);
    c->give_up = clock_now() + SWEEP_LONG;
    command_sweep_fire(&c->sweep);
}

void command_none_left(struct guest *g)
{
    for (struct command *c = LIST_FIRST(&g->commands), *next; c; c = next) {
        next = LIST_NEXT(c, link);
        if (c->sweep.at && !c->pid) {
            loop_timer_set(&g->loop, &c->sweep, 0);
            command_over(c);
        }
    }
}

/* First SIGTERM, then SIGKILL: a command that ignores SIGTERM gains only the grace. */
static void command_deadline_fire(struct loop_timer *t)
{
    struct command *c = CONTAINER_OF(t, struct command, deadline);
    if (c->limit) {
        command_kill(c, c->limit);
        return;
    }
    c->limit = WIRE_LIMIT_TIMEOUT;
    loop_timer_set(&c->guest->loop, t, clock_now() + TERM_GRACE);
    kill(-c->pid, SIGTERM);
}

static void command_sample_fire(struct loop_timer *t)
{
    struct command *c = CONTAINER_OF(t, struct command, sample);
    loop_timer_set(&c->guest->loop, t, clock_now() + SAMPLE_EACH);
    enum wire_limit limit = ptree_exceeds(c->guest, c);
    if (limit)
        command_kill(c, limit);
}

void command_exited(struct command *c, int status, const struct rusage *ru)
{
    c->pid = 0;
    c->ended = clock_now();
    c->status = status;
    command_account(c, ru);
    loop_timer_set(&c->guest->loop, &c->deadline, 0);
    loop_timer_set(&c->guest->loop, &c->sample, 0);
    if (c->hooks)
        c->hooks->exited(c);

    /* What the process wrote is in the log before its end is reported. Its tree may write on: only
     * what is there now counts. */
    struct guest *g = c->guest;
    uint64_t most = c->log.total + DRAIN_MAX;
    while (g->freeze.state == FREEZE_OFF && c->log.total < most &&
           output_log_step(&c->log, &g->loop, g->scratch, sizeof g->scratch))
        ;
    /* Forgets the oldest background command that ended, if there are too many: the newest come
     * first in the list. */
    struct command *each, *oldest = NULL;
    unsigned ended = 0;
    LIST_FOREACH(each, &g->commands, link)
    if (each->background && !each->pid && each != c) {
        ended++;
        oldest = each;
    }
    if (c->background && ended >= REMEMBERED_MAX)
        command_free(oldest);

    /* Not now but once all dead children are reaped: mostly none is left to look for. */
    c->give_up = c->ended + SWEEP_LONG;
    if (!c->background || c->limit)
        loop_timer_set(&c->guest->loop, &c->sweep, c->ended);
}

static int command_frame(struct conn *conn, const struct wire_frame *f)
{
    struct command *c = conn->data;
    uint64_t sig = wire_find_u64(f, WIRE_K_SIGNAL, 0);
    struct wire_field data = {0};
    int r;
    switch (f->type) {
    case WIRE_STDIN:
        wire_find(f, WIRE_K_DATA, &data);
        r = relay_feed(c, data.data, data.size, wire_find_u64(f, WIRE_K_EOF, 0) != 0);
        return r == -EPIPE ? 0 : r; /* a command need not read its input */
    case WIRE_RESIZE:
        relay_resize(c, f);
        return 0;
    case WIRE_KILL:
        if (sig == 0 || sig >= NSIG)
            return -EPROTO;
        c->signalled = true;
        if (sig == SIGKILL)
            command_kill(c, WIRE_LIMIT_NONE);
        else if (c->pid && (sig != SIGCONT || c->guest->freeze.state == FREEZE_OFF))
            kill(-c->pid, (int)sig);
        return 0;
    default:
        return -EPROTO;
    }
}

static void command_room(struct conn *conn)
{
    struct command *c = conn->data;
    if (c->draining)
        command_over(c);
    else
        relay_watch_output(c, true);
}

/* The host hung up: the command is cancelled. */
static void command_closed(struct conn *conn)
{
    struct command *c = conn->data;
    c->conn = NULL;
    relay_close(c);
    if (c->draining)
        command_free(c);
    else
        command_kill(c, WIRE_LIMIT_NONE);
}

static void background_put_handle(struct command *c, struct buf *b)
{
    wire_put_u64(b, WIRE_K_HANDLE, c->handle);
    if (c->log.path)
        wire_put_str(b, WIRE_K_OUTPUT_PATH, c->log.path);
}

/* From now on its time runs and its limits hold. */
static void command_arm(struct command *c)
{
    c->log.keep = c->limits.log;
    if (c->limits.timeout_ms)
        loop_timer_set(&c->guest->loop, &c->deadline,
                       c->started + (int64_t)c->limits.timeout_ms * NS_PER_MS);
    if (c->limits.cpu_us || c->limits.memory || c->limits.pids)
        loop_timer_set(&c->guest->loop, &c->sample, clock_now() + SAMPLE_EACH);
}

void command_serve(struct command *c, struct conn *conn)
{
    static const struct conn_user user = {
        .frame = command_frame, .room = command_room, .closed = command_closed};
    if (c->pid)
        command_arm(c);
    if (c->background) {
        c->handle = c->guest->next_handle++;
        size_t at = wire_begin(&conn->out, WIRE_RESULT);
        background_put_handle(c, &conn->out);
        conn_finish_frame(conn, at);
        return;
    }
    c->conn = conn;
    conn->data = c;
    conn->user = &user;
    relay_watch_output(c, true);
}

static void background_log_ready(struct loop_source *s, short events)
{
    struct command *c = CONTAINER_OF(s, struct command, log.pipe);
    struct guest *g = c->guest;
    if (g->freeze.state != FREEZE_OFF) { /* the box is being copied: its files must not change */
        loop_watch(&g->loop, s, 0);
        return;
    }
    output_log_step(&c->log, &g->loop, g->scratch, sizeof g->scratch);
    if (c->limits.output_total && c->log.total > c->limits.output_total && !c->limit)
        command_kill(c, WIRE_LIMIT_OUTPUT);
}

int background_open_log(struct command *c, int fds[3], struct error *err)
{
    int ends[2];
    int r = output_log_create(&c->log, &c->guest->next_handle);
    if (r < 0)
        return error_errno(err, -r, "cannot make a file for the command's output");
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_errno(err, errno, "cannot connect the command's output");
    c->log.pipe = (struct loop_source){.fd = ends[0], .ready = background_log_ready};
    fds[1] = ends[1];
    fds[2] = fcntl(ends[1], F_DUPFD_CLOEXEC, 3);
    if (fds[2] < 0 || io_set_nonblock(ends[0], true) < 0 ||
        loop_watch(&c->guest->loop, &c->log.pipe, POLLIN) < 0)
        return error_errno(err, errno, "cannot connect the command's output");
    return 0;
}

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

static int exec_start(struct command *c, struct conn *conn, const struct wire_frame *f,
                      struct error *err)
{
    _cleanup_words_ struct words argv = {0}, env = {0};
    _cleanup_(spawn_close) struct spawn s = {.fds = {-1, -1, -1}};
    struct wire_field field;
    c->background = wire_find_u64(f, WIRE_K_BACKGROUND, 0) != 0;
    command_parse_limits(&c->limits, f);
    int r = words_collect(f, WIRE_K_ARG, &argv);
    if (r >= 0)
        r = words_collect(f, WIRE_K_ENV, &env);
    if (r < 0)
        return error_errno(err, -r, "cannot read the command's arguments and environment");
    if (!argv.list[0])
        return error_set(err, EINVAL, "no command given");
    c->cwd = wire_find(f, WIRE_K_CWD, &field) ? wire_find_str(f, WIRE_K_CWD) : strdup(DEFAULT_CWD);
    c->name = strdup(argv.list[0]);
    if (!c->cwd || !c->name)
        return error_set(err, EINVAL, "the working directory is not a path");

    enum wire_stdio stdio = (enum wire_stdio)wire_find_u64(f, WIRE_K_STDIO, WIRE_STDIO_FDS);
    s.tty = stdio == WIRE_STDIO_PTY;
    if (stdio == WIRE_STDIO_FDS) {
        if (conn->in.n_fds != ARRAY_SIZE(s.fds))
            return error_set(err, EINVAL, "three descriptors must come with the request, %zu did",
                             conn->in.n_fds);
        c->last = wire_find_u64(f, WIRE_K_LAST, 0) != 0;
        memcpy(s.fds, conn->in.fds, sizeof s.fds);
        conn->in.n_fds = 0;
    } else if (c->background) {
        if (stdio != WIRE_STDIO_NULL)
            return error_set(err, EINVAL,
                             "the output of a background command cannot be sent in frames");
        r = background_open_log(c, s.fds, err);
        if (r < 0)
            return r;
    } else if (stdio == WIRE_STDIO_FRAMES) {
        r = relay_open_pipes(c, RELAY_STDIN | RELAY_STDOUT | RELAY_STDERR, s.fds);
    } else if (s.tty) {
        r = relay_open_pty(c, f, s.fds);
    } else if (stdio != WIRE_STDIO_NULL) {
        r = -EINVAL;
    }
    if (r < 0)
        return error_errno(err, -r, "cannot connect the command's input and output");
    s.argv = argv.list;
    s.envp = env.list;
    s.cwd = c->cwd;
    r = command_spawn(c, &s);
    if (r == -EAGAIN)
        return error_set(err, EAGAIN,
                         "cannot start the command: the box has reached its limit on processes "
                         "(--pids)");
    if (r < 0)
        return error_errno(err, -r, "cannot start the command: fork");
    return 0;
}

void exec_request(struct conn *conn, const struct wire_frame *f)
{
    struct error err = {0};
    struct command *c = command_new(conn->guest);
    if (!c) {
        conn_error(conn, EAGAIN, "too many commands are running (limit: %d)", GUEST_COMMANDS_MAX);
    } else if (exec_start(c, conn, f, &err) < 0) {
        command_free(c);
        conn_error(conn, err.code, "%s", err.text);
    } else {
        command_serve(c, conn);
    }
}

/* The process has entered the box, or reports why it cannot. */
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
        conn_error(TAKE_PTR(c->conn), code, "the process did not enter the box: cannot %s: %s",
                   step, strerror(code));
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
    wire_end(&c->conn->out, wire_begin(&c->conn->out, WIRE_ARRIVED));
    conn_push(c->conn);
}

void adopt_request(struct conn *conn, const struct wire_frame *f)
{
    struct command *c = command_new(conn->guest);
    if (!c) {
        conn_error(conn, EAGAIN, "too many commands are running (limit: %d)", GUEST_COMMANDS_MAX);
        return;
    }
    command_parse_limits(&c->limits, f);
    c->status = SIGKILL; /* if the process never arrives */
    int r = conn->in.n_fds == 1 ? 0 : -EINVAL;
    if (r == 0) {
        conn->in.n_fds = 0;
        c->arrival = (struct loop_source){.fd = conn->in.fds[0], .ready = adopt_arrival_ready};
        r = loop_watch(&c->guest->loop, &c->arrival, POLLIN);
    }
    if (r < 0) {
        command_free(c);
        conn_error(conn, -r, "cannot wait for the process: %s", strerror(-r));
        return;
    }
    command_serve(c, conn);
    wire_end(&conn->out, wire_begin(&conn->out, WIRE_WAITING));
    conn_push(conn);
}

/* The background command that a request names, or NULL after an ERROR was sent. */
static struct command *background_find(struct conn *conn, const struct wire_frame *f)
{
    uint64_t handle = wire_find_u64(f, WIRE_K_HANDLE, 0);
    struct command *c;
    LIST_FOREACH(c, &conn->guest->commands, link)
    if (c->background && c->handle == handle)
        return c;
    conn_error(conn, ESRCH,
               "no background command %llu: it ended long ago, or was started in another box",
               (unsigned long long)handle);
    return NULL;
}

void background_status_request(struct conn *conn, const struct wire_frame *f)
{
    struct command *c = background_find(conn, f);
    struct buf *b = &conn->out;
    if (!c)
        return;
    size_t at = wire_begin(b, WIRE_RESULT);
    background_put_handle(c, b);
    /* One that is being killed runs until its tree is gone, too. */
    wire_put_u64(b, WIRE_K_RUNNING, c->pid != 0 || c->sweep.at != 0);
    wire_put_u64(b, WIRE_K_MARK, c->mark);
    if (c->log.path)
        wire_put_u64(b, WIRE_K_SIZE, c->log.total);

    /* New output, up to the wanted size: the mark moves past what is returned. */
    c->mark = wire_find_u64(f, WIRE_K_MARK, c->mark);
    uint64_t most = wire_find_u64(f, WIRE_K_LIMIT_BYTES, 0);
    if (most) {
        size_t half = sizeof c->guest->scratch / 2;
        uint8_t *first = c->guest->scratch, *last = first + half;
        struct output_log_news news;
        output_log_read(&c->log, c->mark, first, last, most / 2 < half ? (size_t)(most / 2) : half,
                        &news);
        wire_put(b, WIRE_K_DATA, first, news.first);
        wire_put(b, WIRE_K_TAIL, last, news.last);
        wire_put_u64(b, WIRE_K_DROPPED, news.dropped);
        c->mark = c->log.total;
    }
    command_put_result(c, b);
    conn_finish_frame(conn, at);
}

void background_signal_request(struct conn *conn, const struct wire_frame *f)
{
    struct guest *g = conn->guest;
    uint64_t sig = wire_find_u64(f, WIRE_K_SIGNAL, 0);
    struct command *c = background_find(conn, f);
    if (!c)
        return;
    if (sig == 0 || sig >= NSIG) {
        conn_error(conn, EINVAL, "%llu is not a signal", (unsigned long long)sig);
        return;
    }
    if (sig == SIGCONT && g->freeze.state != FREEZE_OFF) {
        conn_error(conn, EBUSY, "the box is frozen while a snapshot is taken");
        return;
    }
    unsigned count = g->has_children ? ptree_signal(g, c->tag, (int)sig) : 0;
    if (sig == SIGKILL)
        command_kill(c, WIRE_LIMIT_NONE);
    size_t at = wire_begin(&conn->out, WIRE_RESULT);
    wire_put_u64(&conn->out, WIRE_K_COUNT, count);
    conn_finish_frame(conn, at);
}

void background_input_request(struct conn *conn, const struct wire_frame *f)
{
    struct wire_field data = {0};
    struct command *c = background_find(conn, f);
    if (!c)
        return;
    wire_find(f, WIRE_K_DATA, &data);
    int r = relay_feed(c, data.data, data.size, wire_find_u64(f, WIRE_K_EOF, 0) != 0);
    if (r == -ENOBUFS) {
        conn_error(conn, EAGAIN,
                   "the command has not read its input yet: %zu bytes wait, the limit is %u",
                   c->backlog.len, RELAY_INPUT_MAX);
    } else if (r < 0) {
        conn_error(conn, -r, "the command's input is closed");
    } else {
        size_t at = wire_begin(&conn->out, WIRE_RESULT);
        wire_put_u64(&conn->out, WIRE_K_COUNT, c->backlog.len);
        conn_finish_frame(conn, at);
    }
}
