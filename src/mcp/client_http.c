/*
 * A server with a URL: MCP's streamable HTTP, spoken with libcurl.
 *
 * Each message is a POST of its own. The answer to a request is the body, or an event in a stream;
 * a stream that breaks off is resumed if its events have ids. Requests run side by side; the next
 * message waits for a notification and for the handshake, so that the server sees them in order.
 * After the handshake a GET stream brings what the server says unasked, if it offers one.
 *
 * URL and headers may hold secrets: they stay in this process, messages show the URL without user,
 * password and query, and redirections are followed within the same origin only.
 */
#include <curl/curl.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "client.h"
#include "http.h"
#include "sse.h"
#include "text.h"
#include "thread.h"
#include "banned.h"

#define RUNNING_MAX   32
#define RESUMES_MAX   5
#define REDIRECTS_MAX 3
#define SESSION_MAX   1024
#define RETRY_MS      1000
#define RETRY_MIN_MS  50
#define RETRY_MAX_MS  30000
#define REFUSAL_MAX   300      /* bytes of a refusal that are shown */
#define LINGER_NS     NS_PER_S /* for a stream to end after its answer */
#define GRACE_MS      5000L    /* the caller times out first, and says so */
#define DELETE_MS     1500L
#define IDLE_MS       600000

/* Headers that hutch sets itself, or that would change how the body is framed. */
static const char *const RESERVED[] = {
    "accept", "connection",    "content-length",       "content-type",   "expect",
    "host",   "last-event-id", "mcp-protocol-version", "mcp-session-id", "transfer-encoding"};

enum http_kind {
    HTTP_POST,   /* a message, and its answer */
    HTTP_RESUME, /* GET: the rest of an answer that broke off */
    HTTP_LISTEN, /* GET: what the server says unasked */
};

struct http_request {
    struct client *client;
    enum http_kind kind;
    CURL *easy;       /* NULL while it waits for `due` */
    int64_t due;      /* when to start; or, once it is answered, when to end */
    char *body;       /* of a POST */
    char *url;        /* the server's, or where that redirected to */
    json_t *id;       /* of the JSON-RPC request to be answered; NULL: none */
    json_t *cancels;  /* the id of a request that nobody waits for any more; or NULL */
    bool initialize;  /* it is the handshake's request, */
    bool initialized; /* or the notification that ends the handshake */
    bool in_order;    /* nothing else is sent until it is answered */
    bool answered;
    bool events;  /* the answer is a stream of events */
    bool too_big; /* we broke it off */
    unsigned resumes, redirects;
    struct curl_slist *headers;
    struct buf in; /* an answer that is not a stream, or the text of a refusal */
    struct sse sse;
    char *last_id;    /* of an event: where to resume, */
    int64_t retry_ms; /* and after how long; -1: the server did not say */
    char why[CURL_ERROR_SIZE];
    struct http_request *next;
};

struct client_http {
    char *url, *shown; /* `shown` is for messages */
    struct curl_slist *headers;
    long timeout_ms;
    CURLM *multi;
    struct http_request *requests; /* under way, or waiting for their time */
    size_t n_running;              /* of those, without LISTEN */
    char *session;                 /* Mcp-Session-Id, once the server gave one */
    char *version;                 /* MCP-Protocol-Version, once it was agreed on */
    bool waiting;                  /* a request is under way that the next one must not overtake */
    struct error over;             /* why the connection must end; code 0: it need not */
    struct http_request *queue, **queue_end; /* not sent yet; guarded by the client's lock */
    size_t queue_bytes;
};

/* A new string: scheme, host, port and with `path` the path of a URL, without what may be a secret.
 * NULL if it is not a URL. */
