/*
 * The MCP server: what each message is, whether it may come now and who answers it; requests, a
 * thread for each that takes its time; and answers, one at a time, batches together, none to a
 * request that was cancelled.
 */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "json.h"
#include "server.h"
#include "thread.h"
#include "banned.h"

#define META_VERSION      "io.modelcontextprotocol/protocolVersion"
#define META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define META_LOG_LEVEL    "io.modelcontextprotocol/logLevel"
#define META_SERVER       "io.modelcontextprotocol/serverInfo"
#define PROGRESS_EVERY_NS (200 * NS_PER_MS)

static const char *const VERSION_NAMES[] = {
    [MCP_2024_11_05] = "2024-11-05", [MCP_2025_03_26] = "2025-03-26",
    [MCP_2025_06_18] = "2025-06-18", [MCP_2025_11_25] = "2025-11-25",
    [MCP_2026_07_28] = "2026-07-28",
};

/* MCP_NONE if there is none of that name. */
static enum mcp_version version_of(const char *name)
{
    for (enum mcp_version v = MCP_LATEST; v > MCP_NONE; v--)
        if (strcmp(VERSION_NAMES[v], name) == 0)
            return v;
    return MCP_NONE;
}

void *mcp_problem(struct mcp_problem *p, int code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(p->text, sizeof p->text, fmt, args);
    va_end(args);
    p->code = code;
    return NULL;
}

const char *mcp_param(const struct mcp_request *q, const char *name, struct mcp_problem *p)
{
    const char *value = json_string_value(json_object_get(q->params, name));
    return value ? value : mcp_problem(p, RPC_INVALID_PARAMS, "params.%s must be a string", name);
}

/* --- methods about the server itself --- */

static const char *const LEVELS[] = {"debug", "info",     "notice", "warning",
                                     "error", "critical", "alert",  "emergency"};

static int log_level_of(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(LEVELS); i++)
        if (strcmp(LEVELS[i], name) == 0)
            return (int)i;
    return -EINVAL;
}

static json_t *server_info(enum mcp_version v)
{
    return json_pack("{s:s, s:s, s:s*, s:s*}", "name", "hutch", "version", HUTCH_VERSION, "title",
                     v >= MCP_2025_06_18 ? "hutch" : NULL, "description",
                     v >= MCP_2025_11_25 ? "tools in a sandbox for coding agents" : NULL);
}

static json_t *server_capabilities(enum mcp_version v)
{
    return json_pack("{s:{}, s:{}, s:o*, s:o*}", "tools", "resources", "logging",
                     v <= MCP_LAST_BEGUN ? json_object() : NULL, "completions",
                     v >= MCP_2025_03_26 ? json_object() : NULL);
}

static json_t *version_list(void)
{
    json_t *all = json_array();
    for (enum mcp_version v = MCP_LATEST; v > MCP_NONE; v--)
        json_array_append_new(all, json_string(VERSION_NAMES[v]));
    return all;
}

/* A revision that is not known, or knows no `initialize`, is answered with the last that does. */
static json_t *mcp_initialize(struct mcp_request *q, struct mcp_problem *p)
{
    const char *asked = mcp_param(q, "protocolVersion", p);
    if (!asked)
        return NULL;
    enum mcp_version v = version_of(asked);
    q->version = v == MCP_NONE || v > MCP_LAST_BEGUN ? MCP_LAST_BEGUN : v;
    q->server->version = q->version;
    return json_pack("{s:s, s:o, s:o, s:s*}", "protocolVersion", VERSION_NAMES[q->version],
                     "capabilities", server_capabilities(q->version), "serverInfo",
                     server_info(q->version), "instructions", q->server->options.instructions);
}

static json_t *mcp_discover(struct mcp_request *q, struct mcp_problem *p)
{
    return json_pack("{s:o, s:o, s:s*}", "supportedVersions", version_list(), "capabilities",
                     server_capabilities(q->version), "instructions",
                     q->server->options.instructions);
}

static json_t *mcp_ping(struct mcp_request *q, struct mcp_problem *p)
{
    return json_object();
}

