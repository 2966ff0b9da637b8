/*
 * Resources: the files of the workspace, and what the box changed in it; and completions of their
 * paths.
 *
 * The list holds the diff and the files of the workspace, those nearest to its root first if there
 * are too many, and none that git ignores. Any other file is reached by the template, and a client
 * finds its way down by completions.
 */
#include <errno.h>
#include <string.h>

#include "encoding.h"
#include "own.h"
#include "server_private.h"
#include "uri.h"
#include "utf8.h"
#include "banned.h"

#define PATIENCE_MS 2000 /* who looks at files does not wait for the end of a long command */

#define DIFF_URI   "hutch://diff"
#define DIFF_MIME  "text/x-diff"
#define TEMPLATE   URI_WORKSPACE "{path}"
#define VALUES_MAX 100 /* of a completion: the protocol's limit */
#define URI_MAX    (16u << 10)

static int begin_own(struct mcp_request *q, const struct tool *t, const char *path,
                     struct mcp_problem *p)
{
    q->call.tool = t;
    q->call.patience_ms = PATIENCE_MS;
    q->call.input = path ? json_pack("{s:s}", "path", path) : json_object();
    if (!q->call.input) { /* a path that is not UTF-8 */
        mcp_problem(p, RPC_INVALID_PARAMS, "the path is not valid UTF-8");
        return -EINVAL;
    }
    return mcp_begin_call(q, p);
}

/* Why one of the server's own calls failed. */
static void *own_problem(const struct mcp_request *q, struct tool_result *r, struct mcp_problem *p)
{
    json_int_t code = json_integer_value(json_object_get(r->data, "errno"));
    bool is_absent = q->call.tool == &OWN_READ && (code == ENOENT || code == ENOTDIR);
    bool is_refused = code == EXDEV || code == EINVAL || code == EISDIR || code == EACCES ||
                      code == ELOOP || code == ENAMETOOLONG || code == EFBIG;
    int said = is_absent ? q->version > MCP_LAST_BEGUN ? RPC_INVALID_PARAMS : MCP_RESOURCE_NOT_FOUND
               : is_refused ? RPC_INVALID_PARAMS
                            : RPC_INTERNAL_ERROR;
    if (is_absent)
        p->data = json_pack("{s:O}", "uri", json_object_get(q->params, "uri"));
    return mcp_problem(p, said, "%s", buf_cstr(&r->text));
}

static json_t *resource(const struct mcp_request *q, const char *uri, const char *name,
                        const char *title, const char *description, const char *mime)
{
    json_t *o = json_pack("{s:s, s:s, s:s*, s:s*}", "uri", uri, "name", name, "description",
                          description, "mimeType", mime);
    if (o && title && q->version >= MCP_2025_06_18)
        json_object_set_new(o, "title", json_string(title));
    return o;
}

static json_t *file_resource(const struct mcp_request *q, const json_t *entry)
{
    _cleanup_buf_ struct buf uri = BUF_INIT(URI_MAX);
    const char *name = json_string_value(json_object_get(entry, "name"));
    uri_append_path(&uri, name);
    json_t *o = resource(q, buf_cstr(&uri), name, NULL, NULL, NULL);
    if (o && q->version >= MCP_2025_03_26)
        json_object_set(o, "size", json_object_get(entry, "size"));
    return o;
}

static json_t *all_resources(const struct mcp_request *q, const json_t *entries)
{
    json_t *all = json_array(), *entry;
    size_t i;
    json_array_append_new(
        all, resource(q, DIFF_URI, "diff", "Changes",
                      "What was changed in the workspace and is not applied yet, as a git diff.",
                      DIFF_MIME));
    json_array_foreach(entries, i, entry) if (json_is_true(json_object_get(entry, "file")))
        json_array_append_new(all, file_resource(q, entry));
    return all;
}

int mcp_begin_list_resources(struct mcp_request *q, struct mcp_problem *p)
{
    return begin_own(q, &OWN_TREE, NULL, p);
}

json_t *mcp_list_resources(struct mcp_request *q, struct mcp_problem *p)
{
    _cleanup_result_ struct tool_result r = TOOL_RESULT_INIT;
    tool_finish(q->turn, &r);
    return r.failed
               ? own_problem(q, &r, p)
               : mcp_page(q, "resources", all_resources(q, json_object_get(r.data, "entries")), p);
}

json_t *mcp_list_templates(struct mcp_request *q, struct mcp_problem *p)
{
    json_t *o = json_pack("{s:s, s:s, s:s}", "uriTemplate", TEMPLATE, "name", "file", "description",
                          "A file of the workspace.");
    if (o && q->version >= MCP_2025_06_18)
        json_object_set_new(o, "title", json_string("Workspace file"));
    return json_pack("{s:[o]}", "resourceTemplates", o);
}