static char *url_text(const char *url, bool path)
{
    static const CURLUPart PARTS[] = {CURLUPART_SCHEME, CURLUPART_HOST, CURLUPART_PORT,
                                      CURLUPART_PATH};
    char *part[ARRAY_SIZE(PARTS)] = {0}, *text = NULL;
    CURLU *u = curl_url();
    if (u && curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK) {
        for (size_t i = 0; i < ARRAY_SIZE(PARTS); i++)
            if (curl_url_get(u, PARTS[i], &part[i], CURLU_DEFAULT_PORT) != CURLUE_OK)
                part[i] = NULL;
        text = str_printf("%s://%s:%s%s", part[0] ? part[0] : "", part[1] ? part[1] : "",
                          part[2] ? part[2] : "", path && part[3] ? part[3] : "");
    }
    for (size_t i = 0; i < ARRAY_SIZE(PARTS); i++)
        curl_free(part[i]);
    curl_url_cleanup(u);
    return text;
}

/* --- requests --- */

static struct http_request *request_free(struct http_request *q)
{
    if (!q)
        return NULL;
    if (q->easy) {
        curl_multi_remove_handle(q->client->http->multi, q->easy);
        curl_easy_cleanup(q->easy);
    }
    curl_slist_free_all(q->headers);
    json_decref(q->id);
    json_decref(q->cancels);
    free(q->body);
    free(q->url);
    free(q->last_id);
    buf_free(&q->in);
    sse_free(&q->sse);
    free(q);
    return NULL;
}

static struct http_request *request_new(struct client *c, enum http_kind kind)
{
    struct http_request *q = calloc(1, sizeof *q);
    if (!q)
        return NULL;
    q->client = c;
    q->kind = kind;
    q->retry_ms = -1;
    q->in = BUF_INIT(RPC_MESSAGE_MAX);
    q->sse = SSE_INIT(RPC_MESSAGE_MAX + 1024);
    q->url = strdup(c->http->url);
    return q->url ? q : request_free(q);
}

static void request_remove(struct client_http *h, struct http_request *q)
{
    for (struct http_request **at = &h->requests; *at; at = &(*at)->next)
        if (*at == q) {
            *at = q->next;
            break;
        }
    h->n_running -= q->kind != HTTP_LISTEN;
    if (q->in_order)
        h->waiting = false;
    request_free(q);
}

static size_t request_receive(char *data, size_t size, size_t n, void *request);

static int request_start(struct http_request *q)
{
    const struct client_http *h = q->client->http;
    bool post = q->kind == HTTP_POST;
    sse_free(&q->sse);
    q->sse = SSE_INIT(RPC_MESSAGE_MAX + 1024);
    q->in.len = 0;
    q->in.failed = q->events = false;
    curl_slist_free_all(q->headers);
    q->headers = NULL;
    int r = http_headers_add(&q->headers, "Accept: %stext/event-stream",
                             post ? "application/json, " : "");
    for (struct curl_slist *own = h->headers; r == 0 && own; own = own->next)
        r = http_headers_add(&q->headers, "%s", own->data);
    if (r == 0 && post)
        r = http_headers_add(&q->headers, "Content-Type: application/json");
    if (r == 0)
        r = http_headers_add(&q->headers, "Expect:"); /* do not wait for "100 Continue" */
    if (r == 0 && h->session && !q->initialize)
        r = http_headers_add(&q->headers, "Mcp-Session-Id: %s", h->session);
    if (r == 0 && h->version && !q->initialize)
        r = http_headers_add(&q->headers, "MCP-Protocol-Version: %s", h->version);
    if (r == 0 && q->last_id)
        r = http_headers_add(&q->headers, "Last-Event-ID: %s", q->last_id);
    q->easy = r == 0 ? http_easy_new(q->url, q->headers, q->why) : NULL;
    if (!q->easy)
        return -ENOMEM;
    curl_easy_setopt(q->easy, CURLOPT_WRITEFUNCTION, request_receive);
    curl_easy_setopt(q->easy, CURLOPT_WRITEDATA, q);
    curl_easy_setopt(q->easy, CURLOPT_PRIVATE, q);
    if (q->kind != HTTP_LISTEN)
        curl_easy_setopt(q->easy, CURLOPT_TIMEOUT_MS, q->client->http->timeout_ms + GRACE_MS);
    if (q->kind == HTTP_POST) {
        curl_easy_setopt(q->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(q->body));
        curl_easy_setopt(q->easy, CURLOPT_POSTFIELDS, q->body);
    }
    return curl_multi_add_handle(q->client->http->multi, q->easy) == CURLM_OK ? 0 : -ENOMEM;
}

