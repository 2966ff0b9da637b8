/*
 * The MCP server: what each message is, whether it may come now and who answers it; requests, each
 * that may take long in a thread of its own; and answers, one at a time, batches together, none to
 * a request that was cancelled.
 */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "encoding.h"
#include "json.h"
#include "options.h"
#include "server.h"
#include "thread.h"
#include "banned.h"

#define META_VERSION      "io.modelcontextprotocol/protocolVersion"
#define META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define META_LOG_LEVEL    "io.modelcontextprotocol/logLevel"
#define META_SERVER       "io.modelcontextprotocol/serverInfo"
#define PROGRESS_EVERY_NS (200 * NS_PER_MS)
#define PAGE_ITEMS        200

LIST_HEAD(mcp_requests, mcp_request);

struct mcp_server {
    struct mcp_options options;
    enum mcp_version version; /* what initialize settled; of the thread that takes messages */
    pthread_mutex_t sending;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t ended;
    struct mcp_requests requests; /* that have a thread */
    size_t n_requests;
    int level; /* of log messages that the client wants */
};

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

static json_t *version_list(void)
{
    json_t *all = json_array();
    for (enum mcp_version v = MCP_LATEST; v > MCP_NONE; v--)
        json_array_append_new(all, json_string(VERSION_NAMES[v]));
    return all;
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

/* Takes the message over; NULL is dropped. */
static int server_send(struct mcp_server *s, const json_t *request, json_t *message)
{
    if (!message)
        return -ENOMEM;
    pthread_mutex_lock(&s->sending);
    int r = s->options.send(s->options.data, request, message);
    pthread_mutex_unlock(&s->sending);
    json_decref(message);
    return r;
}

/* --- methods about the server itself --- */

static int log_level_of(const char *name)
{
    static const char *const LEVELS[] = {"debug", "info",     "notice", "warning",
                                         "error", "critical", "alert",  "emergency"};
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
    if (!name)
        return NULL;
    if (level < 0)
        return mcp_problem(p, RPC_INVALID_PARAMS, "params.level: unknown level '%.40s'", name);
    LOCKED(&q->server->lock);
    q->server->level = level;
    return json_object();
}

/* --- tools --- */

json_t *mcp_page(const struct mcp_request *q, const char *name, json_t *items,
                 struct mcp_problem *p)
{
    const json_t *cursor = json_object_get(q->params, "cursor");
    _cleanup_json_ json_t *all = items, *page = json_array();
    uint64_t from = 0, total = json_array_size(items);
    char next[24];
    if (cursor && (!json_is_string(cursor) ||
                   units_parse_count(json_string_value(cursor), &from) < 0 || from >= total))
        return mcp_problem(p, RPC_INVALID_PARAMS, "params.cursor is not from this server");
    uint64_t to = total - from > PAGE_ITEMS ? from + PAGE_ITEMS : total;
    for (uint64_t i = from; i < to; i++)
        json_array_append(page, json_array_get(all, i));
    snprintf(next, sizeof next, "%llu", (unsigned long long)to);
    return json_pack("{s:O, s:s*}", name, page, "nextCursor", to < total ? next : NULL);
}

struct tool_listing {
    struct mcp_request *request;
    json_t *tools;
};

/* A tool, with what a client may show about it before it is called. */
static void tool_listing_add(void *data, const struct tool *t)
{
    const struct tool_listing *l = data;
    enum mcp_version v = l->request->version;
    bool titles = v >= MCP_2025_06_18, world = l->request->server->options.open_world;
    bool changes = !(t->flags & TOOL_READS) && (t->flags & (TOOL_CHANGES | TOOL_RUNS));
    bool open = (t->flags & TOOL_HOST) || ((t->flags & TOOL_RUNS) && world);
    json_t *hints = v < MCP_2025_03_26
                        ? NULL
                        : json_pack("{s:s*, s:b, s:b, s:b, s:b}", "title", t->title, "readOnlyHint",
                                    !!(t->flags & TOOL_READS), "destructiveHint", changes,
                                    "idempotentHint", !changes, "openWorldHint", open);
    json_array_append_new(
        l->tools, json_pack("{s:s, s:s, s:o, s:o*, s:s*, s:o*}", "name", t->name, "description",
                            t->summary, "inputSchema", json_loads(t->input, 0, NULL), "annotations",
                            hints, "title", titles ? t->title : NULL, "outputSchema",
                            titles && t->output ? json_loads(t->output, 0, NULL) : NULL));
}

/* A log message about what is left out. Since 2026-07-28 none is wanted unless the request names a
 * level. */
static void tool_listing_warn(void *data, const char *text)
{
    const struct tool_listing *l = data;
    const struct mcp_request *q = l->request;
    const char *named = json_get_string(json_object_get(q->params, "_meta"), META_LOG_LEVEL);
    int wanted = named ? log_level_of(named) : -EINVAL;
    if (q->version <= MCP_LAST_BEGUN) {
        LOCKED(&q->server->lock);
        wanted = q->server->level;
    }
    if (wanted < 0 || log_level_of("warning") < wanted)
        return;
    json_t *params = json_pack("{s:s, s:s, s:o}", "level", "warning", "logger", "hutch", "data",
                               text_json(text, strlen(text)));
    server_send(q->server, q->id,
                params ? rpc_notification("notifications/message", params) : NULL);
}

static json_t *mcp_list_tools(struct mcp_request *q, struct mcp_problem *p)
{
    struct tool_listing l = {.request = q, .tools = json_array()};
    tool_session_list(q->server->options.session, tool_listing_add, tool_listing_warn, &l);
    return mcp_page(q, "tools", l.tools, p);
}

static int mcp_begin_tool(struct mcp_request *q, struct mcp_problem *p)
{
    json_t *arguments = json_object_get(q->params, "arguments");
    q->call.name = mcp_param(q, "name", p);
    if (q->call.name && arguments && !json_is_object(arguments))
        mcp_problem(p, RPC_INVALID_PARAMS, "params.arguments must be an object");
    if (p->code)
        return -EINVAL;
    q->call.input = json_incref(arguments);
    return mcp_begin_call(q, p);
}

static json_t *mcp_call_tool(struct mcp_request *q, struct mcp_problem *p)
{
    _cleanup_result_ struct tool_result r = TOOL_RESULT_INIT;
    _cleanup_buf_ struct buf image = BUF_INIT(2 * RESULT_IMAGE_MAX);
    struct error err = {0};
    if (tool_finish(q->turn, &r) == -ENOENT)
        return mcp_problem(p, RPC_INVALID_PARAMS, "%s", buf_cstr(&r.text));
    json_t *content = json_array();
    int bad = !content;
    if (r.text.len || !r.mime)
        bad |= json_array_append_new(content, json_pack("{s:s, s:o}", "type", "text", "text",
                                                        text_json(r.text.data, r.text.len)));
    if (r.mime)
        bad |= base64_append(&image, r.image.data, r.image.len) < 0 ||
               json_array_append_new(content,
                                     json_pack("{s:s, s:s%, s:s}", "type", "image", "data",
                                               (char *)image.data, image.len, "mimeType", r.mime));
    if (bad) {
        json_decref(content);
        return NULL;
    }
    /* Clients check data against the output schema: a failed call's is sent only if it matches. */
    const struct tool *t =
        r.failed ? tool_session_find(q->server->options.session, q->call.name, &err) : NULL;
    bool structured = r.data && q->version >= MCP_2025_06_18 &&
                      (!t || !t->output || schema_check_text(t->output, r.data, "data", &err) == 0);
    return json_pack("{s:o, s:b, s:O*, s:o*}", "content", content, "isError", r.failed,
                     "structuredContent", structured ? r.data : NULL, "_meta",
                     r.cached ? json_pack("{s:b}", "hutch/cached", 1) : NULL);
}

/* Progress only grows, and is not sent too often; from the thread of the call. */
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
    server_send(q->server, q->id,
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

/* --- requests and answers --- */

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

/* Sends an answer; or adds it (NULL: none) to its batch, which is sent with the last one. */
static void server_answer(struct mcp_server *s, struct mcp_batch *b, json_t *answer)
{
    if (!b) {
        server_send(s, NULL, answer);
        return;
    }
    pthread_mutex_lock(&s->lock);
    if (answer)
        json_array_append_new(b->answers, answer);
    bool last = --b->pending == 0;
    pthread_mutex_unlock(&s->lock);
    if (!last)
        return;
    if (json_array_size(b->answers) > 0)
        server_send(s, json_object_get(json_array_get(b->answers, 0), "id"), b->answers);
    else
        json_decref(b->answers);
    free(b);
}

/* Sends the result (taken over) or the problem, and frees the request. The server may be freed as
 * soon as the last request is gone. */
static void request_end(struct mcp_request *q, json_t *result, struct mcp_problem *p)
{
    struct mcp_server *s = q->server;
    /* It leaves the list before its answer is sent, since the client may then use its id again. */
    pthread_mutex_lock(&s->lock);
    bool wanted = !q->cancelled, counted = q->listed;
    if (q->listed)
        LIST_REMOVE(q, all);
    q->listed = false;
    pthread_mutex_unlock(&s->lock);

    if (result && q->version >= MCP_2026_07_28) { /* without a session every result carries this */
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
        server_answer(s, q->batch, message);
    else if (message && server_send(s, q->id, message) == -ENOBUFS)
        server_send(s, q->id,
                    rpc_error(q->id, RPC_INTERNAL_ERROR, "the result is longer than can be sent"));
    cleanup_close(&q->cancel);
    json_decref(result);
    json_decref(p->data);
    json_decref(q->id);
    json_decref(q->params);
    json_decref(q->call.input);
    free(q);
    if (!counted)
        return;
    LOCKED(&s->lock);
    s->n_requests--;
    pthread_cond_broadcast(&s->ended);
}

static void *request_run(void *request)
{
    struct mcp_request *q = request;
    struct mcp_problem p = {0};
    json_t *result = q->method->run(q, &p);
    request_end(q, result, &p);
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

static void request_cancel(struct mcp_request *q)
{
    const uint64_t one = 1;
    q->cancelled = true;
    (void)!write(q->cancel, &one, sizeof one);
}

/* May this request be answered, here and now? Its revision is the one that it names, or the one
 * that was settled. Sets a problem if not. */
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

static void server_take_request(struct mcp_server *s, const struct rpc_message *m,
                                struct mcp_batch *batch)
{
    struct mcp_problem p = {0};
    struct mcp_request *q = calloc(1, sizeof *q);
    if (!q) {
        server_answer(s, batch, NULL);
        return;
    }
    *q = (struct mcp_request){.server = s, .batch = batch, .cancel = -1};
    q->id = json_incref((json_t *)m->id);
    q->params = json_incref(m->params);
    request_check(q, m->method, &p);
    json_t *token = json_object_get(json_object_get(q->params, "_meta"), "progressToken");
    if (json_is_string(token) || json_is_integer(token))
        q->token = token;
    if (p.code || !(q->method->flags & MCP_THREAD)) {
        json_t *result = p.code ? NULL : q->method->run(q, &p);
        request_end(q, result, &p);
        return;
    }

    /* It joins those that run, if there is room. */
    q->cancel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_lock(&s->lock);
    if (q->cancel < 0)
        mcp_problem(&p, RPC_INTERNAL_ERROR, "no descriptor for the request");
    else if (server_find_request(s, q->id))
        mcp_problem(&p, RPC_INVALID_REQUEST,
                    "invalid request: its id belongs to a request that is running");
    else if (s->n_requests >= MCP_REQUESTS_MAX)
        mcp_problem(&p, MCP_BUSY, "busy: %d requests are running", MCP_REQUESTS_MAX);
    if (!p.code) {
        LIST_INSERT_HEAD(&s->requests, q, all);
        q->listed = true;
        s->n_requests++;
    }
    pthread_mutex_unlock(&s->lock);
    if (p.code || (q->method->begin && q->method->begin(q, &p) < 0)) {
        request_end(q, NULL, &p);
        return;
    }
    pthread_attr_t how;
    pthread_t thread;
    pthread_attr_init(&how);
    pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
    int e = pthread_create(&thread, &how, request_run, q);
    pthread_attr_destroy(&how);
    if (e != 0) /* it runs here: the order is kept, but it cannot be cancelled */
        request_run(q);
}

static void server_take_one(struct mcp_server *s, json_t *value, struct mcp_batch *batch)
{
    struct rpc_message m;
    rpc_look(value, &m);
    if (m.kind == RPC_REQUEST) {
        server_take_request(s, &m, batch);
        return;
    }
    if (m.kind == RPC_NOTIFICATION && strcmp(m.method, "notifications/cancelled") == 0) {
        const json_t *id = json_object_get(m.params, "requestId");
        LOCKED(&s->lock);
        struct mcp_request *q = id ? server_find_request(s, id) : NULL;
        if (q)
            request_cancel(q);
    }
    server_answer(s, batch,
                  m.kind == RPC_INVALID
                      ? rpc_error(m.id, RPC_INVALID_REQUEST, "invalid request: %s", m.problem)
                      : NULL);
}

void mcp_server_refuse(struct mcp_server *s, const char *why)
{
    server_send(s, NULL, rpc_error(NULL, RPC_INVALID_REQUEST, "invalid request: %s", why));
}

void mcp_server_take(struct mcp_server *s, const char *text, size_t n)
{
    struct error err = {0};
    _cleanup_json_ json_t *value = NULL;
    int r = rpc_parse(text, n, &value, &err);
    size_t i, count = json_array_size(value);
    json_t *one;
    if (r == -EBADMSG)
        server_send(s, NULL, rpc_error(NULL, RPC_PARSE_ERROR, "parse error: %s", err.text));
    else if (r < 0)
        mcp_server_refuse(s, err.text);
    else if (!json_is_array(value))
        server_take_one(s, value, NULL);
    else if (s->version != MCP_2025_03_26)
        mcp_server_refuse(s, "batches are part of protocol version 2025-03-26 only");
    else if (count == 0)
        mcp_server_refuse(s, "the batch is empty");
    if (r < 0 || count == 0 || s->version != MCP_2025_03_26)
        return;
    struct mcp_batch *batch = calloc(1, sizeof *batch);
    if (!batch) {
        mcp_server_refuse(s, "no memory for the batch");
        return;
    }
    *batch = (struct mcp_batch){.answers = json_array(), .pending = count + 1};
    json_array_foreach(value, i, one) server_take_one(s, one, batch);
    server_answer(s, batch, NULL);
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
    int64_t end = clock_now() + ms * NS_PER_MS;
    const struct timespec until = {.tv_sec = end / NS_PER_S, .tv_nsec = end % NS_PER_S};
    LOCKED(&s->lock);
    for (int e = 0; s->n_requests > 0 && e == 0 && ms != 0;)
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
