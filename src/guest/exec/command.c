#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "command.h"
#include "error.h"
#include "io.h"
#include "ptree.h"
#include "banned.h"

#define TERM_GRACE  (200 * NS_PER_MS)
#define SWEEP_EACH  (1 * NS_PER_MS)
#define SWEEP_SLOW  (20 * NS_PER_MS)
#define SWEEP_LONG  (5 * NS_PER_S)
#define SAMPLE_EACH (50 * NS_PER_MS) /* limits that no cgroup enforces */

#define OUTPUT_DIR     "/tmp/.hutch"
#define REMEMBERED_MAX 256
#define NAMES_TRIED    10000
#define DRAIN_MAX      (4u << 20) /* more than a pipe holds */

static void command_deadline_fire(struct loop_timer *t);
static void command_sweep_fire(struct loop_timer *t);
static void command_sample_fire(struct loop_timer *t);

struct command *command_new(struct guest *g)
{
    struct command *c = g->n_commands < GUEST_COMMANDS_MAX ? calloc(1, sizeof *c) : NULL;
    if (!c)
        return NULL;
    c->report = spawn_report_take(g->reports, GUEST_COMMANDS_MAX);
    c->guest = g;
    c->tag = g->next_tag++;
    c->arrival.fd = -1;
    c->log = (struct output_log)OUTPUT_LOG_INIT;
    c->deadline.fire = command_deadline_fire;
    c->sweep.fire = command_sweep_fire;
    c->sample.fire = command_sample_fire;
    relay_init(&c->relay, &g->loop, g->scratch);
    LIST_INSERT_HEAD(&g->commands, c, link);
    g->n_commands++;
    return c;
}

static void command_stop_timers(struct command *c)
{
    loop_timer_set(&c->guest->loop, &c->deadline, 0);
    loop_timer_set(&c->guest->loop, &c->sample, 0);
}

struct command *command_free(struct command *c)
{
    if (!c)
        return NULL;
    command_stop_timers(c);
    loop_timer_set(&c->guest->loop, &c->sweep, 0);
    relay_close(&c->relay);
    output_log_close(&c->log, &c->guest->loop);
    loop_close(&c->guest->loop, &c->arrival);
    if (c->report)
        c->report->taken = false;
    LIST_REMOVE(c, link);
    c->guest->n_commands--;
    if (c->output_path && !c->handle)
        unlink(c->output_path); /* it never started, and no answer named the file */
    if (c->hooks)
        c->hooks->free(c);
    free(c->output_path);
    free(c->name);
    free(c->cwd);
    free(c);
    return NULL;
}

