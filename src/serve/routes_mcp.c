/*
 * MCP by streamable HTTP: /mcp. The server of a client is a live job of kind `mcp`, whose worker
 * speaks the protocol (src/worker/live_mcp.c); here are HTTP's parts of it.
 *
 * A client of the revisions until 2025-11-25 begins with `initialize`, which makes a job: its ID is
 * the Mcp-Session-Id. Since 2026-07-28 there are no sessions: each request names its revision, and
 * all clients of a key share one job, which the key's ID finds (a label) and its ttl ends.
 *
 * A request is answered with JSON; with events if it has something to say before the answer. The
 * server has no messages of its own, so the stream of a GET tells a client only when its session
 * ended. A stream that broke off is not resumed: an answer is lost with its connection.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "encoding.h"
#include "json.h"
#include "server.h"
#include "banned.h"

#define TTL_MS         (60 * 60 * 1000LL)
#define VALUES_MAX     (1u << 20)
#define LINE_MAX_BYTES (64u << 20) /* of the server */
#define MODERN         "2026-07-28"
#define LABEL          "mcp_key"
#define META_VERSION   "io.modelcontextprotocol/protocolVersion"
#define NO_SESSION     (-32001)
#define BAD_REQUEST    (-32600)
#define SERVER_ERROR   (-32000)
#define HEADER_DIFFERS (-32020)
#define NO_METHOD      (-32601)
#define BAD_VERSION    (-32022)

/* --- what the request is --- */

struct mcp_post {
    struct request *request;
    json_t *message;
    const json_t *id;            /* of the request; NULL: the message is none, or a batch */
    const char *method;          /* or NULL */
    const char *version;         /* that a request since 2026-07-28 names in its body; or NULL */
    bool events_only, json_only; /* what the client accepts */
    bool has_request;
    /* the answer */
    char session[JOB_ID_LEN + 1];
    bool begins; /* the session */
    bool begun;  /* the answer, as events */
    bool failed; /* it is a JSON-RPC error */
    json_t *answer;
    struct buf line;
};

