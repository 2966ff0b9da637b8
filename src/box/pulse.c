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
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "box_private.h"
#include "clock.h"
#include "io.h"
#include "names.h"
#include "banned.h"

#define PING_EACH       (1 * NS_PER_S)
#define SILENCE_MAX     (5 * NS_PER_S)
#define STARVED_MAX     (30 * NS_PER_S)
#define WORDS_MAX       256
#define END_PATIENCE_MS 500

static int pulse_send(struct box_pulse *p, const struct guest *g)
{
    _cleanup_buf_ struct buf request = BUF_INIT(64);
    wire_end(&request, wire_begin(&request, WIRE_PING));
    return guest_connect(g, &request, NULL, 0, &p->fd);
}

/* Its letter in /proc: 'R' wants to run, 'D' waits for a disk or for a program to be executed; '?'
 * if unknown. */
static char pulse_state(const struct guest *g)
{
    char path[32];
    _cleanup_buf_ struct buf stat = BUF_INIT(1024);
    snprintf(path, sizeof path, "/proc/%d/stat", (int)g->pid);
    if (io_read_file(AT_FDCWD, path, &stat) < 0 || !buf_cstr(&stat))
        return '?';
    const char *name_end = strrchr(buf_cstr(&stat), ')');
    return name_end && name_end[1] ? name_end[2] : '?';
}

static bool pulse_is_over(const struct guest *g, int64_t silence)
{
    if (silence <= SILENCE_MAX)
        return false;
    char state = pulse_state(g);
    return (state != 'R' && state != 'D') || silence > STARVED_MAX;
}

int box_pulse(struct box *b, struct box_pulse *p, struct error *err)
{
    int64_t now = clock_now();
    if (!b->place) /* a keeper watches over its boxes itself */
        return 0;
    if (!p->since)
        p->since = now;
    if (p->fd < 0) {
        if (now - p->since < PING_EACH)
            return 0;
        /* One that has ended closes its streams, by which who waits learns of it. */
        p->since = now;
        pulse_send(p, b->backend->guest(b->place));
        return 0;
    }
    /* First the answer, then the clock: the host itself may have been stopped meanwhile. */
    struct pollfd answer = {.fd = p->fd, .events = POLLIN};
    if (poll(&answer, 1, 0) > 0) {
        box_pulse_end(p);
        p->since = now;
        return 0;
    }
    return pulse_is_over(b->backend->guest(b->place), now - p->since) ? box_silent(b, err) : 0;
}

void box_pulse_end(struct box_pulse *p)
{
    cleanup_close(&p->fd);
    *p = BOX_PULSE_INIT;
}

int box_silent(struct box *b, struct error *err)
{
    b->ended =
        "its process 1 (hutch-guest) did not answer for seconds: it was stopped, or the machine is "
        "overloaded";
    b->backend->kill(b->place);
    return error_set(err, EPIPE, "the box has ended: %s", b->ended);
}

/* What the guest said when it could not begin, in printable characters. */
static bool pulse_last_words(const struct guest *g, char words[WORDS_MAX])
{
    ssize_t n = g->control < 0 ? -1 : recv(g->control, words, WORDS_MAX - 1, MSG_DONTWAIT);
    if (n < 0 && errno == ECONNRESET) /* it left requests unread; what it sent comes after that */
        n = recv(g->control, words, WORDS_MAX - 1, MSG_DONTWAIT);
    if (n <= 1 || words[0] != WIRE_START_FAILED)
        return false;
    for (ssize_t i = 0; i < n; i++)
        if (words[i] < ' ' || words[i] > '~')
            words[i] = '?';
    words[n] = 0;
    return true;
}

/* How process 1 ended; false if it lives. Its streams close a moment before it can be waited for.
 */
static bool pulse_end_of(const struct guest *g, char *text, size_t size)
{
    siginfo_t info = {0};
    struct pollfd end = {.fd = g->pidfd, .events = POLLIN};
    if (g->pidfd < 0 || poll(&end, 1, END_PATIENCE_MS) <= 0)
        return false;
    if (waitid(P_PIDFD, (id_t)g->pidfd, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0)
        snprintf(text, size, "its process 1 (hutch-guest) is gone");
    else if (info.si_code == CLD_EXITED)
        snprintf(text, size, "its process 1 (hutch-guest) exited with status %d", info.si_status);
    else {
        char name[32];
        signame_format(info.si_status, name, sizeof name);
        snprintf(text, size, "something killed its process 1 (hutch-guest) with %s", name);
    }
    return true;
}

int box_lost(struct box *b, struct error *err)
{
    const struct guest *g = b->backend->guest(b->place);
    char words[WORDS_MAX], how[128];
    struct usage now;
    if (pulse_last_words(g, words))
        return error_set(err, EPIPE,
                         "the box did not start: its process 1 (hutch-guest) failed at %s",
                         words + 1);
    b->backend->usage(b->place, false, &now);
    if (now.oom_kills)
        return error_set(err, EPIPE, "the box has ended: it needed more memory than it may have");
    if (now.host_disk_full)
        return error_set(err, EPIPE,
                         "the box has ended: the host's disk is nearly full; free some space");
    if (now.disk_full)
        return error_set(err, EPIPE, "the box has ended: its disk is full");
    if (now.pids_hits)
        return error_set(err, EPIPE,
                         "the box has ended: it needed more processes than it may have");
    if (b->ended)
        return error_set(err, EPIPE, "the box has ended: %s", b->ended);
    if (pulse_end_of(g, how, sizeof how))
        return error_set(err, EPIPE, "the box has ended: %s", how);
    if (g->pid > 0)
        return error_set(err, EAGAIN,
                         "the box refused the request: its process 1 (hutch-guest) has too many "
                         "to serve, or no memory for another");
    return error_set(err, EPIPE, "the box has ended");
}
