/*
 * The MCP server: taking messages (what each of them is, whether it may come now, and who answers
 * it), and what a client asks about the server itself.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "server.h"
#include "banned.h"

#define META_VERSION      "io.modelcontextprotocol/protocolVersion"
#define META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define META_LOG_LEVEL    "io.modelcontextprotocol/logLevel"

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

json_t *mcp_server_info(const struct mcp_request *q)
{
    json_t *info = json_pack("{s:s, s:s}", "name", "hutch", "version", HUTCH_VERSION);
    if (info && q->version >= MCP_2025_06_18)
        json_object_set_new(info, "title", json_string("hutch"));
    if (info && q->version >= MCP_2025_11_25)
        json_object_set_new(info, "description",
                            json_string("tools in a sandbox for coding agents"));
    return info;
}

static json_t *server_capabilities(enum mcp_version v)
{
    json_t *all = json_pack("{s:{}, s:{}}", "tools", "resources");
    if (all && v <= MCP_LAST_BEGUN)
        json_object_set_new(all, "logging", json_object());
    if (all && v >= MCP_2025_03_26)
        json_object_set_new(all, "completions", json_object());
    return all;
}

static json_t *add_instructions(const struct mcp_request *q, json_t *result)
{
    const char *text = q->server->options.instructions;
    if (result && text)
        json_object_set_new(result, "instructions", json_string(text));
    return result;
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
    return add_instructions(q, json_pack("{s:s, s:o, s:o}", "protocolVersion",
                                         VERSION_NAMES[q->version], "capabilities",
                                         server_capabilities(q->version), "serverInfo",
                                         mcp_server_info(q)));
}

static json_t *mcp_discover(struct mcp_request *q, struct mcp_problem *p)
{
    json_t *versions = json_array();
    for (enum mcp_version v = MCP_LATEST; v > MCP_NONE; v--)
        json_array_append_new(versions, json_string(VERSION_NAMES[v]));
    return add_instructions(q, json_pack("{s:o, s:o}", "supportedVersions", versions,
                                         "capabilities", server_capabilities(q->version)));
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
    pthread_mutex_lock(&q->server->lock);
    q->server->level = level;
    pthread_mutex_unlock(&q->server->lock);
    return json_object();
}

/* The least level that is wanted for this request; since 2026-07-28 nothing is, unless the request
 * says so.
 */
static int log_level_wanted(struct mcp_request *q)
{
    const char *named =
        json_string_value(json_object_get(json_object_get(q->params, "_meta"), META_LOG_LEVEL));
    if (q->version > MCP_LAST_BEGUN)
        return named && log_level_of(named) >= 0 ? log_level_of(named) : (int)ARRAY_SIZE(LEVELS);
    pthread_mutex_lock(&q->server->lock);
    int level = q->server->level;
    pthread_mutex_unlock(&q->server->lock);
    return level;
}

