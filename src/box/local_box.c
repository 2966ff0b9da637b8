/*
 * A box of this process: opened over a machine of its backend, closed, adjusted, and watched. All
 * calls of box.h that the box's place decides (this process or a keeper) go through its box_ops.
 * Commands are in exec.c, snapshots and views in snapshot.c, the network in network.c.
 *
 * A guest that is stopped, or that gets no processor any more, watches no limits and answers no
 * request, and its streams do not end either. So while a caller waits, the host sends a PING, which
 * the guest's loop answers at once whatever else it has to do; a guest that has not answered after
 * SILENCE_MAX ends with its box. One that wants to run but cannot (a very busy machine, a disk that
 * has to start up) is given longer.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "apply.h"
#include "box_internal.h"
#include "io.h"
#include "proxy/proxy.h"
#include "text.h"
#include "thread.h"
#include "banned.h"

#define LIMIT_FIELDS    (BOX_SET_MEMORY | BOX_SET_CPUS | BOX_SET_PIDS | BOX_SET_TIMEOUT)
#define PING_EACH       (1 * NS_PER_S)
#define SILENCE_MAX     (5 * NS_PER_S)
#define STARVED_MAX     (30 * NS_PER_S)
#define END_PATIENCE_MS 500

/* A command that met its limit on memory has ended before the kernel has freed all of it. */
#define OVER_MAX (500 * NS_PER_MS)

const struct backend *const BACKENDS[] = {
#define BACKEND(row, name, summary) &row,
#include "backends.def"
#undef BACKEND
    NULL,
};

int backend_cannot(const struct backend *b, const char *what, struct error *err)
{
    return error_set(err, EOPNOTSUPP, "the backend %s cannot %s", b->name, what);
}

int machine_connect(struct machine *m, struct buf *request, int *ret_fd)
{
    const struct timeval patience = {.tv_sec = GUEST_PATIENCE_S};
    int fd = -1;
    int r = m->backend->connect(m, request, NULL, 0, &fd);
    if (r < 0)
        return r;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    *ret_fd = fd;
    return 0;
}

int guest_control(struct guest *g, int *ret_theirs)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return -errno;
    /* A guest that is stopped takes no more streams after some hundreds: do not wait for ever to
     * send one. */
    const struct timeval patience = {.tv_sec = GUEST_SEND_S};
    setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    g->control = ends[0];
    *ret_theirs = ends[1];
    return 0;
}

int guest_connect(const struct guest *g, struct buf *request, const int *fds, size_t n_fds,
                  int *ret_fd)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return -errno;
    _cleanup_fd_ int ours = ends[0];
    _cleanup_fd_ int theirs = ends[1];
    /* A request that fits into the socket is sent before the guest has its end: one wake-up instead
     * of two. */
    bool early = request && request->len <= WIRE_DATA_MAX;
    int r = early ? wire_send(ours, request, fds, n_fds) : 0;
    if (r < 0)
        return r;
    ssize_t sent = io_send_fds(g->control, "C", 1, &theirs, 1);
    if (sent < 0)
        return (int)sent;
    /* A guest that is stopped does not take what is larger than the socket: -EAGAIN after a
     * while. */
    const struct timeval patience = {.tv_sec = GUEST_SEND_S};
    if (request && !early) {
        setsockopt(ours, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        if ((r = wire_send(ours, request, fds, n_fds)) < 0)
            return r;
    }
    *ret_fd = TAKE_FD(ours);
    return 0;
}

void guest_kill(const struct guest *g)
{
    if (g->pidfd >= 0)
        syscall(SYS_pidfd_send_signal, g->pidfd, SIGKILL, NULL, 0);
    else if (g->pid > 0)
        kill(g->pid, SIGKILL);
}

/* Waits by the descriptor: in a program that waits for any child, another thread may have reaped
 * this one, and the number may be another process's by now. */
