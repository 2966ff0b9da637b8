/*
 * The event loop: connections in, requests to their functions, answers out.
 *
 * libwebsockets parses HTTP/1.1, HTTP/2 and WebSocket and does TLS; everything else is handed on. The
 * listening sockets are ours and adopted as plain descriptors, so that the server can stop accepting
 * without closing connections, count them, and take sockets over from systemd.
 *
 * While a function runs, nothing is read from its HTTP/1.1 connection: libwebsockets would leave the
 * bytes of a next request in the socket and poll() would return at once, for ever. So that the end of
 * a client is noticed all the same, such a connection is watched for EPOLLRDHUP (loop_watch).
 */
#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <time.h>

#include "io.h"
#include "server.h"
#include "banned.h"

#define BODY_SECONDS    20          /* without a byte of the body */
#define BODY_RATE       2048        /* bytes per second at least, after BODY_SECONDS */
#define WRITE_SECONDS   60          /* without the client reading a byte */
#define EARLY_BODY_MAX  (64u << 10) /* read before it is known who the client is */
#define EARLY_BYTES_MAX (64u << 20) /* of all requests together */
#define ANSWER_CHUNK    (64u << 10)
#define H2_CHUNK        (16u << 10)
#define CHUNK_HEAD      10 /* bytes of a chunk's size */

/* --- waking the loop --- */

void loop_wake(struct request *q)
{
    struct serve *s = q->serve;
    if (q->ready)
        return;
    q->ready = true;
    request_ref(q);
    bool first;
    {
        LOCKED(&s->lock);
        first = s->ready == NULL;
        q->next_ready = NULL;
        *s->ready_end = q;
        s->ready_end = &q->next_ready;
    }
    if (first)
        lws_cancel_service(s->context);
}

void loop_watch(struct request *q)
{
    struct epoll_event e = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.ptr = q};
    if (q->h2 || q->watched || q->gone || q->watch_fd < 0)
        return;
    /* The reference is dropped when the request ends (request_leave). */
    q->watched = epoll_ctl(q->serve->epoll, EPOLL_CTL_ADD, q->watch_fd, &e) == 0;
}

/* --- a request and its connection --- */

static struct request **request_slot(void *user)
{
    return user;
}

void http_enter(struct request *q)
{
    struct serve *s = q->serve;
    q->next_open = s->open;
    q->open_at = &s->open;
    if (s->open)
        s->open->open_at = &q->next_open;
    s->open = q;
    s->requests++;
}

/* HTTP/2: the client may send as much again. libwebsockets 4.1 does that itself, but counts wrong when
 * a part of the body came with the head, and then the client waits for ever. */
static void http_allow_more(struct request *q, uint64_t n)
{
    if (q->h2 && q->wsi && n > 0)
        lws_wsi_tx_credit(q->wsi, LWSTXCR_PEER_TO_US, (int)n);
}

static void http_leave_auth(struct request *q)
{
    if (q->phase == PHASE_AUTH) {
        q->serve->early_bytes -= q->body_got;
        http_allow_more(q, q->body_got);
    }
    q->phase = PHASE_BODY;
}

/* Takes the request off its connection. */
static void request_leave(struct request *q)
{
    {
        LOCKED(&q->lock);
        if (q->watched)
            epoll_ctl(q->serve->epoll, EPOLL_CTL_DEL, q->watch_fd, NULL);
        q->watched = false;
        q->watch_fd = -1;
    }
    q->wsi = NULL;
    http_leave_auth(q);
    *q->open_at = q->next_open;
    if (q->next_open)
        q->next_open->open_at = q->open_at;
    q->serve->requests--;
    request_mark_gone(q);
    feed_gone(q);
    request_unref(q);
}

static void request_leave_slot(void *user)
{
    struct request **slot = request_slot(user), *q = slot ? *slot : NULL;
    if (!q)
        return;
    *slot = NULL;
    if (!q->answer || q->left)
        log_request(q);
    request_leave(q);
}

/* Has the body been read as far as it will be? */
static void request_advance(struct request *q)
{
    if (q->answer || q->phase == PHASE_AUTH || q->phase == PHASE_RUN || !q->body_complete)
        return;
    q->phase = PHASE_RUN;
    lws_set_timeout(q->wsi, NO_PENDING_TIMEOUT, 0);
    if (!q->h2)
        lws_rx_flow_control(q->wsi, 0);
    dispatch_run(q);
}

