/*
 * box_exec: one command from request to result.
 *
 * The request goes out with the ends of fresh pipes; then one poll loop moves bytes, watches limits and waits
 * for the RESULT. The command has ended when its process has, which is what the guest reports; by then its
 * whole tree is dead, so what is left in the pipes is drained and nothing is waited for.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture.h"
#include "clock.h"
#include "exec.h"
#include "io.h"
#include "weaken.h"
#include "banned.h"

#define REQUEST_MAX WIRE_BODY_MAX
#define PIPE_SIZE   (1 << 20)
#define GRACE_NS    (5 * NS_PER_S)

/* A pipe of which one end goes to the command and the other, non-blocking, stays here. */
static int make_pipe(bool into_command, int *ret_ours, int *ret_theirs)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    *ret_ours = ends[into_command ? 1 : 0];
    *ret_theirs = ends[into_command ? 0 : 1];
    return io_set_nonblock(*ret_ours, true);
}

static int open_null(int *ret_fd)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    return 0;
}

static int make_pipes(struct call *c, int theirs[3])
{
    int r = c->in.from >= 0 ? make_pipe(true, &c->in.to, &theirs[0]) : open_null(&theirs[0]);
    if (r == 0)
        r = make_pipe(false, &c->out.from, &theirs[1]);
    if (r == 0)
        r = make_pipe(false, &c->err.from, &theirs[2]);
    if (r == 0)
        fcntl(c->out.from, F_SETPIPE_SZ, PIPE_SIZE); /* a wish: users have a quota of pipe memory */
    return r;
}

static int send_request(struct call *c, struct error *err)
{
    _cleanup_buf_ struct buf request = BUF_INIT(REQUEST_MAX);
    int theirs[3] = {-1, -1, -1};
    bool frames = c->command->tty || c->command->shell;
    int r = call_build_request(&request, c, c->command->tty ? WIRE_STDIO_PTY : WIRE_STDIO_FDS);
    if (r < 0)
        return error_set(err, E2BIG, "the command, its input and its environment are longer than %u bytes",
                         REQUEST_MAX);
    r = frames ? 0 : make_pipes(c, theirs);
    pthread_rwlock_rdlock(&c->box->frozen); /* nothing is started while a snapshot is taken */
    if (r == 0)
        r = guest_connect(c->box->backend->guest(c->box->place), &request, theirs, frames ? 0 : 3,
                          &c->wire.fd);
    pthread_rwlock_unlock(&c->box->frozen);
    for (int i = 0; i < 3; i++)
        cleanup_close(&theirs[i]);
    if (r == -EPIPE || r == -ECONNRESET)
        return error_set(err, EPIPE, "the box has ended");
    return r < 0 ? error_errno(err, -r, "cannot send a command to the box") : 0;
}

/* What a guest says is believed only as far as it can be true. */
static int find_int(const struct wire_frame *f, uint16_t key, int fallback, int max)
{
    uint64_t v = wire_find_u64(f, key, (uint64_t)fallback);
    return v <= (uint64_t)max ? (int)v : fallback;
}

static int64_t find_ns(const struct wire_frame *f, uint16_t key, int64_t unit)
{
    uint64_t v = wire_find_u64(f, key, 0);
    return v <= (uint64_t)(INT64_MAX / unit) ? (int64_t)v * unit : INT64_MAX;
}

static void take_result(struct call *c, const struct wire_frame *f)
{
    struct box_result *r = c->result;
    r->exit_code = find_int(f, WIRE_K_EXIT_CODE, 125, 255);
    r->signal = find_int(f, WIRE_K_TERM_SIGNAL, 0, NSIG - 1);
    r->duration_ns = find_ns(f, WIRE_K_DURATION_NS, 1);
    r->cpu_ns = find_ns(f, WIRE_K_CPU_US, 1000);
    r->max_rss = wire_find_u64(f, WIRE_K_MAX_RSS, 0);
    _cleanup_free_ char *text = wire_find_str(f, WIRE_K_TEXT);
    if (text)
        snprintf(r->failure, sizeof r->failure, "%s", text);
    enum wire_limit limit = (enum wire_limit)wire_find_u64(f, WIRE_K_LIMIT, 0);
    if (r->limit == WIRE_LIMIT_NONE && limit <= WIRE_LIMIT_OUTPUT)
        r->limit = limit;
    if (c->command->shell)
        call_take_shell(r, f);
    if (c->command->background)
        r->exit_code = 0; /* how it ends is told by STATUS */
    c->done = true;
}