static void request_restart_at(struct http_request *q, int64_t due)
{
    curl_multi_remove_handle(q->client->http->multi, q->easy);
    curl_easy_cleanup(q->easy);
    q->easy = NULL;
    q->due = due;
}

/* --- answers --- */

/* Kept for messages about callers that time out, as a program's stderr is. */
static void http_note(struct client *c, const char *text)
{
    char line[1200];
    int n = snprintf(line, sizeof line, "%.300s: %.800s\n", c->http->shown, text);
    client_add_said(c, line, (size_t)n);
}

/* Fails the caller, if it has no answer yet. ESTALE: the server has forgotten the session. */
static void request_fail(struct http_request *q, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void request_fail(struct http_request *q, int code, const char *fmt, ...)
{
    struct client *c = q->client;
    char text[1024];
    struct error why;
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    _cleanup_free_ char *clean = foreign_text(text, strlen(text), 800);
    error_set(&why, code, "the MCP server '%s' failed: %s: %s", c->name, c->http->shown,
              clean ? clean : "");
    if (q->id && !q->answered)
        client_fail(c, q->id, &why);
    else
        http_note(c, clean ? clean : "");
    q->answered = true;
    if (code == ESTALE)
        c->http->over = why;
}

/* Hands one message to the client, and notes whether it is the answer that this request is for. */
static void request_take_message(struct http_request *q, json_t *value)
{
    struct client_http *h = q->client->http;
    struct rpc_message m;
    rpc_look(value, &m);
    bool is_answer =
        (m.kind == RPC_RESULT || m.kind == RPC_ERROR) && q->id && json_equal(m.id, q->id);
    if (is_answer && q->initialize && m.kind == RPC_RESULT) {
        /* The handshake's: session and version go with all that follows. */
        const json_t *said = json_object_get(m.result, "protocolVersion");
        const char *version =
            json_is_string(said) && !rpc_has_nul(said) ? json_string_value(said) : "";
        struct curl_header *session = NULL;
        free(h->version);
        free(h->session);
        h->version = h->session = NULL;
        if (*version && strspn(version, "0123456789-") == strlen(version) && strlen(version) <= 32)
            h->version = strdup(version);
        size_t visible = 0;
        if (curl_easy_header(q->easy, "Mcp-Session-Id", 0, CURLH_HEADER, -1, &session) == CURLHE_OK)
            while (session->value[visible] > 0x20 && session->value[visible] < 0x7f)
                visible++;
        if (visible && !session->value[visible] && visible <= SESSION_MAX)
            h->session = strdup(session->value);
    }
    if (m.kind == RPC_INVALID || client_take(q->client, value, &h->over) < 0 || !is_answer)
        return;
    q->answered = true;
    q->due = clock_now() + LINGER_NS;
    if (q->in_order) /* what follows need not wait for the end of the stream */
        h->waiting = false;
    q->in_order = false;
}

/* What cannot be parsed is ignored: if it was meant as an answer, the request ends without one. */
static void request_take_text(struct http_request *q, const char *data, size_t n)
{
    struct error err = {0};
    json_t *value = NULL, *one;
    size_t i;
    if (client_count(q->client, n, &q->client->http->over) < 0)
        return;
    if (rpc_parse(data, n, &value, &err) < 0)
        http_note(q->client, err.text);
    else if (!json_is_array(value))
        request_take_message(q, value);
    else /* a batch, as protocol 2025-03-26 had them */
        json_array_foreach(value, i, one) request_take_message(q, one);
    json_decref(value);
}

/* libcurl's write function. */
static size_t request_receive(char *data, size_t size, size_t n, void *request)
{
    struct http_request *q = request;
    struct sse_event event;
    const char *at = data;
    char *type = NULL;
    long status = 0;
    size_t left = size * n;
    int r;
    curl_easy_getinfo(q->easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(q->easy, CURLINFO_CONTENT_TYPE, &type);
    q->events = status / 100 == 2 && type && strncasecmp(type, "text/event-stream", 17) == 0;
    if (!q->events)
        r = buf_append(&q->in, data, left);
    else
        while ((r = sse_take(&q->sse, &at, &left, &event)) > 0) {
            q->resumes = 0;
            if (event.n && strcmp(event.type, "message") == 0)
                request_take_text(q, event.data, event.n);
        }
    if (r >= 0)
        return size * n;
    q->too_big = true;
    return CURL_WRITEFUNC_ERROR;
}

/* Asks for the rest of a stream after a pause. False if that is not possible. */
static bool request_resume(struct http_request *q)
{
    const char *id = sse_last_id(&q->sse);
    if (q->sse.retry_ms >= 0)
        q->retry_ms = q->sse.retry_ms;
    int64_t wait = q->retry_ms >= 0 ? q->retry_ms : RETRY_MS << q->resumes;
    if (q->resumes++ >= RESUMES_MAX)
        return false;
    if (id) {
        free(q->last_id);
        q->last_id = strdup(id);
    }
    if (q->kind == HTTP_POST && !q->last_id)
        return false;
    if (q->kind == HTTP_POST)
        q->kind = HTTP_RESUME;
    wait = wait < RETRY_MIN_MS ? RETRY_MIN_MS : wait > RETRY_MAX_MS ? RETRY_MAX_MS : wait;
    request_restart_at(q, clock_now() + wait * NS_PER_MS);
    return true;
}

/* Within the same origin only: what is sent may hold secrets for that server alone. */
static bool request_follow(struct http_request *q)
{
    char *to = NULL;
    curl_easy_getinfo(q->easy, CURLINFO_REDIRECT_URL, &to);
    if (!to || q->redirects++ == REDIRECTS_MAX) {
        request_fail(q, EREMOTEIO, "it redirects in circles, or nowhere");
        return false;
    }
    _cleanup_free_ char *from = url_text(q->url, false), *origin = url_text(to, false);
    if (!from || !origin || strcasecmp(from, origin) != 0) {
        _cleanup_free_ char *shown = url_text(to, true);
        request_fail(q, EREMOTEIO,
                     "it redirects to %s; if that is right, put that URL into the configuration",
                     shown ? shown : "an invalid URL");
        return false;
    }
    char *url = strdup(to);
    if (!url) {
        request_fail(q, ENOMEM, "no memory");
        return false;
    }
    free(q->url);
    q->url = url;
    request_restart_at(q, clock_now());
    return true;
}

/* The body of a refusal may be an answer to the JSON-RPC request; otherwise it is shown. */
static void request_refused(struct http_request *q, long status)
{
    size_t n = q->in.len < REFUSAL_MAX ? q->in.len : REFUSAL_MAX;
    _cleanup_free_ char *said = n ? foreign_text((const char *)q->in.data, n, REFUSAL_MAX) : NULL;
    for (char *at = said; at && *at; at++)
        if (*at == '\n')
            *at = ' ';
    const char *colon = said && *said ? ": " : "", *text = said ? said : "";
    if (status == 401 || status == 403) {
        request_fail(q, EREMOTEIO,
                     "it refuses access (HTTP %ld); check \"headers\" in the configuration, such "
                     "as Authorization%s%s",
                     status, colon, text);
    } else if (status == 404 && q->client->http->session) {
        request_fail(q, ESTALE, "it has forgotten the session (HTTP 404)");
    } else {
        if (q->id && !q->answered && q->in.len && q->in.data[0] == '{')
            request_take_text(q, (const char *)q->in.data, q->in.len);
        if (!q->answered)
            request_fail(q, EREMOTEIO, "HTTP %ld%s%s", status, colon, text);
    }
}

/* Judges an exchange that has ended. True if the request goes on with another one. */
static bool request_goes_on(struct http_request *q, CURLcode code, long status)
{
    if (status / 100 == 3)
        return request_follow(q);
    if (q->kind == HTTP_LISTEN) { /* a server need not offer it; but one that does keeps it up */
        if (status == 404 && q->client->http->session)
            request_refused(q, status);
        return status / 100 != 4 && !q->too_big && request_resume(q);
    }
    if (code == CURLE_OK && status / 100 != 2) {
        request_refused(q, status);
        return false;
    }
    if (code == CURLE_OK && !q->events && q->in.len)
        request_take_text(q, (const char *)q->in.data, q->in.len);
    bool broke_off = q->id && !q->answered && !q->too_big;
    if (broke_off && (q->events || q->kind == HTTP_RESUME) && request_resume(q))
        return true;
    if (q->answered || (!q->id && code == CURLE_OK))
        return false;
    request_fail(q, EREMOTEIO, "%s",
                 q->too_big         ? "it sent a message of more than 16 MiB"
                 : code == CURLE_OK ? "it ended its answer without a result"
                 : q->why[0]        ? q->why
                                    : curl_easy_strerror(code));
    return false;
}

static void request_ended(struct http_request *q, CURLcode code)
{
    struct client *c = q->client;
    struct client_http *h = c->http;
    long status = 0;
    curl_easy_getinfo(q->easy, CURLINFO_RESPONSE_CODE, &status);
    if (request_goes_on(q, code, status))
        return;
    if (q->initialize && !h->version && !h->over.code)
        error_set(&h->over, EPROTO, "the handshake failed");
    bool listen = q->initialized && status / 100 == 2;
    request_remove(h, q);
    q = listen ? request_new(c, HTTP_LISTEN) : NULL;
    if (q) {
        q->next = h->requests;
        h->requests = q;
    }
}

/* --- the transport --- */

static int http_open(struct client *c, const struct client_options *o, struct error *err)
{
    const char *name;
    json_t *value;
    struct client_http *h = calloc(1, sizeof *h);
    if (!h)
        return error_set(err, ENOMEM, "no memory");
    c->http = h;
    h->queue_end = &h->queue;
    h->timeout_ms = (long)(o->timeout_ns / NS_PER_MS);
    h->url = strdup(o->url);
    h->shown = url_text(o->url, true);
    h->multi = curl_multi_init();
    if (!h->url || !h->multi)
        return error_set(err, ENOMEM, "no memory");
    if (!h->shown ||
        (strncasecmp(o->url, "https://", 8) != 0 && strncasecmp(o->url, "http://", 7) != 0))
        return error_set(err, EINVAL, "\"url\" must start with https:// or http://");
    json_object_foreach((json_t *)o->headers, name, value)
    {
        const char *text = json_string_value(value);
        for (size_t i = 0; i < ARRAY_SIZE(RESERVED); i++)
            if (strcasecmp(name, RESERVED[i]) == 0)
                return error_set(err, EINVAL, "headers.%s: hutch sets this header itself", name);
        for (const char *at = text; *at; at++)
            if ((unsigned char)*at < ' ' || *at == 0x7f)
                return error_set(err, EINVAL,
                                 "headers.%s: its value has a line end or control character", name);
        /* libcurl takes a colon without a value as "do not send"; a semicolon sends it empty. */
        if (http_headers_add(&h->headers, *text ? "%s: %s" : "%s;%s", name, text) < 0)
            return error_set(err, ENOMEM, "no memory");
    }
    return 0;
}

static int http_send(struct client *c, const json_t *message)
{
    struct client_http *h = c->http;
    struct rpc_message m;
    struct http_request *q = h ? request_new(c, HTTP_POST) : NULL;
    if (!q)
        return -ENOMEM;
    rpc_look((json_t *)message, &m);
    const char *method = m.method ? m.method : "";
    q->body = json_dumps(message, JSON_COMPACT);
    size_t n = q->body ? strlen(q->body) : 0;
    if (!n || n > RPC_MESSAGE_MAX || h->queue_bytes + n > MCP_CLIENT_QUEUE_MAX) {
        request_free(q);
        return -ENOBUFS;
    }
    q->id = m.kind == RPC_REQUEST ? json_deep_copy(m.id) : NULL;
    q->initialize = m.kind == RPC_REQUEST && strcmp(method, "initialize") == 0;
    q->initialized = strcmp(method, "notifications/initialized") == 0;
    q->in_order = q->initialize || m.kind != RPC_REQUEST;
    if (strcmp(method, "notifications/cancelled") == 0)
        q->cancels = json_deep_copy(json_object_get(m.params, "requestId"));
    *h->queue_end = q;
    h->queue_end = &q->next;
    h->queue_bytes += n;
    return 0;
}

/* Moves what may be sent now from the queue to the requests. */
static void http_take_queue(struct client *c)
{
    struct client_http *h = c->http;
    while (!h->waiting && h->n_running < RUNNING_MAX) {
        pthread_mutex_lock(&c->lock);
        struct http_request *q = h->queue;
        if (q) {
            h->queue = q->next;
            h->queue_bytes -= strlen(q->body);
            if (!h->queue)
                h->queue_end = &h->queue;
        }
        pthread_mutex_unlock(&c->lock);
        if (!q)
            return;
        for (struct http_request *old = h->requests; q->cancels && old; old = old->next)
            if (old->id && json_equal(old->id, q->cancels)) {
                request_remove(h, old); /* its connection can be closed */
                break;
            }
        q->next = h->requests;
        h->requests = q;
        h->n_running++;
        h->waiting = q->in_order;
    }
}

static int http_step(struct client *c, struct error *err)
{
    struct client_http *h = c->http;
    struct curl_waitfd wake = {.fd = c->wake, .events = CURL_WAIT_POLLIN};
    CURLMsg *m;
    uint64_t count;
    int n;
    int64_t now = clock_now();
    int wait = IDLE_MS;
    http_take_queue(c);
    /* Start requests whose time has come, and end streams that were answered a while ago. */
    for (struct http_request *q = h->requests, *next; q; q = next) {
        next = q->next;
        if (q->due <= now && q->easy && q->answered)
            request_ended(q, CURLE_OK);
        else if (q->due <= now && !q->easy && request_start(q) < 0)
            return error_set(err, ENOMEM, "no memory");
        else if (q->due > now && clock_poll_ms(q->due) < wait)
            wait = clock_poll_ms(q->due);
    }
    if (curl_multi_perform(h->multi, &n) != CURLM_OK)
        return error_set(err, ENOMEM, "no memory");
    while ((m = curl_multi_info_read(h->multi, &n))) {
        struct http_request *q = NULL;
        CURLcode code = m->data.result;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &q);
        request_ended(q, code);
        wait = 0; /* others may be sent now, or be due */
    }
    if (h->over.code) {
        *err = h->over;
        return -err->code;
    }
    if (curl_multi_poll(h->multi, &wake, 1, wait, NULL) != CURLM_OK)
        return error_set(err, EIO, "cannot wait for it");
    (void)!read(c->wake, &count, sizeof count);
    return 0;
}

static void http_close(struct client *c, bool stop, struct error *why)
{
    struct client_http *h = c->http;
    if (!h)
        return;
    /* Tell the server that the session is over. It need not care. */
    struct http_request *bye = h->session && !h->over.code ? request_new(c, HTTP_LISTEN) : NULL;
    if (bye && request_start(bye) == 0) {
        curl_multi_remove_handle(h->multi, bye->easy);
        curl_easy_setopt(bye->easy, CURLOPT_CUSTOMREQUEST, "DELETE");
        curl_easy_setopt(bye->easy, CURLOPT_TIMEOUT_MS, DELETE_MS);
        curl_easy_perform(bye->easy);
    }
    request_free(bye);
    pthread_mutex_lock(&c->lock);
    struct http_request *lists[] = {h->requests, h->queue};
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
        for (struct http_request *q = lists[i], *next; q; q = next) {
            next = q->next;
            request_free(q);
        }
    c->http = NULL; /* from here on nothing is queued */
    pthread_mutex_unlock(&c->lock);
    curl_multi_cleanup(h->multi);
    curl_slist_free_all(h->headers);
    free(h->url);
    free(h->shown);
    free(h->session);
    free(h->version);
    free(h);
}

const struct client_transport CLIENT_HTTP = {
    .open = http_open, .send = http_send, .step = http_step, .close = http_close};
