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

void relay_watch_output(struct relay *r, bool on)
{
    for (size_t i = 0; i < ARRAY_SIZE(r->out); i++)
        if (r->out[i].fd >= 0 && loop_watch(r->loop, &r->out[i], on ? POLLIN : 0) < 0)
            loop_close(r->loop, &r->out[i]);
}

/* Relays one piece. False when there is nothing to read now; the end of the stream closes it. */
static bool relay_piece(struct relay *r, struct loop_source *s)
{
    if (s->fd < 0)
        return false;
    ssize_t n = read(s->fd, r->scratch, WIRE_DATA_MAX);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return errno == EINTR;
    /* A terminal whose other side is closed reports EIO. */
    if (n <= 0) {
        loop_close(r->loop, s);
        return false;
    }
    struct buf *b = &r->conn->out;
    size_t at = wire_begin(b, WIRE_OUTPUT);
    wire_put_u64(b, WIRE_K_STREAM, (uint64_t)(s - r->out) + 1);
    wire_put(b, WIRE_K_DATA, r->scratch, (size_t)n);
    wire_end(b, at);
    if (r->draining)
        r->drained += (size_t)n;
    conn_push(r->conn);
    return true;
}

static void relay_output_ready(struct loop_source *s, short events)
{
    struct relay *r = s->owner;
    if (conn_is_full(r->conn))
        relay_watch_output(r, false);
    else
        relay_piece(r, s);
}

bool relay_drain(struct relay *r)
{
    r->draining = true;
    relay_watch_output(r, false);
    loop_close(r->loop, &r->in);
    for (size_t i = 0; i < ARRAY_SIZE(r->out); i++)
        while (r->out[i].fd >= 0 && r->drained < DRAIN_MAX) {
            if (conn_is_full(r->conn))
                return false;
            if (!relay_piece(r, &r->out[i]))
                break;
        }
    return true;
}

static void relay_end_input(struct relay *r)
{
    loop_close(r->loop, &r->in);
    buf_free(&r->backlog);
}

/* Writes what the command takes; if it closed its input, the rest is dropped. Then the connection
 * is read or paused, as the backlog is short or long. */
static void relay_write_backlog(struct relay *r)
{
    while (r->backlog.len) {
        ssize_t n = write(r->in.fd, r->backlog.data, r->backlog.len);
        if (n < 0 && errno == EAGAIN)
            break;
        if (n >= 0)
            buf_consume(&r->backlog, (size_t)n);
        else if (errno != EINTR)
            relay_end_input(r);
    }
    bool empty = r->backlog.len == 0;
    if (r->in.fd >= 0 &&
        ((empty && r->in_ends) || loop_watch(r->loop, &r->in, empty ? 0 : POLLOUT) < 0))
        relay_end_input(r);
    if (!r->conn)
        return;
    bool pause = r->backlog.len >= (r->conn->paused ? BACKLOG_ROOM : BACKLOG_FULL);
    if (pause != r->conn->paused)
        conn_pause(r->conn, pause);
}

static void relay_input_ready(struct loop_source *s, short events)
{
    struct relay *r = CONTAINER_OF(s, struct relay, in);
    /* The reader is gone while nothing was to be written: only the event shows it. */
    if (r->backlog.len == 0)
        relay_end_input(r);
    relay_write_backlog(r);
}

int relay_feed(struct relay *r, const void *data, size_t n, bool end)
{
    if (r->in.fd < 0 || r->in_ends)
        return -EPIPE;
    if (r->backlog.len + n > (r->conn ? BACKLOG_MAX - 1 : RELAY_INPUT_MAX))
        return -ENOBUFS;
    if (buf_append(&r->backlog, data, n) < 0 ||
        (end && r->pty && buf_append(&r->backlog, &(uint8_t){END_OF_FILE}, 1) < 0)) {
        r->backlog.failed = false;
        return -ENOMEM;
    }
    r->in_ends = end && !r->pty;
    relay_write_backlog(r);
    return 0;
}

