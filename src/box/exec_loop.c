/*
 * A command while it runs: one poll loop moves bytes, watches limits and waits for the RESULT.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "capture.h"
#include "clock.h"
#include "box_private.h"
#include "exec.h"
#include "proxy/proxy.h"
#include "weaken.h"
#include "banned.h"

#define GRACE_NS         (5 * NS_PER_S)
#define LATE_COUNT_TICKS 80 /* of TICK_MS */

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
    case WIRE_WAITING:
        c->waiting = true;
        return 0;
    case WIRE_ARRIVED:
        c->arrived = true;
        return 0;
    default:
        return error_set(err, EPROTO, "the guest sent a frame that does not belong here (%d)",
                         f->type);
    }
}

/* The guest is gone: with it everything in the box. The kernel's counters may know why
 * (call_finish). */
static void guest_lost(struct call *c)
{
    c->lost = true;
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
            return error_set(err, EPROTO, "the guest sent a malformed frame");
        if ((r = take_frame(c, &f, err)) < 0)
            return r;
    }
    return 0;
}

/* False once there is nothing more to hear for now. */
static bool hear(struct call *c)
{
    char bytes[PUMP_CHUNK];
    ssize_t n = read(c->ear.from, bytes, sizeof bytes);
    if (n > 0 && c->ear.said && !c->ear.said(c->ear.data, bytes, (size_t)n)) {
        call_kill(c, WIRE_LIMIT_NONE);
        n = 0;
    }
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        close(TAKE_FD(c->ear.from));
    return n > 0;
}

enum { P_WIRE, P_CANCEL, P_OUT, P_ERR, P_FEED, P_IN, P_EAR, P_COUNT };

static void set_polls(const struct call *c, struct pollfd p[P_COUNT])
{
    bool hungry = c->in.from >= 0 && c->in.pending.len == 0;
    bool tty = c->command->tty;
    p[P_WIRE] = (struct pollfd){.fd = c->wire.fd, .events = POLLIN};
    p[P_CANCEL] = (struct pollfd){.fd = c->killed ? -1 : c->command->cancel, .events = POLLIN};
    p[P_OUT] = pump_poll(&c->out);
    p[P_ERR] = pump_poll(&c->err);
    p[P_EAR] = (struct pollfd){.fd = c->ear.from, .events = POLLIN};
    p[P_FEED] = (struct pollfd){.fd = c->in.to, .events = c->in.pending.len ? POLLOUT : 0};
    p[P_IN] =
        (struct pollfd){.fd = hungry && (tty || c->in.to >= 0) ? c->in.from : -1, .events = POLLIN};
}

static void move_bytes(struct call *c, const struct pollfd p[P_COUNT])
{
    if (p[P_OUT].revents)
        pump_out(&c->out);
    if (p[P_ERR].revents)
        pump_out(&c->err);
    if (p[P_EAR].revents)
        hear(c);
    if (p[P_FEED].revents & (POLLERR | POLLHUP))
        close(TAKE_FD(c->in.to)); /* the command reads no more */
    if (c->in.to >= 0 && (p[P_IN].revents || p[P_FEED].revents))
        feed_step(&c->in, p[P_IN].revents != 0);
}

/* Mostly nothing has to be watched but that the guest is there. */
static int wait_ms(const struct call *c)
{
    bool watch = c->before.counted || c->before.disk_watched || c->command->tty ||
                 c->box->limits.output_total;
    int ms = clock_poll_ms(c->deadline);
    watch = watch || (c->command->sink && c->command->sink->tick);
    int most = watch ? TICK_MS : BOX_PULSE_MS;
    return ms < 0 || ms > most ? most : ms;
}

int call_step(struct call *c, struct error *err)
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
    int alive = c->done ? 0 : box_pulse(c->box, &c->pulse, err);
    if (alive < 0)
        return alive;
    if (c->command->sink && c->command->sink->tick)
        c->command->sink->tick(c->command->sink->data);
    return 0;
}

/* The tree is dead: whatever is still in the pipes is all that ever comes. A slow reader is waited
 * for. */
static void drain(struct call *c, struct pump *p)
{
    while (p->from >= 0 && (pump_out(p) || p->full)) {
        struct pollfd wait[] = {pump_poll(p), {.fd = c->command->cancel, .events = POLLIN}};
        if (p->full && poll(wait, ARRAY_SIZE(wait), -1) > 0 && wait[1].revents)
            break;
    }
    pump_close(p);
}

