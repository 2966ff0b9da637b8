/* What came of an exchange: messages for the client, a stream to take up again, a refusal to
 * explain. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "bridge.h"
#include "clock.h"
#include "foreign.h"
#include "banned.h"

#define SERVER_ERROR  (-32000)
#define SESSION_LOST  (-32099) /* see client.h */
#define RETRY_MS      1000
#define RETRY_MIN_MS  50
#define RETRY_MAX_MS  30000
#define REFUSAL_SHOWN 300
#define LINGER_NS     NS_PER_S /* a stream whose answer has come is given that long to end */

void outcome_fail(struct transfer *t, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    fprintf(stderr, "%s: %s\n", t->bridge->place.shown, text);
    if (!t->id || t->answered)
        return;
    json_t *message = rpc_error(t->id, t->lost ? SESSION_LOST : SERVER_ERROR, "%s: %s",
                                t->bridge->place.shown, text);
    bridge_deliver(t->bridge, message);
    json_decref(message);
    t->answered = true;
}

/* What a header says, if it is of visible characters and not too long; a new string. */
static char *header_value(CURL *easy, const char *name)
{
    struct curl_header *h = NULL;
    if (curl_easy_header(easy, name, 0, CURLH_HEADER, -1, &h) != CURLHE_OK)
        return NULL;
    size_t n = strlen(h->value);
    for (size_t i = 0; i < n; i++)
        if (h->value[i] < 0x21 || h->value[i] > 0x7e)
            return NULL;
    return n && n <= SESSION_MAX ? strdup(h->value) : NULL;
}

/* The handshake's answer: what was agreed on goes with all that follows. */
static void take_hello(struct transfer *t, const json_t *result)
{
    struct bridge *b = t->bridge;
    const json_t *said = json_object_get(result, "protocolVersion");
    const char *version =
        json_is_string(said) && !rpc_has_nul(said) ? json_string_value(said) : NULL;
    free(b->version);
    b->version = NULL;
    if (version && strspn(version, "0123456789-") == strlen(version) && strlen(version) <= 32)
        b->version = strdup(version);
    free(b->session);
    b->session = header_value(t->easy, "Mcp-Session-Id");
}

static void take_message(struct transfer *t, json_t *value)
{
    struct rpc_message m;
    size_t i;
    json_t *one;
    if (json_is_array(value)) { /* a batch, as protocol 2025-03-26 had them */
        json_array_foreach(value, i, one)
        {
            if (!json_is_array(one))
                take_message(t, one);
        }
        return;
    }
    rpc_look(value, &m);
    if (m.kind == RPC_INVALID) {
        fprintf(stderr, "%s: a message that is none: %s\n", t->bridge->place.shown, m.problem);
        return;
    }
    bool answer = (m.kind == RPC_RESULT || m.kind == RPC_ERROR) && t->id && json_equal(m.id, t->id);
    if (answer && t->hello && m.kind == RPC_RESULT)
        take_hello(t, m.result);
    bridge_deliver(t->bridge, value);
    if (!answer)
        return;
    t->answered = true;
    t->due = clock_now() + LINGER_NS;
    if (t->in_order) /* what follows need not wait for the end of the stream */
        t->bridge->waiting = false;
    t->in_order = false;
}

static int take_text(struct transfer *t, const char *data, size_t n)
{
    struct error err = {0};
    json_t *value = NULL;
    int r = rpc_parse(data, n, &value, &err);
    if (r < 0)
        fprintf(stderr, "%s: %s\n", t->bridge->place.shown, err.text);
    else
        take_message(t, value);
    json_decref(value);
    return r;
}

static bool is_events(CURL *easy)
{
    char *type = NULL;
    curl_easy_getinfo(easy, CURLINFO_CONTENT_TYPE, &type);
    return type && strncasecmp(type, "text/event-stream", 17) == 0;
}

static int take_events(struct transfer *t, const char *data, size_t n)
{
    struct sse_event event;
    int r;
    while ((r = sse_take(&t->sse, &data, &n, &event)) > 0) {
        t->resumes = 0;
        if (event.n && strcmp(event.type, "message") == 0)
            take_text(t, event.data, event.n);
    }
    return r;
}

size_t outcome_receive(char *data, size_t size, size_t n, void *transfer)
{
    struct transfer *t = transfer;
    long status = 0;
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    t->events = status / 100 == 2 && is_events(t->easy);
    int r = t->events ? take_events(t, data, size * n) : buf_append(&t->in, data, size * n);
    if (r >= 0)
        return size * n;
    t->failed = EMSGSIZE;
    return CURL_WRITEFUNC_ERROR;
}

