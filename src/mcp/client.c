/* A connection: opening it, the handshake, asking and waiting; and what the server says. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "client.h"
#include "json.h"
#include "text.h"
#include "thread.h"
#include "banned.h"

#define PROGRESS_NS (NS_PER_S / 10) /* between two reports, however many come */

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
    return c->unanswered > MCP_CLIENT_FLOOD_MAX
               ? error_set(err, EPROTO, "it sent more than %u bytes that answer nothing",
                           MCP_CLIENT_FLOOD_MAX)
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

static void client_take_answer(struct client *c, const struct rpc_message *m)
{
    struct waiter *w = client_find_waiter(c, m->id);
    if (!w)
        return; /* a call that timed out or was cancelled; or none of ours */
    c->unanswered = 0;
    if (m->kind == RPC_RESULT) {
        w->result = json_incref(m->result);
        w->done = true;
        event_raise(w->event);
        return;
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
}

static void client_take_progress(struct client *c, const json_t *params)
{
    char text[128];
    struct waiter *w = client_find_waiter(c, json_object_get(params, "progressToken"));
    const json_t *said = json_object_get(params, "message"),
                 *total = json_object_get(params, "total");
    double at = json_number_value(json_object_get(params, "progress"));
    if (!w)
        return;
    if (json_is_number(total))
        snprintf(text, sizeof text, "%.15g of %.15g", at, json_number_value(total));
    else
        snprintf(text, sizeof text, "%.15g", at);
    free(w->message);
    w->message = json_is_string(said)
                     ? foreign_text(json_string_value(said), json_string_length(said), 400)
                     : strdup(text);
    w->progressed = true;
    event_raise(w->event);
}

/* Queues a message and frees it; the lock is held. */
static int client_send(struct client *c, json_t *message)
{
    int r = message ? c->transport->send(c, message) : -ENOMEM;
    json_decref(message);
    return r;
}

static int client_take_message(struct client *c, json_t *value, const struct rpc_message *m,
                               struct error *err)
{
    int r = 0;
    LOCKED(&c->lock);
    if (m->kind == RPC_RESULT || m->kind == RPC_ERROR) {
        client_take_answer(c, m);
        json_object_del(value, "result"); /* the caller's thread has it now, alone */
    } else if (m->kind == RPC_REQUEST) {
        /* We offer nothing else that a server could ask for: no roots, sampling or elicitation. */
        bool ping = strcmp(m->method, "ping") == 0;
        r = client_send(
            c, ping ? rpc_result(m->id, json_object())
                    : rpc_error(m->id, RPC_METHOD_NOT_FOUND, "hutch does not offer this method"));
        if (r < 0)
            r = error_set(err, EPROTO, "it sends requests and does not read the answers");
    } else if (strcmp(m->method, "notifications/progress") == 0) {
        client_take_progress(c, m->params);
    } else if (strcmp(m->method, "notifications/tools/list_changed") == 0) {
        c->tools_changed = true;
    }
    return r;
}

int client_take(struct client *c, json_t *value, struct error *err)
{
    struct rpc_message m;
    size_t n = json_is_array(value) ? json_array_size(value) : 1;
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++) { /* protocol 2025-03-26 had batches */
        json_t *one = json_is_array(value) ? json_array_get(value, i) : value;
        rpc_look(one, &m);
        if (m.kind == RPC_INVALID)
            client_take_malformed(c, m.problem);
        else
            r = client_take_message(c, one, &m, err);
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

/* --- asking: any thread --- */

static void client_remove_waiter(struct client *c, struct waiter *w)
{
    for (struct waiter **at = &c->waiters; *at; at = &(*at)->next)
        if (*at == w) {
            *at = w->next;
            break;
        }
}

static void waiter_free(struct waiter *w)
{
    json_decref(w->result);
    free(w->message);
    cleanup_close(&w->event);
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
                         "the MCP server '%s' does not read what it is sent, or it is too long",
                         c->name);
    }
    event_raise(c->wake);
    return 0;
}

/* Passes progress on. True when the answer is there. */
static bool client_look(struct client *c, struct waiter *w, const struct client_call *call,
                        int64_t began)
{
    int64_t now = clock_now();
    uint64_t count;
    (void)!read(w->event, &count, sizeof count);
    pthread_mutex_lock(&c->lock);
    _cleanup_free_ char *message = TAKE_PTR(w->message);
    bool done = w->done, progressed = w->progressed;
    w->progressed = false;
    pthread_mutex_unlock(&c->lock);
    if (!done && progressed && message && call->progress && now >= w->next_progress) {
        call->progress->say(call->progress->data, (double)(now - began) / 1e9, message);
        w->next_progress = now + PROGRESS_NS;
    }
    return done;
}

