/* A connection: opening it, the handshake, asking and waiting; what the server says; and servers
 * that are programs. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include "client.h"
#include "json.h"
#include "text.h"
#include "thread.h"
#include "banned.h"

#define PROGRESS_NS (NS_PER_S / 10) /* between two reports, however many come */
#define PIECE       (64u << 10)
#define PATIENCE_MS 2000        /* for a program to end */
#define SENT_KEPT   (4u << 20)  /* bytes that were sent and still lie in the buffer */
#define FLOOD_MAX   (64u << 20) /* bytes in a row that answer no request */
#define NOISE_MAX   1000        /* lines that are not JSON */

static const char *const VERSIONS[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};

static void event_raise(int fd)
{
    const uint64_t one = 1;
    (void)!write(fd, &one, sizeof one);
}

/* --- what the server says: the connection's thread --- */

int client_count(struct client *c, size_t n, struct error *err)
{
    c->unanswered += n;
    return c->unanswered > FLOOD_MAX
               ? error_set(err, EPROTO, "it sent more than %u bytes that answer nothing", FLOOD_MAX)
               : 0;
}

void client_add_said(struct client *c, const char *data, size_t n)
{
    LOCKED(&c->lock);
    if (n > sizeof c->said) {
        data += n - sizeof c->said;
        n = sizeof c->said;
    }
    size_t room = sizeof c->said - c->n_said;
    if (n > room) {
        memmove(c->said, c->said + n - room, c->n_said - (n - room));
        c->n_said -= n - room;
    }
    memcpy(c->said + c->n_said, data, n);
    c->n_said += n;
}

/* The last line of stderr, cleaned: "; it said: …", or nothing. The lock is held. */
static void client_last_said(struct client *c, char *text, size_t size)
{
    size_t end = c->n_said;
    text[0] = 0;
    while (end > 0 && strchr("\r\n \t", c->said[end - 1]))
        end--;
    size_t begin = end;
    while (begin > 0 && c->said[begin - 1] != '\n')
        begin--;
    _cleanup_free_ char *line = foreign_text(c->said + begin, end - begin, 400);
    if (line && *line)
        snprintf(text, size, "; it said: %s", line);
}

static void waiter_fail(struct waiter *w, const struct error *why)
{
    if (w->done)
        return;
    w->done = true;
    w->failure = *why;
    event_raise(w->event);
}

static struct waiter *client_find_waiter(struct client *c, const json_t *id)
{
    if (!json_is_integer(id))
        return NULL;
    for (struct waiter *w = c->waiters; w; w = w->next)
        if (w->id == json_integer_value(id))
            return w->done ? NULL : w;
    return NULL;
}

void client_fail(struct client *c, const json_t *id, const struct error *why)
{
    LOCKED(&c->lock);
    struct waiter *w = client_find_waiter(c, id);
    if (w)
        waiter_fail(w, why);
    if (why->code == ESTALE && !c->dead) { /* nobody may begin a call on this connection */
        c->dead = true;
        c->why = *why;
    }
}

void client_take_malformed(struct client *c, const char *why)
{
    struct error err;
    error_set(&err, EPROTO, "the MCP server '%s' sent a malformed message: %.200s", c->name, why);
    LOCKED(&c->lock);
    for (struct waiter *w = c->waiters; w; w = w->next)
        waiter_fail(w, &err);
}

/* Queues a message and frees it; the lock is held. */
static int client_send(struct client *c, json_t *message)
{
    int r = message ? c->transport->send(c, message) : -ENOMEM;
    json_decref(message);
    return r;
}

