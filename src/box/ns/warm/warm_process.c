/*
 * Warm processes from the host's side: started, watched until they are ready, sent into boxes,
 * ended. What happens in the process itself is in module.c.
 *
 * A run is a command of the box that the guest did not start but takes in (guest/exec):
 *
 *     ADOPT ──> the guest                 it waits for a process
 *     descriptors ──> the warm process    it forks; the child enters the box and says hello to the
 *                                         guest
 *     ARRIVED <── the guest               from here on it is a command like any other (exec.c)
 *
 * No snapshot begins while a child is on its way: a box whose processes have all been stopped stays
 * so.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "exec.h"
#include "io.h"
#include "module.h"
#include "sys.h"
#include "thread.h"
#include "warm_process.h"
#include "weaken.h"
#include "banned.h"

#define READY_NS    (60 * NS_PER_S)
#define LEAVING_MS  100 /* between a process's last descriptor and its end */
#define SEND_S      30
#define OUTPUT_KEPT 4096
#define ANSWER_MAX  4096
#define ENV_BYTES   (256u << 10)
#define PROGRAM_MAX (16u << 20)
#define ARRIVAL_NS  (10 * NS_PER_S)
#define TRIES       2

/* A file of these bytes that the warm process or its child reads; nothing of it is ever in an
 * argument list. */
