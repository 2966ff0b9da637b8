#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "conn.h"
#include "io.h"
#include "relay.h"
#include "banned.h"

#define BACKLOG_FULL (256u << 10)
#define BACKLOG_ROOM (128u << 10)
#define BACKLOG_MAX  (2u << 20) /* a full backlog and one more frame always fit */
/* More than pipes hold: only a writer that outlived the command reaches it. */
#define DRAIN_MAX   (4u << 20)
#define END_OF_FILE 4 /* what a terminal takes for it */

/* Sizes that are 0 or absurd become the usual 24 x 80. */
static int pty_resize(int master, uint64_t rows, uint64_t cols)
{
    struct winsize size = {.ws_row = rows && rows <= UINT16_MAX ? (unsigned short)rows : 24,
                           .ws_col = cols && cols <= UINT16_MAX ? (unsigned short)cols : 80};
    return ioctl(master, TIOCSWINSZ, &size);
}

void relay_watch_output(struct relay *c, bool on)
{
    for (size_t i = 0; i < ARRAY_SIZE(c->out); i++)
        if (c->out[i].fd >= 0 && loop_watch(c->loop, &c->out[i], on ? POLLIN : 0) < 0)
            loop_close(c->loop, &c->out[i]);
}

/* Relays one piece. False when there is nothing to read now; the end of the stream closes it. */
static bool relay_piece(struct relay *c, size_t i)
{
    if (c->out[i].fd < 0)
        return false;
    ssize_t n = read(c->out[i].fd, c->scratch, WIRE_DATA_MAX);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return errno == EINTR;
    /* A terminal whose other side is closed reports EIO. */
    if (n <= 0) {
        loop_close(c->loop, &c->out[i]);
        return false;
    }
    struct buf *b = &c->conn->out;
    size_t at = wire_begin(b, WIRE_OUTPUT);
    wire_put_u64(b, WIRE_K_STREAM, i + 1);
    wire_put(b, WIRE_K_DATA, c->scratch, (size_t)n);
    wire_end(b, at);
    if (c->draining)
        c->drained += (size_t)n;
    conn_push(c->conn);
    return true;
}

static void relay_output_ready(struct relay *c, size_t i)
{
    if (conn_is_full(c->conn))
        relay_watch_output(c, false);
    else
        relay_piece(c, i);
}

static void relay_stdout_ready(struct loop_source *s, short events)
{
    relay_output_ready(CONTAINER_OF(s, struct relay, out[0]), 0);
}

static void relay_stderr_ready(struct loop_source *s, short events)
{
    relay_output_ready(CONTAINER_OF(s, struct relay, out[1]), 1);
}

bool relay_drain(struct relay *c)
{
    c->draining = true;
    relay_watch_output(c, false);
    loop_close(c->loop, &c->in);
    for (size_t i = 0; i < ARRAY_SIZE(c->out); i++)
        while (c->out[i].fd >= 0 && c->drained < DRAIN_MAX) {
            if (conn_is_full(c->conn))
                return false;
            if (!relay_piece(c, i))
                break;
        }
    return true;
}

static void relay_end_input(struct relay *c)
{
    loop_close(c->loop, &c->in);
    buf_free(&c->backlog);
}

/* Writes what the command takes; if it closed its input, the rest is dropped. */
static void relay_write_backlog(struct relay *c)
{
    while (c->backlog.len) {
        ssize_t n = write(c->in.fd, c->backlog.data, c->backlog.len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0) {
            relay_end_input(c);
            return;
        }
        buf_consume(&c->backlog, (size_t)n);
    }
    bool empty = c->backlog.len == 0;
    if ((empty && c->in_ends) || loop_watch(c->loop, &c->in, empty ? 0 : POLLOUT) < 0)
        relay_end_input(c);
}

static void relay_balance_input(struct relay *c)
{
    if (!c->conn)
        return;
    if (c->conn->paused && c->backlog.len < BACKLOG_ROOM)
        conn_pause(c->conn, false);
    else if (!c->conn->paused && c->backlog.len >= BACKLOG_FULL)
        conn_pause(c->conn, true);
}