/* Takes one message; the lock is held. */
static int client_take_one(struct client *c, json_t *value, const struct rpc_message *m,
                           struct error *err)
{
    if (m->kind == RPC_REQUEST) {
        /* We offer nothing else that a server could ask for: no roots, sampling or elicitation. */
        bool ping = strcmp(m->method, "ping") == 0;
        int r = client_send(
            c, ping ? rpc_result(m->id, json_object())
                    : rpc_error(m->id, RPC_METHOD_NOT_FOUND, "hutch does not offer this method"));
        return r < 0 ? error_set(err, EPROTO, "it sends requests and does not read the answers")
                     : 0;
    }
    if (m->kind == RPC_NOTIFICATION) {
        struct waiter *w = client_find_waiter(c, json_object_get(m->params, "progressToken"));
        c->tools_changed |= strcmp(m->method, "notifications/tools/list_changed") == 0;
        if (!w || strcmp(m->method, "notifications/progress") != 0)
            return 0;
        const json_t *said = json_object_get(m->params, "message"),
                     *total = json_object_get(m->params, "total");
        double at = json_number_value(json_object_get(m->params, "progress"));
        free(w->message);
        w->message = json_is_string(said)
                         ? foreign_text(json_string_value(said), json_string_length(said), 400)
                     : json_is_number(total)
                         ? str_printf("%.15g of %.15g", at, json_number_value(total))
                         : str_printf("%.15g", at);
        w->progressed = true;
        event_raise(w->event);
        return 0;
    }
    struct waiter *w = client_find_waiter(c, m->id);
    if (!w)
        return 0; /* a call that timed out or was cancelled; or none of ours */
    c->unanswered = 0;
    if (m->kind == RPC_RESULT) {
        w->result = json_incref(m->result);
        w->done = true;
        event_raise(w->event);
        json_object_del(value, "result"); /* the caller's thread has it now, alone */
        return 0;
    }
    struct error why;
    const json_t *said = json_object_get(m->error, "message");
    _cleanup_free_ char *text =
        json_is_string(said) ? foreign_text(json_string_value(said), json_string_length(said), 800)
                             : NULL;
    error_set(&why, EREMOTEIO, "the MCP server '%s' answered with an error: %s (code %lld)",
              c->name, text && *text ? text : "no message",
              (long long)json_get_integer(m->error, "code"));
    waiter_fail(w, &why);
    return 0;
}

int client_take(struct client *c, json_t *value, struct error *err)
{
    struct rpc_message m;
    size_t n = json_is_array(value) ? json_array_size(value) : 1;
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++) { /* protocol 2025-03-26 had batches */
        json_t *one = json_is_array(value) ? json_array_get(value, i) : value;
        rpc_look(one, &m);
        if (m.kind == RPC_INVALID) {
            client_take_malformed(c, m.problem);
            continue;
        }
        LOCKED(&c->lock);
        r = client_take_one(c, one, &m, err);
    }
    return r;
}

/* Nobody gets an answer any more. What was sent may have been done: no caller may send it again. */
static void client_die(struct client *c, const struct error *why)
{
    char said[600];
    LOCKED(&c->lock);
    client_last_said(c, said, sizeof said);
    if (!c->dead)
        error_set(&c->why, why->code, "the MCP server '%s' failed: %.300s%s", c->name, why->text,
                  said);
    c->dead = true;
    struct error failure = c->why;
    if (failure.code == ESTALE)
        failure.code = EPIPE;
    for (struct waiter *w = c->waiters; w; w = w->next)
        waiter_fail(w, &failure);
    pthread_cond_broadcast(&c->started);
}

static void *client_thread(void *client)
{
    struct client *c = client;
    struct error err = {0};
    sigset_t all; /* signals are for other threads; writing to a closed pipe is an error here */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    int r = c->transport->open(c, c->options, &err);
    bool stop = false;
    if (r == 0) {
        pthread_mutex_lock(&c->lock);
        c->ready = true;
        pthread_cond_broadcast(&c->started);
        pthread_mutex_unlock(&c->lock);
    }
    while (r >= 0) {
        pthread_mutex_lock(&c->lock);
        stop = c->stop;
        pthread_mutex_unlock(&c->lock);
        r = stop ? error_set(&err, ECANCELED, "it was asked to end") : c->transport->step(c, &err);
    }
    c->transport->close(c, stop, &err);
    client_die(c, &err);
    return NULL;
}

/* --- a server that is a program: one message per line on its stdin and stdout --- */

static int pipe_start(struct client *c, const struct client_options *o, struct error *err)
{
    return child_start(o->program, &c->pipe.child, err);
}

static int pipe_send(struct client *c, const json_t *message)
{
    int r = rpc_write(&c->pipe.out, message);
    c->pipe.out.failed = false; /* nothing of it was appended */
    return r;
}