static json_t *mcp_set_level(struct mcp_request *q, struct mcp_problem *p)
{
    const char *name = mcp_param(q, "level", p);
    int level = name ? log_level_of(name) : -EINVAL;
    if (name && level < 0)
        return mcp_problem(p, RPC_INVALID_PARAMS, "params.level: there is no level '%.40s'", name);
    if (!name)
        return NULL;
    LOCKED(&q->server->lock);
    q->server->level = level;
    return json_object();
}

void mcp_log(struct mcp_request *q, const char *level, const char *text)
{
    /* Since 2026-07-28 nothing is wanted unless the request says so. */
    const char *named = json_get_string(json_object_get(q->params, "_meta"), META_LOG_LEVEL);
    int wanted = named ? log_level_of(named) : -EINVAL;
    if (q->version <= MCP_LAST_BEGUN) {
        LOCKED(&q->server->lock);
        wanted = q->server->level;
    }
    if (wanted < 0 || log_level_of(level) < wanted)
        return;
    json_t *params = json_pack("{s:s, s:s, s:o}", "level", level, "logger", "hutch", "data",
                               text_json(text, strlen(text)));
    mcp_send(q->server, q->from, params ? rpc_notification("notifications/message", params) : NULL);
}

/* --- requests and answers --- */

int mcp_send(struct mcp_server *s, uint64_t to, json_t *message)
{
    if (!message)
        return -ENOMEM;
    pthread_mutex_lock(&s->sending);
    int r = s->options.send(s->options.data, to, message);
    pthread_mutex_unlock(&s->sending);
    json_decref(message);
    return r;
}

/* Adds an answer (or none) to a batch, and sends it when it was the last. Without a batch there is
 * nothing to do. */
static void batch_done(struct mcp_server *s, struct mcp_batch *b, json_t *answer)
{
    if (!b)
        return;
    pthread_mutex_lock(&s->lock);
    if (answer)
        json_array_append_new(b->answers, answer);
    bool last = --b->pending == 0;
    pthread_mutex_unlock(&s->lock);
    if (!last)
        return;
    if (json_array_size(b->answers) > 0)
        mcp_send(s, b->from, b->answers);
    else
        json_decref(b->answers);
    free(b);
}

/* Sends the result or the problem; frees both. */
static void request_answer(struct mcp_request *q, json_t *result, struct mcp_problem *p)
{
    struct mcp_server *s = q->server;
    /* It leaves the list before its answer is out, since the client may then use its id again. */
    pthread_mutex_lock(&s->lock);
    if (q->listed)
        LIST_REMOVE(q, all);
    q->listed = false;
    bool wanted = !q->cancelled;
    pthread_mutex_unlock(&s->lock);

    /* What every result carries since results are without a session. */
    if (result && q->version >= MCP_2026_07_28) {
        json_t *meta = json_object_get(result, "_meta");
        if (!meta)
            json_object_set_new(result, "_meta", meta = json_object());
        json_object_set_new(meta, META_SERVER, server_info(q->version));
        json_object_set_new(result, "resultType", json_string("complete"));
        if (q->method->flags & MCP_CACHEABLE) {
            json_object_set_new(result, "ttlMs", json_integer(0));
            json_object_set_new(result, "cacheScope", json_string("private"));
        }
    }
    json_t *message = !wanted   ? NULL
                      : result  ? rpc_result(q->id, json_incref(result))
                      : p->code ? rpc_error(q->id, p->code, "%s", p->text)
                                : rpc_error(q->id, RPC_INTERNAL_ERROR, "no memory for the answer");
    if (message && !result && p->data)
        json_object_set(json_object_get(message, "error"), "data", p->data);
    if (q->batch)
        batch_done(s, q->batch, message);
    else if (message && mcp_send(s, q->from, message) == -ENOBUFS)
        mcp_send(s, q->from,
                 rpc_error(q->id, RPC_INTERNAL_ERROR, "the result is longer than can be sent"));
    json_decref(result);
    json_decref(p->data);
    p->data = NULL;
}

static void request_free(struct mcp_request *q)
{
    cleanup_close(&q->cancel);
    json_decref(q->id);
    json_decref(q->params);
    json_decref(q->call.input);
    free(q);
}

