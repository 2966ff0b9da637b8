/*
 * One command in a box of this process, from its request to its result: one poll loop moves bytes,
 * watches limits and waits for the RESULT.
 *
 * The host watches what only the kernel's counters tell (CPU time and memory of a whole control
 * group) and how much came out. The guest watches wall time, and the rest where there is no control
 * group.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "box_options.h"
#include "exec.h"
#include "io.h"
#include "proxy/proxy.h"
#include "thread.h"
#include "weaken.h"
#include "banned.h"

#define REQUEST_MAX      WIRE_BODY_MAX
#define PIPE_SIZE        (1 << 20)
#define SPLICE_MOST      (1u << 20)
#define NOTES_MAX        4096
#define GRACE_NS         (5 * NS_PER_S)
#define LATE_COUNT_TICKS 80   /* of TICK_MS */
#define FORK_BOMB_HITS   1000 /* failed forks after which a command is not just at its limit */

struct pollfd pump_poll(const struct pump *p)
{
    if (p->full)
        return (struct pollfd){.fd = p->to, .events = POLLOUT};
    return (struct pollfd){.fd = p->from, .events = POLLIN};
}

void pump_close(struct pump *p)
{
    cleanup_close(&p->from);
    p->from = -1;
    p->full = false;
    buf_free(&p->pending);
}

/*
 * "Try again" means that the source is empty or the target full. When the target's reader is gone
 * for good, the command is to learn it from its own pipe, as it would without a box: so the pump
 * ends.
 */
