#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"
#include "io.h"
#include "output_log.h"
#include "banned.h"

/* Of one length whatever the number is, so that it can be written again in place. */
#define GAP_FORMAT "\n[... %20" PRIu64 " bytes left out here ...]\n"
#define GAP_LENGTH (sizeof "\n[... 12345678901234567890 bytes left out here ...]\n" - 1)

void output_log_close(struct output_log *l, struct loop *loop)
{
    loop_close(loop, &l->pipe);
    cleanup_close(&l->file);
    l->file = -1;
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

static void log_add(struct output_log *l, const char *data, size_t n)
{
    uint64_t half = l->keep / 2;
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
        return;
    if (l->tail + n > half) /* what stays moves down by more than the gap is long */
        log_shorten_tail(l, half / 2 - GAP_LENGTH);
    bool written = io_write_at(l->file, data, n, log_tail_offset(l) + l->tail) == 0;
    if (!written) { /* the disk is full: what came last is worth more */
        log_shorten_tail(l, 0);
        written = io_write_at(l->file, data, n, log_tail_offset(l)) == 0;
    }
    l->tail += n;
    if (!written)
        log_shorten_tail(l, 0);
}

bool output_log_step(struct output_log *l, struct loop *loop, void *scratch, size_t size)
{
    if (l->pipe.fd < 0)
        return false;
    if (l->keep < OUTPUT_LOG_MIN)
        l->keep = OUTPUT_LOG_MIN;
    if (l->keep > OUTPUT_LOG_MAX)
        l->keep = OUTPUT_LOG_MAX;
    /* A piece fits beside half of a tail. */
    size_t most = size < l->keep / 4 ? size : (size_t)(l->keep / 4);
    ssize_t n = read(l->pipe.fd, scratch, most);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return errno == EINTR;
    if (n <= 0) {
        loop_close(loop, &l->pipe);
        return false;
    }
    log_add(l, scratch, (size_t)n);
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
    uint64_t left = l->total - start;
    uint64_t from_last = left < room ? start : l->total - room;
    if (from_last < l->head) {
        size_t n = (size_t)(l->head - from_last);
        ret->last = log_read(l, last, n, from_last);
        from_last = gap_end;
    }
    if (from_last < gap_end)
        from_last = gap_end;
    ret->last += log_read(l, (char *)last + ret->last, (size_t)(l->total - from_last),
                          tail_at + (from_last - gap_end));
}