static int take_error(const struct wire_frame *f, struct error *err)
{
    _cleanup_free_ char *text = wire_find_str(f, WIRE_K_TEXT);
    int code = (int)wire_find_u64(f, WIRE_K_CODE, EIO);
    return error_set(err, code > 0 && code < 4096 ? code : EIO, "%s",
                     text && *text ? text : "the guest reported an error");
}

static int take_frame(struct call *c, const struct wire_frame *f, struct error *err)
{
    switch (f->type) {
    case WIRE_RESULT:
        take_result(c, f);
        return 0;
    case WIRE_OUTPUT:
        return call_output(c, f);
    case WIRE_ERROR:
        return take_error(f, err);
    default:
        return error_set(err, EPROTO, "the guest sent a frame that does not belong here (%d)", f->type);
    }
}

/* The guest is gone: with it everything in the box. The kernel's counters may know why. */
static void guest_lost(struct call *c)
{
    c->result->exit_code = 128 + SIGKILL;
    c->result->signal = SIGKILL;
    c->done = true;
}

static int read_frames(struct call *c, struct error *err)
{
    ssize_t got = wire_fill(&c->wire);
    if (got == -EAGAIN)
        return 0;
    if (got <= 0) {
        guest_lost(c);
        return 0;
    }
    struct wire_frame f;
    int r;
    while (!c->done && (r = wire_take(&c->wire, &f)) != 0) {
        if (r < 0)
            return error_set(err, EPROTO, "the guest sent what is no frame");
        if ((r = take_frame(c, &f, err)) < 0)
            return r;
    }
    return 0;
}

enum { P_WIRE, P_CANCEL, P_OUT, P_ERR, P_FEED, P_IN, P_COUNT };

static void set_polls(const struct call *c, struct pollfd p[P_COUNT])
{
    bool hungry = c->in.from >= 0 && c->in.pending.len == 0;
    bool tty = c->command->tty;
    p[P_WIRE] = (struct pollfd){.fd = c->wire.fd, .events = POLLIN};
    p[P_CANCEL] = (struct pollfd){.fd = c->killed ? -1 : c->command->cancel, .events = POLLIN};
    p[P_OUT] = pump_poll(&c->out);
    p[P_ERR] = pump_poll(&c->err);
    p[P_FEED] = (struct pollfd){.fd = c->in.to, .events = c->in.pending.len ? POLLOUT : 0};
    p[P_IN] = (struct pollfd){.fd = hungry && (tty || c->in.to >= 0) ? c->in.from : -1, .events = POLLIN};
}

static void move_bytes(struct call *c, const struct pollfd p[P_COUNT])
{
    if (p[P_OUT].revents)
        pump_out(&c->out);
    if (p[P_ERR].revents)
        pump_out(&c->err);
    if (p[P_FEED].revents & (POLLERR | POLLHUP))
        close(TAKE_FD(c->in.to)); /* the command reads no more */
    if (c->in.to >= 0 && (p[P_IN].revents || p[P_FEED].revents))
        feed_step(&c->in, p[P_IN].revents != 0);
}

/* No timer runs for a command that nothing has to be watched of. */
static int wait_ms(const struct call *c)
{
    bool watch = c->before.counted || c->command->tty || c->box->limits.output_total;
    int ms = clock_poll_ms(c->deadline);
    watch = watch || (c->command->sink && c->command->sink->tick);
    return watch && (ms < 0 || ms > TICK_MS) ? TICK_MS : ms;
}

static int step(struct call *c, struct error *err)
{
    struct pollfd p[P_COUNT];
    set_polls(c, p);
    int n = poll(p, P_COUNT, wait_ms(c));
    if (n < 0 && errno != EINTR)
        return error_errno(err, errno, "cannot wait for the command");
    if (n > 0)
        move_bytes(c, p);
    if (n > 0 && p[P_CANCEL].revents)
        call_kill(c, WIRE_LIMIT_NONE);
    if (n > 0 && c->command->tty && p[P_IN].revents && call_tty_input(c) < 0)
        c->in.from = -1;
    if (n > 0 && p[P_WIRE].revents) {
        int r = read_frames(c, err);
        if (r < 0)
            return r;
    }
    call_watch(c);
    if (c->command->sink && c->command->sink->tick)
        c->command->sink->tick(c->command->sink->data);
    return 0;
}