/* Numbers that only grow, not too often; from the thread of the call. */
static void request_say_progress(void *data, double seconds, const char *message)
{
    struct mcp_request *q = data;
    int64_t now = clock_now();
    bool too_soon = q->progressed_ns && now - q->progressed_ns < PROGRESS_EVERY_NS;
    double rounded = round(seconds * 1000) / 1000;
    pthread_mutex_lock(&q->server->lock);
    bool cancelled = q->cancelled;
    pthread_mutex_unlock(&q->server->lock);
    if (cancelled || too_soon || rounded <= q->progressed)
        return;
    q->progressed = rounded;
    q->progressed_ns = now;
    json_t *params = json_pack("{s:O, s:f}", "progressToken", q->token, "progress", rounded);
    if (params && message && q->version >= MCP_2025_03_26)
        json_object_set_new(params, "message", text_json(message, strlen(message)));
    mcp_send(q->server, q->from,
             params ? rpc_notification("notifications/progress", params) : NULL);
}

int mcp_begin_call(struct mcp_request *q, struct mcp_problem *p)
{
    q->call.cancel = q->cancel;
    q->progress = (struct tool_progress){.say = request_say_progress, .data = q};
    if (q->token)
        q->call.progress = &q->progress;
    int r = tool_begin(q->server->options.session, &q->call, &q->turn);
    if (r < 0)
        mcp_problem(p, RPC_INTERNAL_ERROR, "no memory for the call");
    return r;
}

/* Answers it and is done with it. The server may be freed as soon as the last request is gone. */
static void request_end(struct mcp_request *q, json_t *result, struct mcp_problem *p)
{
    struct mcp_server *s = q->server;
    request_answer(q, result, p);
    request_free(q);
    LOCKED(&s->lock);
    s->n_requests--;
    pthread_cond_broadcast(&s->ended);
}

static void *request_run(void *request)
{
    struct mcp_request *q = request;
    struct mcp_problem p = {0};
    request_end(q, q->method->run(q, &p), &p);
    return NULL;
}

static struct mcp_request *server_find_request(struct mcp_server *s, const json_t *id)
{
    struct mcp_request *q;
    LIST_FOREACH(q, &s->requests, all)
    if (json_equal(q->id, id))
        return q;
    return NULL;
}

/* Joins those that run, if there is room. */
static int request_enter(struct mcp_request *q, struct mcp_problem *p)
{
    struct mcp_server *s = q->server;
    q->cancel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    LOCKED(&s->lock);
    if (q->cancel < 0)
        mcp_problem(p, RPC_INTERNAL_ERROR, "no descriptor for the request");
    else if (server_find_request(s, q->id))
        mcp_problem(p, RPC_INVALID_REQUEST,
                    "invalid request: its id belongs to a request that is running");
    else if (s->n_requests >= MCP_REQUESTS_MAX)
        mcp_problem(p, MCP_BUSY, "busy: %d requests are running", MCP_REQUESTS_MAX);
    if (p->code)
        return -EBUSY;
    LIST_INSERT_HEAD(&s->requests, q, all);
    q->listed = true;
    s->n_requests++;
    return 0;
}

/* Answers it in a thread of its own. */
static void request_start(struct mcp_request *q)
{
    struct mcp_problem p = {0};
    pthread_attr_t how;
    pthread_t thread;
    if (request_enter(q, &p) < 0) {
        request_answer(q, NULL, &p);
        request_free(q);
        return;
    }
    if (q->method->begin && q->method->begin(q, &p) < 0) {
        request_end(q, NULL, &p);
        return;
    }
    pthread_attr_init(&how);
    pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
    int e = pthread_create(&thread, &how, request_run, q);
    pthread_attr_destroy(&how);
    /* Without a thread it runs here: nobody overtakes, but nobody can cancel it either. */
    if (e != 0)
        request_run(q);
}

static void request_cancel(struct mcp_request *q)
{
    const uint64_t one = 1;
    q->cancelled = true;
    if (write(q->cancel, &one, sizeof one) < 0) {
        /* Only a full counter makes it fail, and then it is readable anyway. */
    }
}

/* --- messages --- */