static void relay_stdin_ready(struct loop_source *s, short events)
{
    struct relay *c = CONTAINER_OF(s, struct relay, in);
    /* The reader is gone while nothing was to be written: only the event shows it. */
    if (c->backlog.len == 0)
        relay_end_input(c);
    else
        relay_write_backlog(c);
    relay_balance_input(c);
}

int relay_feed(struct relay *c, const void *data, size_t n, bool end)
{
    if (c->in.fd < 0 || c->in_ends)
        return -EPIPE;
    if (c->backlog.len + n > (c->conn ? BACKLOG_MAX - 1 : RELAY_INPUT_MAX))
        return -ENOBUFS;
    if (buf_append(&c->backlog, data, n) < 0 ||
        (end && c->pty && buf_append(&c->backlog, &(uint8_t){END_OF_FILE}, 1) < 0)) {
        c->backlog.failed = false;
        return -ENOMEM;
    }
    c->in_ends = end && !c->pty;
    relay_write_backlog(c);
    relay_balance_input(c);
    return 0;
}

void relay_resize(struct relay *c, const struct wire_frame *f)
{
    if (c->pty && c->in.fd >= 0)
        pty_resize(c->in.fd, wire_find_u64(f, WIRE_K_ROWS, 0), wire_find_u64(f, WIRE_K_COLS, 0));
}

void relay_init(struct relay *c, struct loop *l, uint8_t *scratch)
{
    *c = (struct relay){
        .loop = l,
        .scratch = scratch,
        .out = {{.fd = -1, .ready = relay_stdout_ready}, {.fd = -1, .ready = relay_stderr_ready}},
        .in = {.fd = -1, .ready = relay_stdin_ready},
        .backlog = BUF_INIT(BACKLOG_MAX)};
}

void relay_close(struct relay *c)
{
    for (size_t i = 0; i < ARRAY_SIZE(c->out); i++)
        loop_close(c->loop, &c->out[i]);
    relay_end_input(c);
}

int relay_open_pipes(struct relay *c, unsigned which, int ret_fds[3])
{
    struct loop_source *const sources[] = {&c->in, &c->out[0], &c->out[1]};
    for (int i = 0; i < 3; i++) {
        int fds[2], ours = i == 0; /* which end */
        if (!(which & 1u << i))
            continue;
        if (pipe2(fds, O_CLOEXEC) < 0)
            return -errno;
        sources[i]->fd = fds[ours];
        ret_fds[i] = fds[!ours];
        /* The other end blocks, as programs expect. */
        int r = io_set_nonblock(fds[ours], true);
        if (r < 0)
            return r;
    }
    return 0;
}

/* A pair of the box's own devpts. Neither end becomes a controlling terminal of the guest. */
int relay_open_pty(struct relay *c, uint64_t rows, uint64_t cols, int ret_fds[3])
{
    _cleanup_fd_ int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    int locked = 0;
    if (master < 0 || ioctl(master, TIOCSPTLCK, &locked) < 0 || pty_resize(master, rows, cols) < 0)
        return -errno;
    /* Asked of the master itself: no name is looked up that another process could have replaced. */
    int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave < 0)
        return -errno;
    /* Copies, so that each is watched and closed on its own. */
    ret_fds[0] = slave;
    for (int i = 1; i < 3; i++)
        ret_fds[i] = fcntl(slave, F_DUPFD_CLOEXEC, 3);
    c->in.fd = fcntl(master, F_DUPFD_CLOEXEC, 3);
    c->out[0].fd = TAKE_FD(master);
    c->pty = true;
    return ret_fds[1] < 0 || ret_fds[2] < 0 || c->in.fd < 0 ? -EMFILE : 0;
}

void relay_start(struct relay *c, struct conn *conn)
{
    c->conn = conn;
    relay_watch_output(c, true);
}