void relay_init(struct relay *r, struct loop *l, uint8_t *scratch)
{
    const struct loop_source out = {.fd = -1, .ready = relay_output_ready, .owner = r};
    *r = (struct relay){.loop = l,
                        .scratch = scratch,
                        .out = {out, out},
                        .in = {.fd = -1, .ready = relay_input_ready},
                        .backlog = BUF_INIT(BACKLOG_MAX)};
}

void relay_close(struct relay *r)
{
    for (size_t i = 0; i < ARRAY_SIZE(r->out); i++)
        loop_close(r->loop, &r->out[i]);
    relay_end_input(r);
}

int relay_open_pipes(struct relay *r, unsigned which, int ret_fds[3])
{
    struct loop_source *const sources[] = {&r->in, &r->out[0], &r->out[1]};
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

int relay_resize(struct relay *r, const struct wire_frame *f)
{
    uint64_t rows = wire_find_u64(f, WIRE_K_ROWS, 0), cols = wire_find_u64(f, WIRE_K_COLS, 0);
    /* Sizes that are 0 or absurd become the usual 24 x 80. */
    struct winsize size = {.ws_row = rows && rows <= UINT16_MAX ? (unsigned short)rows : 24,
                           .ws_col = cols && cols <= UINT16_MAX ? (unsigned short)cols : 80};
    return r->pty && r->in.fd >= 0 ? ioctl(r->in.fd, TIOCSWINSZ, &size) : 0;
}

/* A pair of the box's own devpts. Neither end becomes a controlling terminal of the guest. */
int relay_open_pty(struct relay *r, const struct wire_frame *f, int ret_fds[3])
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
    r->in.fd = fcntl(master, F_DUPFD_CLOEXEC, 3);
    r->out[0].fd = TAKE_FD(master);
    r->pty = true;
    if (ret_fds[1] < 0 || ret_fds[2] < 0 || r->in.fd < 0)
        return -EMFILE;
    return relay_resize(r, f) < 0 ? -errno : 0;
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

/* Fewer bytes than asked for if the agent truncated the file. */
static size_t log_read(const struct output_log *l, void *data, size_t n, uint64_t at)
{
    ssize_t got = io_read_at(l->file, data, n, at);
    return got < 0 ? 0 : (size_t)got;
}

void output_log_read(const struct output_log *l, uint64_t from, void *first, void *last,
                     size_t room, struct output_log_news *ret)
{
    uint64_t gap_end = l->head + l->dropped;
    *ret = (struct output_log_news){0};
    if (from >= l->total || l->file < 0)
        return;
    if (from < gap_end)
        ret->dropped = gap_end - (from > l->head ? from : l->head);
    /* The first bytes: of the head, or of the tail if nothing between was left out. */
    uint64_t tail_at = log_tail_offset(l), at = from;
    if (at < l->head) {
        size_t n = l->head - at < room ? (size_t)(l->head - at) : room;
        ret->first = log_read(l, first, n, at);
        at += n;
    }
    if (at >= gap_end && ret->first < room) {
        uint64_t left = l->total - at;
        size_t n = left < room - ret->first ? (size_t)left : room - ret->first;
        ret->first += log_read(l, (char *)first + ret->first, n, tail_at + (at - gap_end));
        at += n;
    }
    /* The last bytes of what follows. */
    uint64_t start = at < gap_end && at >= l->head ? gap_end : at;
    uint64_t from_last = l->total - start < room ? start : l->total - room;
    if (from_last < l->head) {
        ret->last = log_read(l, last, (size_t)(l->head - from_last), from_last);
        from_last = gap_end;
    }
    if (from_last < gap_end)
        from_last = gap_end;
    ret->last += log_read(l, (char *)last + ret->last, (size_t)(l->total - from_last),
                          tail_at + (from_last - gap_end));
}