/* A client that asks sends its body only now. */
static void http_continue(struct request *q)
{
    static const char LINE[] = "HTTP/1.1 100 Continue\r\n\r\n";
    const char *expect = request_header(q, "expect");
    if (q->h2 || q->http10 || !expect || strcasecmp(expect, "100-continue") != 0)
        return;
    memcpy(q->serve->scratch + LWS_PRE, LINE, sizeof LINE - 1);
    lws_write(q->wsi, q->serve->scratch + LWS_PRE, sizeof LINE - 1, LWS_WRITE_HTTP);
}

/* Moves what came during the check of the key into the file. */
static bool http_spool_early(struct request *q)
{
    int r = io_write_all(q->upload, q->body.data, q->body.len);
    buf_free(&q->body);
    if (r < 0)
        respond_problem(q, 507, "no-space", "cannot store the upload: %s", strerror(-r));
    return r == 0;
}

static void request_service(struct request *q)
{
    if (q->answer) {
        if (!q->ws)
            lws_set_timeout(q->wsi, PENDING_TIMEOUT_HTTP_CONTENT, WRITE_SECONDS);
        if (!q->ws && !q->h2)
            lws_rx_flow_control(q->wsi, 1);
        lws_callback_on_writable(q->wsi);
        if (q->ws)
            websocket_service(q);
    } else if (q->phase == PHASE_AUTH && q->authenticated) {
        http_leave_auth(q);
        if (q->route->flags & ROUTE_UPLOAD && !http_spool_early(q))
            return;
        if (!q->h2)
            lws_rx_flow_control(q->wsi, 1);
        lws_set_timeout(q->wsi, PENDING_TIMEOUT_HTTP_CONTENT, BODY_SECONDS);
        q->body_begin = clock_now();
        if (q->body_got == 0)
            http_continue(q);
        request_advance(q);
    }
}

static void loop_service_ready(struct serve *s)
{
    struct request *list;
    {
        LOCKED(&s->lock);
        list = s->ready;
        s->ready = NULL;
        s->ready_end = &s->ready;
    }
    for (struct request *q = list, *next; q; q = next) {
        next = q->next_ready;
        pthread_mutex_lock(&q->lock);
        q->ready = false;
        pthread_mutex_unlock(&q->lock);
        if (q->wsi)
            request_service(q);
        request_unref(q);
    }
}

static void request_authenticate(void *data)
{
    struct request *q = data;
    bool ok = auth_check(q) && dispatch_spool(q);
    pthread_mutex_lock(&q->lock);
    q->authenticated = ok;
    if (!q->gone)
        loop_wake(q);
    pthread_mutex_unlock(&q->lock);
    request_unref(q);
}

static int http_begin(struct serve *s, struct lws *wsi, void *user)
{
    struct conn *c = lws_get_opaque_user_data(lws_get_network_wsi(wsi));
    struct request *q = request_new(s, c), **slot = request_slot(user);
    const char *why = NULL;
    if (!q || !slot || *slot) {
        request_unref(q);
        return -1;
    }
    *slot = q;
    q->wsi = wsi;
    http_enter(q);
    s->n_requests++;
    lws_set_timeout(wsi, NO_PENDING_TIMEOUT, 0);
    int status = request_read(q, wsi, &why);
    q->watch_fd = q->h2 ? -1 : lws_get_socket_fd(wsi);
    if (status) {
        q->close_after = true;
        respond_problem(q, status, "bad-request", "%s", why);
        return 0;
    }
    if (!dispatch_begin(q))
        return 0;
    if (q->route->flags & ROUTE_WEBSOCKET) {
        respond_header(q, "Upgrade", "websocket");
        respond_problem(q, 426, "websocket", "this path is one of a WebSocket");
        return 0;
    }
    q->body_complete = q->body_size == 0;
    if (q->body_complete) {
        request_advance(q);
        return 0;
    }
    q->body_begin = clock_now();
    lws_set_timeout(wsi, PENDING_TIMEOUT_HTTP_CONTENT, BODY_SECONDS);
    if (q->body_size <= EARLY_BODY_MAX && !(q->route->flags & ROUTE_UPLOAD)) {
        q->phase = PHASE_BODY;
        http_continue(q);
        return 0;
    }
    q->phase = PHASE_AUTH;
    if (!q->h2) /* 4.1 does not go on with a stream that was paused */
        lws_rx_flow_control(wsi, 0);
    request_ref(q);
    if (pool_submit(s->pool, q->local, request_authenticate, q) < 0) {
        request_unref(q);
        respond_busy(q);
    }
    return 0;
}

