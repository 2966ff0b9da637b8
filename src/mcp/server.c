/* Taking messages: what each of them is, whether it may come now, and who answers it. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "server_private.h"
#include "banned.h"

#define META_VERSION      "io.modelcontextprotocol/protocolVersion"
#define META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"

const struct mcp_method MCP_METHODS[] = {
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

static const char *const VERSION_NAMES[] = {
    [MCP_2024_11_05] = "2024-11-05", [MCP_2025_03_26] = "2025-03-26",
    [MCP_2025_06_18] = "2025-06-18", [MCP_2025_11_25] = "2025-11-25",
    [MCP_2026_07_28] = "2026-07-28",
};

const char *mcp_version_name(enum mcp_version v)
{
    return VERSION_NAMES[v];
}

enum mcp_version mcp_version_of(const char *name)
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

int mcp_server_new(const struct mcp_options *o, struct mcp_server **ret, struct error *err)
{
    struct mcp_server *s = calloc(1, sizeof *s);
    pthread_condattr_t how;
    if (!s)
        return error_set(err, ENOMEM, "no memory");
    s->options = *o;
    s->level = mcp_log_level("info");
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

static const struct mcp_method *method_of(const char *name)
{
    for (const struct mcp_method *m = MCP_METHODS; m->name; m++)
        if (strcmp(m->name, name) == 0)
            return m;
    return NULL;
}

static void *unsupported(struct mcp_problem *p, const char *version)
{
    json_t *all = json_array();
    for (enum mcp_version v = MCP_LATEST; v > MCP_NONE; v--)
        json_array_append_new(all, json_string(mcp_version_name(v)));
    p->data = json_pack("{s:o, s:s}", "supported", all, "requested", version);
    return mcp_problem(p, MCP_UNSUPPORTED_VERSION, "protocol version '%.40s' is not supported",
                       version);
}

/* The revision that a request is meant in: the one it names, or the one that was settled. */
static int find_version(struct mcp_request *q, struct mcp_problem *p)
{
    const json_t *meta = json_object_get(q->params, "_meta");
    const char *named = json_string_value(json_object_get(meta, META_VERSION));
    q->version = named ? mcp_version_of(named) : q->server->version;
    bool is_settled = q->version != MCP_NONE && q->version == q->server->version;
    if (named && q->version <= MCP_LAST_BEGUN && !is_settled)
        return unsupported(p, named), -EPROTO;
    if (q->version > MCP_LAST_BEGUN && !json_is_object(json_object_get(meta, META_CAPABILITIES)))
        return mcp_problem(p, RPC_INVALID_PARAMS, "params._meta has no object '%s'",
                           META_CAPABILITIES),
               -EPROTO;
    return 0;
}

/* May this request be answered, here and now? */
static int check_request(struct mcp_request *q, const char *name, struct mcp_problem *p)
{
    const json_t *params = q->params;
    if (params && !json_is_object(params))
        return mcp_problem(p, RPC_INVALID_PARAMS, "params must be an object"), -EINVAL;
    if (params && rpc_has_nul(params))
        return mcp_problem(p, RPC_INVALID_PARAMS,
                           "params has a string with a NUL character (\\u0000)"),
               -EINVAL;
    q->method = method_of(name);
    int r = find_version(q, p);
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

/* What the client wants to be told while it waits. */
static void find_token(struct mcp_request *q)
{
    json_t *token = json_object_get(json_object_get(q->params, "_meta"), "progressToken");
    if (json_is_string(token) || json_is_integer(token))
        q->token = token;
}

static void take_request(struct mcp_server *s, uint64_t from, const struct rpc_message *m,
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
    int r = check_request(q, m->method, &p);
    if (r == 0)
        find_token(q);
    if (r == 0 && (q->method->flags & MCP_THREAD)) {
        mcp_request_start(q);
        return;
    }
    mcp_answer(q, r == 0 ? q->method->run(q, &p) : NULL, &p);
    mcp_request_free(q);
}

/* Notifications are never answered, whatever they are. */
static void take_notification(struct mcp_server *s, const struct rpc_message *m)
{
    if (strcmp(m->method, "notifications/cancelled") == 0)
        mcp_cancel(s, json_object_get(m->params, "requestId"));
}

static void take_one(struct mcp_server *s, uint64_t from, json_t *value, struct mcp_batch *batch)
{
    struct rpc_message m;
    rpc_look(value, &m);
    if (m.kind == RPC_REQUEST) {
        take_request(s, from, &m, batch);
        return;
    }
    if (m.kind == RPC_NOTIFICATION)
        take_notification(s, &m);
    json_t *answer = m.kind == RPC_INVALID
                         ? rpc_error(m.id, RPC_INVALID_REQUEST, "invalid request: %s", m.problem)
                         : NULL;
    if (batch)
        mcp_batch_done(s, batch, answer);
    else
        mcp_send(s, from, answer);
}

/* Batches came with one revision and went with the next. */
static void take_batch(struct mcp_server *s, uint64_t from, json_t *values)
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
    json_array_foreach(values, i, one) take_one(s, from, one, batch);
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
        take_batch(s, from, value);
    else
        take_one(s, from, value, NULL);
    json_decref(value);
}