void mcp_log(struct mcp_request *q, const char *level, const char *text)
{
    if (log_level_of(level) < log_level_wanted(q))
        return;
    json_t *params = json_pack("{s:s, s:s, s:o}", "level", level, "logger", "hutch", "data",
                               text_json(text, strlen(text)));
    mcp_send(q->server, q->from, params ? rpc_notification("notifications/message", params) : NULL);
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

static void *version_unsupported(struct mcp_problem *p, const char *version)
{
    json_t *all = json_array();
    for (enum mcp_version v = MCP_LATEST; v > MCP_NONE; v--)
        json_array_append_new(all, json_string(VERSION_NAMES[v]));
    p->data = json_pack("{s:o, s:s}", "supported", all, "requested", version);
    return mcp_problem(p, MCP_UNSUPPORTED_VERSION, "protocol version '%.40s' is not supported",
                       version);
}

/* The revision that a request is meant in: the one it names, or the one that was settled. */
static int request_find_version(struct mcp_request *q, struct mcp_problem *p)
{
    const json_t *meta = json_object_get(q->params, "_meta");
    const char *named = json_string_value(json_object_get(meta, META_VERSION));
    q->version = named ? version_of(named) : q->server->version;
    bool is_settled = q->version != MCP_NONE && q->version == q->server->version;
    if (named && q->version <= MCP_LAST_BEGUN && !is_settled)
        return version_unsupported(p, named), -EPROTO;
    if (q->version > MCP_LAST_BEGUN && !json_is_object(json_object_get(meta, META_CAPABILITIES)))
        return mcp_problem(p, RPC_INVALID_PARAMS, "params._meta has no object '%s'",
                           META_CAPABILITIES),
               -EPROTO;
    return 0;
}

/* May this request be answered, here and now? */
static int request_check(struct mcp_request *q, const char *name, struct mcp_problem *p)
{
    const json_t *params = q->params;
    if (params && !json_is_object(params))
        return mcp_problem(p, RPC_INVALID_PARAMS, "params must be an object"), -EINVAL;
    if (params && rpc_has_nul(params))
        return mcp_problem(p, RPC_INVALID_PARAMS,
                           "params has a string with a NUL character (\\u0000)"),
               -EINVAL;
    for (const struct mcp_method *m = METHODS; m->name && !q->method; m++)
        if (strcmp(m->name, name) == 0)
            q->method = m;
    int r = request_find_version(q, p);
    if (r < 0)
        return r;
    if (q->method && q->version == MCP_NONE && !(q->method->flags & MCP_EARLY))
        return mcp_problem(p, RPC_INVALID_REQUEST, "not initialized: send 'initialize' first"),
               -EPROTO;
    if (!q->method ||
        (q->version != MCP_NONE && (q->version < q->method->first || q->version > q->method->last)))
        return mcp_problem(p, RPC_METHOD_NOT_FOUND, "there is no method '%.100s'", name), -ENOSYS;
    if (q->batch && q->method->run == mcp_initialize)
        return mcp_problem(p, RPC_INVALID_REQUEST, "'initialize' must not be part of a batch"),
               -EPROTO;
    return 0;
}

static void server_take_request(struct mcp_server *s, uint64_t from, const struct rpc_message *m,
                                struct mcp_batch *batch)
{
    struct mcp_problem p = {0};
    struct mcp_request *q = calloc(1, sizeof *q);
    if (!q) {
        mcp_batch_done(s, batch, NULL);
        return;
    }
    *q = (struct mcp_request){.server = s, .from = from, .batch = batch, .cancel = -1};
    q->id = json_incref((json_t *)m->id);
    q->params = json_incref(m->params);
    int r = request_check(q, m->method, &p);
    json_t *token = json_object_get(json_object_get(q->params, "_meta"), "progressToken");
    if (json_is_string(token) || json_is_integer(token))
        q->token = token;
    if (r == 0 && (q->method->flags & MCP_THREAD)) {
        mcp_request_start(q);
        return;
    }
    mcp_answer(q, r == 0 ? q->method->run(q, &p) : NULL, &p);
    mcp_request_free(q);
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
    if (m.kind == RPC_NOTIFICATION && strcmp(m.method, "notifications/cancelled") == 0)
        mcp_cancel(s, json_object_get(m.params, "requestId"));
    json_t *answer = m.kind == RPC_INVALID
                         ? rpc_error(m.id, RPC_INVALID_REQUEST, "invalid request: %s", m.problem)
                         : NULL;
    if (batch)
        mcp_batch_done(s, batch, answer);
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
    mcp_batch_done(s, batch, NULL);
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

struct mcp_server *mcp_server_free(struct mcp_server *s)
{
    if (!s)
        return NULL;
    mcp_cancel_all(s);
    mcp_server_idle(s, -1);
    pthread_cond_destroy(&s->ended);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->sending);
    free(s);
    return NULL;
}