static const struct mcp_method METHODS[] = {
    {"initialize", MCP_2024_11_05, MCP_LAST_BEGUN, MCP_EARLY, NULL, mcp_initialize},
    {"ping", MCP_2024_11_05, MCP_LAST_BEGUN, MCP_EARLY, NULL, mcp_ping},
    {"logging/setLevel", MCP_2024_11_05, MCP_LAST_BEGUN, 0, NULL, mcp_set_level},
    {"server/discover", MCP_2026_07_28, MCP_LATEST, MCP_CACHEABLE, NULL, mcp_discover},
    {"tools/list", MCP_2024_11_05, MCP_LATEST, MCP_THREAD | MCP_CACHEABLE, NULL, mcp_list_tools},
    {"tools/call", MCP_2024_11_05, MCP_LATEST, MCP_THREAD, mcp_begin_tool, mcp_call_tool},
    {"resources/list", MCP_2024_11_05, MCP_LATEST, MCP_THREAD | MCP_CACHEABLE,
     mcp_begin_list_resources, mcp_list_resources},
    {"resources/templates/list", MCP_2024_11_05, MCP_LATEST, MCP_CACHEABLE, NULL,
     mcp_list_templates},
    {"resources/read", MCP_2024_11_05, MCP_LATEST, MCP_THREAD | MCP_CACHEABLE,
     mcp_begin_read_resource, mcp_read_resource},
    {"completion/complete", MCP_2024_11_05, MCP_LATEST, MCP_THREAD, mcp_begin_complete,
     mcp_complete},
    {0},
};

/* May this request be answered, here and now? It is meant in the revision that it names, or in the
 * one that was settled. Sets a problem if not. */
static void request_check(struct mcp_request *q, const char *name, struct mcp_problem *p)
{
    const json_t *meta = json_object_get(q->params, "_meta");
    const char *named = json_get_string(meta, META_VERSION);
    for (const struct mcp_method *m = METHODS; m->name && !q->method; m++)
        if (strcmp(m->name, name) == 0)
            q->method = m;
    q->version = named ? version_of(named) : q->server->version;
    bool is_settled = q->version != MCP_NONE && q->version == q->server->version;
    if (q->params && !json_is_object(q->params)) {
        mcp_problem(p, RPC_INVALID_PARAMS, "params must be an object");
    } else if (q->params && rpc_has_nul(q->params)) {
        mcp_problem(p, RPC_INVALID_PARAMS, "params has a string with a NUL character (\\u0000)");
    } else if (named && q->version <= MCP_LAST_BEGUN && !is_settled) {
        p->data = json_pack("{s:o, s:s}", "supported", version_list(), "requested", named);
        mcp_problem(p, MCP_UNSUPPORTED_VERSION, "protocol version '%.40s' is not supported", named);
    } else if (q->version > MCP_LAST_BEGUN &&
               !json_is_object(json_object_get(meta, META_CAPABILITIES))) {
        mcp_problem(p, RPC_INVALID_PARAMS, "params._meta has no object '%s'", META_CAPABILITIES);
    } else if (q->method && q->version == MCP_NONE && !(q->method->flags & MCP_EARLY)) {
        mcp_problem(p, RPC_INVALID_REQUEST, "not initialized: send 'initialize' first");
    } else if (!q->method || (q->version != MCP_NONE &&
                              (q->version < q->method->first || q->version > q->method->last))) {
        mcp_problem(p, RPC_METHOD_NOT_FOUND, "there is no method '%.100s'", name);
    } else if (q->batch && q->method->run == mcp_initialize) {
        mcp_problem(p, RPC_INVALID_REQUEST, "'initialize' must not be part of a batch");
    }
}

static void server_take_request(struct mcp_server *s, uint64_t from, const struct rpc_message *m,
                                struct mcp_batch *batch)
{
    struct mcp_problem p = {0};
    struct mcp_request *q = calloc(1, sizeof *q);
    if (!q) {
        batch_done(s, batch, NULL);
        return;
    }
    *q = (struct mcp_request){.server = s, .from = from, .batch = batch, .cancel = -1};
    q->id = json_incref((json_t *)m->id);
    q->params = json_incref(m->params);
    request_check(q, m->method, &p);
    json_t *token = json_object_get(json_object_get(q->params, "_meta"), "progressToken");
    if (json_is_string(token) || json_is_integer(token))
        q->token = token;
    if (!p.code && (q->method->flags & MCP_THREAD)) {
        request_start(q);
        return;
    }
    request_answer(q, p.code ? NULL : q->method->run(q, &p), &p);
    request_free(q);
}