int client_take_line(struct client *c, const char *line, size_t n, struct error *err)
{
    struct error why = {0};
    json_t *value = NULL;
    /* Some servers greet on stdout, against the rules: ignore what does not even look like JSON. */
    size_t blank = 0;
    while (blank < n && (line[blank] == ' ' || line[blank] == '\t'))
        blank++;
    if (blank == n || (line[blank] != '{' && line[blank] != '[')) {
        pthread_mutex_lock(&c->lock);
        unsigned noise = ++c->pipe.noise;
        pthread_mutex_unlock(&c->lock);
        return noise > NOISE_MAX
                   ? error_set(err, EPROTO, "it wrote more than %d lines that are not JSON",
                               NOISE_MAX)
                   : 0;
    }
    if (rpc_parse(line, n, &value, &why) < 0) {
        client_take_malformed(c, why.text);
        return 0;
    }
    int r = client_take(c, value, err);
    json_decref(value);
    return r;
}

/* Returns 1 with something read, 0 if there is nothing now, -EPIPE at the end. */
static int pipe_read_stdout(struct client *c, struct error *err)
{
    char piece[PIECE];
    const char *at = piece;
    struct rpc_line line;
    ssize_t got = read(c->pipe.child.out, piece, sizeof piece);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (got <= 0)
        return error_set(err, EPIPE, "it closed its output");
    size_t n = (size_t)got;
    int r = client_count(c, n, err), taken = 0;
    while (r == 0 && (taken = rpc_take(&c->pipe.reader, &at, &n, &line)) > 0)
        r = client_take_line(c, line.data, line.size, err);
    if (r < 0)
        return r;
    return taken < 0 || c->pipe.reader.lost
               ? error_set(err, EPROTO, "it sent a message of more than %u bytes", RPC_MESSAGE_MAX)
               : 1;
}

/* Bytes that were sent are dropped now and then only, since that moves the rest. */
static int pipe_write_stdin(struct client *c, struct error *err)
{
    struct client_pipe *p = &c->pipe;
    int r = 0;
    LOCKED(&c->lock);
    size_t left = p->out.len - p->sent;
    ssize_t n = left ? write(p->child.in, p->out.data + p->sent, left < PIECE ? left : PIECE) : 0;
    if (n > 0)
        p->sent += (size_t)n;
    else if (n < 0 && errno != EAGAIN && errno != EINTR)
        r = error_set(err, EPIPE, "it closed its input");
    if (p->sent == p->out.len || p->sent > SENT_KEPT) {
        buf_consume(&p->out, p->sent);
        p->sent = 0;
    }
    return r;
}

static int pipe_step(struct client *c, struct error *err)
{
    struct child *child = &c->pipe.child;
    pthread_mutex_lock(&c->lock);
    bool full = c->pipe.out.len > 0;
    pthread_mutex_unlock(&c->lock);
    struct pollfd fds[] = {{.fd = c->wake, .events = POLLIN},
                           {.fd = child->out, .events = POLLIN},
                           {.fd = child->err, .events = POLLIN},
                           {.fd = full ? child->in : -1, .events = POLLOUT},
                           {.fd = child->pidfd, .events = POLLIN}};
    uint64_t count;
    if (poll(fds, ARRAY_SIZE(fds), -1) < 0)
        return errno == EINTR ? 0 : error_errno(err, errno, "cannot wait for it");
    if (fds[0].revents)
        (void)!read(c->wake, &count, sizeof count);
    if (fds[2].revents) {
        char piece[4096];
        ssize_t n = read(child->err, piece, sizeof piece);
        if (n > 0)
            client_add_said(c, piece, (size_t)n);
        else if (n == 0 || (errno != EAGAIN && errno != EINTR))
            close(TAKE_FD(child->err));
    }
    int r = 1;
    if (fds[4].revents) { /* it ended; what it wrote before is at most what a pipe holds */
        while (r > 0)
            r = pipe_read_stdout(c, err);
        return r == 0 ? error_set(err, EPIPE, "it ended") : r;
    }
    r = fds[1].revents ? pipe_read_stdout(c, err) : 0;
    return r >= 0 && fds[3].revents ? pipe_write_stdin(c, err) : r;
}

