/* The event loop, the connections, and the table of requests. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "thread.h"
#include "command.h"
#include "edit/edit.h"
#include "error.h"
#include "file.h"
#include "patch/patch.h"
#include "report/report.h"
#include "search/search.h"
#include "shell/shell.h"
#include "banned.h"

#define CONNS_MAX  1024
#define QUEUE_FULL (256u << 10)
#define QUEUE_ROOM (128u << 10)
#define QUEUE_MAX  (1u << 20)

int loop_watch(struct loop *l, struct loop_source *s, short events)
{
    if (events && !s->events) {
        if (l->count == l->room) {
            size_t room = l->room ? 2 * l->room : 16;
            struct pollfd *polls = reallocarray(l->polls, room, sizeof *polls);
            if (!polls)
                return -ENOMEM;
            l->polls = polls;
            struct loop_source **sources = reallocarray(l->sources, room, sizeof *sources);
            if (!sources)
                return -ENOMEM;
            l->sources = sources;
            l->room = room;
        }
        s->index = l->count++;
        l->sources[s->index] = s;
    }
    if (!events && s->events) { /* the last source moves to its index */
        size_t last = --l->count;
        l->polls[s->index] = l->polls[last];
        l->sources[s->index] = l->sources[last];
        l->sources[s->index]->index = s->index;
    }
    if (events)
        l->polls[s->index] = (struct pollfd){.fd = s->fd, .events = events};
    s->events = events;
    return 0;
}

void loop_close(struct loop *l, struct loop_source *s)
{
    if (s->fd < 0)
        return;
    loop_watch(l, s, 0);
    close(TAKE_FD(s->fd));
}

void loop_timer_set(struct loop *l, struct loop_timer *t, int64_t at)
{
    if (t->at)
        LIST_REMOVE(t, link);
    t->at = at;
    if (at)
        LIST_INSERT_HEAD(&l->timers, t, link);
}

static struct loop_timer *loop_earliest_timer(struct loop *l)
{
    struct loop_timer *best = LIST_FIRST(&l->timers), *t;
    LIST_FOREACH(t, &l->timers, link)
    if (t->at < best->at)
        best = t;
    return best;
}

void loop_step(struct loop *l)
{
    struct loop_timer *t = loop_earliest_timer(l);
    int n = poll(l->polls, l->count, clock_poll_ms(t ? t->at : 0));
    for (size_t i = 0; n > 0 && i < l->count; i++) {
        size_t at = (l->turn + i) % l->count;
        short events = l->polls[at].revents;
        if (!events)
            continue;
        l->turn = at + 1;
        l->sources[at]->ready(l->sources[at], events);
        break;
    }
    /* Fires what is due. A handler may set timers again; those lie after `now`, so this ends. */
    if (LIST_EMPTY(&l->timers))
        return;
    int64_t now = clock_now();
    while ((t = loop_earliest_timer(l)) && t->at <= now) {
        loop_timer_set(l, t, 0);
        t->fire(t);
    }
}

/* A stream that is closed with bytes unread shows its peer a reset instead of an end. After the
 * shutdown the peer cannot send more, so reading the rest makes a clean end. */
static void conn_hang_up(int fd)
{
    char waste[4096];
    shutdown(fd, SHUT_RDWR);
    while (recv(fd, waste, sizeof waste, MSG_DONTWAIT) > 0)
        ;
}