static int http_body(struct request *q, const void *data, size_t n)
{
    if (q->answer || n == 0)
        return 0;
    int64_t seconds = (clock_now() - q->body_begin) / NS_PER_S;
    q->body_got += n;
    if (q->body_got > q->body_size)
        return -1;
    if (q->phase != PHASE_AUTH)
        http_allow_more(q, n);
    if (seconds > BODY_SECONDS && q->body_got / (uint64_t)seconds < BODY_RATE) {
        q->close_after = true;
        respond_problem(q, 408, "timeout", "the body arrives too slowly");
        return 0;
    }
    lws_set_timeout(q->wsi, PENDING_TIMEOUT_HTTP_CONTENT, BODY_SECONDS);
    /* What comes before the key was checked stays in memory; of HTTP/2 that can be more. */
    if (q->phase == PHASE_AUTH && (q->serve->early_bytes += n) > EARLY_BYTES_MAX)
        return -1;
    if (!(q->route->flags & ROUTE_UPLOAD) || q->phase == PHASE_AUTH)
        return buf_append(&q->body, data, n) < 0 ? -1 : 0;
    int r = io_write_all(q->upload, data, n);
    if (r < 0) {
        q->close_after = true;
        respond_problem(q, 507, "no-space", "cannot store the upload: %s", strerror(-r));
    }
    return 0;
}

/* --- writing answers --- */

static bool answer_header(struct lws *wsi, const char *name, const char *value, uint8_t **p,
                          uint8_t *end)
{
    char with_colon[64];
    snprintf(with_colon, sizeof with_colon, "%s:", name);
    return lws_add_http_header_by_name(wsi, (const uint8_t *)with_colon, (const uint8_t *)value,
                                       (int)strlen(value), p, end) == 0;
}

static bool answer_headers(struct request *q, uint8_t **p, uint8_t *end)
{
    struct serve *s = q->serve;
    const char *allowed = request_header(q, "origin");
    char date[40];
    struct tm tm;
    time_t now = time(NULL);
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &tm));
    bool ok = lws_add_http_header_status(q->wsi, (unsigned)q->status | LWSAHH_FLAG_NO_SERVER_NAME,
                                         p, end) == 0 &&
              answer_header(q->wsi, "date", date, p, end) &&
              answer_header(q->wsi, "x-request-id", q->id, p, end) &&
              answer_header(q->wsi, "x-content-type-options", "nosniff", p, end) &&
              answer_header(q->wsi, "referrer-policy", "no-referrer", p, end) &&
              answer_header(q->wsi, "cache-control", "no-store", p, end) &&
              answer_header(q->wsi, "x-frame-options", "DENY", p, end);
    if (s->tls)
        ok = ok && answer_header(q->wsi, "strict-transport-security", "max-age=31536000", p, end);
    if (allowed && auth_origin_allowed(s, allowed))
        ok = ok && answer_header(q->wsi, "access-control-allow-origin", allowed, p, end) &&
             answer_header(q->wsi, "access-control-expose-headers",
                           "X-Request-Id, Location, Retry-After, Mcp-Session-Id", p, end) &&
             answer_header(q->wsi, "vary", "Origin", p, end);
    bool has_policy = false;
    const char *at = (const char *)q->headers_out.data, *last = at + q->headers_out.len;
    while (ok && at && at < last) {
        const char *value = at + strlen(at) + 1;
        has_policy = has_policy || strcasecmp(at, "content-security-policy") == 0;
        ok = answer_header(q->wsi, at, value, p, end);
        at = value + strlen(value) + 1;
    }
    if (!has_policy)
        ok = ok && answer_header(q->wsi, "content-security-policy",
                                 "default-src 'none'; frame-ancestors 'none'", p, end);
    if (q->left != UINT64_MAX && q->status != 204 && q->status != 304)
        ok = ok && lws_add_http_header_content_length(q->wsi, q->left, p, end) == 0;
    if (q->chunked)
        ok = ok && answer_header(q->wsi, "transfer-encoding", "chunked", p, end);
    if (!q->h2)
        ok = ok &&
             answer_header(q->wsi, "connection", q->close_after ? "close" : "keep-alive", p, end);
    return ok && lws_finalize_http_header(q->wsi, p, end) == 0;
}

