/* tools/list and tools/call: the table of tools as MCP shows it, and results as MCP gives them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "encoding.h"
#include "options.h"
#include "schema.h"
#include "server.h"
#include "banned.h"

json_t *mcp_page(const struct mcp_request *q, const char *name, json_t *items,
                 struct mcp_problem *p)
{
    const json_t *cursor = json_object_get(q->params, "cursor");
    _cleanup_json_ json_t *all = items, *page = json_array();
    uint64_t from = 0, total = json_array_size(items);
    char next[24];
    if (cursor && (!json_is_string(cursor) ||
                   units_parse_count(json_string_value(cursor), &from) < 0 || from >= total))
        return mcp_problem(p, RPC_INVALID_PARAMS, "params.cursor is none that this server gave");
    uint64_t to = total - from > MCP_PAGE ? from + MCP_PAGE : total;
    for (uint64_t i = from; i < to; i++)
        json_array_append(page, json_array_get(all, i));
    snprintf(next, sizeof next, "%llu", (unsigned long long)to);
    return json_pack("{s:O, s:s*}", name, page, "nextCursor", to < total ? next : NULL);
}

/* A tool, with what a client may tell its person about it before it is called. */
static json_t *tool_json(const struct mcp_request *q, const struct tool *t)
{
    bool titles = q->version >= MCP_2025_06_18;
    bool changes = !(t->flags & TOOL_READS) && (t->flags & (TOOL_CHANGES | TOOL_RUNS));
    bool open = (t->flags & TOOL_HOST) || ((t->flags & TOOL_RUNS) && q->server->options.open_world);
    json_t *hints = q->version < MCP_2025_03_26
                        ? NULL
                        : json_pack("{s:s*, s:b, s:b, s:b, s:b}", "title", t->title, "readOnlyHint",
                                    !!(t->flags & TOOL_READS), "destructiveHint", changes,
                                    "idempotentHint", !changes, "openWorldHint", open);
    return json_pack("{s:s, s:s, s:o, s:o*, s:s*, s:o*}", "name", t->name, "description",
                     t->summary, "inputSchema", json_loads(t->input, 0, NULL), "annotations", hints,
                     "title", titles ? t->title : NULL, "outputSchema",
                     titles && t->output ? json_loads(t->output, 0, NULL) : NULL);
}

struct listing {
    struct mcp_request *q;
    json_t *tools;
};

static void listing_add(void *data, const struct tool *t)
{
    struct listing *l = data;
    json_array_append_new(l->tools, tool_json(l->q, t));
}

static void listing_warn(void *data, const char *text)
{
    struct listing *l = data;
    mcp_log(l->q, "warning", text);
}

json_t *mcp_list_tools(struct mcp_request *q, struct mcp_problem *p)
{
    struct listing l = {.q = q, .tools = json_array()};
    tool_session_list(q->server->options.session, listing_add, listing_warn, &l);
    return mcp_page(q, "tools", l.tools, p);
}

int mcp_begin_tool(struct mcp_request *q, struct mcp_problem *p)
{
    json_t *arguments = json_object_get(q->params, "arguments");
    q->call.name = mcp_param(q, "name", p);
    if (!q->call.name)
        return -EINVAL;
    if (arguments && !json_is_object(arguments)) {
        mcp_problem(p, RPC_INVALID_PARAMS, "params.arguments must be an object");
        return -EINVAL;
    }
    q->call.input = json_incref(arguments);
    return mcp_begin_call(q, p);
}

json_t *mcp_call_tool(struct mcp_request *q, struct mcp_problem *p)
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
    /* Data of a failed call is given only if it is what the tool promises for its results: clients
     * check. */
    const struct tool *t =
        r.failed ? tool_session_find(q->server->options.session, q->call.name, &err) : NULL;
    bool structured = r.data && q->version >= MCP_2025_06_18 &&
                      (!t || !t->output || schema_check_text(t->output, r.data, "data", &err) == 0);
    return json_pack("{s:o, s:b, s:O*, s:o*}", "content", content, "isError", r.failed,
                     "structuredContent", structured ? r.data : NULL, "_meta",
                     r.cached ? json_pack("{s:b}", "hutch/cached", 1) : NULL);
}