/* Sends what the peer takes now, and watches for what is to come. */
static void conn_update(struct conn *c)
{
    if (c->out.failed)
        c->dead = true;
    while (!c->dead && c->sent < c->out.len) {
        ssize_t n = send(c->source.fd, c->out.data + c->sent, c->out.len - c->sent,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            break;
        if (n >= 0)
            c->sent += (size_t)n;
        else if (errno != EINTR)
            c->dead = true;
    }
    /* Moving the rest to the front only now and then keeps long queues cheap. */
    if (c->sent == c->out.len || c->sent >= QUEUE_FULL) {
        buf_consume(&c->out, c->sent);
        c->sent = 0;
    }
    short events = 0;
    if (!c->closing)
        events |= c->paused ? POLLRDHUP : POLLRDHUP | POLLIN;
    if (c->sent < c->out.len || c->resumed)
        events |= POLLOUT;
    if (!c->dead && loop_watch(&c->guest->loop, &c->source, events) < 0)
        c->dead = true;
}

/* Frees the connection if it is over. */
static void conn_settle(struct conn *c)
{
    conn_update(c);
    if (!c->dead && !(c->closing && c->sent == c->out.len))
        return;
    if (c->user && c->user->closed)
        c->user->closed(c);
    if (c->source.fd >= 0)
        conn_hang_up(c->source.fd);
    loop_close(&c->guest->loop, &c->source);
    wire_reader_free(&c->in);
    buf_free(&c->out);
    c->guest->n_conns--;
    free(c);
}

static void conn_take_frames(struct conn *c)
{
    while (!c->dead && !c->closing && !c->paused) {
        struct wire_frame f;
        int r = wire_take(&c->in, &f);
        if (r == 0)
            break;
        if (r < 0 || !c->user->frame || c->user->frame(c, &f) < 0)
            c->dead = true;
    }
}

static void conn_ready(struct loop_source *s, short events)
{
    struct conn *c = CONTAINER_OF(s, struct conn, source);
    bool readable = !c->paused && !c->closing;
    c->busy = true;
    c->resumed = false;
    conn_take_frames(c);
    if (!c->dead && readable && events & (POLLIN | POLLRDHUP | POLLHUP | POLLERR)) {
        /* Reads once; the loop reports what is left again, after others had their turn. */
        ssize_t n = wire_fill(&c->in);
        if (n > 0)
            conn_take_frames(c);
        else if (n != -EAGAIN)
            c->dead = true;
    } else if (events & (POLLRDHUP | POLLHUP | POLLERR))
        c->dead = true;
    conn_update(c);
    if (!c->dead && c->full && c->out.len - c->sent < QUEUE_ROOM) {
        c->full = false;
        if (c->user && c->user->room)
            c->user->room(c);
    }
    c->busy = false;
    conn_settle(c);
}

void conn_push(struct conn *c)
{
    if (c->busy)
        return;
    conn_update(c);
    /* Freed by our own handler, which the hang-up causes: the caller may still use it. */
    if (c->dead)
        shutdown(c->source.fd, SHUT_RDWR);
}

bool conn_is_full(struct conn *c)
{
    c->full = c->out.len - c->sent >= QUEUE_FULL;
    return c->full;
}

void conn_pause(struct conn *c, bool on)
{
    /* Whole frames may wait in the reader, which poll does not see: being writable calls our
     * handler. */
    c->resumed = c->paused && !on;
    c->paused = on;
    conn_push(c);
}

void conn_finish(struct conn *c)
{
    c->user = NULL;
    c->closing = true;
    if (!c->busy)
        conn_settle(c);
}

void conn_finish_frame(struct conn *c, size_t at)
{
    wire_end(&c->out, at);
    conn_finish(c);
}

int conn_take_fd(struct conn *c)
{
    loop_watch(&c->guest->loop, &c->source, 0);
    c->user = NULL;
    c->dead = true;
    return TAKE_FD(c->source.fd);
}

void conn_put_error(struct buf *b, int code, const char *text)
{
    size_t at = wire_begin(b, WIRE_ERROR);
    wire_put_u64(b, WIRE_K_CODE, (uint64_t)code);
    wire_put_str(b, WIRE_K_TEXT, text);
    wire_end(b, at);
}

void conn_error(struct conn *c, int code, const char *fmt, ...)
{
    char text[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    conn_put_error(&c->out, code, text);
    conn_finish(c);
}

static void request_ping(struct conn *c, const struct wire_frame *f)
{
    conn_finish_frame(c, wire_begin(&c->out, WIRE_RESULT));
}

/* The table of requests: a new one is a line here and a file of its own. */
static const struct request {
    enum wire_type type;
    bool changes;                                              /* refused while the box is frozen */
    void (*start)(struct conn *c, const struct wire_frame *f); /* served by the loop itself, */
    file_serve serve;                                          /* or by a worker */
} REQUESTS[] = {
    {WIRE_PING, .start = request_ping},
    {WIRE_EXEC, .start = exec_request, .changes = true},
    {WIRE_SHELL, .start = shell_request, .changes = true},
    {WIRE_ADOPT, .start = adopt_request, .changes = true},
    {WIRE_INPUT, .start = background_input_request},
    {WIRE_SIGNAL, .start = background_signal_request},
    {WIRE_STATUS, .start = background_status_request},
    {WIRE_FREEZE, .start = freeze_request},
    {WIRE_READ, .serve = file_read},
    {WIRE_WRITE, .serve = file_write, .changes = true},
    {WIRE_LIST, .serve = file_list},
    {WIRE_STAT, .serve = file_stat},
    {WIRE_LINES, .serve = file_lines},
    {WIRE_EDIT, .serve = file_edit, .changes = true},
    {WIRE_SEARCH, .serve = search_files},
    {WIRE_TREE, .serve = search_tree},
    {WIRE_PATCH, .serve = patch_serve, .changes = true},
    {WIRE_REPORT, .serve = report_serve},
    {WIRE_STAGE, .serve = stage_serve, .changes = true},
    {WIRE_PUT, .serve = file_put, .changes = true},
};

/* The first frame of a connection is its request. */
static int request_frame(struct conn *c, const struct wire_frame *f)
{
    const struct request *r = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(REQUESTS) && !r; i++)
        if (REQUESTS[i].type == f->type)
            r = &REQUESTS[i];
    if (!r)
        conn_error(c, ENOSYS, "this guest does not know request %d", (int)f->type);
    else if (r->changes && c->guest->freeze.state != FREEZE_OFF)
        conn_error(c, EBUSY, "the box is frozen while a snapshot is taken");
    else if (r->serve)
        worker_start(c, f, r->serve);
    else
        r->start(c, f);
    return 0;
}

void conn_open(struct guest *g, int fd)
{
    static const struct conn_user user = {.frame = request_frame};
    struct conn *c = g->n_conns < CONNS_MAX ? calloc(1, sizeof *c) : NULL;
    if (!c || fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK) < 0) {
        free(c);
        conn_hang_up(fd);
        close(fd);
        return;
    }
    g->n_conns++;
    *c = (struct conn){.source = {.fd = fd, .ready = conn_ready},
                       .guest = g,
                       .user = &user,
                       .in = WIRE_READER_INIT(fd),
                       .out = BUF_INIT(QUEUE_MAX)};
    conn_ready(&c->source, POLLIN);
}