/* The next piece of the body, at `at`: its size; *ret_last: there will be no more. */
static ssize_t answer_piece(struct request *q, uint8_t *at, size_t max, bool *ret_last)
{
    ssize_t n = 0;
    if (q->answer == ANSWER_FILE) {
        n = io_read_at(q->file, at, q->left < max ? (size_t)q->left : max, q->file_at);
        if (n <= 0 && q->left > 0)
            return -1; /* it got shorter: the client must not take that for the whole */
        q->file_at += (uint64_t)n;
    } else {
        n = (ssize_t)(q->out.len < max ? q->out.len : max);
        if (n > 0)
            memcpy(at, q->out.data, (size_t)n);
        buf_consume(&q->out, (size_t)n);
        if (q->out.len == 0)
            buf_free(&q->out);
        pthread_cond_broadcast(&q->drained);
    }
    if (q->left != UINT64_MAX)
        q->left -= (uint64_t)n < q->left ? (uint64_t)n : q->left;
    q->sent += (uint64_t)n;
    q->sent_at = clock_now();
    *ret_last = q->left != UINT64_MAX ? q->left == 0 : q->finished && q->out.len == 0;
    return n;
}

static int answer_end(struct request *q, void *user)
{
    struct lws *wsi = q->wsi;
    /* A short rest of the body is read and dropped, so that the connection can be used again. */
    uint64_t unread = q->body_size > q->body_got ? q->body_size - q->body_got : 0;
    bool close_it = q->close_after || unread > EARLY_BODY_MAX;
    if (unread)
        lws_set_timeout(wsi, PENDING_TIMEOUT_HTTP_CONTENT, BODY_SECONDS);
    log_request(q);
    *request_slot(user) = NULL;
    request_leave(q);
    return close_it || lws_http_transaction_completed(wsi) ? -1 : 0;
}

/* Writes what there is; under the request's lock. 1: it was the last. Negative: close. */
static int answer_write(struct request *q)
{
    uint8_t *start = q->serve->scratch + LWS_PRE, *p = start, *end = start + SCRATCH_SIZE;
    size_t max = ANSWER_CHUNK;
    bool last = false;
    if (!q->headers_sent) {
        if (q->answer == ANSWER_STREAM && q->left == UINT64_MAX && !q->h2) {
            q->chunked = !q->http10;
            q->close_after = q->close_after || q->http10;
        }
        if (!answer_headers(q, &p, end))
            return -1;
        q->headers_sent = true;
        bool empty = q->head || q->left == 0;
        if (q->h2 || empty) {
            int kind = LWS_WRITE_HTTP_HEADERS | (q->h2 && empty ? LWS_WRITE_H2_STREAM_END : 0);
            if (lws_write(q->wsi, start, (size_t)(p - start), (enum lws_write_protocol)kind) < 0)
                return -1;
            if (empty)
                q->left = 0;
            else
                lws_callback_on_writable(q->wsi);
            return empty;
        }
    }
    if (q->h2) {
        int64_t credit = lws_get_peer_write_allowance(q->wsi);
        max = credit < 0 || credit > H2_CHUNK ? H2_CHUNK : (size_t)credit;
        if (max == 0)
            return 0;
    }
    uint8_t *piece = q->chunked ? p + CHUNK_HEAD : p;
    ssize_t n = answer_piece(q, piece, max, &last);
    /* A stream of known size is whole once it was sent; one that ends before is broken off. */
    bool ends_early = q->answer == ANSWER_STREAM && q->finished && !q->complete && q->out.len == 0;
    if (n < 0 || (ends_early && q->left > 0))
        return -1;
    if (q->chunked && n > 0) {
        char size[CHUNK_HEAD + 1];
        snprintf(size, sizeof size, "%08x\r\n", (unsigned)n);
        for (int i = 0; i < CHUNK_HEAD; i++) /* without the NUL: the piece stands behind it */
            p[i] = (uint8_t)size[i];
        piece[n] = '\r';
        piece[n + 1] = '\n';
        p = piece + n + 2;
    } else {
        p += n;
    }
    if (q->chunked && last) {
        memcpy(p, "0\r\n\r\n", 5);
        p += 5;
    }
    if ((p > start || (last && q->h2)) &&
        lws_write(q->wsi, start, (size_t)(p - start),
                  last ? LWS_WRITE_HTTP_FINAL : LWS_WRITE_HTTP) < 0)
        return -1;
    return last;
}

