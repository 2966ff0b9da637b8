/*
 * Is the guest of a box still there, and does it answer? Whoever waits for a box asks now and then.
 *
 * A guest that is stopped, or that gets no processor any more, watches no limits and answers no
 * request, and its streams do not end either. So while somebody waits the host sends a PING, which
 * the guest's loop answers at once whatever else it has to do; a guest that has not answered after
 * SILENCE_MAX ends with its box. One that wants to run but cannot (a very busy machine, a disk that
 * has to start up) is given longer.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "local_box.h"
#include "thread.h"
#include "banned.h"

#define PING_EACH       (1 * NS_PER_S)
#define SILENCE_MAX     (5 * NS_PER_S)
#define STARVED_MAX     (30 * NS_PER_S)
#define END_PATIENCE_MS 500

/* A command that met its limit on memory has ended before the kernel has freed all of it. */
#define OVER_MAX (500 * NS_PER_MS)

int box_pulse(struct box *b, struct box_pulse *p, struct error *err)
{
    int64_t now = clock_now();
    if (!b->machine) /* a keeper watches over its boxes itself */
        return 0;
    if (!p->since)
        p->since = now;
    if (p->fd < 0) {
        _cleanup_buf_ struct buf request = BUF_INIT(64);
        if (now - p->since < PING_EACH)
            return 0;
        /* A guest that has ended closes its streams, by which who waits learns of it. */
        p->since = now;
        wire_end(&request, wire_begin(&request, WIRE_PING));
        b->machine->backend->connect(b->machine, &request, NULL, 0, &p->fd);
        return 0;
    }

    /* First the answer, then the clock: the host itself may have been stopped meanwhile. */
    struct pollfd answer = {.fd = p->fd, .events = POLLIN};
    if (poll(&answer, 1, 0) > 0) {
        box_pulse_end(p);
        p->since = now;
        return 0;
    }
    struct machine_status status;
    int64_t silence = now - p->since;
    if (silence <= SILENCE_MAX)
        return 0;
    b->machine->backend->status(b->machine, 0, &status);
    return status.is_waiting && silence <= STARVED_MAX ? 0 : box_silent(b, err);
}

void box_pulse_end(struct box_pulse *p)
{
    cleanup_close(&p->fd);
    *p = BOX_PULSE_INIT;
}

/* The host ends a box, once, for a reason that later calls repeat. */
static int box_end(struct box *b, const char *why, struct error *err)
{
    b->ended = why;
    b->machine->backend->kill(b->machine);
    return error_set(err, EPIPE, "the box has ended: %s", why);
}

int box_silent(struct box *b, struct error *err)
{
    return box_end(b,
                   "its process 1 (hutch-guest) did not answer for seconds: it was stopped, or the "
                   "machine is overloaded",
                   err);
}

/* Between calls only background commands run, and requests that others wait for. */
int box_tick(struct box *b, struct error *err)
{
    struct usage now;
    if (b->ended || box_wait(b, NULL) < 0)
        return 0;
    machine_usage(b->machine, USAGE_COUNTERS | USAGE_MEMORY, &now);
    if (now.disk_lost)
        return box_end(b, "the process that watched its disk (box-store) has ended", err);
    int64_t at = clock_now();
    if (!now.counted ||
        (now.memory <= b->limits.memory && now.sockets <= limit_sockets(&b->limits)))
        b->over_since = 0;
    else if (!b->over_since)
        b->over_since = at;
    else if (at - b->over_since >= OVER_MAX)
        return box_end(b, "a background process exceeded the memory limit", err);
    return box_pulse(b, &b->pulse, err);
}

int box_check(struct box *b, struct error *err)
{
    _cleanup_(box_pulse_end) struct box_pulse pulse = BOX_PULSE_INIT;
    _cleanup_buf_ struct buf request = BUF_INIT(64);
    wire_end(&request, wire_begin(&request, WIRE_PING));
    int r = box_connect(b, &request, &pulse.fd, err);
    while (r == 0) {
        char byte;
        struct pollfd answer = {.fd = pulse.fd, .events = POLLIN};
        if (poll(&answer, 1, BOX_PULSE_MS) > 0)
            return recv(pulse.fd, &byte, 1, MSG_PEEK) == 1 ? 0 : box_lost(b, err);
        r = box_pulse(b, &pulse, err);
    }
    return r;
}

int box_unreached(struct box *b, int r, struct error *err)
{
    if (r == -EPIPE || r == -ECONNRESET)
        return box_lost(b, err);
    if (r == -EAGAIN)
        return box_silent(b, err);
    return r < 0 ? error_errno(err, -r, "cannot reach the box") : 0;
}

int box_lost(struct box *b, struct error *err)
{
    struct machine_status status;
    struct usage now;
    b->machine->backend->status(b->machine, 0, &status);
    if (status.failed_start)
        return error_set(err, EPIPE, "the box did not start: %s", status.why);
    machine_usage(b->machine, USAGE_COUNTERS, &now);
    const char *why = now.oom_kills        ? "it needed more memory than it may have"
                      : now.host_disk_full ? "the host's disk is nearly full; free some space"
                      : now.disk_full      ? "its disk is full"
                      : now.pids_hits      ? "it needed more processes than it may have"
                                           : b->ended;
    if (!why) {
        b->machine->backend->status(b->machine, END_PATIENCE_MS, &status);
        if (!status.has_ended)
            return error_set(err, EAGAIN,
                             "the box refused the request: its process 1 (hutch-guest) has too "
                             "many to serve, or no memory for another");
        why = status.why;
    }
    return *why ? error_set(err, EPIPE, "the box has ended: %s", why)
                : error_set(err, EPIPE, "the box has ended");
}