static void server_take_one(struct mcp_server *s, uint64_t from, json_t *value,
                            struct mcp_batch *batch)
{
    struct rpc_message m;
    rpc_look(value, &m);
    if (m.kind == RPC_REQUEST) {
        server_take_request(s, from, &m, batch);
        return;
    }
    if (m.kind == RPC_NOTIFICATION && strcmp(m.method, "notifications/cancelled") == 0) {
        const json_t *id = json_object_get(m.params, "requestId");
        LOCKED(&s->lock);
        struct mcp_request *q = id ? server_find_request(s, id) : NULL;
        if (q)
            request_cancel(q);
    }
    json_t *answer = m.kind == RPC_INVALID
                         ? rpc_error(m.id, RPC_INVALID_REQUEST, "invalid request: %s", m.problem)
                         : NULL;
    if (batch)
        batch_done(s, batch, answer);
    else
        mcp_send(s, from, answer);
}

/* Batches came with one revision and went with the next. */
static void server_take_batch(struct mcp_server *s, uint64_t from, json_t *values)
{
    size_t i, n = json_array_size(values);
    json_t *one;
    if (s->version != MCP_2025_03_26) {
        mcp_server_refuse(s, from, "batches are part of protocol version 2025-03-26 only");
        return;
    }
    struct mcp_batch *batch = n ? calloc(1, sizeof *batch) : NULL;
    if (!batch) {
        mcp_server_refuse(s, from, n ? "no memory for the batch" : "the batch is empty");
        return;
    }
    *batch = (struct mcp_batch){.answers = json_array(), .pending = n + 1, .from = from};
    json_array_foreach(values, i, one) server_take_one(s, from, one, batch);
    batch_done(s, batch, NULL);
}

void mcp_server_refuse(struct mcp_server *s, uint64_t from, const char *why)
{
    mcp_send(s, from, rpc_error(NULL, RPC_INVALID_REQUEST, "invalid request: %s", why));
}

void mcp_server_take(struct mcp_server *s, uint64_t from, const char *text, size_t n)
{
    struct error err = {0};
    json_t *value = NULL;
    int r = rpc_parse(text, n, &value, &err);
    if (r == -EBADMSG)
        mcp_send(s, from, rpc_error(NULL, RPC_PARSE_ERROR, "parse error: %s", err.text));
    else if (r < 0)
        mcp_server_refuse(s, from, err.text);
    else if (json_is_array(value))
        server_take_batch(s, from, value);
    else
        server_take_one(s, from, value, NULL);
    json_decref(value);
}

/* --- lifetime --- */

int mcp_server_new(const struct mcp_options *o, struct mcp_server **ret, struct error *err)
{
    struct mcp_server *s = calloc(1, sizeof *s);
    pthread_condattr_t how;
    if (!s)
        return error_set(err, ENOMEM, "no memory");
    s->options = *o;
    s->level = log_level_of("info");
    LIST_INIT(&s->requests);
    pthread_mutex_init(&s->sending, NULL);
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&how);
    pthread_condattr_setclock(&how, CLOCK_MONOTONIC);
    pthread_cond_init(&s->ended, &how);
    pthread_condattr_destroy(&how);
    *ret = s;
    return 0;
}

bool mcp_server_idle(struct mcp_server *s, int ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * NS_PER_MS;
    if (until.tv_nsec >= NS_PER_S) {
        until.tv_nsec -= NS_PER_S;
        until.tv_sec++;
    }
    LOCKED(&s->lock);
    int e = 0;
    while (s->n_requests > 0 && e == 0 && ms != 0)
        e = ms < 0 ? pthread_cond_wait(&s->ended, &s->lock)
                   : pthread_cond_timedwait(&s->ended, &s->lock, &until);
    return s->n_requests == 0;
}

struct mcp_server *mcp_server_free(struct mcp_server *s)
{
    if (!s)
        return NULL;
    struct mcp_request *q;
    pthread_mutex_lock(&s->lock);
    LIST_FOREACH(q, &s->requests, all) request_cancel(q);
    pthread_mutex_unlock(&s->lock);
    mcp_server_idle(s, -1);
    pthread_cond_destroy(&s->ended);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->sending);
    free(s);
    return NULL;
}
