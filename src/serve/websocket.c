/*
 * WebSockets. libwebsockets decides about an upgrade at once, in the loop; so only what the loop can
 * know is refused with an HTTP status: path, Host, Origin, a missing key. What a thread finds out (a
 * wrong key, another user's job) comes as a close code: 4000 + the status, with the problem as reason.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "server.h"
#include "banned.h"

#define CLOSE_NORMAL  1000
#define CLOSE_LEAVING 1001
#define CLOSE_TOO_BIG 1009
#define CLOSE_STATUS  4000

/* --- in the loop --- */

/* Writes a whole answer now: there is no later in the middle of an upgrade. */
static int upgrade_refuse(struct request *q, struct lws *wsi)
{
    q->wsi = wsi;
    q->close_after = true;
    http_write_now(q);
    log_request(q);
    q->wsi = NULL;
    request_mark_gone(q);
    request_unref(q);
    return 1;
}

static bool upgrade_check_origin(struct request *q)
{
    const char *origin = request_header(q, "origin");
    if (!origin || auth_origin_allowed(q->serve, origin) || auth_origin_is_own(q, origin))
        return true;
    respond_problem(q, 403, "wrong-origin", "this origin is not allowed (hutch serve --origin)");
    return false;
}

static int upgrade_confirm(struct serve *s, struct lws *wsi, char *protocol)
{
    struct conn *c = lws_get_opaque_user_data(wsi);
    const char *why = NULL;
    if (strcasecmp(protocol, "websocket") != 0) {
        /* An upgrade may be ignored. That of h2c would lose the headers that this request has. */
        *protocol = '-';
        return 0;
    }
    struct request *q = c && !c->upgrade ? request_new(s, c) : NULL;
    if (!q)
        return -1;
    s->n_requests++;
    int status = request_read(q, wsi, &why);
    if (status)
        respond_problem(q, status, "bad-request", "%s", why);
    else if (dispatch_begin(q) && upgrade_check_origin(q) && !(q->route->flags & ROUTE_WEBSOCKET))
        respond_problem(q, 400, "no-websocket", "this path is not one of a WebSocket");
    if (q->answer)
        return upgrade_refuse(q, wsi);
    q->ws = calloc(1, sizeof *q->ws);
    if (!q->ws || (q->ws->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0) {
        request_unref(q);
        return -1;
    }
    q->ws->in_end = &q->ws->in;
    q->ws->out_end = &q->ws->out;
    q->ws->partial = BUF_INIT(q->route->access == ACCESS_WORKER ? WORKER_MESSAGE_MAX : MESSAGE_MAX);
    c->upgrade = q;
    return 0;
}

static int websocket_established(struct serve *s, struct lws *wsi, void *user)
{
    struct conn *c = lws_get_opaque_user_data(wsi);
    struct request *q = c ? c->upgrade : NULL, **slot = user;
    if (!q || !slot)
        return -1;
    c->upgrade = NULL;
    *slot = q;
    q->wsi = wsi;
    q->status = 101;
    q->phase = PHASE_RUN;
    http_enter(q);
    lws_set_timeout(wsi, NO_PENDING_TIMEOUT, 0);
    dispatch_run(q);
    return 0;
}

static struct ws_message *message_new(const void *data, size_t n, bool binary)
{
    struct ws_message *m = malloc(sizeof *m + LWS_PRE + n);
    if (!m)
        return NULL;
    *m = (struct ws_message){.n = n, .binary = binary};
    if (n > 0)
        memcpy(m->data + LWS_PRE, data, n);
    return m;
}

static int websocket_received(struct request *q, const void *data, size_t n)
{
    struct websocket *ws = q->ws;
    if (buf_append(&ws->partial, data, n) < 0) {
        lws_close_reason(q->wsi, CLOSE_TOO_BIG, (uint8_t *)"message too big", 15);
        return -1;
    }
    if (!lws_is_final_fragment(q->wsi) || lws_remaining_packet_payload(q->wsi) > 0)
        return 0;
    struct ws_message *m =
        message_new(ws->partial.data, ws->partial.len, lws_frame_is_binary(q->wsi));
    buf_free(&ws->partial);
    if (!m)
        return -1;
    LOCKED(&q->lock);
    *ws->in_end = m;
    ws->in_end = &m->next;
    ws->in_bytes += m->n + sizeof *m;
    eventfd_write(ws->event, 1);
    if (ws->in_bytes > UNSENT_MAX && !ws->paused) {
        ws->paused = true;
        lws_rx_flow_control(q->wsi, 0);
    }
    return 0;
}

void websocket_service(struct request *q)
{
    bool resume;
    {
        LOCKED(&q->lock);
        resume = q->ws->paused && q->ws->in_bytes <= UNSENT_MAX / 2;
        if (resume)
            q->ws->paused = false;
    }
    if (resume)
        lws_rx_flow_control(q->wsi, 1);
}

/* Nothing is left to send: why does it close? 0: it does not. */
static unsigned websocket_close_code(struct request *q, const char **ret_why)
{
    *ret_why = "";
    if (q->ws->closing) {
        *ret_why = q->ws->close_why;
        return q->ws->close_code;
    }
    if (q->answer == ANSWER_WHOLE) { /* a problem instead of accepting it */
        *ret_why = q->ws->close_why;
        return CLOSE_STATUS + (unsigned)q->status;
    }
    return q->finished ? q->stopping ? CLOSE_LEAVING : CLOSE_NORMAL : 0;
}

static int websocket_writable(struct request *q)
{
    struct websocket *ws = q->ws;
    struct ws_message *m;
    const char *why = "";
    unsigned code = 0;
    {
        LOCKED(&q->lock);
        m = q->answer == ANSWER_WEBSOCKET ? ws->out : NULL;
        if (m) {
            ws->out = m->next;
            if (!ws->out)
                ws->out_end = &ws->out;
            ws->out_bytes -= m->n + sizeof *m;
            q->sent += m->n;
            pthread_cond_broadcast(&q->drained);
        } else {
            code = websocket_close_code(q, &why);
        }
    }
    if (code) {
        lws_close_reason(q->wsi, (enum lws_close_status)code, (uint8_t *)why, strlen(why));
        return -1;
    }
    if (!m)
        return 0;
    int r =
        lws_write(q->wsi, m->data + LWS_PRE, m->n, m->binary ? LWS_WRITE_BINARY : LWS_WRITE_TEXT);
    free(m);
    lws_callback_on_writable(q->wsi);
    return r < 0 ? -1 : 0;
}

int websocket_callback(struct serve *s, struct lws *wsi, enum lws_callback_reasons reason,
                       void *user, void *in, size_t n)
{
    struct request *q = user ? *(struct request **)user : NULL;
    switch (reason) {
    case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE:
        return upgrade_confirm(s, wsi, in);
    case LWS_CALLBACK_ESTABLISHED:
        return websocket_established(s, wsi, user);
    case LWS_CALLBACK_RECEIVE:
        return q && q->ws ? websocket_received(q, in, n) : -1;
    case LWS_CALLBACK_SERVER_WRITEABLE:
        return q && q->ws ? websocket_writable(q) : 0;
    default:
        return 0;
    }
}

/* --- in the function's thread --- */

int websocket_accept(struct request *q)
{
    LOCKED(&q->lock);
    if (q->gone || q->answer || !q->ws)
        return -EPIPE;
    q->answer = ANSWER_WEBSOCKET;
    loop_wake(q);
    return 0;
}

/* The oldest message, under the lock; NULL: none. */
static struct ws_message *websocket_take(struct request *q)
{
    struct websocket *ws = q->ws;
    struct ws_message *m = ws->in;
    eventfd_t ignored;
    if (m) {
        ws->in = m->next;
        ws->in_bytes -= m->n + sizeof *m;
        if (!ws->in)
            ws->in_end = &ws->in;
    } else if (!q->gone && !q->stopping) {
        eventfd_read(ws->event, &ignored);
    }
    if (ws->paused && ws->in_bytes <= UNSENT_MAX / 2 && !q->gone)
        loop_wake(q);
    return m;
}

int websocket_receive(struct request *q, struct buf *ret, bool *ret_binary, int timeout_ms,
                      int wake)
{
    int64_t deadline = timeout_ms < 0 ? 0 : clock_now() + timeout_ms * NS_PER_MS;
    while (true) {
        struct ws_message *m;
        bool ended;
        {
            LOCKED(&q->lock);
            m = websocket_take(q);
            ended = q->gone || q->stopping || q->ws->closing;
        }
        if (m) {
            ret->len = 0;
            int r = buf_append(ret, m->data + LWS_PRE, m->n);
            if (ret_binary)
                *ret_binary = m->binary;
            free(m);
            return r < 0 ? r : 1;
        }
        if (ended)
            return -EPIPE;
        struct pollfd wait[] = {{q->ws->event, POLLIN, 0}, {wake, POLLIN, 0}};
        int n = poll(wait, 2, clock_poll_ms(deadline));
        if (n == 0 || (n > 0 && wait[1].revents))
            return 0;
        if (n < 0 && errno != EINTR)
            return -errno;
    }
}

int websocket_send(struct request *q, const void *data, size_t n, bool binary)
{
    struct ws_message *m = message_new(data, n, binary);
    if (!m)
        return -ENOMEM;
    LOCKED(&q->lock);
    struct websocket *ws = q->ws;
    while (ws->out_bytes > UNSENT_MAX && !q->gone && !q->stopping)
        pthread_cond_wait(&q->drained, &q->lock);
    if (q->gone || q->stopping || q->answer != ANSWER_WEBSOCKET || ws->closing) {
        free(m);
        return -EPIPE;
    }
    *ws->out_end = m;
    ws->out_end = &m->next;
    ws->out_bytes += n + sizeof *m;
    loop_wake(q);
    return 0;
}

void websocket_close(struct request *q, unsigned code, const char *why)
{
    LOCKED(&q->lock);
    if (q->gone || !q->ws || q->ws->closing)
        return;
    q->ws->closing = true;
    q->ws->close_code = code;
    snprintf(q->ws->close_why, sizeof q->ws->close_why, "%s", why ? why : "");
    loop_wake(q);
}