/* Waits a little and asks for the rest. False if it cannot be had. */
static bool try_again(struct transfer *t)
{
    const char *id = sse_last_id(&t->sse);
    if (t->sse.retry_ms >= 0)
        t->retry_ms = t->sse.retry_ms;
    int64_t wait = t->retry_ms >= 0 ? t->retry_ms : RETRY_MS << t->resumes;
    if (t->resumes++ >= RESUMES_MAX)
        return false;
    if (id) {
        free(t->last_id);
        t->last_id = strdup(id);
    }
    if (t->kind == TRANSFER_POST && !t->last_id)
        return false;
    if (t->kind == TRANSFER_POST)
        t->kind = TRANSFER_RESUME;
    wait = wait < RETRY_MIN_MS ? RETRY_MIN_MS : wait > RETRY_MAX_MS ? RETRY_MAX_MS : wait;
    curl_multi_remove_handle(t->bridge->multi, t->easy);
    curl_easy_cleanup(t->easy);
    t->easy = NULL;
    t->due = clock_now() + wait * NS_PER_MS;
    return true;
}

/* Within the same host only: what is sent may hold secrets that are meant for it alone. */
static bool follow(struct transfer *t)
{
    char *to = NULL;
    curl_easy_getinfo(t->easy, CURLINFO_REDIRECT_URL, &to);
    if (!to || t->redirects++ == REDIRECTS_MAX)
        return outcome_fail(t, "it redirects in circles, or nowhere"), false;
    if (!place_same_origin(t->url, to)) {
        _cleanup_free_ char *shown = place_shown(to);
        return outcome_fail(
                   t, "it redirects to %s; if that is right, put that URL into the configuration",
                   shown ? shown : "another host"),
               false;
    }
    char *url = strdup(to);
    if (!url)
        return outcome_fail(t, "no memory"), false;
    free(t->url);
    t->url = url;
    curl_multi_remove_handle(t->bridge->multi, t->easy);
    curl_easy_cleanup(t->easy);
    t->easy = NULL;
    t->due = clock_now();
    return true;
}

/* The server says no. What it says besides may be an answer to the request, or else is shown. */
static void refused(struct transfer *t, long status)
{
    size_t n = t->in.len < REFUSAL_SHOWN ? t->in.len : REFUSAL_SHOWN;
    _cleanup_free_ char *said = n ? foreign_text((const char *)t->in.data, n, REFUSAL_SHOWN) : NULL;
    for (char *at = said; at && *at; at++)
        if (*at == '\n')
            *at = ' ';
    const char *colon = said && *said ? ": " : "";
    if (status == 401 || status == 403) {
        outcome_fail(t,
                     "it refuses access (HTTP %ld); check \"headers\" in the configuration, such "
                     "as Authorization%s%s",
                     status, colon, said ? said : "");
    } else if (status == 404 && t->bridge->session) {
        t->lost = true;
        outcome_fail(t, "it has forgotten the session (HTTP 404)");
        t->bridge->over = true;
    } else {
        if (t->id && !t->answered && t->in.len && t->in.data[0] == '{')
            take_text(t, (const char *)t->in.data, t->in.len);
        outcome_fail(t, "HTTP %ld%s%s", status, colon, said ? said : "");
    }
}

static const char *explain(const struct transfer *t, CURLcode code)
{
    if (t->failed == EMSGSIZE)
        return "a message of more than 16 MiB";
    return t->why[0] ? t->why : curl_easy_strerror(code);
}

/* An exchange that is over as far as HTTP goes. True if it is to be done again. */
static bool answered_post(struct transfer *t, CURLcode code, long status)
{
    bool good = status / 100 == 2;
    if (status / 100 == 3)
        return follow(t);
    if (code == CURLE_OK && !good) {
        refused(t, status);
        return false;
    }
    if (good && !t->events && code == CURLE_OK && t->in.len)
        take_text(t, (const char *)t->in.data, t->in.len);
    if (!t->id || t->answered) {
        if (code != CURLE_OK && !t->answered)
            outcome_fail(t, "%s", explain(t, code));
        return false;
    }
    if (t->failed == 0 && (t->events || t->kind == TRANSFER_RESUME) && try_again(t))
        return true;
    outcome_fail(t, "%s",
                 code != CURLE_OK ? explain(t, code) : "it ended its answer without a result");
    return false;
}

/* The server need not offer a stream of its own; one that it offers is kept up. */
static bool answered_listen(struct transfer *t, CURLcode code, long status)
{
    if (status / 100 == 3)
        return follow(t);
    if (status == 404 && t->bridge->session) {
        refused(t, status);
        return false;
    }
    if (status / 100 == 4 || t->failed)
        return false;
    return try_again(t);
}

void outcome_ended(struct transfer *t, CURLcode code)
{
    struct bridge *b = t->bridge;
    long status = 0;
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    bool again = t->kind == TRANSFER_LISTEN ? answered_listen(t, code, status)
                                            : answered_post(t, code, status);
    if (again)
        return;
    if (t->in_order)
        b->waiting = false;
    if (t->hello && !b->version)
        b->over = true;
    bool listen = t->ready && status / 100 == 2;
    for (struct transfer **at = &b->transfers; *at; at = &(*at)->next)
        if (*at == t) {
            *at = t->next;
            break;
        }
    b->under_way -= t->kind != TRANSFER_LISTEN;
    transfer_free(t);
    struct transfer *ear = listen ? transfer_new(b, TRANSFER_LISTEN) : NULL;
    if (ear) {
        ear->next = b->transfers;
        b->transfers = ear;
    }
}