void guest_end(struct guest *g)
{
    siginfo_t info;
    if (g->pid > 0) {
        guest_kill(g);
        while ((g->pidfd >= 0 ? waitid(P_PIDFD, (id_t)g->pidfd, &info, WEXITED | __WALL)
                              : (int)waitpid(g->pid, NULL, __WALL)) < 0 &&
               errno == EINTR)
            ;
    }
    cleanup_close(&g->pidfd);
    cleanup_close(&g->control);
    *g = GUEST_NONE;
}

void guest_status(const struct guest *g, int wait_ms, struct machine_status *ret)
{
    siginfo_t info = {0};
    struct pollfd end = {.fd = g->pidfd, .events = POLLIN};
    *ret = (struct machine_status){.pid = g->pid, .has_ended = g->pid <= 0};

    /* A guest that could not start sends the reason. */
    char said[256];
    const int look = MSG_PEEK | MSG_DONTWAIT;
    ssize_t n = g->control < 0 ? -1 : recv(g->control, said, sizeof said - 1, look);
    if (n < 0 && errno == ECONNRESET) /* it left requests unread; what it sent comes after that */
        n = recv(g->control, said, sizeof said - 1, look);
    if (n > 1 && said[0] == WIRE_START_FAILED) {
        for (ssize_t i = 1; i < n; i++)
            if (said[i] < ' ' || said[i] > '~')
                said[i] = '?';
        said[n] = 0;
        snprintf(ret->why, sizeof ret->why, "its process 1 (hutch-guest) failed at %s", said + 1);
        ret->failed_start = ret->has_ended = true;
        return;
    }

    /* Its streams close a moment before it can be waited for. */
    if (g->pidfd >= 0 && poll(&end, 1, wait_ms) > 0) {
        char name[32] = "";
        ret->has_ended = true;
        if (waitid(P_PIDFD, (id_t)g->pidfd, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0)
            snprintf(ret->why, sizeof ret->why, "its process 1 (hutch-guest) is gone");
        else if (info.si_code == CLD_EXITED)
            snprintf(ret->why, sizeof ret->why, "its process 1 (hutch-guest) exited with status %d",
                     info.si_status);
        else {
            signame_format(info.si_status, name, sizeof name);
            snprintf(ret->why, sizeof ret->why,
                     "something killed its process 1 (hutch-guest) with %s", name);
        }
        return;
    }

    /* The state in /proc: 'R' wants to run, 'D' waits for a disk or for a program to be
     * executed. */
    char path[32];
    _cleanup_buf_ struct buf stat = BUF_INIT(1024);
    snprintf(path, sizeof path, "/proc/%d/stat", (int)g->pid);
    if (g->pid > 0 && io_read_file(AT_FDCWD, path, &stat) >= 0 && buf_cstr(&stat)) {
        const char *name_end = strrchr(buf_cstr(&stat), ')');
        ret->is_waiting = name_end && name_end[1] && (name_end[2] == 'R' || name_end[2] == 'D');
    }
}

char **list_copy_n(const char *const *list, size_t n)
{
    char **copy = calloc(n + 1, sizeof *copy);
    for (size_t i = 0; copy && i < n; i++) {
        copy[i] = strdup(list[i]);
        if (!copy[i])
            return list_free(copy);
    }
    return copy;
}

char **list_free(char **list)
{
    for (char **at = list; at && *at; at++)
        free(*at);
    free(list);
    return NULL;
}

char **list_copy(char *const *list)
{
    size_t n = 0;
    while (list && list[n])
        n++;
    return list_copy_n((const char *const *)list, n);
}

static int64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

int64_t box_time(void)
{
    return clock_ns(CLOCK_REALTIME_COARSE);
}

int64_t box_time_after_now(void)
{
    int64_t now = clock_ns(CLOCK_REALTIME), coarse;
    while ((coarse = box_time()) <= now)
        usleep(500);
    return coarse;
}

struct box *box_new(void)
{
    struct box *b = calloc(1, sizeof *b);
    if (b) {
        b->ops = &LOCAL_BOX;
        b->folder = b->registry = -1;
        b->pulse = BOX_PULSE_INIT;
        pthread_rwlock_init(&b->frozen, NULL);
        pthread_mutex_init(&b->settings, NULL);
    }
    return b;
}

/* No process of a box that begins now looks a name up before the coarse clock of change times has
 * ticked. */
void box_begin_now(struct box *b)
{
    b->fresh_ns = clock_ns(CLOCK_REALTIME) + 1;
}

uint64_t limit_sockets(const struct box_limits *l)
{
    struct sysinfo info;
    uint64_t most = sysinfo(&info) < 0 ? UINT64_MAX : (uint64_t)info.totalram * info.mem_unit / 64;
    return l->memory < most ? l->memory : most;
}

int box_begin(const struct box_options *o, struct box **ret, struct error *err)
{
    _cleanup_box_ struct box *b = box_new();
    if (!b)
        return error_errno(err, ENOMEM, "the box did not start");
    b->limits = o->limits;
    b->limits.sockets = o->net->uses_host ? 0 : limit_sockets(&o->limits);
    b->mode = o->mode;
    box_begin_now(b);
    b->own_env = list_copy_n(o->env, o->n_env);
    b->workspace = o->workspace ? strdup(o->workspace) : NULL;
    if (!b->own_env || box_network_init(b, o) < 0 || (o->workspace && !b->workspace))
        return error_errno(err, ENOMEM, "the box did not start");
    if (o->workspace) {
        b->folder = open(o->workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (b->folder < 0)
            return error_errno(err, errno, "cannot open the folder %s", o->workspace);
    }
    int r = o->backend->open(o, &b->machine, err);
    if (r == 0 && box_has_proxy(o))
        r = box_network_start(b, err);
    if (r == 0)
        *ret = TAKE_PTR(b);
    return r;
}

int box_open(const struct box_options *o, struct box **ret, struct error *err)
{
    _cleanup_box_ struct box *b = NULL;
    int r = box_begin(o, &b, err);
    if (r == 0)
        r = box_wait(b, err);
    if (r == 0)
        *ret = TAKE_PTR(b);
    return r;
}

struct box *box_close(struct box *b)
{
    if (!b)
        return NULL;
    if (b->proxy)
        proxy_stop(b->proxy);
    box_pulse_end(&b->pulse);
    if (b->machine) {
        b->machine->backend->close(b->machine);
        machine_unref(b->machine);
    }
    cleanup_close(&b->folder);
    cleanup_close(&b->registry);
    if (b->seen)
        seen_unref(b->seen);
    if (b->log)
        applied_log_free(b->log);
    list_free(b->env);
    list_free(b->own_env);
    box_network_free(&b->network);
    pthread_mutex_destroy(&b->settings);
    pthread_rwlock_destroy(&b->frozen);
    free(b->workspace);
    free(b);
    return NULL;
}

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

static int local_connect(struct box *b, struct buf *request, int *ret_fd, struct error *err)
{
    int r = box_wait(b, err);
    if (r < 0)
        return r;
    pthread_rwlock_rdlock(&b->frozen);
    r = b->machine->backend->connect(b->machine, request, NULL, 0, ret_fd);
    pthread_rwlock_unlock(&b->frozen);
    return box_unreached(b, r, err);
}

pid_t box_pid(struct box *b)
{
    struct machine_status status;
    if (box_wait(b, NULL) < 0)
        return 0;
    b->machine->backend->status(b->machine, 0, &status);
    return status.pid;
}

static int box_set_limits(struct box *b, const struct box_limits *l, unsigned fields,
                          struct error *err)
{
    const struct backend *backend = b->machine->backend;
    struct box_limits next = b->limits;
    if (fields & BOX_SET_MEMORY)
        next.memory = l->memory;
    if (fields & BOX_SET_CPUS)
        next.cpus = l->cpus;
    if (fields & BOX_SET_PIDS)
        next.pids = l->pids;
    if (fields & BOX_SET_TIMEOUT)
        next.timeout_ns = l->timeout_ns;
    next.sockets = b->limits.sockets ? limit_sockets(&next) : 0;
    int r = backend->set_limits ? backend->set_limits(b->machine, &next, fields, err)
                                : backend_cannot(backend, "change the limits of a box", err);
    if (r < 0)
        return r;
    pthread_mutex_lock(&b->settings);
    b->limits = next;
    pthread_mutex_unlock(&b->settings);
    return 0;
}

static int local_adjust(struct box *b, const struct box_options *o, unsigned fields,
                        struct error *err)
{
    int r = fields & LIMIT_FIELDS ? box_set_limits(b, &o->limits, fields, err) : 0;
    if (r == 0 && fields & (BOX_SET_NET | BOX_SET_NET_ADD))
        r = box_network_set(b, o, fields & BOX_SET_NET_ADD, err);
    return r;
}

int box_inherit_settings(struct box *fresh, struct box *current, struct error *err)
{
    const struct box_limits *a = &fresh->limits, *b = &current->limits;
    unsigned fields = (a->memory != b->memory ? BOX_SET_MEMORY : 0) |
                      (a->cpus != b->cpus ? BOX_SET_CPUS : 0) |
                      (a->pids != b->pids ? BOX_SET_PIDS : 0) |
                      (a->timeout_ns != b->timeout_ns ? BOX_SET_TIMEOUT : 0);
    int r = fields ? box_set_limits(fresh, b, fields, err) : 0;
    return r < 0 ? r : box_network_inherit(fresh, current, err);
}

static int local_info(struct box *b, struct box_info *ret, struct error *err)
{
    struct box_info i = {.mode = b->mode, .workspace = b->workspace ? strdup(b->workspace) : NULL};
    pthread_mutex_lock(&b->settings);
    i.limits = b->limits;
    i.net = box_network_print(&b->network);
    pthread_mutex_unlock(&b->settings);
    if (!i.net || (b->workspace && !i.workspace)) {
        box_info_free(&i);
        return error_set(err, ENOMEM, "no memory");
    }
    *ret = i;
    return 0;
}

const struct box_ops LOCAL_BOX = {
    .connect = local_connect,
    .exec = local_exec,
    .terminal = local_terminal,
    .adjust = local_adjust,
    .changes = local_changes,
    .diff = local_diff,
    .exchange = local_exchange,
    .note_seen = local_note_seen,
    .info = local_info,
};

int box_connect(struct box *b, struct buf *request, int *ret_fd, struct error *err)
{
    return b->ops->connect(b, request, ret_fd, err);
}

int box_exec(struct box *b, const struct box_command *c, struct box_result *ret, struct error *err)
{
    return b->ops->exec(b, c, ret, err);
}

int box_terminal(struct box *b, const struct box_command *c, unsigned rows, unsigned cols,
                 int *ret_fd, struct error *err)
{
    return b->ops->terminal(b, c, rows, cols, ret_fd, err);
}

int box_adjust(struct box *b, const struct box_options *o, unsigned fields, struct error *err)
{
    return b->ops->adjust(b, o, fields, err);
}

int box_changes(struct box *b, struct box_changes *ret, struct error *err)
{
    return b->ops->changes(b, ret, err);
}

int box_diff(struct box *b, bool stat, int out, struct error *err)
{
    return b->ops->diff(b, stat, out, err);
}

static const struct apply_options APPLY_DEFAULTS = {0};

int box_apply(struct box *b, const struct apply_options *o, const struct apply_report *report,
              struct error *err)
{
    return b->ops->exchange(b, true, o ? o : &APPLY_DEFAULTS, report, err);
}

int box_sync(struct box *b, const struct apply_options *o, const struct apply_report *report,
             struct error *err)
{
    return b->ops->exchange(b, false, o ? o : &APPLY_DEFAULTS, report, err);
}

int box_note_seen(struct box *b, struct error *err)
{
    return b->ops->note_seen(b, err);
}

int box_info(struct box *b, struct box_info *ret, struct error *err)
{
    return b->ops->info(b, ret, err);
}

void box_info_free(struct box_info *i)
{
    free(i->workspace);
    free(i->net);
    i->workspace = i->net = NULL;
}

const char *box_id(const struct box *b)
{
    return b->registry >= 0 ? b->id.text : NULL;
}