/* The tree is dead: whatever is still in the pipes is all that ever comes. A slow reader is waited for. */
static void drain(struct call *c, struct pump *p)
{
    while (p->from >= 0 && (pump_out(p) || p->full)) {
        struct pollfd wait[] = {pump_poll(p), {.fd = c->command->cancel, .events = POLLIN}};
        if (p->full && poll(wait, ARRAY_SIZE(wait), -1) > 0 && wait[1].revents)
            break;
    }
    pump_close(p);
}

static void finish(struct call *c)
{
    struct box_result *r = c->result;
    drain(c, &c->out);
    drain(c, &c->err);
    if (c->command->capture) {
        capture_finish(&r->out);
        capture_finish(&r->err);
    }
    if (r->limit == WIRE_LIMIT_NONE)
        r->limit = call_limit(c);
    if (r->limit == WIRE_LIMIT_TIMEOUT || r->limit == WIRE_LIMIT_CPU)
        r->exit_code = 124;
    else if (r->signal)
        r->exit_code = 128 + r->signal;
}

static void free_call(struct call *c)
{
    cleanup_close(&c->wire.fd);
    pump_close(&c->out);
    pump_close(&c->err);
    cleanup_close(&c->in.to);
    buf_free(&c->in.pending);
    wire_reader_free(&c->wire);
}

static void init_call(struct call *c, struct box *b, const struct box_command *cmd, struct box_result *result)
{
    *result = (struct box_result){0};
    *c = (struct call){
        .box = b, .command = cmd, .result = result, .wire = WIRE_READER_INIT(-1), .rows = 24, .cols = 80};
    c->out = (struct pump){.from = -1, .to = cmd->out, .total = &c->output, .is_terminal = isatty(cmd->out)};
    c->err = (struct pump){.from = -1, .to = cmd->err, .total = &c->output, .is_terminal = isatty(cmd->err)};
    c->in = (struct feed){.from = cmd->shell ? -1 : cmd->in, .to = -1, .pending = BUF_INIT(WIRE_DATA_MAX)};
    if (cmd->capture) {
        capture_init(&result->out, b->limits.output);
        capture_init(&result->err, b->limits.output);
        c->out.capture = &result->out;
        c->err.capture = &result->err;
    }
    /* A box in which nothing ran yet has used nothing. */
    c->before = (struct usage){.counted = b->backend->counted(b->place)};
    if (__atomic_fetch_add(&b->commands, 1, __ATOMIC_RELAXED) > 0)
        b->backend->usage(b->place, false, &c->before);
    int64_t wall = call_wall_limit(c);
    int64_t now = clock_now();
    c->deadline = wall && !cmd->background && !weakened("timeout") ? now + wall + GRACE_NS : 0;
    c->next_watch = now + TICK_MS * NS_PER_MS;
}

int box_exec(struct box *b, const struct box_command *cmd, struct box_result *ret, struct error *err)
{
    struct box_result result;
    _cleanup_(free_call) struct call c;
    init_call(&c, b, cmd, &result);
    if (cmd->tty)
        call_tty_resize(&c);
    int r = send_request(&c, err);
    int up = b->backend->ready(b->place, err); /* a box that is still being made finds the request waiting */
    if (up < 0)
        r = up;
    else if (cmd->last)
        b->backend->forget(b->place);
    while (r == 0 && !c.done)
        r = step(&c, err);
    if (r < 0) {
        box_result_free(&result);
        return r;
    }
    finish(&c);
    *ret = result;
    return 0;
}

void box_result_free(struct box_result *r)
{
    buf_free(&r->out.head);
    buf_free(&r->out.tail);
    buf_free(&r->err.head);
    buf_free(&r->err.tail);
    free(r->cwd);
    free(r->notes);
    free(r->output_path);
    r->cwd = r->notes = r->output_path = NULL;
}
