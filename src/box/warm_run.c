/*
 * One run: a command of the box that the guest did not start but takes in (guest/adopt.h).
 *
 *     ADOPT ──> the guest            it waits for a process
 *     descriptors ──> the warm process    it forks; the child enters the box and says hello to the
 *                                         guest
 *     ARRIVED <── the guest          from here on it is a command like any other (exec_loop.c)
 *
 * No snapshot begins while a child is on its way: a box whose processes have all been stopped stays
 * so.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "capture.h"
#include "clock.h"
#include "exec.h"
#include "warm_part/part.h"
#include "warm_private.h"
#include "banned.h"

#define ARRIVAL_NS (10 * NS_PER_S)
#define TRIES      2

/* The descriptors that go to the warm process. */
struct parcel {
    int fds[WARM_RUN_MAX];
    size_t n;
    int own; /* a join that is ours to close, or -1 */
};

static void parcel_free(struct parcel *p)
{
    for (size_t i = WARM_RUN_GUEST; i < WARM_RUN_FIXED; i++)
        cleanup_close(&p->fds[i]);
    cleanup_close(&p->own);
}

static int make_request_file(const struct warm_run *run, int *ret_fd)
{
    _cleanup_fd_ int fd = memfd_create("hutch-run", MFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    for (size_t at = 0; at < run->n_request;) {
        ssize_t n = pwrite(fd, (const char *)run->request + at, run->n_request - at, (off_t)at);
        if (n < 0)
            return -errno;
        at += (size_t)n;
    }
    *ret_fd = TAKE_FD(fd);
    return 0;
}

static int pack(struct parcel *p, struct call *c, const struct warm_run *run)
{
    struct entrance e = {.own = -1};
    int r = c->box->backend->entrance(c->box->place, &e);
    p->own = e.own;
    if (r < 0)
        return r;
    p->fds[WARM_RUN_BOX] = e.process;
    memcpy(p->fds + WARM_RUN_FIXED, e.joins, e.n_joins * sizeof *e.joins);
    p->n = WARM_RUN_FIXED + e.n_joins;
    r = call_pipe(false, &c->out.from, &p->fds[WARM_RUN_OUTPUT]);
    if (r == 0)
        r = call_pipe(false, &c->ear.from, &p->fds[WARM_RUN_SAID]);
    return r < 0 ? r : make_request_file(run, &p->fds[WARM_RUN_REQUEST]);
}

/* Tells the guest that somebody comes; it gets one end of the socket on which they meet. */
static int announce(struct call *c, struct parcel *p)
{
    _cleanup_buf_ struct buf request = BUF_INIT(1024);
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return -errno;
    p->fds[WARM_RUN_GUEST] = ends[0];
    _cleanup_fd_ int theirs = ends[1];
    size_t begin = wire_begin(&request, WIRE_ADOPT);
    call_put_limits(&request, c);
    wire_end(&request, begin);
    return guest_connect(c->box->backend->guest(c->box->place), &request, &theirs, 1, &c->wire.fd);
}

/* Until the guest waits for the child, or the child is there. */
static int step_until(struct call *c, const bool *there, struct error *err)
{
    int64_t latest = clock_now() + ARRIVAL_NS;
    int r = 0;
    while (r == 0 && !*there && !c->done) {
        r = call_step(c, err);
        if (r == 0 && clock_now() > latest)
            r = error_set(err, ETIMEDOUT, "no process entered the box within %d seconds",
                          (int)(ARRIVAL_NS / NS_PER_S));
    }
    return r;
}

static int tell(int r, struct error *err)
{
    if (r == -EPIPE || r == -ECONNRESET)
        return error_set(err, EPIPE, "the box has ended");
    return error_errno(err, -r, "cannot run in the box");
}

/* Sends the child on its way and waits until it is there. -ENOTCONN: the warm process is gone,
 * *generation.
 */
static int send_in(struct warm *w, struct call *c, const struct warm_run *run, unsigned *generation,
                   struct error *err)
{
    _cleanup_(parcel_free) struct parcel p = {.fds = {-1, -1, -1, -1, -1}, .own = -1};
    int r = announce(c, &p);
    if (r == 0)
        r = pack(&p, c, run);
    if (r < 0)
        return tell(r, err);
    r = step_until(c, &c->waiting, err);
    if (r < 0 || c->done)
        return r;
    r = warm_send(w, p.fds, p.n, generation);
    if (r == -EPIPE)
        return -ENOTCONN;
    if (r < 0)
        return tell(r, err);
    parcel_free(&p); /* so that their ends are noticed when the child's are closed */
    p = (struct parcel){.fds = {-1, -1, -1, -1, -1}, .own = -1};
    r = step_until(c, &c->arrived, err);
    return r == -ENOLINK && warm_is_gone(w, *generation) ? -ENOTCONN : r;
}

static void give_result(struct warm_result *ret, struct box_result *r)
{
    *ret = (struct warm_result){.exit_code = r->exit_code,
                                .signal = r->signal,
                                .limit = r->limit,
                                .duration_ns = r->duration_ns,
                                .cpu_ns = r->cpu_ns,
                                .output = r->out.tail,
                                .output_total = r->out.total};
    r->out.tail = (struct buf){0};
}

static int try_run(struct warm *w, struct box *b, const struct warm_run *run, unsigned *generation,
                   struct warm_result *ret, struct error *err)
{
    const struct box_command command = {.timeout_ns = run->timeout_ns,
                                        .cpu_time_ns = run->cpu_time_ns,
                                        .in = -1,
                                        .out = -1,
                                        .err = -1,
                                        .capture = true,
                                        .cancel = run->cancel};
    _cleanup_(box_result_free) struct box_result result;
    _cleanup_(call_free) struct call c;
    call_init(&c, b, &command, &result);
    capture_init_tail(&result.out, run->output_max);
    c.out.capture = &result.out;
    c.ear.said = run->said;
    c.ear.data = run->data;
    /* Its time begins when it is there: it may have to wait for others that are forked before it.
     */
    int64_t patience = c.deadline ? c.deadline - clock_now() : 0;
    c.deadline = 0;
    pthread_rwlock_rdlock(&b->frozen);
    int r = send_in(w, &c, run, generation, err);
    pthread_rwlock_unlock(&b->frozen);
    if (!c.killed && patience)
        c.deadline = clock_now() + patience;
    if (r == 0 && c.done && !c.arrived && !c.killed)
        return error_set(err, EPIPE, "the box has ended");
    while (r == 0 && !c.done)
        r = call_step(&c, err);
    if (r == 0)
        r = call_finish(&c, err);
    if (r < 0)
        return r;
    give_result(ret, &result);
    return 0;
}

int warm_run(struct warm *w, struct box *b, const struct warm_run *run, struct warm_result *ret,
             struct error *err)
{
    int r = b->backend->ready(b->place, err);
    if (r < 0)
        return r;
    if (!b->backend->related(b->place, w->place))
        return error_set(err, EXDEV, "the warm process was started for other boxes");
    for (int i = 0; i < TRIES; i++) {
        unsigned generation = 0;
        r = try_run(w, b, run, &generation, ret, err);
        if (r != -ENOTCONN)
            return r;
        r = warm_revive(w, generation, run->cancel, err);
        if (r < 0)
            return r;
    }
    return error_set(err, ENOLINK, "the warm process crashes at every request");
}

void warm_result_free(struct warm_result *r)
{
    buf_free(&r->output);
}