static bool pump_splice(struct pump *p)
{
    ssize_t n = splice(p->from, NULL, p->to, NULL, SPLICE_MOST, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    p->full = false;
    if (n > 0) {
        *p->total += (uint64_t)n;
        return true;
    }
    if (n < 0 && errno == EINVAL) {
        p->no_splice = true;
        return pump_out(p);
    }
    int waiting = 0;
    if (n < 0 && errno == EAGAIN)
        p->full = ioctl(p->from, FIONREAD, &waiting) == 0 && waiting > 0;
    else if (n == 0 || errno != EINTR) {
        p->error = n < 0 ? errno : 0;
        pump_close(p);
    }
    return false;
}

/* Writes what is pending. False while some of it is left, or when the reader is gone. */
static bool pump_flush(struct pump *p)
{
    while (p->pending.len) {
        ssize_t n = write(p->to, p->pending.data, p->pending.len);
        p->full = n < 0 && errno == EAGAIN;
        if (p->full)
            return false;
        if (n < 0 && errno != EINTR) {
            p->error = errno;
            pump_close(p);
            return false;
        }
        if (n > 0)
            buf_consume(&p->pending, (size_t)n);
    }
    return true;
}

bool pump_out(struct pump *p)
{
    if (p->to >= 0 && !p->capture && !p->no_splice && !p->is_terminal)
        return pump_splice(p);
    if (!pump_flush(p))
        return false;
    char data[PUMP_CHUNK];
    ssize_t n = read(p->from, data, sizeof data);
    if (n <= 0) {
        if (n == 0 || (errno != EAGAIN && errno != EINTR))
            pump_close(p);
        return false;
    }
    *p->total += (uint64_t)n;
    if (p->capture)
        return capture_add(p->capture, data, (size_t)n) == 0;
    if (p->to < 0)
        return true;
    p->pending.max = HARMLESS_GROWTH * (PUMP_CHUNK + 4);
    int r = p->is_terminal ? harmless_append(&p->cut, data, (size_t)n, &p->pending)
                           : buf_append(&p->pending, data, (size_t)n);
    return r == 0 && pump_flush(p);
}

void feed_step(struct feed *f, bool readable)
{
    if (readable && f->from >= 0 && f->pending.len == 0) {
        void *at = buf_reserve(&f->pending, f->pending.max);
        ssize_t n = at ? read(f->from, at, f->pending.max) : -1;
        if (n > 0)
            f->pending.len = (size_t)n;
        else if (n == 0 || !at || (errno != EAGAIN && errno != EINTR))
            f->from = -1; /* the caller's descriptor: not ours to close */
    }
    if (f->pending.len) {
        ssize_t n = write(f->to, f->pending.data, f->pending.len);
        if (n > 0)
            buf_consume(&f->pending, (size_t)n);
        else if (n < 0 && errno != EAGAIN && errno != EINTR)
            f->from = -1, f->pending.len = 0;
    }
    if (f->from < 0 && f->pending.len == 0)
        close(TAKE_FD(f->to));
}

/*
 * The tail's buffer is twice as large as what is kept of it: when it is full the older half is
 * dropped at once, so a byte is moved at most once however long the stream is.
 */
void capture_init(struct box_capture *c, uint64_t limit)
{
    size_t half = (size_t)(limit / 2);
    *c = (struct box_capture){.head = BUF_INIT(limit - half), .tail = BUF_INIT(2 * half)};
}

void capture_init_tail(struct box_capture *c, uint64_t limit)
{
    size_t kept = limit < SIZE_MAX / 2 ? (size_t)limit : SIZE_MAX / 2;
    *c = (struct box_capture){.head = BUF_INIT(0), .tail = BUF_INIT(2 * kept)};
}

int capture_add(struct box_capture *c, const void *data, size_t n)
{
    c->total += n;
    size_t room = c->head.max - c->head.len, first = n < room ? n : room;
    int r = buf_append(&c->head, data, first);
    size_t keep = c->tail.max / 2;
    if (r < 0 || first == n || keep == 0)
        return r;
    const char *rest = (const char *)data + first;
    n -= first;
    if (n > keep) {
        rest += n - keep;
        n = keep;
    }
    if (c->tail.len + n > c->tail.max)
        buf_consume(&c->tail, c->tail.len + n - keep);
    return buf_append(&c->tail, rest, n);
}

void capture_finish(struct box_capture *c)
{
    size_t keep = c->tail.max / 2;
    if (c->tail.len > keep)
        buf_consume(&c->tail, c->tail.len - keep);
}

const char *box_limit_name(enum wire_limit limit)
{
    static const char *const names[] = {
        [WIRE_LIMIT_TIMEOUT] = "timeout", [WIRE_LIMIT_CPU] = "cpu-time",
        [WIRE_LIMIT_MEMORY] = "memory",   [WIRE_LIMIT_PIDS] = "pids",
        [WIRE_LIMIT_DISK] = "disk",       [WIRE_LIMIT_OUTPUT] = "output",
    };
    return (size_t)limit < ARRAY_SIZE(names) ? names[limit] : NULL;
}

static int64_t call_limit_of(int64_t asked, int64_t general)
{
    return asked < 0 ? 0 : asked ? asked : general;
}

static uint64_t ns_to_ms(int64_t ns)
{
    return (uint64_t)((ns + NS_PER_MS - 1) / NS_PER_MS);
}

/* The time that a command may take, 0: any. What a script asks for is an agent's wish: it stays
 * within the box's own limit. */
static int64_t call_wall_limit(const struct call *c)
{
    const struct box_command *cmd = c->command;
    int64_t most = c->box->limits.timeout_ns;
    int64_t wall = call_limit_of(cmd->timeout_ns, most);
    bool bounded = cmd->shell && !cmd->background && most;
    return bounded && (!wall || wall > most) ? most : wall;
}

void call_put_limits(struct buf *b, const struct call *c)
{
    int64_t wall = call_wall_limit(c);
    int64_t cpu = call_limit_of(c->command->cpu_time_ns, c->box->limits.cpu_time_ns);
    if (wall && !weakened("timeout"))
        wire_put_u64(b, WIRE_K_TIMEOUT_MS, ns_to_ms(wall));
    if (!weakened("rlimits"))
        wire_put_u64(b, WIRE_K_FILES, c->box->limits.files);
    if (c->before.counted)
        return;
    if (cpu && !weakened("cpu"))
        wire_put_u64(b, WIRE_K_CPU_MS, ns_to_ms(cpu));
    if (!weakened("memory"))
        wire_put_u64(b, WIRE_K_MEMORY, c->box->limits.memory);
    if (c->box->limits.sockets && !weakened("sockets"))
        wire_put_u64(b, WIRE_K_SOCKETS, c->box->limits.sockets);
    wire_put_u64(b, WIRE_K_PIDS, c->box->limits.pids);
}

int call_pipe(bool into_command, int *ret_ours, int *ret_theirs)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    *ret_ours = ends[into_command ? 1 : 0];
    *ret_theirs = ends[into_command ? 0 : 1];
    return io_set_nonblock(*ret_ours, true);
}