int command_spawn(struct command *c, struct spawn *s)
{
    struct guest *g = c->guest;
    if (!c->report)
        return -EAGAIN;
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

void command_arm(struct command *c)
{
    if (c->limits.timeout_ms)
        loop_timer_set(&c->guest->loop, &c->deadline,
                       c->started + (int64_t)c->limits.timeout_ms * NS_PER_MS);
    if (c->limits.cpu_us || c->limits.memory || c->limits.pids)
        loop_timer_set(&c->guest->loop, &c->sample, clock_now() + SAMPLE_EACH);
}

void command_account(struct command *c, const struct rusage *ru)
{
    const struct timeval *u = &ru->ru_utime, *s = &ru->ru_stime;
    c->cpu_us += (uint64_t)(u->tv_sec + s->tv_sec) * 1000000 + (uint64_t)(u->tv_usec + s->tv_usec);
    uint64_t rss = (uint64_t)ru->ru_maxrss * 1024;
    if (rss > c->max_rss)
        c->max_rss = rss;
}

/* Why the program was never executed, as a message. */
static void command_describe_failure(const struct command *c, char *text, size_t size)
{
    if (c->error_step == SPAWN_SETUP)
        snprintf(text, size, "cannot start: %s: %s", c->error_call, strerror(c->error));
    else if (c->error_step == SPAWN_CWD)
        snprintf(text, size, "cannot enter the working directory %.400s: %s", c->cwd,
                 strerror(c->error));
    else if (c->error == ENOENT)
        snprintf(text, size, "%.400s: not found", c->name);
    else if (c->error == EACCES)
        snprintf(text, size, "%.400s: permission denied", c->name);
    else
        snprintf(text, size, "%.400s: %s", c->name, strerror(c->error));
}

void command_put_result(struct command *c, struct buf *b)
{
    int64_t until = c->pid ? clock_now() : c->ended;
    if (c->error) {
        char text[512];
        command_describe_failure(c, text, sizeof text);
        wire_put_u64(b, WIRE_K_EXIT_CODE,
                     c->error_step == SPAWN_EXEC && c->error == ENOENT ? 127 : 126);
        wire_put_u64(b, WIRE_K_CODE, (uint64_t)c->error);
        wire_put_str(b, WIRE_K_TEXT, text);
    } else if (!c->pid && WIFSIGNALED(c->status))
        wire_put_u64(b, WIRE_K_TERM_SIGNAL, (uint64_t)WTERMSIG(c->status));
    else if (!c->pid)
        wire_put_u64(b, WIRE_K_EXIT_CODE, (uint64_t)WEXITSTATUS(c->status));
    if (c->limit)
        wire_put_u64(b, WIRE_K_LIMIT, c->limit);
    wire_put_u64(b, WIRE_K_DURATION_NS, (uint64_t)(until - c->started));
    wire_put_u64(b, WIRE_K_CPU_US, c->cpu_us);
    wire_put_u64(b, WIRE_K_MAX_RSS, c->max_rss);
    if (c->hooks)
        c->hooks->put_result(c, b);
}

static void command_answer(struct command *c)
{
    struct conn *conn = TAKE_PTR(c->conn);
    char text[512];
    if (c->hooks && c->hooks->refused(c, text, sizeof text)) {
        conn_error(conn, ENOENT, "%s", text);
        return;
    }
    if (c->error && c->error_step != SPAWN_EXEC) {
        command_describe_failure(c, text, sizeof text);
        conn_error(conn, c->error, "%s", text);
        return;
    }
    size_t at = wire_begin(&conn->out, WIRE_RESULT);
    command_put_result(c, &conn->out);
    wire_end(&conn->out, at);
    conn_finish(conn);
}

/* The process has ended and its tree is gone. */
static void command_over(struct command *c)
{
    if (c->background || (c->hooks && c->hooks->again(c)))
        return;
    c->draining = true;
    if (c->conn && !relay_drain(&c->relay))
        return;
    bool last = c->last;
    const struct command_hooks *hooks = c->hooks;
    struct session *session = hooks ? hooks->settle(c) : NULL;
    if (c->conn)
        command_answer(c);
    command_free(c);
    if (session)
        hooks->prepare(session);
    if (last) /* the answer is out; the host need not ask for the end */
        _exit(0);
}

static void command_sweep(struct command *c)
{
    int64_t now = clock_now();
    unsigned left = ptree_kill(c->guest, c);
    if (left && (c->pid || now < c->give_up)) {
        bool young = c->give_up - now > SWEEP_LONG - 100 * NS_PER_MS;
        loop_timer_set(&c->guest->loop, &c->sweep, now + (young ? SWEEP_EACH : SWEEP_SLOW));
    } else if (!c->pid) {
        command_over(c);
    }
}

static void command_sweep_fire(struct loop_timer *t)
{
    command_sweep(CONTAINER_OF(t, struct command, sweep));
}

void command_kill(struct command *c, enum wire_limit limit)
{
    if (!c->limit)
        c->limit = limit;
    loop_timer_set(&c->guest->loop, &c->sweep, 0);
    c->give_up = clock_now() + SWEEP_LONG;
    command_sweep(c);
}

static int command_signal(struct command *c, const struct wire_frame *f)
{
    uint64_t sig = wire_find_u64(f, WIRE_K_SIGNAL, 0);
    if (sig == 0 || sig >= NSIG)
        return -EPROTO;
    c->signalled = true;
    if (sig == SIGKILL)
        command_kill(c, WIRE_LIMIT_NONE);
    else if (c->pid && guest_may_signal(c->guest, (int)sig))
        kill(-c->pid, (int)sig);
    return 0;
}

void command_none_left(struct guest *g)
{
    struct command *c = LIST_FIRST(&g->commands);
    while (c) {
        struct command *next = LIST_NEXT(c, link);
        if (c->sweep.at && !c->pid) {
            loop_timer_set(&g->loop, &c->sweep, 0);
            command_over(c);
        }
        c = next;
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
    command_stop_timers(c);
    c->error = c->report->error;
    c->error_step = c->report->step;
    c->error_call = c->report->call;
    c->report->taken = false;
    c->report = NULL;
    if (c->hooks)
        c->hooks->exited(c);
    if (c->background)
        background_ended(c);
    /* Not now but once all dead children are reaped: mostly none is left to look for. */
    c->give_up = c->ended + SWEEP_LONG;
    if (!c->background || c->limit)
        loop_timer_set(&c->guest->loop, &c->sweep, c->ended);
}

static int command_frame(struct conn *conn, const struct wire_frame *f)
{
    struct command *c = conn->data;
    switch (f->type) {
    case WIRE_STDIN:
        return relay_input(&c->relay, f);
    case WIRE_RESIZE:
        relay_resize(&c->relay, f);
        return 0;
    case WIRE_KILL:
        return command_signal(c, f);
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
        relay_watch_output(&c->relay);
}

/* The host hung up: the command is cancelled. */
static void command_closed(struct conn *conn)
{
    struct command *c = conn->data;
    c->conn = NULL;
    relay_close(&c->relay);
    if (c->draining)
        command_free(c);
    else
        command_kill(c, WIRE_LIMIT_NONE);
}

static const struct conn_user command_user = {
    .frame = command_frame, .room = command_room, .closed = command_closed};

void command_serve(struct command *c, struct conn *conn)
{
    c->conn = conn;
    conn->data = c;
    conn->user = &command_user;
    relay_start(&c->relay, conn);
}

/*
 * The folder is the agent's as much as ours, so nothing in it is trusted: only a file that did not
 * exist is used. One may exist, from the box that this one was forked off; its number is passed
 * over.
 */
static int background_open_file(struct guest *g, char *path, size_t size, int *ret_fd)
{
    mkdir(OUTPUT_DIR, 0700);
    for (int i = 0; i < NAMES_TRIED; i++, g->next_handle++) {
        snprintf(path, size, OUTPUT_DIR "/%llu.out", (unsigned long long)g->next_handle);
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0) {
            *ret_fd = fd;
            return 0;
        }
        if (errno != EEXIST)
            return -errno;
    }
    return -EEXIST;
}

/* A frozen box is being copied: its files must not change. */
static void background_log_ready(struct loop_source *s, short events)
{
    struct command *c = CONTAINER_OF(s, struct command, log.pipe);
    struct guest *g = c->guest;
    if (g->freeze.state != FREEZE_OFF) {
        loop_watch(&g->loop, s, 0);
        return;
    }
    c->log.keep = c->limits.log;
    output_log_step(&c->log, &g->loop, g->scratch, sizeof g->scratch);
    if (c->limits.output_total && c->log.total > c->limits.output_total && !c->limit)
        command_kill(c, WIRE_LIMIT_OUTPUT);
}

void background_thaw(struct guest *g)
{
    struct command *c;
    LIST_FOREACH(c, &g->commands, link)
    if (c->log.pipe.fd >= 0 && loop_watch(&g->loop, &c->log.pipe, POLLIN) < 0)
        loop_close(&g->loop, &c->log.pipe);
}

int background_open_output(struct command *c, int *ret_out, int *ret_err, struct error *err)
{
    char path[64];
    int ends[2];
    int r = background_open_file(c->guest, path, sizeof path, &c->log.file);
    if (r < 0)
        return error_errno(err, -r, "cannot make a file for the output under " OUTPUT_DIR);
    c->output_path = strdup(path);
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_errno(err, errno, "cannot connect the command's output");
    _cleanup_fd_ int out = ends[1];
    c->log.pipe = (struct loop_source){.fd = ends[0], .ready = background_log_ready};
    int copy = fcntl(out, F_DUPFD_CLOEXEC, 3);
    if (copy < 0 || io_set_nonblock(ends[0], true) < 0 ||
        loop_watch(&c->guest->loop, &c->log.pipe, POLLIN) < 0) {
        r = errno;
        cleanup_close(&copy);
        return error_errno(err, r, "cannot connect the command's output");
    }
    *ret_out = TAKE_FD(out);
    *ret_err = copy;
    return 0;
}

static void background_put_handle(struct command *c, struct buf *b)
{
    wire_put_u64(b, WIRE_K_HANDLE, c->handle);
    if (c->output_path)
        wire_put_str(b, WIRE_K_OUTPUT_PATH, c->output_path);
}

void background_answer(struct command *c, struct conn *conn)
{
    c->handle = c->guest->next_handle++;
    size_t at = wire_begin(&conn->out, WIRE_RESULT);
    background_put_handle(c, &conn->out);
    wire_end(&conn->out, at);
    conn_finish(conn);
}

/* What the process wrote is in the log before its end is reported. Its tree may write on: only what
 * is there now counts. */
static void background_drain_log(struct command *c)
{
    uint64_t most = c->log.total + DRAIN_MAX;
    c->log.keep = c->limits.log;
    while (c->guest->freeze.state == FREEZE_OFF && c->log.total < most &&
           output_log_step(&c->log, &c->guest->loop, c->guest->scratch, sizeof c->guest->scratch))
        ;
}

void background_ended(struct command *c)
{
    background_drain_log(c);
    struct command *each, *oldest = NULL;
    unsigned ended = 0;
    LIST_FOREACH(each, &c->guest->commands, link)
    if (each->background && !each->pid) {
        ended++;
        if (each != c)
            oldest = each;
    }
    /* The newest come first in the list, so the last one seen is the oldest. */
    if (ended > REMEMBERED_MAX && oldest)
        command_free(oldest);
}

struct command *background_find(struct conn *conn, const struct wire_frame *f)
{
    uint64_t handle = wire_find_u64(f, WIRE_K_HANDLE, 0);
    struct command *c;
    LIST_FOREACH(c, &conn->guest->commands, link)
    if (c->background && c->handle == handle)
        return c;
    conn_error(
        conn, ESRCH,
        "there is no background command %llu: it ended long ago, or was started in another box",
        (unsigned long long)handle);
    return NULL;
}

/* New output, up to the wanted size: the mark moves past what is returned. */
static void background_put_news(struct command *c, struct buf *b, uint64_t most)
{
    uint8_t *first = c->guest->scratch, *last = first + sizeof c->guest->scratch / 2;
    size_t half = sizeof c->guest->scratch / 2;
    struct output_log_news news;
    output_log_read(&c->log, c->mark, first, last, most / 2 < half ? (size_t)(most / 2) : half,
                    &news);
    wire_put(b, WIRE_K_DATA, first, news.first);
    wire_put(b, WIRE_K_TAIL, last, news.last);
    wire_put_u64(b, WIRE_K_DROPPED, news.dropped);
    c->mark = c->log.total;
}

int background_status_request(struct conn *conn, const struct wire_frame *f)
{
    struct command *c = background_find(conn, f);
    if (!c)
        return 0;
    uint64_t most = wire_find_u64(f, WIRE_K_LIMIT_BYTES, 0);
    size_t at = wire_begin(&conn->out, WIRE_RESULT);
    background_put_handle(c, &conn->out);
    /* One that is being killed runs until its tree is gone, too. */
    wire_put_u64(&conn->out, WIRE_K_RUNNING, c->pid != 0 || c->sweep.at != 0);
    wire_put_u64(&conn->out, WIRE_K_MARK, c->mark);
    if (c->output_path)
        wire_put_u64(&conn->out, WIRE_K_SIZE, c->log.total);
    c->mark = wire_find_u64(f, WIRE_K_MARK, c->mark);
    if (most)
        background_put_news(c, &conn->out, most);
    command_put_result(c, &conn->out);
    wire_end(&conn->out, at);
    conn_finish(conn);
    return 0;
}

int background_signal_request(struct conn *conn, const struct wire_frame *f)
{
    uint64_t sig = wire_find_u64(f, WIRE_K_SIGNAL, 0);
    struct command *c = background_find(conn, f);
    if (!c)
        return 0;
    if (sig == 0 || sig >= NSIG || !guest_may_signal(conn->guest, (int)sig)) {
        bool known = sig > 0 && sig < NSIG;
        conn_error(conn, known ? EBUSY : EINVAL,
                   known ? "the box is frozen" : "there is no such signal");
        return 0;
    }
    unsigned count = conn->guest->has_children ? ptree_signal(conn->guest, c->tag, (int)sig) : 0;
    if (sig == SIGKILL)
        command_kill(c, WIRE_LIMIT_NONE);
    size_t at = wire_begin(&conn->out, WIRE_RESULT);
    wire_put_u64(&conn->out, WIRE_K_COUNT, count);
    wire_end(&conn->out, at);
    conn_finish(conn);
    return 0;
}
