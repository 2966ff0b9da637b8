/*
 * The input and output of a command: relayed in frames of the host's connection, or, in the
 * background, logged to a file of the box. A command whose descriptors came with the request needs
 * neither.
 *
 * The relay is bounded both ways: output is read only while the connection's queue has room, and
 * frames of input are read only while the command takes them.
 *
 * A background command writes to a pipe that the guest empties, so that it can neither fill the
 * disk nor exceed the limit of its log. The agent can read and damage the file: the guest trusts
 * only its own descriptor and counts.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "io.h"
#include "banned.h"

#define BACKLOG_FULL (256u << 10)
#define BACKLOG_ROOM (128u << 10)
#define BACKLOG_MAX  (2u << 20) /* a full backlog and one more frame always fit */
/* More than pipes hold: only a writer that outlived the command reaches it. */
#define DRAIN_MAX   (4u << 20)
#define END_OF_FILE 4 /* what a terminal takes for it */

#define OUTPUT_DIR  "/tmp/.hutch"
#define NAMES_TRIED 10000
/* Of one length whatever the number is, so that it can be written again in place. */
#define GAP_FORMAT "\n[... %20" PRIu64 " bytes left out here ...]\n"
#define GAP_LENGTH (sizeof "\n[... 12345678901234567890 bytes left out here ...]\n" - 1)

void relay_watch_output(struct command *c, bool on)
{
    for (size_t i = 0; i < ARRAY_SIZE(c->out); i++)
        if (c->out[i].fd >= 0 && loop_watch(&c->guest->loop, &c->out[i], on ? POLLIN : 0) < 0)
            loop_close(&c->guest->loop, &c->out[i]);
}

/* Relays one piece. False when there is nothing to read now; the end of the stream closes it. */
static bool relay_piece(struct command *c, struct loop_source *s)
{
    if (s->fd < 0)
        return false;
    ssize_t n = read(s->fd, c->guest->scratch, WIRE_DATA_MAX);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return errno == EINTR;
    /* A terminal whose other side is closed reports EIO. */
    if (n <= 0) {
        loop_close(&c->guest->loop, s);
        return false;
    }
    struct buf *b = &c->conn->out;
    size_t at = wire_begin(b, WIRE_OUTPUT);
    wire_put_u64(b, WIRE_K_STREAM, (uint64_t)(s - c->out) + 1);
    wire_put(b, WIRE_K_DATA, c->guest->scratch, (size_t)n);
    wire_end(b, at);
    if (c->draining)
        c->drained += (size_t)n;
    conn_push(c->conn);
    return true;
}

static void relay_output_ready(struct loop_source *s, short events)
{
    struct command *c = s->owner;
    if (conn_is_full(c->conn))
        relay_watch_output(c, false);
    else
        relay_piece(c, s);
}

bool relay_drain(struct command *c)
{
    relay_watch_output(c, false);
    loop_close(&c->guest->loop, &c->in);
    for (size_t i = 0; i < ARRAY_SIZE(c->out); i++)
        while (c->out[i].fd >= 0 && c->drained < DRAIN_MAX) {
            if (conn_is_full(c->conn))
                return false;
            if (!relay_piece(c, &c->out[i]))
                break;
        }
    return true;
}

static void relay_end_input(struct command *c)
{
    loop_close(&c->guest->loop, &c->in);
    buf_free(&c->backlog);
}

/* Writes what the command takes; if it closed its input, the rest is dropped. Then the connection
 * is read or paused, as the backlog is short or long. */
static void relay_write_backlog(struct command *c)
{
    while (c->backlog.len) {
        ssize_t n = write(c->in.fd, c->backlog.data, c->backlog.len);
        if (n < 0 && errno == EAGAIN)
            break;
        if (n >= 0)
            buf_consume(&c->backlog, (size_t)n);
        else if (errno != EINTR)
            relay_end_input(c);
    }
    bool empty = c->backlog.len == 0;
    if (c->in.fd >= 0 &&
        ((empty && c->in_ends) || loop_watch(&c->guest->loop, &c->in, empty ? 0 : POLLOUT) < 0))
        relay_end_input(c);
    if (!c->conn)
        return;
    bool pause = c->backlog.len >= (c->conn->paused ? BACKLOG_ROOM : BACKLOG_FULL);
    if (pause != c->conn->paused)
        conn_pause(c->conn, pause);
}

