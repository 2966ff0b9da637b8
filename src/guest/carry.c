#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "carry.h"
#include "conn.h"
#include "guest.h"
#include "io.h"
#include "pty.h"
#include "banned.h"

#define BACKLOG_FULL (256u << 10)
#define BACKLOG_ROOM (128u << 10)
#define BACKLOG_MAX  (2u << 20) /* a full backlog and one more frame always fit */
#define DRAIN_MAX                                                                                  \
    (4u << 20)        /* more than pipes hold: only a writer that outlived the command reaches it */
#define END_OF_FILE 4 /* what a terminal takes for it */

static void stop_output(struct carry *c)
{
    for (size_t i = 0; i < ARRAY_SIZE(c->out); i++)
        loop_watch(c->loop, &c->out[i], 0);
}

static void watch_output(struct carry *c)
{
    for (size_t i = 0; i < ARRAY_SIZE(c->out); i++)
        if (c->out[i].fd >= 0 && loop_watch(c->loop, &c->out[i], POLLIN) < 0)
            loop_close(c->loop, &c->out[i]);
}

/* Carries one piece. False when there is nothing to read now; the end of the stream closes it. */
static bool carry_piece(struct carry *c, size_t i)
{
    uint8_t *piece = c->conn->guest->scratch;
    if (c->out[i].fd < 0)
        return false;
    ssize_t n = read(c->out[i].fd, piece, WIRE_DATA_MAX);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return errno == EINTR;
    /* A terminal whose other side is closed says EIO. */
    if (n <= 0) {
        loop_close(c->loop, &c->out[i]);
        return false;
    }
    struct buf *b = &c->conn->out;
    size_t at = wire_begin(b, WIRE_OUTPUT);
    wire_put_u64(b, WIRE_K_STREAM, i + 1);
    wire_put(b, WIRE_K_DATA, piece, (size_t)n);
    wire_end(b, at);
    if (c->draining)
        c->drained += (size_t)n;
    conn_push(c->conn);
    return true;
}

static void output_ready(struct carry *c, size_t i)
{
    if (conn_is_full(c->conn))
        stop_output(c);
    else
        carry_piece(c, i);
}

static void stdout_ready(struct loop_source *s, short events)
{
    output_ready(CONTAINER_OF(s, struct carry, out[0]), 0);
}

static void stderr_ready(struct loop_source *s, short events)
{
    output_ready(CONTAINER_OF(s, struct carry, out[1]), 1);
}

void carry_room(struct carry *c)
{
    watch_output(c);
}

bool carry_drain(struct carry *c)
{
    c->draining = true;
    stop_output(c);
    loop_close(c->loop, &c->in);
    for (size_t i = 0; i < ARRAY_SIZE(c->out); i++)
        while (c->out[i].fd >= 0 && c->drained < DRAIN_MAX) {
            if (conn_is_full(c->conn))
                return false;
            if (!carry_piece(c, i))
                break;
        }
    return true;
}

static void end_input(struct carry *c)
{
    loop_close(c->loop, &c->in);
    buf_free(&c->backlog);
}

/* Writes what the command takes; whoever closed its input does not want the rest. */
static void write_backlog(struct carry *c)
{
    while (c->backlog.len) {
        ssize_t n = write(c->in.fd, c->backlog.data, c->backlog.len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0) {
            end_input(c);
            return;
        }
        buf_consume(&c->backlog, (size_t)n);
    }
    bool empty = c->backlog.len == 0;
    if ((empty && c->in_ends) || loop_watch(c->loop, &c->in, empty ? 0 : POLLOUT) < 0)
        end_input(c);
}

static void balance_input(struct carry *c)
{
    if (!c->conn)
        return;
    if (c->conn->paused && c->backlog.len < BACKLOG_ROOM)
        conn_pause(c->conn, false);
    else if (!c->conn->paused && c->backlog.len >= BACKLOG_FULL)
        conn_pause(c->conn, true);
}

static void stdin_ready(struct loop_source *s, short events)
{
    struct carry *c = CONTAINER_OF(s, struct carry, in);
    /* The reader is gone while nothing was to be written: told by the event alone. */
    if (c->backlog.len == 0)
        end_input(c);
    else
        write_backlog(c);
    balance_input(c);
}