/* Sends the request, with the command's ends of fresh pipes unless its output comes in frames. */
static int call_send(struct call *c, struct error *err)
{
    _cleanup_buf_ struct buf request = BUF_INIT(REQUEST_MAX);
    const struct box_command *cmd = c->command;
    const struct box_limits *l = &c->box->limits;
    struct machine *machine = c->box->machine;
    bool frames = cmd->tty || cmd->shell;
    int theirs[3] = {-1, -1, -1}, r = 0;

    pthread_mutex_lock(&c->box->settings);
    size_t begin = wire_begin(&request, cmd->shell ? WIRE_SHELL : WIRE_EXEC);
    environment_put(&request, c->box->env, cmd->env, cmd->tty, cmd->shell);
    if (cmd->shell) {
        wire_put_str(&request, WIRE_K_NAME, cmd->shell);
        wire_put_str(&request, WIRE_K_TEXT, cmd->script);
        if (cmd->cwd)
            wire_put_str(&request, WIRE_K_CWD, cmd->cwd);
        if (cmd->input)
            wire_put(&request, WIRE_K_DATA, cmd->input, cmd->n_input);
    } else {
        for (char *const *arg = cmd->argv; *arg; arg++)
            wire_put_str(&request, WIRE_K_ARG, *arg);
        wire_put_str(&request, WIRE_K_CWD, cmd->cwd ? cmd->cwd : "/workspace");
        wire_put_u64(&request, WIRE_K_STDIO, cmd->tty ? WIRE_STDIO_PTY : WIRE_STDIO_FDS);
        if (cmd->last)
            wire_put_u64(&request, WIRE_K_LAST, 1);
    }
    if (cmd->tty && !cmd->shell) {
        wire_put_u64(&request, WIRE_K_ROWS, (uint64_t)c->rows);
        wire_put_u64(&request, WIRE_K_COLS, (uint64_t)c->cols);
    }
    if (cmd->background && cmd->shell) {
        wire_put_u64(&request, WIRE_K_BACKGROUND, 1);
        wire_put_u64(&request, WIRE_K_LIMIT_BYTES, l->output);
        if (l->output_total && !weakened("output"))
            wire_put_u64(&request, WIRE_K_OUTPUT_TOTAL, l->output_total);
    }
    call_put_limits(&request, c);
    wire_end(&request, begin);
    pthread_mutex_unlock(&c->box->settings);
    if (request.failed)
        return error_set(err, E2BIG,
                         "the command, its input and its environment are longer than %u bytes",
                         REQUEST_MAX);

    if (!frames && c->in.from >= 0)
        r = call_pipe(true, &c->in.to, &theirs[0]);
    else if (!frames && (theirs[0] = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0)
        r = -errno;
    if (!frames && r == 0)
        r = call_pipe(false, &c->out.from, &theirs[1]);
    if (!frames && r == 0)
        r = call_pipe(false, &c->err.from, &theirs[2]);
    if (!frames && r == 0) /* may fail: users have a quota of pipe memory */
        fcntl(c->out.from, F_SETPIPE_SZ, PIPE_SIZE);

    pthread_rwlock_rdlock(&c->box->frozen); /* nothing is started while a snapshot is taken */
    if (r == 0)
        r = machine->backend->connect(machine, &request, theirs, frames ? 0 : 3, &c->wire.fd);
    pthread_rwlock_unlock(&c->box->frozen);
    for (int i = 0; i < 3; i++)
        cleanup_close(&theirs[i]);
    return box_unreached(c->box, r, err);
}

/* Sends SIGKILL to the command's tree, once, and notes which limit it was. */
static void call_kill(struct call *c, enum wire_limit limit)
{
    if (c->killed)
        return;
    c->killed = true;
    c->result->limit = limit;
    _cleanup_buf_ struct buf frame = BUF_INIT(256);
    size_t begin = wire_begin(&frame, WIRE_KILL);
    wire_put_u64(&frame, WIRE_K_SIGNAL, SIGKILL);
    wire_end(&frame, begin);
    wire_send(c->wire.fd, &frame, NULL, 0);
    int64_t latest = clock_now() + 2 * NS_PER_S;
    if (!c->deadline || c->deadline > latest)
        c->deadline = latest;
}

/* Keys typed on the host's terminal, as they come. At their end the command sees the end of its
 * terminal's input. */
static void call_tty_input(struct call *c)
{
    char data[4096];
    ssize_t n = read(c->command->in, data, sizeof data);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    _cleanup_buf_ struct buf frame = BUF_INIT(2 * sizeof data);
    size_t begin = wire_begin(&frame, WIRE_STDIN);
    if (n > 0)
        wire_put(&frame, WIRE_K_DATA, data, (size_t)n);
    else
        wire_put_u64(&frame, WIRE_K_EOF, 1);
    wire_end(&frame, begin);
    if (n < 0 || wire_send(c->wire.fd, &frame, NULL, 0) < 0 || n == 0)
        c->in.from = -1;
}

/* The size is looked at on every tick rather than on SIGWINCH: a library owns no signal
 * handlers. */
static void call_tty_resize(struct call *c)
{
    struct winsize size;
    int fd = c->command->in >= 0 ? c->command->in : c->command->out;
    if (fd < 0 || ioctl(fd, TIOCGWINSZ, &size) < 0 || !size.ws_row || !size.ws_col ||
        (size.ws_row == c->rows && size.ws_col == c->cols))
        return;
    c->rows = size.ws_row;
    c->cols = size.ws_col;
    if (c->wire.fd < 0) /* not sent yet: the size goes along with the request */
        return;
    _cleanup_buf_ struct buf frame = BUF_INIT(256);
    size_t begin = wire_begin(&frame, WIRE_RESIZE);
    wire_put_u64(&frame, WIRE_K_ROWS, (uint64_t)c->rows);
    wire_put_u64(&frame, WIRE_K_COLS, (uint64_t)c->cols);
    wire_end(&frame, begin);
    wire_send(c->wire.fd, &frame, NULL, 0);
}

/* Compares what was counted with the limits, once a tick. */
static void call_watch(struct call *c)
{
    const struct box_limits *l = &c->box->limits;
    struct usage now;
    if (c->done)
        return;
    if (l->output_total && c->output > l->output_total && !weakened("output"))
        call_kill(c, WIRE_LIMIT_OUTPUT);
    int64_t at = clock_now();
    if (at < c->next_watch)
        return;
    c->next_watch = at + TICK_MS * NS_PER_MS;

    if (c->before.counted) {
        machine_usage(c->box->machine, USAGE_COUNTERS | USAGE_MEMORY, &now);
        int64_t cpu = call_limit_of(c->command->cpu_time_ns, l->cpu_time_ns);
        if (cpu > 0 && now.cpu_ns - c->before.cpu_ns > cpu && !weakened("cpu"))
            call_kill(c, WIRE_LIMIT_CPU);
        else if (now.memory > l->memory || now.sockets > limit_sockets(l))
            call_kill(c, WIRE_LIMIT_MEMORY);
        else if (now.pids_hits - c->before.pids_hits > FORK_BOMB_HITS)
            call_kill(c, WIRE_LIMIT_PIDS);
    }
    /* Nothing in the kernel stops a box that writes more to the disk than it may. A box that was
     * over its limit before may still run commands that remove files. */
    if (c->before.disk_watched) {
        machine_usage(c->box->machine, 0, &now);
        bool grows = now.disk_bytes > c->before.disk_bytes || !c->before.disk_full;
        if (now.host_disk_full || (now.disk_full && grows && !now.disk_exact) || now.disk_lost)
            call_kill(c, WIRE_LIMIT_DISK);
    }
    if (c->command->tty)
        call_tty_resize(c);
    if (c->deadline && at > c->deadline) { /* the guest does not do what it was asked: end all */
        c->silent = !c->killed;
        c->box->machine->backend->kill(c->box->machine);
    }
}

/* Which limit a command ran into that was not ended by us: decided from its end and the
 * counters. */
static enum wire_limit call_limit(struct call *c)
{
    struct usage now;
    if (c->result->exit_code == 0)
        return WIRE_LIMIT_NONE;
    machine_usage(c->box->machine, USAGE_COUNTERS, &now);
    if (now.oom_kills > c->before.oom_kills && c->result->signal == SIGKILL)
        return WIRE_LIMIT_MEMORY;
    if (now.pids_hits > c->before.pids_hits)
        return WIRE_LIMIT_PIDS;
    return now.disk_full ? WIRE_LIMIT_DISK : WIRE_LIMIT_NONE;
}

/* What a guest says is believed only as far as it can be true. */
static int wire_find_int(const struct wire_frame *f, uint16_t key, int fallback, int max)
{
    uint64_t v = wire_find_u64(f, key, (uint64_t)fallback);
    return v <= (uint64_t)max ? (int)v : fallback;
}

static int64_t wire_find_ns(const struct wire_frame *f, uint16_t key, int64_t unit)
{
    uint64_t v = wire_find_u64(f, key, 0);
    return v <= (uint64_t)(INT64_MAX / unit) ? (int64_t)v * unit : INT64_MAX;
}

static void call_read_result(struct call *c, const struct wire_frame *f)
{
    struct box_result *r = c->result;
    r->exit_code = wire_find_int(f, WIRE_K_EXIT_CODE, 125, 255);
    r->signal = wire_find_int(f, WIRE_K_TERM_SIGNAL, 0, NSIG - 1);
    r->duration_ns = wire_find_ns(f, WIRE_K_DURATION_NS, 1);
    r->cpu_ns = wire_find_ns(f, WIRE_K_CPU_US, 1000);
    r->max_rss = wire_find_u64(f, WIRE_K_MAX_RSS, 0);
    _cleanup_free_ char *text = wire_find_str(f, WIRE_K_TEXT);
    if (text)
        snprintf(r->failure, sizeof r->failure, "%s", text);
    enum wire_limit limit = (enum wire_limit)wire_find_u64(f, WIRE_K_LIMIT, 0);
    if (r->limit == WIRE_LIMIT_NONE && limit <= WIRE_LIMIT_OUTPUT)
        r->limit = limit;
    if (c->command->shell) {
        _cleanup_buf_ struct buf notes = BUF_INIT(NOTES_MAX);
        struct wire_field field;
        for (size_t at = 0; wire_next(f, &at, &field);)
            if (field.key == WIRE_K_NOTE && !memchr(field.data, 0, field.size)) {
                if (notes.len)
                    buf_append(&notes, "\n", 1);
                buf_append(&notes, field.data, field.size);
            }
        const char *lines = notes.len && !notes.failed ? buf_cstr(&notes) : NULL;
        r->notes = lines ? strdup(lines) : NULL;
        r->state = (enum wire_state)wire_find_u64(f, WIRE_K_STATE, 0);
        r->cwd = wire_find_str(f, WIRE_K_CWD);
        r->handle = wire_find_u64(f, WIRE_K_HANDLE, 0);
        r->output_path = wire_find_str(f, WIRE_K_OUTPUT_PATH);
    }
    if (c->command->background)
        r->exit_code = 0; /* STATUS reports how it ends */
    c->done = true;
}

/* Output that comes in frames. */
static int call_read_output(struct call *c, const struct wire_frame *f)
{
    struct wire_field data;
    if (!wire_find(f, WIRE_K_DATA, &data))
        return 0;
    c->output += data.size;
    if (c->command->capture)
        return capture_add(c->out.capture, data.data, data.size);
    if (c->command->sink)
        c->command->sink->write(c->command->sink->data, data.data, data.size);
    else if (c->command->out >= 0) {
        int r = io_write_all(c->command->out, data.data, data.size);
        c->out.error = r < 0 && !c->out.error ? -r : c->out.error;
        if (r < 0)
            call_kill(c, WIRE_LIMIT_NONE); /* the reader has gone */
    }
    return 0;
}

static int call_read_frames(struct call *c, struct error *err)
{
    struct wire_frame f;
    ssize_t got = wire_fill(&c->wire);
    if (got == -EAGAIN)
        return 0;
    if (got <= 0) {
        /* The guest is gone: with it everything in the box. The kernel's counters may know why
         * (call_finish). */
        c->lost = c->done = true;
        c->result->exit_code = 128 + SIGKILL;
        c->result->signal = SIGKILL;
        return 0;
    }
    for (int r = 1; !c->done && r > 0;) {
        r = wire_take(&c->wire, &f);
        if (r < 0)
            return error_set(err, EPROTO, "the guest sent a malformed frame");
        if (r == 0)
            return 0;
        switch (f.type) {
        case WIRE_RESULT:
            call_read_result(c, &f);
            break;
        case WIRE_OUTPUT:
            if ((r = call_read_output(c, &f)) < 0)
                return r;
            r = 1;
            break;
        case WIRE_ERROR:
            return wire_error(&f, "the guest reported an error", err);
        case WIRE_WAITING:
            c->waiting = true;
            break;
        case WIRE_ARRIVED:
            c->arrived = true;
            break;
        default:
            return error_set(err, EPROTO, "the guest sent a frame that does not belong here (%d)",
                             f.type);
        }
    }
    return 0;
}

/* False once there is nothing more to read for now. */
static bool call_read_side(struct call *c)
{
    char bytes[PUMP_CHUNK];
    ssize_t n = read(c->side.from, bytes, sizeof bytes);
    if (n > 0 && c->side.received && !c->side.received(c->side.data, bytes, (size_t)n)) {
        call_kill(c, WIRE_LIMIT_NONE);
        n = 0;
    }
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        close(TAKE_FD(c->side.from));
    return n > 0;
}

int call_step(struct call *c, struct error *err)
{
    enum { WIRE, CANCEL, OUT, ERR, FEED, IN, SIDE, COUNT };
    const struct box_command *cmd = c->command;
    bool hungry = c->in.from >= 0 && c->in.pending.len == 0 && (cmd->tty || c->in.to >= 0);
    bool ticks = cmd->sink && cmd->sink->tick;
    struct pollfd p[COUNT] = {
        [WIRE] = {.fd = c->wire.fd, .events = POLLIN},
        [CANCEL] = {.fd = c->killed ? -1 : cmd->cancel, .events = POLLIN},
        [OUT] = pump_poll(&c->out),
        [ERR] = pump_poll(&c->err),
        [FEED] = {.fd = c->in.to, .events = c->in.pending.len ? POLLOUT : 0},
        [IN] = {.fd = hungry ? c->in.from : -1, .events = POLLIN},
        [SIDE] = {.fd = c->side.from, .events = POLLIN},
    };

    /* Mostly nothing has to be watched but that the guest is there. */
    bool watch = c->before.counted || c->before.disk_watched || cmd->tty ||
                 c->box->limits.output_total || ticks;
    int ms = clock_poll_ms(c->deadline), most = watch ? TICK_MS : BOX_PULSE_MS;
    int n = poll(p, COUNT, ms < 0 || ms > most ? most : ms);
    if (n < 0 && errno != EINTR)
        return error_errno(err, errno, "cannot wait for the command");
    for (int i = 0; n <= 0 && i < COUNT; i++)
        p[i].revents = 0;

    if (p[OUT].revents)
        pump_out(&c->out);
    if (p[ERR].revents)
        pump_out(&c->err);
    if (p[SIDE].revents)
        call_read_side(c);
    if (p[FEED].revents & (POLLERR | POLLHUP))
        close(TAKE_FD(c->in.to)); /* the command reads no more */
    if (c->in.to >= 0 && (p[IN].revents || p[FEED].revents))
        feed_step(&c->in, p[IN].revents != 0);
    if (p[CANCEL].revents)
        call_kill(c, WIRE_LIMIT_NONE);
    if (cmd->tty && p[IN].revents)
        call_tty_input(c);
    int r = p[WIRE].revents ? call_read_frames(c, err) : 0;
    if (r < 0)
        return r;
    call_watch(c);
    r = c->done ? 0 : box_pulse(c->box, &c->pulse, err);
    if (r == 0 && ticks)
        cmd->sink->tick(cmd->sink->data);
    return r;
}

/* The tree is dead: whatever is still in the pipes is all that ever comes. A slow reader is waited
 * for. */
static void call_drain(struct call *c, struct pump *p)
{
    while (p->from >= 0 && (pump_out(p) || p->full)) {
        struct pollfd wait[] = {pump_poll(p), {.fd = c->command->cancel, .events = POLLIN}};
        if (p->full && poll(wait, ARRAY_SIZE(wait), -1) > 0 && wait[1].revents)
            break;
    }
    pump_close(p);
}

int call_finish(struct call *c, struct error *err)
{
    struct box_result *r = c->result;
    call_drain(c, &c->out);
    call_drain(c, &c->err);
    while (c->side.from >= 0 && call_read_side(c))
        ;
    r->out_error = c->out.error;
    if (c->command->capture) {
        capture_finish(&r->out);
        capture_finish(&r->err);
    }

    struct proxy_refusal refusals[BOX_REFUSALS_MAX];
    size_t n = c->box->proxy ? proxy_refusals(c->box->proxy, c->refused_before, refusals,
                                              ARRAY_SIZE(refusals))
                             : 0;
    r->refused = n ? calloc(n, sizeof *r->refused) : NULL;
    for (size_t i = 0; r->refused && i < n; i++, r->n_refused++) {
        memcpy(r->refused[i].target, refusals[i].target, sizeof refusals[i].target);
        r->refused[i].is_private = refusals[i].is_private;
    }

    /* The kernel counts whom it killed for want of memory a moment after the signal, on a busy
     * machine later. */
    if (r->limit == WIRE_LIMIT_NONE)
        r->limit = call_limit(c);
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
    cleanup_close(&c->side.from);
    box_pulse_end(&c->pulse);
    pump_close(&c->out);
    pump_close(&c->err);
    cleanup_close(&c->in.to);
    buf_free(&c->in.pending);
    wire_reader_free(&c->wire);
}

void call_init(struct call *c, struct box *b, const struct box_command *cmd,
               struct box_result *result)
{
    /* A caller's /dev/null stays /dev/null: rg, ack and others search a piped standard input
     * instead of the folder. */
    struct stat st;
    bool null = !cmd->tty && cmd->in >= 0 && fstat(cmd->in, &st) == 0 && S_ISCHR(st.st_mode) &&
                st.st_rdev == makedev(1, 3);
    int64_t now = clock_now();
    *result = (struct box_result){0};
    *c = (struct call){
        .box = b,
        .command = cmd,
        .result = result,
        .wire = WIRE_READER_INIT(-1),
        .rows = 24,
        .cols = 80,
        .out = {.from = -1, .to = cmd->out, .is_terminal = isatty(cmd->out)},
        .err = {.from = -1, .to = cmd->err, .is_terminal = isatty(cmd->err)},
        .in = {.from = cmd->shell || null ? -1 : cmd->in,
               .to = -1,
               .pending = BUF_INIT(WIRE_DATA_MAX)},
        .side.from = -1,
        .pulse = BOX_PULSE_INIT,
        .refused_before = b->proxy ? proxy_refused(b->proxy) : 0,
        .next_watch = now + TICK_MS * NS_PER_MS,
    };
    c->out.total = c->err.total = &c->output;
    if (cmd->capture) {
        capture_init(&result->out, b->limits.output);
        capture_init(&result->err, b->limits.output);
        c->out.capture = &result->out;
        c->err.capture = &result->err;
    }
    /* A box in which nothing ran yet has used nothing, and may still be on its way up. */
    bool first = __atomic_fetch_add(&b->commands, 1, __ATOMIC_RELAXED) == 0;
    machine_usage(b->machine, first ? 0 : USAGE_COUNTERS, &c->before);
    int64_t wall = call_wall_limit(c);
    if (wall && !cmd->background && !weakened("timeout"))
        c->deadline = now + wall + GRACE_NS;
}

int local_exec(struct box *b, const struct box_command *cmd, struct box_result *ret,
               struct error *err)
{
    struct box_result result;
    _cleanup_(call_free) struct call c;
    call_init(&c, b, cmd, &result);
    if (cmd->tty)
        call_tty_resize(&c);
    int r = call_send(&c, err);
    int up = box_wait(b, err); /* a box that is still being made finds the request waiting */
    if (up < 0)
        r = up;
    while (r == 0 && !c.done)
        r = call_step(&c, err);
    if (r == 0)
        r = call_finish(&c, err);
    if (r < 0) {
        box_result_free(&result);
        return r;
    }
    *ret = result;
    return 0;
}

int local_terminal(struct box *b, const struct box_command *cmd, unsigned rows, unsigned cols,
                   int *ret_fd, struct error *err)
{
    struct box_command on_terminal = *cmd;
    struct box_result result;
    _cleanup_(call_free) struct call c;
    on_terminal.tty = true;
    on_terminal.in = on_terminal.out = on_terminal.err = -1;
    int r = box_wait(b, err);
    if (r < 0)
        return r;
    call_init(&c, b, &on_terminal, &result);
    c.rows = (int)rows;
    c.cols = (int)cols;
    r = call_send(&c, err);
    if (r == 0)
        *ret_fd = TAKE_FD(c.wire.fd);
    return r;
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
    free(r->refused);
    r->refused = NULL;
    r->n_refused = 0;
    r->cwd = r->notes = r->output_path = NULL;
}
