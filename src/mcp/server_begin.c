/* What a client asks about the server itself: initialize, discover, ping; and the log. */
#include <errno.h>
#include <string.h>

#include "server_private.h"
#include "banned.h"

#define META_LOG_LEVEL "io.modelcontextprotocol/logLevel"

static const char *const LEVELS[] = {"debug", "info",     "notice", "warning",
                                     "error", "critical", "alert",  "emergency"};

int mcp_log_level(const char *name)
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

static json_t *capabilities(enum mcp_version v)
{
    json_t *all = json_pack("{s:{}, s:{}}", "tools", "resources");
    if (all && v <= MCP_LAST_BEGUN)
        json_object_set_new(all, "logging", json_object());
    if (all && v >= MCP_2025_03_26)
        json_object_set_new(all, "completions", json_object());
    return all;
}

static json_t *with_instructions(const struct mcp_request *q, json_t *result)
{
    const char *text = q->server->options.instructions;
    if (result && text)
        json_object_set_new(result, "instructions", json_string(text));
    return result;
}

/* A revision that is not known, or knows no `initialize`, is answered with the last that does. */
json_t *mcp_initialize(struct mcp_request *q, struct mcp_problem *p)
{
    const char *asked = mcp_param(q, "protocolVersion", p);
    if (!asked)
        return NULL;
    enum mcp_version v = mcp_version_of(asked);
    q->version = v == MCP_NONE || v > MCP_LAST_BEGUN ? MCP_LAST_BEGUN : v;
    q->server->version = q->version;
    return with_instructions(
        q, json_pack("{s:s, s:o, s:o}", "protocolVersion", mcp_version_name(q->version),
                     "capabilities", capabilities(q->version), "serverInfo", mcp_server_info(q)));
}

json_t *mcp_discover(struct mcp_request *q, struct mcp_problem *p)
{
    json_t *versions = json_array();
    for (enum mcp_version v = MCP_LATEST; v > MCP_NONE; v--)
        json_array_append_new(versions, json_string(mcp_version_name(v)));
    return with_instructions(q, json_pack("{s:o, s:o}", "supportedVersions", versions,
                                          "capabilities", capabilities(q->version)));
}

json_t *mcp_ping(struct mcp_request *q, struct mcp_problem *p)
{
    return json_object();
}

json_t *mcp_set_level(struct mcp_request *q, struct mcp_problem *p)
{
    const char *name = mcp_param(q, "level", p);
    int level = name ? mcp_log_level(name) : -EINVAL;
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
static int wanted_level(struct mcp_request *q)
{
    const char *named =
        json_string_value(json_object_get(json_object_get(q->params, "_meta"), META_LOG_LEVEL));
    if (q->version > MCP_LAST_BEGUN)
        return named && mcp_log_level(named) >= 0 ? mcp_log_level(named) : (int)ARRAY_SIZE(LEVELS);
    pthread_mutex_lock(&q->server->lock);
    int level = q->server->level;
    pthread_mutex_unlock(&q->server->lock);
    return level;
}

void mcp_log(struct mcp_request *q, const char *level, const char *text)
{
    if (mcp_log_level(level) < wanted_level(q))
        return;
    json_t *params = json_pack("{s:s, s:s, s:o}", "level", level, "logger", "hutch", "data",
                               text_json(text, strlen(text)));
    mcp_send(q->server, q->from, params ? rpc_notification("notifications/message", params) : NULL);
}