static void pipe_close(struct client *c, bool stop, struct error *why)
{
    char piece[4096], name[32];
    struct child *child = &c->pipe.child;
    if (child->pid <= 0)
        return; /* it did not start: `why` says so */
    ssize_t n;
    for (int i = 0; i < 64 && (n = read(child->err, piece, sizeof piece)) > 0; i++)
        client_add_said(c, piece, (size_t)n);
    /* A server that ended by itself, or that we stop, may end in its own time; one that broke the
     * protocol may not. */
    bool ended = why->code == EPIPE;
    int status = child_end(child, stop || ended ? PATIENCE_MS : 0);
    if (ended && WIFEXITED(status)) {
        error_set(why, EPIPE, "it ended (exit status %d)", WEXITSTATUS(status));
    } else if (ended && WIFSIGNALED(status) && WTERMSIG(status) != SIGTERM) {
        signame_format(WTERMSIG(status), name, sizeof name);
        error_set(why, EPIPE, "it was ended by %s", name);
    }
}

const struct client_transport CLIENT_PIPE = {
    .open = pipe_start, .send = pipe_send, .step = pipe_step, .close = pipe_close};

/* --- asking: any thread --- */

static void client_remove_waiter(struct client *c, struct waiter *w)
{
    for (struct waiter **at = &c->waiters; *at; at = &(*at)->next)
        if (*at == w) {
            *at = w->next;
            break;
        }
}

static int client_begin(struct client *c, struct waiter *w, const struct client_call *call,
                        struct error *err)
{
    LOCKED(&c->lock);
    if (c->dead) {
        *err = c->why;
        return -c->why.code;
    }
    w->id = ++c->last_id;
    w->next = c->waiters;
    c->waiters = w;
    _cleanup_json_ json_t *id = json_integer(w->id);
    if (call->progress) /* a token by which the server may report progress */
        json_object_set_new(call->params, "_meta", json_pack("{s:O}", "progressToken", id));
    if (client_send(c, rpc_request(id, call->method, json_incref(call->params))) < 0) {
        client_remove_waiter(c, w);
        return error_set(err, ENOBUFS,
                         "the MCP server '%s' does not read its input, or the call is too long",
                         c->name);
    }
    event_raise(c->wake);
    return 0;
}

/* Waits for the answer and passes progress on. At a timeout or a cancellation it notifies the
 * server and removes the waiter. */
static int client_wait(struct client *c, struct waiter *w, const struct client_call *call,
                       struct error *err)
{
    int64_t began = clock_now(), deadline = began + call->timeout_ns, next_progress = 0;
    bool done = false, cancelled = false;
    for (int ms = -1; !done && !cancelled && ms != 0;) {
        struct pollfd fds[] = {{.fd = w->event, .events = POLLIN},
                               {.fd = call->cancel, .events = POLLIN}};
        uint64_t count;
        ms = clock_poll_ms(deadline);
        int n = poll(fds, 2, ms);
        if (n < 0 && errno != EINTR) {
            error_errno(err, errno, "cannot wait for the MCP server '%s'", c->name);
            pthread_mutex_lock(&c->lock);
            client_remove_waiter(c, w);
            pthread_mutex_unlock(&c->lock);
            return -err->code;
        }
        cancelled = n > 0 && fds[1].revents;
        if (n <= 0 || !fds[0].revents)
            continue;
        (void)!read(w->event, &count, sizeof count);
        pthread_mutex_lock(&c->lock);
        _cleanup_free_ char *message = TAKE_PTR(w->message);
        done = w->done;
        bool progressed = w->progressed;
        w->progressed = false;
        pthread_mutex_unlock(&c->lock);
        int64_t now = clock_now();
        if (!done && progressed && message && call->progress && now >= next_progress) {
            call->progress->say(call->progress->data, (double)(now - began) / 1e9, message);
            next_progress = now + PROGRESS_NS;
        }
    }
    char said[600];
    LOCKED(&c->lock);
    client_remove_waiter(c, w);
    if (done && w->result)
        return 0;
    if (done) {
        *err = w->failure;
        return -w->failure.code;
    }
    if (strcmp(call->method, "initialize") != 0) { /* which must not be cancelled */
        const char *reason = cancelled ? "the user cancelled" : "timeout";
        client_send(
            c, rpc_notification("notifications/cancelled",
                                json_pack("{s:I, s:s}", "requestId", w->id, "reason", reason)));
        event_raise(c->wake);
    }
    client_last_said(c, said, sizeof said);
    if (cancelled)
        return error_set(err, ECANCELED, "the call was cancelled");
    return error_set(err, ETIMEDOUT, "the MCP server '%s' did not answer within %.3g seconds%s%s",
                     c->name, (double)call->timeout_ns / 1e9, said,
                     c->pipe.noise ? "; it wrote lines to stdout that are not JSON-RPC" : "");
}