/* A JSON-RPC error is the body, whatever the status. */
static PRINTF(4, 5) void mcp_refuse(struct request *q, int status, int code, const char *fmt, ...)
{
    char text[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    respond_json(q, status,
                 json_pack("{s:s, s:n, s:{s:i, s:s}}", "jsonrpc", "2.0", "id", "error", "code",
                           code, "message", text));
}

/* Browsers send an Origin; a page of another site must not reach the tools of a person, also by a
 * name that was bound to this address. */
static bool mcp_check_origin(struct request *q)
{
    const char *origin = request_header(q, "origin");
    if (!origin || auth_origin_is_own(q, origin) || auth_origin_allowed(request_serve(q), origin))
        return true;
    mcp_refuse(q, 403, SERVER_ERROR, "this origin is not allowed (hutch serve --origin)");
    return false;
}

static bool mcp_version_is_known(const char *version)
{
    static const char *const KNOWN[] = {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25",
                                        MODERN};
    for (size_t i = 0; i < ARRAY_SIZE(KNOWN); i++)
        if (strcmp(KNOWN[i], version) == 0)
            return true;
    return false;
}

static bool mcp_check_version(struct request *q)
{
    const char *version = request_header(q, "mcp-protocol-version");
    if (!version || mcp_version_is_known(version))
        return true;
    mcp_refuse(q, 400, BAD_VERSION, "protocol version '%.40s' is not supported", version);
    return false;
}

static bool mcp_post_parse(struct mcp_post *p)
{
    size_t n, i;
    json_t *one;
    json_error_t at;
    const char *text = request_bytes(p->request, &n);
    const char *accept = request_header(p->request, "accept");
    if (json_count_values(text, n, VALUES_MAX) > VALUES_MAX) {
        mcp_refuse(p->request, 413, BAD_REQUEST, "the message has too many values");
        return false;
    }
    p->message = json_loadb(text, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &at);
    if (!p->message) {
        mcp_refuse(p->request, 400, -32700, "parse error: %s", at.text);
        return false;
    }
    p->method = json_get_string(p->message, "method");
    p->id = p->method ? json_object_get(p->message, "id") : NULL;
    p->version = json_get_string(json_object_get(json_object_get(p->message, "params"), "_meta"),
                                 META_VERSION);
    p->has_request = p->id;
    json_array_foreach(p->message, i, one) p->has_request |=
        json_object_get(one, "method") && json_object_get(one, "id");
    bool json = !accept || strstr(accept, "application/json") || strstr(accept, "*/*") ||
                strstr(accept, "application/*");
    bool events = !accept || strstr(accept, "text/event-stream") || strstr(accept, "*/*") ||
                  strstr(accept, "text/*");
    p->events_only = events && !json;
    p->json_only = json && !events;
    if (!json && !events)
        mcp_refuse(p->request, 406, SERVER_ERROR,
                   "the client must accept application/json and text/event-stream");
    return json || events;
}

/* --- requests without a session, since 2026-07-28 --- */

/* `=?base64?…?=` stands for what is no plain header. NULL: it is broken. */
static const char *mcp_header_decode(const char *given, struct buf *text)
{
    size_t n = strlen(given), head = strlen("=?base64?");
    if (n < head + 2 || strncmp(given, "=?base64?", head) != 0 || strcmp(given + n - 2, "?=") != 0)
        return given;
    if (base64_decode(text, given + head, n - head - 2) < 0)
        return NULL;
    return buf_cstr(text);
}

/* Headers repeat what the body says, for proxies; a request whose two differ is refused, because
 * somebody may have decided by the headers. */
static bool mcp_post_check_headers(struct mcp_post *p)
{
    struct request *q = p->request;
    const char *version = request_header(q, "mcp-protocol-version");
    const char *method = request_header(q, "mcp-method"), *name = request_header(q, "mcp-name");
    const json_t *params = json_object_get(p->message, "params");
    const char *wanted = NULL;
    _cleanup_buf_ struct buf decoded = BUF_INIT(64u << 10);
    if (!p->id)
        return true;
    if (strcmp(p->method, "tools/call") == 0 || strcmp(p->method, "prompts/get") == 0)
        wanted = json_get_string(params, "name");
    else if (strcmp(p->method, "resources/read") == 0)
        wanted = json_get_string(params, "uri");
    if (wanted && name)
        name = mcp_header_decode(name, &decoded);
    const char *wrong = !version || strcmp(version, p->version) != 0     ? "MCP-Protocol-Version"
                        : !method || strcmp(method, p->method) != 0      ? "Mcp-Method"
                        : wanted && (!name || strcmp(name, wanted) != 0) ? "Mcp-Name"
                                                                         : NULL;
    if (wrong)
        mcp_refuse(q, 400, HEADER_DIFFERS, "the header %s does not say what the body says", wrong);
    return !wrong;
}

/* The job of the key's clients: the one that runs, or a new one. Several requests that come at once
 * get the same, by its idempotency key. */
static int mcp_shared_job(struct request *q, char ret[JOB_ID_LEN + 1], struct error *err)
{
    const struct caller *c = request_caller(q);
    const char *key = c->key ? c->key : "none";
    _cleanup_free_ char *label = str_printf(LABEL "=%s", key);
    _cleanup_json_ json_t *jobs = NULL;
    bool more, existed;
    const struct job_query query = {.user = c->name, .kind = "mcp", .label = label, .limit = 1};
    if (!label)
        return error_set(err, ENOMEM, "no memory");
    int r = jobs_list(request_jobs(q), &query, &jobs, &more, err);
    if (r < 0)
        return r;
    const json_t *last = json_array_get(jobs, 0);
    const char *state = json_get_string_or(last, "state", ""),
               *id = json_get_string_or(last, "id", "");
    if (strcmp(state, "running") == 0 || strcmp(state, "scheduled") == 0) {
        snprintf(ret, JOB_ID_LEN + 1, "%s", id);
        return 0;
    }
    _cleanup_free_ char *once = str_printf("mcp/%s/%s", key, id);
    _cleanup_json_ json_t *spec = json_pack("{s:s, s:{s:s}}", "title", "MCP", "labels", LABEL, key);
    const struct job_submission s = {.user = c->name,
                                     .kind = "mcp",
                                     .spec = spec,
                                     .ttl_ms = TTL_MS,
                                     .idempotency = once,
                                     .max_live = c->limits.live};
    return once && spec ? jobs_submit(request_jobs(q), &s, ret, &existed, err)
                        : error_set(err, ENOMEM, "no memory");
}

/* --- sessions --- */

static int mcp_new_job(struct request *q, char ret[JOB_ID_LEN + 1], struct error *err)
{
    const struct caller *c = request_caller(q);
    bool existed;
    _cleanup_json_ json_t *spec = json_pack("{s:s}", "title", "MCP");
    const struct job_submission s = {
        .user = c->name, .kind = "mcp", .spec = spec, .ttl_ms = TTL_MS, .max_live = c->limits.live};
    return spec ? jobs_submit(request_jobs(q), &s, ret, &existed, err)
                : error_set(err, ENOMEM, "no memory");
}

/* The session that the headers name. False: answered with an error. */
static bool mcp_session(struct request *q, char ret[JOB_ID_LEN + 1])
{
    const char *session = request_header(q, "mcp-session-id");
    _cleanup_json_ json_t *job = NULL;
    if (!session) {
        mcp_refuse(q, 400, SERVER_ERROR,
                   "no Mcp-Session-Id header: send 'initialize' first, or name the protocol "
                   "version " MODERN " in each request");
        return false;
    }
    int r = strlen(session) == JOB_ID_LEN
                ? jobs_get(request_jobs(q), request_caller(q)->user, session, &job, NULL)
                : -ENOENT;
    if (r < 0 || strcmp(json_get_string_or(job, "kind", ""), "mcp") != 0 ||
        !json_is_null(json_object_get(job, "finished_at"))) {
        mcp_refuse(q, 404, NO_SESSION, "there is no session '%.40s' (any more): send 'initialize'",
                   session);
        return false;
    }
    snprintf(ret, JOB_ID_LEN + 1, "%s", session);
    return true;
}

/* False: answered with an error. */
static bool mcp_post_find_job(struct mcp_post *p)
{
    struct request *q = p->request;
    const char *header = request_header(q, "mcp-protocol-version");
    struct error err = {0};
    int r;
    if (request_header(q, "mcp-session-id"))
        return mcp_session(q, p->session);
    p->begins = p->id && strcmp(p->method, "initialize") == 0 && !p->version;
    if (p->begins) {
        r = mcp_new_job(q, p->session, &err);
    } else if (p->version || (header && strcmp(header, MODERN) == 0)) {
        if (p->version && !mcp_post_check_headers(p))
            return false;
        r = mcp_shared_job(q, p->session, &err);
    } else {
        return mcp_session(q, p->session);
    }
    if (r < 0)
        mcp_refuse(q, err.code == EBUSY ? 429 : 503, SERVER_ERROR, "%s", err.text);
    return r == 0;
}

/* --- the answer --- */

static int mcp_send_event(struct mcp_post *p, const json_t *message)
{
    _cleanup_free_ char *text = json_dumps(message, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!p->begun && p->begins)
        respond_header(p->request, "Mcp-Session-Id", p->session);
    int r = p->begun ? 0 : sse_begin(p->request);
    p->begun = true;
    if (r == 0)
        r = text ? sse_send(p->request, 0, "message", text, strlen(text)) : -ENOMEM;
    return r;
}

/* One message of the server: the answer, unless it has a method. Takes it over. */
static int mcp_post_message(struct mcp_post *p, json_t *message)
{
    _cleanup_json_ json_t *taken = message;
    if (!message)
        return -EPROTO;
    bool is_answer = !json_object_get(message, "method");
    if (is_answer && !p->begun && !p->events_only) {
        json_decref(p->answer);
        p->answer = json_incref(message);
        return 0;
    }
    return p->json_only && !is_answer ? 0 : mcp_send_event(p, message);
}

/* Lines, in pieces of any size. */
static int mcp_post_bytes(void *data, const void *bytes, size_t n)
{
    struct mcp_post *p = data;
    int r = buf_append(&p->line, bytes, n);
    for (uint8_t *end; r == 0 && p->line.len && (end = memchr(p->line.data, '\n', p->line.len));) {
        size_t size = (size_t)(end - p->line.data);
        r = mcp_post_message(
            p, json_loadb((char *)p->line.data, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL));
        buf_consume(&p->line, size + 1);
    }
    return r;
}

/* Since 2026-07-28 some errors are errors of HTTP, too. */
static int mcp_answer_status(const struct mcp_post *p)
{
    json_int_t code = json_get_integer(json_object_get(p->answer, "error"), "code");
    if (!p->version || !code)
        return 200;
    return code == NO_METHOD ? 404 : code == BAD_VERSION || code == BAD_REQUEST ? 400 : 200;
}

static void mcp_post_answer(struct mcp_post *p)
{
    if (p->begun)
        return;
    if (p->begins && !json_object_get(p->answer, "error"))
        respond_header(p->request, "Mcp-Session-Id", p->session);
    int status = mcp_answer_status(p);
    if (p->answer)
        respond_json(p->request, status, TAKE_PTR(p->answer));
    else
        respond_empty(p->request, 202);
}

static int mcp_post_call(struct mcp_post *p, struct live_result *result, struct error *err)
{
    const struct live_sink sink = {.bytes = mcp_post_bytes, .data = p};
    const char *version = request_header(p->request, "mcp-protocol-version");
    struct live_stream *stream = NULL;
    size_t n;
    const void *text = request_bytes(p->request, &n);
    int r = live_stream_open(p->request, p->session, "mcp/message",
                             json_pack("{s:s*}", "version", version), &sink, &stream, err);
    if (r == 0)
        r = live_stream_send(stream, text, n);
    if (r == 0)
        r = live_stream_send(stream, NULL, 0);
    if (r == 0)
        r = live_stream_wait(stream, -1, result, err);
    else if (!err->code)
        error_set(err, -r, "the connection to the worker was lost");
    live_stream_close(stream);
    return r;
}

static void mcp_post_run(struct request *q)
{
    struct mcp_post p = {.request = q, .line = BUF_INIT(LINE_MAX_BYTES)};
    _cleanup_live_result_ struct live_result result = {0};
    struct error err = {0};
    if (mcp_check_origin(q) && mcp_check_version(q) && mcp_post_parse(&p) &&
        mcp_post_find_job(&p)) {
        int r = mcp_post_call(&p, &result, &err);
        bool lost = r < 0 || result.status >= 400;
        if (p.begins && (lost || json_object_get(p.answer, "error")))
            jobs_cancel(request_jobs(q), NULL, p.session, NULL);
        if (!lost)
            mcp_post_answer(&p);
        else if (!p.begun && err.code == EALREADY)
            mcp_refuse(q, 404, NO_SESSION, "the session has ended: send 'initialize'");
        else if (!p.begun)
            mcp_refuse(q, 503, SERVER_ERROR, "%s",
                       r < 0 ? err.text : json_get_string_or(result.body, "detail", ""));
    }
    json_decref(p.message);
    json_decref(p.answer);
    buf_free(&p.line);
}

/* --- GET and DELETE --- */

struct mcp_listener {
    struct jobs *jobs;
    char id[JOB_ID_LEN + 1];
};

static int mcp_listen_more(void *data, struct buf *out)
{
    const struct mcp_listener *m = data;
    _cleanup_json_ json_t *job = NULL;
    int r = jobs_get(m->jobs, NULL, m->id, &job, NULL);
    return r < 0 || !json_is_null(json_object_get(job, "finished_at")) ? -ENODATA : 0;
}

static void mcp_listen_run(struct request *q)
{
    char id[JOB_ID_LEN + 1], topic[sizeof "job:" + JOB_ID_LEN];
    if (!mcp_check_origin(q) || !mcp_check_version(q) || !mcp_session(q, id))
        return;
    struct mcp_listener *m = calloc(1, sizeof *m);
    if (!m) {
        respond_json(q, 200, NULL);
        return;
    }
    m->jobs = request_jobs(q);
    memcpy(m->id, id, sizeof m->id);
    snprintf(topic, sizeof topic, "job:%s", id);
    respond_feed(q, topic, &(struct feed){mcp_listen_more, free, m});
}

static void mcp_end_run(struct request *q)
{
    char id[JOB_ID_LEN + 1];
    struct error err = {0};
    if (!mcp_check_origin(q) || !mcp_session(q, id))
        return;
    if (jobs_cancel(request_jobs(q), request_caller(q)->user, id, &err) < 0 && err.code != EALREADY)
        respond_error(q, &err);
    else
        respond_empty(q, 204);
}

#define MCP_OUTPUT                                                                                 \
    "{\"description\": \"A JSON-RPC message, or a batch.\", \"type\": [\"object\", \"array\"]}"

const struct route ROUTES_MCP[] = {
    {"POST", "/mcp", "mcp_post", "mcp", "Send a message of the Model Context Protocol", ACCESS_USER,
     ROUTE_ANY_BODY | ROUTE_SSE, 200, .output = MCP_OUTPUT, .run = mcp_post_run},
    {"GET", "/mcp", "mcp_listen", "mcp", "Hear of the end of an MCP session", ACCESS_USER,
     ROUTE_SSE, 200, .run = mcp_listen_run},
    {"DELETE", "/mcp", "mcp_end", "mcp", "End an MCP session", ACCESS_USER, 0, 204,
     .run = mcp_end_run},
    {0},
};
