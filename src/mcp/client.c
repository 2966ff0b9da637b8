/* The callers' side of a connection: opening it, the handshake, asking and waiting. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "client_private.h"
#include "clock.h"
#include "foreign.h"
#include "banned.h"

#define PROGRESS_NS (NS_PER_S / 10) /* between two reports, however many come */

static const char *const VERSIONS[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};

static void wake(struct client *c)
{
    const uint64_t one = 1;
    (void)!write(c->wake, &one, sizeof one);
}

static void leave(struct client *c, struct waiter *w)
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

/* The request with its id, and with a token by which the server may tell how far it is. */
static json_t *make_request(const struct waiter *w, const struct client_call *call)
{
    json_t *id = json_integer(w->id);
    json_t *meta = call->progress ? json_pack("{s:O}", "progressToken", id) : NULL;
    if (meta && json_object_set_new(call->params, "_meta", meta) < 0)
        meta = NULL;
    json_t *request = rpc_request(id, call->method, json_incref(call->params));
    json_decref(id);
    return request;
}

static int enter(struct client *c, struct waiter *w, const struct client_call *call,
                 struct error *err)
{
    int r = 0;
    pthread_mutex_lock(&c->lock);
    if (c->dead) {
        *err = c->why;
        r = -c->why.code;
    } else {
        w->id = ++c->last_id;
        w->next = c->waiters;
        c->waiters = w;
        r = client_put(c, make_request(w, call));
        if (r < 0) {
            leave(c, w);
            error_set(err, ENOBUFS,
                      "the MCP server '%s' does not read what it is sent, or it is too long",
                      c->name);
        }
    }
    pthread_mutex_unlock(&c->lock);
    if (r == 0)
        wake(c);
    return r;
}

/* Nobody wants the answer any more; the handshake is not to be taken back. */
static void give_up(struct client *c, struct waiter *w, const struct client_call *call,
                    const char *reason)
{
    if (strcmp(call->method, "initialize") == 0)
        return;
    client_put(c, rpc_notification("notifications/cancelled",
                                   json_pack("{s:I, s:s}", "requestId", w->id, "reason", reason)));
    wake(c);
}

/* Looks at what has come. True when it is over, with the result. */
static bool look(struct client *c, struct waiter *w, const struct client_call *call, int64_t began)
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

static int take_back(struct client *c, struct waiter *w, const struct client_call *call,
                     bool cancelled, struct error *err)
{
    char words[600];
    int r;
    pthread_mutex_lock(&c->lock);
    leave(c, w);
    give_up(c, w, call, cancelled ? "the person cancelled" : "timeout");
    client_last_words(c, words, sizeof words);
    if (cancelled)
        r = error_set(err, ECANCELED, "the call was cancelled");
    else
        r = error_set(err, ETIMEDOUT, "the MCP server '%s' did not answer within %.3g seconds%s%s",
                      c->name, (double)call->timeout_ns / 1e9, words,
                      c->noise ? "; it wrote lines to stdout that are no JSON-RPC" : "");
    pthread_mutex_unlock(&c->lock);
    return r;
}

static int wait_for(struct client *c, struct waiter *w, const struct client_call *call,
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
        if (n > 0 && fds[0].revents && look(c, w, call, began))
            break;
        bool cancelled = n > 0 && fds[1].revents;
        if (cancelled || ms == 0)
            return take_back(c, w, call, cancelled, err);
    }
    pthread_mutex_lock(&c->lock);
    leave(c, w);
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
                        : enter(c, &w, call, &own);
    if (r == 0)
        r = wait_for(c, &w, call, &own);
    json_decref(call->params);
    if (r == 0)
        *ret = TAKE_PTR(w.result);
    else if (err)
        *err = own;
    return r;
}

bool client_alive(struct client *c)
{
    pthread_mutex_lock(&c->lock);
    bool alive = !c->dead;
    pthread_mutex_unlock(&c->lock);
    return alive;
}

bool client_has_tools(const struct client *c)
{
    return c->has_tools;
}

bool client_tools_changed(struct client *c)
{
    pthread_mutex_lock(&c->lock);
    bool changed = c->tools_changed;
    c->tools_changed = false;
    pthread_mutex_unlock(&c->lock);
    return changed;
}

static int take_handshake(struct client *c, const json_t *result, struct error *err)
{
    const char *version = json_string_value(json_object_get(result, "protocolVersion"));
    bool known = false;
    for (size_t i = 0; version && i < ARRAY_SIZE(VERSIONS); i++)
        known = known || strcmp(version, VERSIONS[i]) == 0;
    if (!known) {
        _cleanup_free_ char *clean = version ? foreign_text(version, strlen(version), 40) : NULL;
        return error_set(err, EPROTO,
                         "the MCP server '%s' speaks protocol '%s'; hutch speaks %s to %s", c->name,
                         clean ? clean : "", VERSIONS[ARRAY_SIZE(VERSIONS) - 1], VERSIONS[0]);
    }
    c->has_tools =
        json_is_object(json_object_get(json_object_get(result, "capabilities"), "tools"));
    return 0;
}

static int shake_hands(struct client *c, int64_t timeout_ns, struct error *err)
{
    json_t *result = NULL;
    struct client_call hello = {.method = "initialize",
                                .params = json_pack("{s:s, s:{}, s:{s:s, s:s}}", "protocolVersion",
                                                    VERSIONS[0], "capabilities", "clientInfo",
                                                    "name", "hutch", "version", HUTCH_VERSION),
                                .timeout_ns = timeout_ns,
                                .cancel = -1};
    if (!hello.params)
        return error_set(err, ENOMEM, "no memory");
    int r = client_ask(c, &hello, &result, err);
    if (r == 0)
        r = take_handshake(c, result, err);
    json_decref(result);
    if (r < 0)
        return r;
    pthread_mutex_lock(&c->lock);
    client_put(c, rpc_notification("notifications/initialized", NULL));
    pthread_mutex_unlock(&c->lock);
    wake(c);
    return 0;
}

static struct client *client_new(const struct client_options *o)
{
    struct client *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->options = o;
    c->child = CHILD_NONE;
    c->reader = RPC_READER_INIT(RPC_MESSAGE_MAX);
    c->out = BUF_INIT(MCP_CLIENT_QUEUE_MAX);
    c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    c->name = strdup(o->name);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->started, NULL);
    if (o->preface)
        buf_append(&c->out, o->preface->data, o->preface->len);
    return c;
}

static void client_destroy(struct client *c)
{
    rpc_reader_free(&c->reader);
    buf_free(&c->out);
    cleanup_close(&c->wake);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->started);
    free(c->name);
    free(c);
}

/* Waits until the program was started, or was not. */
static int wait_started(struct client *c, struct error *err)
{
    pthread_mutex_lock(&c->lock);
    while (!c->ready && !c->dead)
        pthread_cond_wait(&c->started, &c->lock);
    int r = c->ready ? 0 : -c->why.code;
    if (r < 0 && err)
        *err = c->why;
    pthread_mutex_unlock(&c->lock);
    return r;
}

int client_open(const struct client_options *o, struct client **ret, struct error *err)
{
    struct client *c = client_new(o);
    if (!c)
        return error_set(err, ENOMEM, "no memory");
    if (!c->name || c->wake < 0 || c->out.failed ||
        pthread_create(&c->thread, NULL, client_thread, c) != 0) {
        client_destroy(c);
        return error_set(err, ENOMEM, "cannot start a thread for the MCP server '%s'", o->name);
    }
    int r = wait_started(c, err);
    if (r == 0)
        r = shake_hands(c, o->timeout_ns, err);
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
    wake(c);
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