void http_write_now(struct request *q)
{
    LOCKED(&q->lock);
    if (q->answer == ANSWER_WHOLE)
        answer_write(q);
}

static int http_writable(struct request *q, void *user)
{
    pthread_mutex_lock(&q->lock);
    int r = q->answer ? answer_write(q) : 0;
    bool more =
        r == 0 && q->answer &&
        (q->answer == ANSWER_FILE || q->out.len > 0 || (q->finished && q->answer == ANSWER_STREAM));
    bool idle = r == 0 && q->answer == ANSWER_STREAM && !more && !lws_partial_buffered(q->wsi);
    pthread_mutex_unlock(&q->lock);
    if (r < 0)
        return -1;
    if (r > 0)
        return answer_end(q, user);
    if (more) {
        int unread = 0;
        /* A client that sends on and does not read would keep the loop spinning. */
        if (!q->h2 && lws_send_pipe_choked(q->wsi) && q->phase == PHASE_RUN &&
            ioctl(lws_get_socket_fd(q->wsi), FIONREAD, &unread) == 0 && unread > 0)
            return -1;
        lws_set_timeout(q->wsi, PENDING_TIMEOUT_HTTP_CONTENT, WRITE_SECONDS);
        lws_callback_on_writable(q->wsi);
    } else if (idle) {
        lws_set_timeout(q->wsi, NO_PENDING_TIMEOUT, 0);
        if (!q->h2)
            lws_rx_flow_control(q->wsi, 0);
        feed_drained(q);
    }
    return 0;
}

/* --- libwebsockets' callbacks --- */

static int http_callback(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in,
                         size_t n)
{
    struct serve *s = lws_context_user(lws_get_context(wsi));
    struct request *q = user ? *request_slot(user) : NULL;
    switch (reason) {
    case LWS_CALLBACK_EVENT_WAIT_CANCELLED:
        loop_service_ready(s);
        return 0;
    case LWS_CALLBACK_HTTP:
        return http_begin(s, wsi, user);
    case LWS_CALLBACK_HTTP_BODY:
        return q ? http_body(q, in, n) : 0;
    case LWS_CALLBACK_HTTP_BODY_COMPLETION:
        if (q && q->body_got == q->body_size) {
            q->body_complete = true;
            request_advance(q);
        }
        return 0;
    case LWS_CALLBACK_HTTP_WRITEABLE:
        return q ? http_writable(q, user) : 0;
    case LWS_CALLBACK_CLOSED_HTTP:
    case LWS_CALLBACK_HTTP_DROP_PROTOCOL:
        request_leave_slot(user);
        return 0;
    case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE:
    case LWS_CALLBACK_ESTABLISHED:
    case LWS_CALLBACK_RECEIVE:
    case LWS_CALLBACK_SERVER_WRITEABLE:
        return websocket_callback(s, wsi, reason, user, in, n);
    case LWS_CALLBACK_CLOSED:
        request_leave_slot(user);
        return 0;
    case LWS_CALLBACK_WSI_DESTROY:
        if (lws_get_network_wsi(wsi) == wsi)
            loop_conn_free(s, wsi);
        return 0;
    default:
        return 0;
    }
}

const struct lws_protocols HTTP_PROTOCOLS[] = {
    {"http", http_callback, sizeof(struct request *), 16u << 10, 0, NULL, 0},
    {"source", loop_source_callback, 0, 0, 0, NULL, 0},
    {0},
};