static int warm_make_file(const void *bytes, size_t n, int *ret_fd)
{
    _cleanup_fd_ int fd = memfd_create("hutch-warm", MFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    for (size_t at = 0; at < n;) {
        ssize_t done = pwrite(fd, (const char *)bytes + at, n - at, (off_t)at);
        if (done < 0)
            return -errno;
        at += (size_t)done;
    }
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* The environment of a command of these boxes; and all hashes in Python come out the same every
 * time. */
static char **warm_make_env(char *const *box_env)
{
    static char *const MORE[] = {(char *)"PYTHONHASHSEED=0", NULL};
    _cleanup_buf_ struct buf b = BUF_INIT(ENV_BYTES);
    struct wire_frame f;
    struct wire_field field;
    size_t n = 0, at = 0, begin = wire_begin(&b, WIRE_EXEC);
    environment_put(&b, box_env, MORE, false, false);
    wire_end(&b, begin);
    if (b.failed || wire_parse(b.data, b.len, &f) <= 0)
        return NULL;
    while (wire_next(&f, &at, &field))
        n++;
    char **env = calloc(n + 2, sizeof *env);
    at = n = 0;
    while (env && wire_next(&f, &at, &field))
        if (!(env[n++] = strndup((const char *)field.data, field.size)))
            return list_free(env);
#ifdef HUTCH_WEAKEN
    if (env && weakened("guest") &&
        asprintf(&env[n], "HUTCH_WEAKEN=%s", getenv("HUTCH_WEAKEN")) < 0)
        env[n] = NULL;
#endif
    return env;
}

/* A process on its way to being ready: what it says, and what it prints meanwhile. */
struct warm_starting {
    int control, output, cancel;
    char printed[2 * OUTPUT_KEPT + 1];
    size_t n_printed;
};

/* The last of what it prints is kept, to explain why it did not start. Its end is not waited for:
 * something that it started may have the pipe, too. */
static void warm_read_output(struct warm_starting *s)
{
    ssize_t n = read(s->output, s->printed + s->n_printed, OUTPUT_KEPT);
    if (n <= 0) {
        close(TAKE_FD(s->output));
        return;
    }
    s->n_printed += (size_t)n;
    if (s->n_printed > OUTPUT_KEPT) {
        memmove(s->printed, s->printed + s->n_printed - OUTPUT_KEPT, OUTPUT_KEPT);
        s->n_printed = OUTPUT_KEPT;
    }
}

/* The last line that holds something, which is where Python says what went wrong. */
static const char *last_line(char *text)
{
    size_t n = strlen(text);
    while (n && (text[n - 1] == '\n' || text[n - 1] == ' '))
        text[--n] = 0;
    const char *nl = strrchr(text, '\n');
    return nl ? nl + 1 : text;
}

/* Waits until it says that it is ready, or why it is not. */
static int warm_await_ready(struct warm_starting *s, struct error *err)
{
    int64_t deadline = clock_now() + READY_NS;
    for (;;) {
        struct pollfd p[] = {{.fd = s->control, .events = POLLIN},
                             {.fd = s->output, .events = POLLIN},
                             {.fd = s->cancel, .events = POLLIN}};
        int n = poll(p, ARRAY_SIZE(p), clock_poll_ms(deadline));
        if (n < 0 && errno != EINTR)
            return error_errno(err, errno, "cannot wait for the warm process");
        if (n == 0)
            return error_set(err, ETIMEDOUT, "the warm process was not ready within %d seconds",
                             (int)(READY_NS / NS_PER_S));
        if (n > 0 && p[2].revents)
            return error_set(err, ECANCELED, "interrupted");
        if (n > 0 && p[1].revents)
            warm_read_output(s);
        if (n > 0 && p[0].revents)
            break;
    }
    char answer[ANSWER_MAX + 1] = "";
    ssize_t n = recv(s->control, answer, ANSWER_MAX, 0);
    if (n == 1 && answer[0] == 'R')
        return 0;
    if (n > 1)
        return error_set(err, EOPNOTSUPP, "the warm process could not be prepared: %s",
                         last_line(answer + 1));
    while (s->output >= 0)
        warm_read_output(s);
    return error_set(err, EOPNOTSUPP, "python3 of these boxes did not start: %s",
                     s->n_printed ? last_line(s->printed) : "it printed nothing");
}

/*
 * Children inherit its memory, each as a copy. Memory that is shared and can be written would not
 * be copied: a child, which is the box's, could write what the process itself reads. There is none
 * unless a library that the program loaded has made it. A second thread would not be forked, in
 * whatever it held.
 */
static int warm_check_alone(pid_t pid, struct error *err)
{
    char path[64], line[512];
    unsigned threads = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    _cleanup_fclose_ FILE *maps = fopen(path, "re");
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    _cleanup_fclose_ FILE *status = fopen(path, "re");
    if (!maps || !status)
        return error_errno(err, errno, "cannot look at the warm process's memory");
    for (bool whole = true; fgets(line, sizeof line, maps); whole = strchr(line, '\n') != NULL) {
        const char *rights = whole ? strchr(line, ' ') : NULL;
        if (rights && rights[2] == 'w' && rights[4] == 's')
            return error_set(err, EOPNOTSUPP,
                             "the warm process would share memory with its children");
    }
    while (fgets(line, sizeof line, status) && sscanf(line, "Threads: %u", &threads) != 1)
        ;
    return threads == 1 ? 0
                        : error_set(err, EOPNOTSUPP, "the warm process has %u threads", threads);
}

static int warm_start_process(const struct warm *w, int cancel, struct guest *ret,
                              struct error *err)
{
    const struct timeval patience = {.tv_sec = SEND_S};
    int ends[2], output[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return error_errno(err, errno, "cannot make a socket");
    _cleanup_fd_ int ours = ends[0];
    _cleanup_fd_ int theirs = ends[1];
    if (pipe2(output, O_CLOEXEC) < 0 || io_set_nonblock(output[0], true) < 0)
        return error_errno(err, errno, "cannot make a pipe");
    struct warm_starting s = {.control = ours, .output = output[0], .cancel = cancel};
    struct guest g = GUEST_NONE;
    int r = warm_start(w, theirs, output[1], &g.pid, err);
    close(TAKE_FD(theirs));
    close(output[1]);
    if (r == 0)
        r = warm_await_ready(&s, err);
    if (r == 0)
        r = warm_check_alone(g.pid, err);
    cleanup_close(&s.output);
    if (r < 0) {
        guest_end(&g);
        return r;
    }
    setsockopt(ours, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    g.pidfd = sys_pidfd_open(g.pid, 0);
    g.control = TAKE_FD(ours);
    *ret = g;
    return 0;
}

static void warm_closep(struct warm **w)
{
    warm_close(*w);
}

int warm_open(const struct warm_options *o, struct warm **ret, struct error *err)
{
    struct machine *machine = snapshot_machine(o->family);
    const char *setup = o->setup ? o->setup : "";
    if (!ns_machine(machine))
        return backend_cannot(machine->backend, "have warm processes", err);
    if (strlen(o->program) > PROGRAM_MAX || strlen(setup) > PROGRAM_MAX)
        return error_set(err, E2BIG, "the warm process's program is longer than %u bytes",
                         PROGRAM_MAX);
    _cleanup_(warm_closep) struct warm *w = calloc(1, sizeof *w);
    if (!w)
        return error_errno(err, ENOMEM, "the warm process did not start");
    *w = (struct warm){.machine = ns_machine(machine_ref(machine)),
                       .program = -1,
                       .setup = -1,
                       .reviving = cancel_lock_open(),
                       .process = GUEST_NONE};
    pthread_mutex_init(&w->lock, NULL);
    w->env = warm_make_env(snapshot_like(o->family)->env);
    int r = w->env && w->reviving >= 0 ? warm_make_file(o->program, strlen(o->program), &w->program)
                                       : -ENOMEM;
    if (r == 0)
        r = warm_make_file(setup, strlen(setup), &w->setup);
    if (r < 0)
        return error_errno(err, -r, "the warm process did not start");
    r = warm_start_process(w, o->cancel, &w->process, err);
    if (r == 0)
        *ret = TAKE_PTR(w);
    return r;
}

struct warm *warm_close(struct warm *w)
{
    if (!w)
        return NULL;
    guest_end(&w->process);
    machine_unref(&w->machine->base);
    cleanup_close(&w->program);
    cleanup_close(&w->setup);
    cleanup_close(&w->reviving);
    list_free(w->env);
    pthread_mutex_destroy(&w->lock);
    free(w);
    return NULL;
}

/* Sends a run. -EPIPE: the process is gone; *ret_generation says which one it was. */
static int warm_send(struct warm *w, const int *fds, size_t n_fds, unsigned *ret_generation)
{
    pthread_mutex_lock(&w->lock);
    *ret_generation = w->generation;
    ssize_t n =
        w->process.control < 0 ? -EPIPE : io_send_fds(w->process.control, "W", 1, fds, n_fds);
    pthread_mutex_unlock(&w->lock);
    if (n == -ECONNRESET || n == -ENOTCONN || n == -EAGAIN)
        return -EPIPE;
    return n < 0 ? (int)n : 0;
}

static bool warm_is_gone(struct warm *w, unsigned generation)
{
    pthread_mutex_lock(&w->lock);
    struct pollfd p = {.fd = w->process.pidfd, .events = POLLIN};
    bool gone = w->generation != generation || w->process.pid <= 0 || poll(&p, 1, LEAVING_MS) == 1;
    pthread_mutex_unlock(&w->lock);
    return gone;
}

/* Starts another process, unless another thread has done so already. Without one the old stays,
 * which is gone: the next run tries again. */
static int warm_revive(struct warm *w, unsigned generation, int cancel, struct error *err)
{
    struct guest fresh = GUEST_NONE, old = GUEST_NONE;
    int r = cancel_lock_take(w->reviving, cancel);
    if (r < 0)
        return error_errno(err, -r, "cannot start the warm process again");
    pthread_mutex_lock(&w->lock);
    bool is_mine = w->generation == generation;
    pthread_mutex_unlock(&w->lock);
    if (is_mine)
        r = warm_start_process(w, cancel, &fresh, err);
    if (is_mine && r == 0) {
        pthread_mutex_lock(&w->lock);
        old = w->process;
        w->process = fresh;
        w->generation++;
        pthread_mutex_unlock(&w->lock);
        guest_end(&old);
    }
    cancel_lock_give(w->reviving);
    return r;
}

/* The descriptors that go to the warm process. */
struct warm_parcel {
    int fds[WARM_RUN_MAX];
    size_t n;
    int own; /* a file to join a control group by that is ours to close, or -1 */
};

#define WARM_PARCEL_NONE ((struct warm_parcel){.fds = {-1, -1, -1, -1, -1}, .own = -1})

static void warm_parcel_free(struct warm_parcel *p)
{
    for (size_t i = WARM_RUN_GUEST; i < WARM_RUN_FIXED; i++)
        cleanup_close(&p->fds[i]);
    cleanup_close(&p->own);
    *p = WARM_PARCEL_NONE;
}

/* Tells the guest that a process will come, and packs what the process needs to come in: the guest
 * and the child meet on a socket of which each gets one end. */
static int warm_announce(struct call *c, const struct warm_run *run, struct warm_parcel *p)
{
    struct ns_machine *m = ns_machine(c->box->machine);
    _cleanup_buf_ struct buf request = BUF_INIT(1024);
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return -errno;
    p->fds[WARM_RUN_GUEST] = ends[0];
    _cleanup_fd_ int theirs = ends[1];
    size_t begin = wire_begin(&request, WIRE_ADOPT);
    call_put_limits(&request, c);
    wire_end(&request, begin);
    int r = guest_connect(&m->guest, &request, &theirs, 1, &c->wire.fd);
    if (r < 0)
        return r;

    struct cgroup_entrance groups = {.own = -1};
    r = cgroup_entrance(m->cgroup, &groups);
    p->own = groups.own;
    if (r < 0)
        return r;
    p->fds[WARM_RUN_BOX] = m->guest.pidfd;
    memcpy(p->fds + WARM_RUN_FIXED, groups.joins, groups.n_joins * sizeof *groups.joins);
    p->n = WARM_RUN_FIXED + groups.n_joins;
    r = call_pipe(false, &c->out.from, &p->fds[WARM_RUN_OUTPUT]);
    if (r == 0)
        r = call_pipe(false, &c->side.from, &p->fds[WARM_RUN_SAID]);
    return r < 0 ? r : warm_make_file(run->request, run->n_request, &p->fds[WARM_RUN_REQUEST]);
}

/* Until the guest waits for the child, or the child is there. */
static int warm_step_until(struct call *c, const bool *there, struct error *err)
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

/* Sends the child on its way and waits until it is there. -ENOTCONN: the warm process is gone,
 * *generation. */
static int warm_send_child(struct warm *w, struct call *c, const struct warm_run *run,
                           unsigned *generation, struct error *err)
{
    _cleanup_(warm_parcel_free) struct warm_parcel p = WARM_PARCEL_NONE;
    int r = warm_announce(c, run, &p);
    if (r == -EPIPE || r == -ECONNRESET)
        return error_set(err, EPIPE, "the box has ended");
    if (r < 0)
        return error_errno(err, -r, "cannot run in the box");
    r = warm_step_until(c, &c->waiting, err);
    if (r < 0 || c->done)
        return r;
    r = warm_send(w, p.fds, p.n, generation);
    if (r < 0)
        return r == -EPIPE ? -ENOTCONN : error_errno(err, -r, "cannot run in the box");
    warm_parcel_free(&p); /* so that their ends are noticed when the child's are closed */
    r = warm_step_until(c, &c->arrived, err);
    return r == -ENOLINK && warm_is_gone(w, *generation) ? -ENOTCONN : r;
}

static int warm_try_run(struct warm *w, struct box *b, const struct warm_run *run,
                        unsigned *generation, struct warm_result *ret, struct error *err)
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
    c.side.received = run->said;
    c.side.data = run->data;
    /* Its time begins when it is there: it may have to wait for others that are forked before
     * it. */
    int64_t patience = c.deadline ? c.deadline - clock_now() : 0;
    c.deadline = 0;
    pthread_rwlock_rdlock(&b->frozen);
    int r = warm_send_child(w, &c, run, generation, err);
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
    *ret = (struct warm_result){.exit_code = result.exit_code,
                                .signal = result.signal,
                                .limit = result.limit,
                                .duration_ns = result.duration_ns,
                                .cpu_ns = result.cpu_ns,
                                .output = result.out.tail,
                                .output_total = result.out.total};
    result.out.tail = (struct buf){0};
    return 0;
}

int warm_run(struct warm *w, struct box *b, const struct warm_run *run, struct warm_result *ret,
             struct error *err)
{
    struct stat ours, theirs;
    int r = box_wait(b, err);
    if (r < 0)
        return r;
    /* Boxes are of one family if their user namespace is the same. */
    const struct ns_machine *m = ns_machine(b->machine);
    if (!m || fstat(w->machine->userns, &ours) < 0 || fstat(m->userns, &theirs) < 0 ||
        ours.st_dev != theirs.st_dev || ours.st_ino != theirs.st_ino)
        return error_set(err, EXDEV, "the warm process was started for other boxes");
    for (int i = 0; i < TRIES; i++) {
        unsigned generation = 0;
        r = warm_try_run(w, b, run, &generation, ret, err);
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