int carry_input(struct carry *c, const struct wire_frame *f)
{
    struct wire_field data;
    if (c->in.fd < 0 || c->in_ends)
        return 0;
    if (wire_find(f, WIRE_K_DATA, &data))
        buf_append(&c->backlog, data.data, data.size);
    if (wire_find_u64(f, WIRE_K_EOF, 0)) {
        if (c->pty)
            buf_append(&c->backlog, &(uint8_t){END_OF_FILE}, 1);
        else
            c->in_ends = true;
    }
    if (c->backlog.failed)
        return -ENOBUFS;
    write_backlog(c);
    balance_input(c);
    return 0;
}

int carry_feed(struct carry *c, const void *data, size_t n, bool end)
{
    if (c->in.fd < 0 || c->in_ends)
        return -EPIPE;
    if (c->backlog.len + n > CARRY_INPUT_MAX)
        return -ENOBUFS;
    if (buf_append(&c->backlog, data, n) < 0) {
        c->backlog.failed = false;
        return -ENOMEM;
    }
    c->in_ends = end;
    write_backlog(c);
    return 0;
}

void carry_resize(struct carry *c, const struct wire_frame *f)
{
    if (c->pty && c->in.fd >= 0)
        pty_resize(c->in.fd, wire_find_u64(f, WIRE_K_ROWS, 0), wire_find_u64(f, WIRE_K_COLS, 0));
}

void carry_init(struct carry *c, struct loop *l)
{
    *c = (struct carry){
        .loop = l,
        .out = {{.fd = -1, .ready = stdout_ready}, {.fd = -1, .ready = stderr_ready}},
        .in = {.fd = -1, .ready = stdin_ready},
        .backlog = BUF_INIT(BACKLOG_MAX)};
}

void carry_close(struct carry *c)
{
    for (size_t i = 0; i < ARRAY_SIZE(c->out); i++)
        loop_close(c->loop, &c->out[i]);
    end_input(c);
}

/* A pipe whose `ours` end does not block; the other does, as programs expect. */
static int open_pipe(int ours, int ret[2])
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return -errno;
    int r = io_set_nonblock(fds[ours], true);
    if (r < 0) {
        close(fds[0]);
        close(fds[1]);
        return r;
    }
    ret[0] = fds[0];
    ret[1] = fds[1];
    return 0;
}

int carry_open_pipes(struct carry *c, int ret_fds[3])
{
    int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1};
    int r = open_pipe(1, in);
    if (r >= 0)
        r = open_pipe(0, out);
    if (r >= 0)
        r = open_pipe(0, err);
    c->in.fd = in[1];
    c->out[0].fd = out[0];
    c->out[1].fd = err[0];
    ret_fds[0] = in[0];
    ret_fds[1] = out[1];
    ret_fds[2] = err[1];
    return r;
}

int carry_open_output(struct carry *c, int ret_fds[3])
{
    int out[2] = {-1, -1};
    int r = open_pipe(0, out);
    c->out[0].fd = out[0];
    ret_fds[1] = out[1];
    if (r >= 0 && (ret_fds[2] = fcntl(out[1], F_DUPFD_CLOEXEC, 3)) < 0)
        r = -errno;
    return r;
}

int carry_open_input(struct carry *c, int ret_fds[3])
{
    int in[2] = {-1, -1};
    int r = open_pipe(1, in);
    c->in.fd = in[1];
    ret_fds[0] = in[0];
    return r;
}

int carry_open_pty(struct carry *c, uint64_t rows, uint64_t cols, int ret_fds[3])
{
    int slave;
    int r = pty_open(rows, cols, &c->out[0].fd, &slave);
    if (r < 0)
        return r;
    ret_fds[0] = slave;
    /* Copies, so that each is watched and closed on its own. */
    for (int i = 1; i < 3; i++)
        ret_fds[i] = fcntl(slave, F_DUPFD_CLOEXEC, 3);
    c->in.fd = fcntl(c->out[0].fd, F_DUPFD_CLOEXEC, 3);
    c->pty = true;
    return ret_fds[1] < 0 || ret_fds[2] < 0 || c->in.fd < 0 ? -EMFILE : 0;
}

void carry_start(struct carry *c, struct conn *conn)
{
    c->conn = conn;
    watch_output(c);
}