int mcp_begin_read_resource(struct mcp_request *q, struct mcp_problem *p)
{
    _cleanup_buf_ struct buf path = BUF_INIT(URI_MAX);
    const char *uri = mcp_param(q, "uri", p);
    if (!uri)
        return -EINVAL;
    if (strcmp(uri, DIFF_URI) == 0)
        return begin_own(q, &OWN_DIFF, NULL, p);
    if (uri_parse_path(uri, &path) == 0)
        return begin_own(q, &OWN_READ, (const char *)path.data, p);
    p->data = json_pack("{s:s}", "uri", uri);
    mcp_problem(p, q->version > MCP_LAST_BEGUN ? RPC_INVALID_PARAMS : MCP_RESOURCE_NOT_FOUND,
                "there is no resource '%.200s'; there are %s and %s", uri, DIFF_URI, TEMPLATE);
    return -EINVAL;
}

/* What bytes are, by how they begin. */
static const char *mime_of(const struct buf *b)
{
    static const struct {
        const char *magic;
        size_t n;
        const char *mime;
    } known[] = {
        {"\x89PNG\r\n\x1a\n", 8, "image/png"},
        {"\xff\xd8\xff", 3, "image/jpeg"},
        {"GIF8", 4, "image/gif"},
        {"%PDF-", 5, "application/pdf"},
        {"PK\x03\x04", 4, "application/zip"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (b->len >= known[i].n && memcmp(b->data, known[i].magic, known[i].n) == 0)
            return known[i].mime;
    return "application/octet-stream";
}

static json_t *contents(const struct mcp_request *q, const struct buf *b)
{
    const char *uri = json_string_value(json_object_get(q->params, "uri"));
    bool is_diff = q->call.tool == &OWN_DIFF;
    _cleanup_buf_ struct buf blob = BUF_INIT(2 * OWN_BYTES_MAX);
    if (!b->len || (utf8_valid(b->data, b->len) && !memchr(b->data, 0, b->len)))
        return json_pack("{s:s, s:s, s:s%}", "uri", uri, "mimeType",
                         is_diff ? DIFF_MIME : "text/plain", "text",
                         b->len ? (const char *)b->data : "", b->len);
    if (base64_append(&blob, b->data, b->len) < 0)
        return NULL;
    return json_pack("{s:s, s:s, s:s%}", "uri", uri, "mimeType", is_diff ? DIFF_MIME : mime_of(b),
                     "blob", (const char *)blob.data, blob.len);
}

json_t *mcp_read_resource(struct mcp_request *q, struct mcp_problem *p)
{
    _cleanup_result_ struct tool_result r = TOOL_RESULT_INIT;
    tool_finish(q->turn, &r);
    return r.failed ? own_problem(q, &r, p)
                    : json_pack("{s:[o]}", "contents", contents(q, &r.image));
}

/* The value that is being typed: `src/ma` is completed from the names in `src`. */
static const char *typed(const struct mcp_request *q)
{
    const json_t *argument = json_object_get(q->params, "argument");
    return json_string_value(json_object_get(argument, "value"));
}

int mcp_begin_complete(struct mcp_request *q, struct mcp_problem *p)
{
    const json_t *ref = json_object_get(q->params, "ref"),
                 *argument = json_object_get(q->params, "argument");
    const char *uri = json_string_value(json_object_get(ref, "uri"));
    const char *name = json_string_value(json_object_get(argument, "name"));
    _cleanup_buf_ struct buf folder = BUF_INIT(URI_MAX);
    if (!uri || strcmp(uri, TEMPLATE) != 0 || !name || strcmp(name, "path") != 0 || !typed(q)) {
        mcp_problem(p, RPC_INVALID_PARAMS,
                    "params: only the 'path' of the resource template %s is completed", TEMPLATE);
        return -EINVAL;
    }
    const char *slash = strrchr(typed(q), '/');
    buf_append_str(&folder, "./");
    buf_append(&folder, typed(q), slash ? (size_t)(slash - typed(q)) : 0);
    const char *path = buf_cstr(&folder);
    if (!path) {
        mcp_problem(p, RPC_INVALID_PARAMS, "params.argument.value is too long");
        return -EINVAL;
    }
    return begin_own(q, &OWN_LIST, path, p);
}

/* The names that begin with what was typed behind the last slash; folders with a slash, to go on
 * from. */
static json_t *matching(const struct mcp_request *q, const json_t *entries)
{
    const char *text = typed(q), *slash = strrchr(text, '/'), *last = slash ? slash + 1 : text;
    json_t *values = json_array(), *entry;
    size_t i, n = 0;
    json_array_foreach(entries, i, entry)
    {
        const char *name = json_string_value(json_object_get(entry, "name"));
        if (strncmp(name, last, strlen(last)) != 0 || n++ >= VALUES_MAX)
            continue;
        _cleanup_buf_ struct buf value = BUF_INIT(URI_MAX);
        buf_append(&value, text, (size_t)(last - text));
        buf_append_str(&value, name);
        buf_append_str(&value, json_is_true(json_object_get(entry, "folder")) ? "/" : "");
        json_array_append_new(values, json_stringn((const char *)value.data, value.len));
    }
    return json_pack("{s:o, s:I, s:b}", "values", values, "total", (json_int_t)n, "hasMore",
                     n > VALUES_MAX);
}

json_t *mcp_complete(struct mcp_request *q, struct mcp_problem *p)
{
    _cleanup_result_ struct tool_result r = TOOL_RESULT_INIT;
    tool_finish(q->turn, &r);
    return json_pack("{s:o}", "completion", matching(q, json_object_get(r.data, "entries")));
}