static void call_take_refusals(struct call *c)
{
    struct proxy_refusal refusals[BOX_REFUSALS_MAX];
    struct box_result *r = c->result;
    size_t n = proxy_refusals(c->box->proxy, c->refused_before, refusals, ARRAY_SIZE(refusals));
    r->refused = n ? calloc(n, sizeof *r->refused) : NULL;
    for (size_t i = 0; r->refused && i < n; i++, r->n_refused++) {
        memcpy(r->refused[i].target, refusals[i].target, sizeof refusals[i].target);
        r->refused[i].is_private = refusals[i].is_private;
    }
}

int call_finish(struct call *c, struct error *err)
{
    struct box_result *r = c->result;
    drain(c, &c->out);
    drain(c, &c->err);
    while (c->ear.from >= 0 && hear(c))
        ;
    r->out_error = c->out.error;
    call_take_refusals(c);
    if (c->command->capture) {
        capture_finish(&r->out);
        capture_finish(&r->err);
    }
    if (r->limit == WIRE_LIMIT_NONE)
        r->limit = call_limit(c);
    /* The kernel counts whom it killed for want of memory a moment after the signal, on a busy
     * machine later.
     */
    for (int i = 0; i < LATE_COUNT_TICKS && c->lost && !c->killed && c->before.counted &&
                    r->limit == WIRE_LIMIT_NONE;
         i++) {
        poll(NULL, 0, TICK_MS);
        r->limit = call_limit(c);
    }
    if (c->silent)
        return box_silent(c->box, err);
    if (c->lost && !c->killed && r->limit == WIRE_LIMIT_NONE)
        return box_lost(c->box, err);
    if (r->limit == WIRE_LIMIT_TIMEOUT || r->limit == WIRE_LIMIT_CPU)
        r->exit_code = 124;
    else if (r->signal)
        r->exit_code = 128 + r->signal;
    return 0;
}

void call_free(struct call *c)
{
    cleanup_close(&c->wire.fd);
    cleanup_close(&c->ear.from);
    box_pulse_end(&c->pulse);
    pump_close(&c->out);
    pump_close(&c->err);
    cleanup_close(&c->in.to);
    buf_free(&c->in.pending);
    wire_reader_free(&c->wire);
}

/* A caller's /dev/null stays /dev/null: rg, ack and others search a piped standard input instead of
 * the folder.
 */
static bool input_is_null(int fd)
{
    struct stat st;
    return fd >= 0 && fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
}

void call_init(struct call *c, struct box *b, const struct box_command *cmd,
               struct box_result *result)
{
    *result = (struct box_result){0};
    *c = (struct call){.box = b,
                       .command = cmd,
                       .result = result,
                       .wire = WIRE_READER_INIT(-1),
                       .rows = 24,
                       .cols = 80,
                       .ear.from = -1,
                       .pulse = BOX_PULSE_INIT};
    c->out = (struct pump){
        .from = -1, .to = cmd->out, .total = &c->output, .is_terminal = isatty(cmd->out)};
    c->err = (struct pump){
        .from = -1, .to = cmd->err, .total = &c->output, .is_terminal = isatty(cmd->err)};
    bool none = cmd->shell || (!cmd->tty && input_is_null(cmd->in));
    c->in =
        (struct feed){.from = none ? -1 : cmd->in, .to = -1, .pending = BUF_INIT(WIRE_DATA_MAX)};
    if (cmd->capture) {
        capture_init(&result->out, b->limits.output);
        capture_init(&result->err, b->limits.output);
        c->out.capture = &result->out;
        c->err.capture = &result->err;
    }
    /* A box in which nothing ran yet has used nothing. */
    c->before = (struct usage){.counted = b->backend->counted(b->place),
                               .disk_watched = b->backend->on_disk(b->place)};
    if (__atomic_fetch_add(&b->commands, 1, __ATOMIC_RELAXED) > 0)
        b->backend->usage(b->place, false, &c->before);
    c->refused_before = proxy_refused(b->proxy);
    int64_t wall = call_wall_limit(c);
    int64_t now = clock_now();
    c->deadline = wall && !cmd->background && !weakened("timeout") ? now + wall + GRACE_NS : 0;
    c->next_watch = now + TICK_MS * NS_PER_MS;
}