int client_ask(struct client *c, const struct client_call *call, json_t **ret, struct error *err)
{
    struct error own = {0};
    struct waiter w = {.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    int r = w.event < 0 ? error_errno(&own, errno, "cannot wait for the MCP server")
                        : client_begin(c, &w, call, &own);
    if (r == 0)
        r = client_wait(c, &w, call, &own);
    json_decref(call->params);
    if (r == 0)
        *ret = TAKE_PTR(w.result);
    else if (err)
        *err = own;
    json_decref(w.result);
    free(w.message);
    cleanup_close(&w.event);
    return r;
}

bool client_alive(struct client *c)
{
    LOCKED(&c->lock);
    return !c->dead;
}

bool client_has_tools(const struct client *c)
{
    return c->has_tools;
}

bool client_tools_changed(struct client *c)
{
    LOCKED(&c->lock);
    bool changed = c->tools_changed;
    c->tools_changed = false;
    return changed;
}

/* --- opening and closing --- */

int client_open(const struct client_options *o, struct client **ret, struct error *err)
{
    struct client *c = calloc(1, sizeof *c);
    if (!c)
        return error_set(err, ENOMEM, "no memory");
    c->options = o;
    c->transport = o->program ? &CLIENT_PIPE : &CLIENT_HTTP;
    c->pipe = (struct client_pipe){.child = CHILD_NONE,
                                   .reader = RPC_READER_INIT(RPC_MESSAGE_MAX),
                                   .out = BUF_INIT(MCP_CLIENT_QUEUE_MAX)};
    c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    c->name = strdup(o->name);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->started, NULL);
    c->threaded =
        c->name && c->wake >= 0 && pthread_create(&c->thread, NULL, client_thread, c) == 0;
    if (!c->threaded) {
        client_free(c);
        return error_set(err, ENOMEM, "cannot start a thread for the MCP server '%s'", o->name);
    }
    pthread_mutex_lock(&c->lock);
    while (!c->ready && !c->dead)
        pthread_cond_wait(&c->started, &c->lock);
    int r = c->ready ? 0 : -c->why.code;
    if (r < 0 && err)
        *err = c->why;
    pthread_mutex_unlock(&c->lock);

    /* The handshake. */
    _cleanup_json_ json_t *result = NULL;
    struct client_call hello = {.method = "initialize",
                                .params = json_pack("{s:s, s:{}, s:{s:s, s:s}}", "protocolVersion",
                                                    VERSIONS[0], "capabilities", "clientInfo",
                                                    "name", "hutch", "version", HUTCH_VERSION),
                                .timeout_ns = o->timeout_ns,
                                .cancel = -1};
    if (r == 0)
        r = client_ask(c, &hello, &result, err);
    else
        json_decref(hello.params);
    const char *version = json_get_string_or(result, "protocolVersion", "");
    bool known = false;
    for (size_t i = 0; i < ARRAY_SIZE(VERSIONS); i++)
        known |= strcmp(version, VERSIONS[i]) == 0;
    _cleanup_free_ char *clean = foreign_text(version, strlen(version), 40);
    if (r == 0 && !known)
        r = error_set(err, EPROTO,
                      "the MCP server '%s' speaks protocol '%s'; hutch speaks %s to %s", c->name,
                      clean ? clean : "", VERSIONS[ARRAY_SIZE(VERSIONS) - 1], VERSIONS[0]);
    if (r < 0) {
        client_free(c);
        return r;
    }
    c->has_tools =
        json_is_object(json_object_get(json_object_get(result, "capabilities"), "tools"));
    pthread_mutex_lock(&c->lock);
    client_send(c, rpc_notification("notifications/initialized", NULL));
    pthread_mutex_unlock(&c->lock);
    event_raise(c->wake);
    *ret = c;
    return 0;
}

void client_stop(struct client *c)
{
    pthread_mutex_lock(&c->lock);
    c->stop = true;
    pthread_mutex_unlock(&c->lock);
    event_raise(c->wake);
}

struct client *client_free(struct client *c)
{
    if (!c)
        return NULL;
    if (c->threaded) {
        client_stop(c);
        pthread_join(c->thread, NULL);
    }
    rpc_reader_free(&c->pipe.reader);
    buf_free(&c->pipe.out);
    cleanup_close(&c->wake);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->started);
    free(c->name);
    free(c);
    return NULL;
}