static void relay_input_ready(struct loop_source *s, short events)
{
    struct command *c = CONTAINER_OF(s, struct command, in);
    /* The reader is gone while nothing was to be written: only the event shows it. */
    if (c->backlog.len == 0)
        relay_end_input(c);
    relay_write_backlog(c);
}

int relay_feed(struct command *c, const void *data, size_t n, bool end)
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
    return 0;
}

void relay_init(struct command *c)
{
    const struct loop_source out = {.fd = -1, .ready = relay_output_ready, .owner = c};
    c->out[0] = c->out[1] = out;
    c->in = (struct loop_source){.fd = -1, .ready = relay_input_ready};
    c->backlog = BUF_INIT(BACKLOG_MAX);
}

void relay_close(struct command *c)
{
    for (size_t i = 0; i < ARRAY_SIZE(c->out); i++)
        loop_close(&c->guest->loop, &c->out[i]);
    relay_end_input(c);
}

int relay_open_pipes(struct command *c, unsigned which, int ret_fds[3])
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
        int code = io_set_nonblock(fds[ours], true);
        if (code < 0)
            return code;
    }
    return 0;
}

int relay_resize(struct command *c, const struct wire_frame *f)
{
    uint64_t rows = wire_find_u64(f, WIRE_K_ROWS, 0), cols = wire_find_u64(f, WIRE_K_COLS, 0);
    /* Sizes that are 0 or absurd become the usual 24 x 80. */
    struct winsize size = {.ws_row = rows && rows <= UINT16_MAX ? (unsigned short)rows : 24,
                           .ws_col = cols && cols <= UINT16_MAX ? (unsigned short)cols : 80};
    return c->pty && c->in.fd >= 0 ? ioctl(c->in.fd, TIOCSWINSZ, &size) : 0;
}

/* A pair of the box's own devpts. Neither end becomes a controlling terminal of the guest. */
int relay_open_pty(struct command *c, const struct wire_frame *f, int ret_fds[3])
{
    _cleanup_fd_ int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    int locked = 0;
    if (master < 0 || ioctl(master, TIOCSPTLCK, &locked) < 0)
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
    if (ret_fds[1] < 0 || ret_fds[2] < 0 || c->in.fd < 0)
        return -EMFILE;
    return relay_resize(c, f) < 0 ? -errno : 0;
}

int output_log_create(struct output_log *l, uint64_t *number)
{
    char path[64];
    /* The agent can write the folder, so only a file that did not exist is used. One may exist,
     * from the box that this one was forked off; its number is skipped. */
    mkdir(OUTPUT_DIR, 0700);
    for (int i = 0; l->file < 0 && (i == 0 || (errno == EEXIST && i < NAMES_TRIED)); i++) {
        *number += i > 0;
        snprintf(path, sizeof path, OUTPUT_DIR "/%llu.out", (unsigned long long)*number);
        l->file = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    }
    if (l->file < 0)
        return -errno;
    l->path = strdup(path);
    return l->path ? 0 : -ENOMEM;
}

void output_log_free(struct output_log *l, struct loop *loop)
{
    loop_close(loop, &l->pipe);
    cleanup_close(&l->file);
    free(l->path);
}

static uint64_t log_tail_offset(const struct output_log *l)
{
    return l->head + (l->dropped ? GAP_LENGTH : 0);
}

