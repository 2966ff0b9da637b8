#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "thread.h"
#include "banned.h"

#define TERM_GRACE  (200 * NS_PER_MS)
#define SWEEP_EACH  (1 * NS_PER_MS)
#define SWEEP_SLOW  (20 * NS_PER_MS) /* after the first 100 ms */
#define SWEEP_LONG  (5 * NS_PER_S)
#define SAMPLE_EACH (50 * NS_PER_MS) /* limits that no cgroup enforces */

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

struct command *command_free(struct command *c)
{
    if (!c)
        return NULL;
    struct loop *loop = &c->guest->loop;
    loop_timer_set(loop, &c->deadline, 0);
    loop_timer_set(loop, &c->sample, 0);
    loop_timer_set(loop, &c->sweep, 0);
    relay_close(&c->relay);
    output_log_close(&c->log, loop);
    loop_close(loop, &c->arrival);
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

/* Why the program was never executed. */
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
    if (c->error) {
        char text[512];
        bool missing = c->error_step == SPAWN_EXEC && c->error == ENOENT;
        command_describe_failure(c, text, sizeof text);
        wire_put_u64(b, WIRE_K_EXIT_CODE, missing ? 127 : 126);
        wire_put_u64(b, WIRE_K_CODE, (uint64_t)c->error);
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
    if (c->error && c->error_step != SPAWN_EXEC) {
        char text[512];
        command_describe_failure(c, text, sizeof text);
        conn_error(conn, c->error, "%s", text);
        return;
    }
    size_t at = wire_begin(&conn->out, WIRE_RESULT);
    command_put_result(c, &conn->out);
    wire_end(&conn->out, at);
    conn_finish(conn);
}

/* The process has ended and its tree is gone. Called again while the connection is full. */
static void command_over(struct command *c)
{
    if (c->background || (c->hooks && c->hooks->again(c)))
        return;
    c->draining = true;
    if (c->conn && !relay_drain(&c->relay))
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
    uint64_t sig = wire_find_u64(f, WIRE_K_SIGNAL, 0);
    struct wire_field data = {0};
    int r;
    switch (f->type) {
    case WIRE_STDIN:
        wire_find(f, WIRE_K_DATA, &data);
        r = relay_feed(&c->relay, data.data, data.size, wire_find_u64(f, WIRE_K_EOF, 0) != 0);
        return r == -EPIPE ? 0 : r; /* a command need not read its input */
    case WIRE_RESIZE:
        relay_resize(&c->relay, f);
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
        relay_watch_output(&c->relay, true);
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

void command_serve(struct command *c, struct conn *conn)
{
    static const struct conn_user user = {
        .frame = command_frame, .room = command_room, .closed = command_closed};
    c->conn = conn;
    conn->data = c;
    conn->user = &user;
    relay_start(&c->relay, conn);
}