static int client_give_up(struct client *c, struct waiter *w, const struct client_call *call,
                          bool cancelled, struct error *err)
{
    char said[600];
    pthread_mutex_lock(&c->lock);
    client_remove_waiter(c, w);
    if (strcmp(call->method, "initialize") != 0) { /* which must not be cancelled */
        const char *reason = cancelled ? "the person cancelled" : "timeout";
        client_send(
            c, rpc_notification("notifications/cancelled",
                                json_pack("{s:I, s:s}", "requestId", w->id, "reason", reason)));
        event_raise(c->wake);
    }
    client_last_said(c, said, sizeof said);
    unsigned noise = c->pipe.noise;
    pthread_mutex_unlock(&c->lock);
    if (cancelled)
        return error_set(err, ECANCELED, "the call was cancelled");
    return error_set(err, ETIMEDOUT, "the MCP server '%s' did not answer within %.3g seconds%s%s",
                     c->name, (double)call->timeout_ns / 1e9, said,
                     noise ? "; it wrote lines to stdout that are no JSON-RPC" : "");
}

static int client_wait(struct client *c, struct waiter *w, const struct client_call *call,
                       struct error *err)
{
    int64_t began = clock_now(), deadline = began + call->timeout_ns;
    for (;;) {
        struct pollfd fds[] = {{.fd = w->event, .events = POLLIN},
                               {.fd = call->cancel, .events = POLLIN}};
        int ms = clock_poll_ms(deadline);
        int n = poll(fds, 2, ms);
        if (n < 0 && errno != EINTR)
            return error_errno(err, errno, "cannot wait for the MCP server '%s'", c->name);
        if (n > 0 && fds[0].revents && client_look(c, w, call, began))
            break;
        bool cancelled = n > 0 && fds[1].revents;
        if (cancelled || ms == 0)
            return client_give_up(c, w, call, cancelled, err);
    }
    pthread_mutex_lock(&c->lock);
    client_remove_waiter(c, w);
    pthread_mutex_unlock(&c->lock);
    if (w->result)
        return 0;
    *err = w->failure;
    return -w->failure.code;
}

int client_ask(struct client *c, const struct client_call *call, json_t **ret, struct error *err)
{
    struct error own = {0};
    _cleanup_(waiter_free) struct waiter w = {.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    int r = w.event < 0 ? error_errno(&own, errno, "cannot wait for the MCP server")
                        : client_begin(c, &w, call, &own);
    if (r == 0)
        r = client_wait(c, &w, call, &own);
    json_decref(call->params);
    if (r == 0)
        *ret = TAKE_PTR(w.result);
    else if (err)
        *err = own;
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

static int client_handshake(struct client *c, int64_t timeout_ns, struct error *err)
{
    _cleanup_json_ json_t *result = NULL;
    struct client_call hello = {.method = "initialize",
                                .params = json_pack("{s:s, s:{}, s:{s:s, s:s}}", "protocolVersion",
                                                    VERSIONS[0], "capabilities", "clientInfo",
                                                    "name", "hutch", "version", HUTCH_VERSION),
                                .timeout_ns = timeout_ns,
                                .cancel = -1};
    if (!hello.params)
        return error_set(err, ENOMEM, "no memory");
    int r = client_ask(c, &hello, &result, err);
    if (r < 0)
        return r;
    const char *version = json_get_string_or(result, "protocolVersion", "");
    bool known = false;
    for (size_t i = 0; i < ARRAY_SIZE(VERSIONS); i++)
        known |= strcmp(version, VERSIONS[i]) == 0;
    _cleanup_free_ char *clean = foreign_text(version, strlen(version), 40);
    if (!known)
        return error_set(err, EPROTO,
                         "the MCP server '%s' speaks protocol '%s'; hutch speaks %s to %s", c->name,
                         clean ? clean : "", VERSIONS[ARRAY_SIZE(VERSIONS) - 1], VERSIONS[0]);
    c->has_tools =
        json_is_object(json_object_get(json_object_get(result, "capabilities"), "tools"));
    pthread_mutex_lock(&c->lock);
    client_send(c, rpc_notification("notifications/initialized", NULL));
    pthread_mutex_unlock(&c->lock);
    event_raise(c->wake);
    return 0;
}

static void client_destroy(struct client *c)
{
    rpc_reader_free(&c->pipe.reader);
    buf_free(&c->pipe.out);
    cleanup_close(&c->wake);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->started);
    free(c->name);
    free(c);
}

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
    if (!c->name || c->wake < 0 || pthread_create(&c->thread, NULL, client_thread, c) != 0) {
        client_destroy(c);
        return error_set(err, ENOMEM, "cannot start a thread for the MCP server '%s'", o->name);
    }
    pthread_mutex_lock(&c->lock);
    while (!c->ready && !c->dead)
        pthread_cond_wait(&c->started, &c->lock);
    int r = c->ready ? 0 : -c->why.code;
    if (r < 0 && err)
        *err = c->why;
    pthread_mutex_unlock(&c->lock);
    if (r == 0)
        r = client_handshake(c, o->timeout_ns, err);
    if (r < 0) {
        client_free(c);
        return r;
    }
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
    client_stop(c);
    pthread_join(c->thread, NULL);
    client_destroy(c);
    return NULL;
}