/* Leaves out the start of the tail, all but its last `left` bytes. */
static void log_shorten_tail(struct output_log *l, uint64_t left)
{
    char piece[8192], gap[GAP_LENGTH + 1];
    uint64_t from = log_tail_offset(l) + l->tail - left, to = l->head + GAP_LENGTH;
    bool moved = true;
    for (uint64_t at = 0; moved && at < left;) {
        size_t n = left - at < sizeof piece ? (size_t)(left - at) : sizeof piece;
        moved = io_read_at(l->file, piece, n, from + at) == (ssize_t)n &&
                io_write_at(l->file, piece, n, to + at) == 0;
        at += n;
    }
    if (!moved)
        left = 0;
    l->dropped += l->tail - left;
    l->tail = left;
    snprintf(gap, sizeof gap, GAP_FORMAT, l->dropped);
    io_write_at(l->file, gap, GAP_LENGTH, l->head);
    if (ftruncate(l->file, (off_t)(to + left)) < 0)
        return; /* the next write overwrites the rest */
}

bool output_log_step(struct output_log *l, struct loop *loop, void *scratch, size_t size)
{
    const char *data = scratch;
    if (l->pipe.fd < 0)
        return false;
    uint64_t keep = l->keep < OUTPUT_LOG_MIN ? OUTPUT_LOG_MIN : l->keep;
    uint64_t half = (keep > OUTPUT_LOG_MAX ? OUTPUT_LOG_MAX : keep) / 2;
    /* A piece fits beside half of a tail. */
    ssize_t got = read(l->pipe.fd, scratch, size < half / 2 ? size : (size_t)(half / 2));
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return errno == EINTR;
    if (got <= 0) {
        loop_close(loop, &l->pipe);
        return false;
    }
    size_t n = (size_t)got;
    l->total += n;
    if (!l->head_ended) {
        uint64_t room = half - l->head;
        size_t take = n < room ? n : (size_t)room;
        bool written = io_write_at(l->file, data, take, l->head) == 0;
        l->head_ended = !written || take == room;
        take = written ? take : 0;
        l->head += take;
        data += take;
        n -= take;
    }
    if (n == 0)
        return true;
    if (l->tail + n > half) /* what stays moves down by more than the gap is long */
        log_shorten_tail(l, half / 2 - GAP_LENGTH);
    bool written = io_write_at(l->file, data, n, log_tail_offset(l) + l->tail) == 0;
    if (!written) { /* the disk is full: the newest bytes are worth more */
        log_shorten_tail(l, 0);
        written = io_write_at(l->file, data, n, log_tail_offset(l)) == 0;
    }
    l->tail += n;
    if (!written)
        log_shorten_tail(l, 0);
    return true;
}

/* Copies the bytes from `from` up to `to` of all that was written, without those that were dropped.
 * Fewer than there should be if the agent truncated the file. */
static size_t log_copy(const struct output_log *l, uint64_t from, uint64_t to, char *data)
{
    uint64_t gap_end = l->head + l->dropped, head_end = to < l->head ? to : l->head;
    ssize_t first = 0, last = 0;
    if (from < head_end)
        first = io_read_at(l->file, data, (size_t)(head_end - from), from);
    first = first < 0 ? 0 : first;
    from = from < gap_end ? gap_end : from;
    if (from < to)
        last = io_read_at(l->file, data + first, (size_t)(to - from),
                          log_tail_offset(l) + (from - gap_end));
    return (size_t)first + (last < 0 ? 0 : (size_t)last);
}

void output_log_read(const struct output_log *l, uint64_t from, void *first, void *last,
                     size_t room, struct output_log_news *ret)
{
    uint64_t gap_end = l->head + l->dropped, gap = from > l->head ? from : l->head;
    *ret = (struct output_log_news){0};
    if (from >= l->total || l->file < 0)
        return;
    ret->dropped = gap < gap_end ? gap_end - gap : 0;
    /* The first bytes end where bytes are left out, or at the end of the output. */
    uint64_t end = ret->dropped ? gap : l->total, tail = l->total > room ? l->total - room : 0;
    end = end - from > room ? from + room : end;
    ret->first = log_copy(l, from, end, first);
    ret->last = log_copy(l, tail > end ? tail : end, l->total, last);
}
