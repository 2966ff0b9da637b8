/*
 * Resources: the files of the workspace, and what the box changed in it; and completions of their
 * paths.
 *
 * The list holds the diff and the files of the workspace that git does not ignore: those nearest to
 * its root if there are too many. The template reaches any other file, and completions lead there.
 *
 * The server asks the box through tools that are in no list, so that these requests keep the order
 * of calls, can be cancelled and have the limits of tools. A failed result of theirs has data
 * {"errno": N}.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ask.h"
#include "encoding.h"
#include "json.h"
#include "server.h"
#include "session.h"
#include "text.h"
#include "banned.h"

#define BYTES_MAX   (8u << 20) /* of a file or a diff */
#define ENTRIES_MAX 10000      /* of one folder */
#define TREE_MAX    1000       /* of the whole workspace: those nearest to its root */
#define PATIENCE_MS 2000       /* reading does not wait longer for the end of a command */
#define ANY_INPUT   "{\"type\": \"object\"}"

#define DIFF_URI   "hutch://diff"
#define DIFF_MIME  "text/x-diff"
#define TEMPLATE   URI_WORKSPACE "{path}"
#define VALUES_MAX 100 /* of a completion: the protocol's limit */
#define URI_MAX    (16u << 10)

/* --- URIs --- */

void uri_append_path(struct buf *b, const char *path)
{
    buf_append_str(b, URI_WORKSPACE);
    for (; *path; path++) {
        if (isalnum((unsigned char)*path) || strchr("-._~/!$&'()*+,;=:@", *path))
            buf_append(b, path, 1);
        else
            buf_printf(b, "%%%02X", (unsigned char)*path);
    }
}

int uri_parse_path(const char *uri, struct buf *ret)
{
    size_t n = strlen(URI_WORKSPACE);
    if (strncmp(uri, URI_WORKSPACE, n) != 0 || !uri[n])
        return -EINVAL;
    for (const char *at = uri + n; *at; at++) {
        char c = *at;
        if (c == '?' || c == '#')
            return -EINVAL;
        if (c == '%') {
            const char hex[3] = {at[1], at[1] ? at[2] : 0};
            c = (char)strtol(hex, NULL, 16);
            if (!isxdigit((unsigned char)hex[0]) || !isxdigit((unsigned char)hex[1]) || !c)
                return -EINVAL;
            at += 2;
        }
        buf_append(ret, &c, 1);
    }
    return buf_append(ret, "", 1) < 0 ? -ENOMEM : 0;
}

/* --- what the box is asked --- */

static int workspace_fail(struct tool_call *c, const struct error *err)
{
    c->result->image.len = 0;
    json_decref(c->result->data);
    tool_fail(c, "%s", err->text);
    c->result->data = json_pack("{s:i}", "errno", err->code);
    return 0;
}

static int workspace_read(struct tool_call *c, struct error *err)
{
    _cleanup_ask_ struct ask a;
    struct wire_frame frame;
    const char *path = input_string(c, "path");
    c->result->image.max = BYTES_MAX;
    ask_begin(&a, c, WIRE_READ);
    ask_path(&a, path);
    wire_put_u64(&a.out, WIRE_K_LIMIT_BYTES, BYTES_MAX + 1);
    int r = ask_collect(&a, &c->result->image, &frame, err);
    if (r == -EFBIG)
        error_set(err, EFBIG, "%s is longer than %u bytes; read parts of it with read_file", path,
                  BYTES_MAX);
    return r < 0 ? workspace_fail(c, err) : 0;
}

/* The entries of a folder, or of the whole workspace. */
static int workspace_list(struct tool_call *c, struct error *err)
{
    _cleanup_ask_ struct ask a;
    const char *path = input_string(c, "path");
    ask_begin(&a, c, path ? WIRE_LIST : WIRE_TREE);
    ask_path(&a, path ? path : ".");
    if (!path) {
        wire_put_u64(&a.out, WIRE_K_LIMIT_ENTRIES, TREE_MAX);
        wire_put_u64(&a.out, WIRE_K_SIZES, 1);
        wire_put_u64(&a.out, WIRE_K_HIDDEN, 1);
    }
    struct wire_frame frame;
    json_t *entries = json_array();
    c->result->data = json_pack("{s:o}", "entries", entries);
    int r = ask_send(&a, err);
    while (r >= 0 && (r = ask_next(&a, &frame, err)) > 0) {
        /* An entry of a folder (a name with its mode), or of the tree (a path with its kind). One
         * that is not UTF-8 is left out: JSON cannot hold it. */
        struct wire_field name;
        mode_t mode = (mode_t)wire_find_u64(&frame, WIRE_K_MODE, 0);
        uint64_t kind = wire_find_u64(&frame, WIRE_K_KIND, 0);
        bool folder = S_ISDIR(mode) || kind == 'd', file = S_ISREG(mode) || kind == 'f';
        if (frame.type == WIRE_ENTRY && json_array_size(entries) < ENTRIES_MAX &&
            (wire_find(&frame, WIRE_K_NAME, &name) || wire_find(&frame, WIRE_K_PATH, &name)) &&
            utf8_valid(name.data, name.size) && !memchr(name.data, 0, name.size))
            json_array_append_new(entries,
                                  json_pack("{s:s%, s:I, s:b, s:b}", "name",
                                            (const char *)name.data, name.size, "size",
                                            (json_int_t)wire_find_u64(&frame, WIRE_K_SIZE, 0),
                                            "folder", folder, "file", file));
    }
    return r < 0 ? workspace_fail(c, err) : 0;
}

/* The diff goes to a file in memory that cannot grow past its size: EPERM. */
static int workspace_take_diff(struct tool_call *c, bool summary, struct error *err)
{
    _cleanup_fd_ int fd = memfd_create("diff", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, BYTES_MAX) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_GROW) < 0)
        return error_errno(err, errno, "cannot make a temporary file");
    int r = box_diff(tool_session_box(c->session), summary, fd, err);
    if (r < 0)
        return r;
    off_t n = lseek(fd, 0, SEEK_CUR);
    uint8_t *at = n >= 0 ? buf_reserve(&c->result->image, (size_t)n) : NULL;
    if (!at)
        return error_set(err, ENOMEM, "no memory for the diff");
    if (pread(fd, at, (size_t)n, 0) != n)
        return error_set(err, EIO, "cannot read the diff");
    c->result->image.len += (size_t)n;
    return 0;
}

/* A diff that would have grown past the limit (EPERM) is replaced by its summary. */
static int workspace_diff(struct tool_call *c, struct error *err)
{
    int r = workspace_take_diff(c, false, err);
    if (r == -EPERM) {
        *err = (struct error){0};
        buf_printf(&c->result->image, "The diff is longer than %u bytes; this is its summary.\n\n",
                   BYTES_MAX);
        r = workspace_take_diff(c, true, err);
    }
    return r < 0 ? workspace_fail(c, err) : 0;
}

static const struct tool WORKSPACE_READ = {
    .name = "read", .input = ANY_INPUT, .flags = TOOL_READS, .run = workspace_read};
static const struct tool WORKSPACE_LIST = {
    .name = "list", .input = ANY_INPUT, .flags = TOOL_READS, .run = workspace_list};

/* Alone: a box gives one diff at a time. */
static const struct tool WORKSPACE_DIFF = {
    .name = "diff", .input = ANY_INPUT, .run = workspace_diff};

/* --- the methods --- */

static int resource_begin(struct mcp_request *q, const struct tool *t, const char *path,
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
static void *resource_problem(const struct mcp_request *q, struct tool_result *r,
                              struct mcp_problem *p)
{
    json_int_t code = json_get_integer(r->data, "errno");
    bool is_absent = q->call.tool == &WORKSPACE_READ && (code == ENOENT || code == ENOTDIR);
    bool is_refused = code == EXDEV || code == EINVAL || code == EISDIR || code == EACCES ||
                      code == ELOOP || code == ENAMETOOLONG || code == EFBIG;
    int said = is_absent ? q->version > MCP_LAST_BEGUN ? RPC_INVALID_PARAMS : MCP_RESOURCE_NOT_FOUND
               : is_refused ? RPC_INVALID_PARAMS
                            : RPC_INTERNAL_ERROR;
    if (is_absent)
        p->data = json_pack("{s:O}", "uri", json_object_get(q->params, "uri"));
    return mcp_problem(p, said, "%s", buf_cstr(&r->text));
}

int mcp_begin_list_resources(struct mcp_request *q, struct mcp_problem *p)
{
    return resource_begin(q, &WORKSPACE_LIST, NULL, p);
}

json_t *mcp_list_resources(struct mcp_request *q, struct mcp_problem *p)
{
    _cleanup_result_ struct tool_result r = TOOL_RESULT_INIT;
    json_t *all, *entry;
    size_t i;
    tool_finish(q->turn, &r);
    if (r.failed)
        return resource_problem(q, &r, p);
    all =
        json_pack("[{s:s, s:s, s:s, s:s, s:s*}]", "uri", DIFF_URI, "name", "diff", "description",
                  "What was changed in the workspace and is not applied yet, as a git diff.",
                  "mimeType", DIFF_MIME, "title", q->version >= MCP_2025_06_18 ? "Changes" : NULL);
    json_array_foreach(json_object_get(r.data, "entries"), i, entry)
    {
        _cleanup_buf_ struct buf uri = BUF_INIT(URI_MAX);
        const char *name = json_get_string(entry, "name");
        if (!json_get_bool(entry, "file"))
            continue;
        uri_append_path(&uri, name);
        json_t *size = q->version >= MCP_2025_03_26 ? json_object_get(entry, "size") : NULL;
        json_array_append_new(
            all, json_pack("{s:s, s:s, s:O*}", "uri", buf_cstr(&uri), "name", name, "size", size));
    }
    return mcp_page(q, "resources", all, p);
}

json_t *mcp_list_templates(struct mcp_request *q, struct mcp_problem *p)
{
    return json_pack("{s:[{s:s, s:s, s:s, s:s*}]}", "resourceTemplates", "uriTemplate", TEMPLATE,
                     "name", "file", "description", "A file of the workspace.", "title",
                     q->version >= MCP_2025_06_18 ? "Workspace file" : NULL);
}

int mcp_begin_read_resource(struct mcp_request *q, struct mcp_problem *p)
{
    _cleanup_buf_ struct buf path = BUF_INIT(URI_MAX);
    const char *uri = mcp_param(q, "uri", p);
    if (!uri)
        return -EINVAL;
    if (strcmp(uri, DIFF_URI) == 0)
        return resource_begin(q, &WORKSPACE_DIFF, NULL, p);
    if (uri_parse_path(uri, &path) == 0)
        return resource_begin(q, &WORKSPACE_READ, (const char *)path.data, p);
    p->data = json_pack("{s:s}", "uri", uri);
    mcp_problem(p, q->version > MCP_LAST_BEGUN ? RPC_INVALID_PARAMS : MCP_RESOURCE_NOT_FOUND,
                "there is no resource '%.200s'; there are %s and %s", uri, DIFF_URI, TEMPLATE);
    return -EINVAL;
}

json_t *mcp_read_resource(struct mcp_request *q, struct mcp_problem *p)
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
    _cleanup_result_ struct tool_result r = TOOL_RESULT_INIT;
    _cleanup_buf_ struct buf blob = BUF_INIT(2 * BYTES_MAX);
    tool_finish(q->turn, &r);
    if (r.failed)
        return resource_problem(q, &r, p);
    const struct buf *b = &r.image;
    bool text = !b->len || (utf8_valid(b->data, b->len) && !memchr(b->data, 0, b->len));
    const char *mime = text ? "text/plain" : "application/octet-stream";
    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (!text && b->len >= known[i].n && memcmp(b->data, known[i].magic, known[i].n) == 0)
            mime = known[i].mime;
    if (!text && base64_append(&blob, b->data, b->len) < 0)
        return NULL;
    const struct buf *shown = text ? b : &blob;
    return json_pack("{s:[{s:s, s:s, s:s%}]}", "contents", "uri", json_get_string(q->params, "uri"),
                     "mimeType", q->call.tool == &WORKSPACE_DIFF ? DIFF_MIME : mime,
                     text ? "text" : "blob", shown->len ? (const char *)shown->data : "",
                     shown->len);
}

int mcp_begin_complete(struct mcp_request *q, struct mcp_problem *p)
{
    const json_t *argument = json_object_get(q->params, "argument");
    const char *uri = json_get_string_or(json_object_get(q->params, "ref"), "uri", "");
    const char *typed = json_get_string(argument, "value"), *path = NULL;
    _cleanup_buf_ struct buf folder = BUF_INIT(URI_MAX);
    if (strcmp(uri, TEMPLATE) != 0 || !typed ||
        strcmp(json_get_string_or(argument, "name", ""), "path") != 0) {
        mcp_problem(p, RPC_INVALID_PARAMS,
                    "params: only the 'path' of the resource template %s is completed", TEMPLATE);
        return -EINVAL;
    }
    /* `src/ma` is completed from the names in `src`. */
    const char *slash = strrchr(typed, '/');
    buf_append_str(&folder, "./");
    buf_append(&folder, typed, slash ? (size_t)(slash - typed) : 0);
    path = buf_cstr(&folder);
    if (!path) {
        mcp_problem(p, RPC_INVALID_PARAMS, "params.argument.value is too long");
        return -EINVAL;
    }
    return resource_begin(q, &WORKSPACE_LIST, path, p);
}

json_t *mcp_complete(struct mcp_request *q, struct mcp_problem *p)
{
    _cleanup_result_ struct tool_result r = TOOL_RESULT_INIT;
    const char *typed = json_get_string(json_object_get(q->params, "argument"), "value");
    const char *slash = strrchr(typed, '/'), *last = slash ? slash + 1 : typed;
    json_t *values = json_array(), *entry;
    size_t i, n = 0;
    tool_finish(q->turn, &r);
    json_array_foreach(json_object_get(r.data, "entries"), i, entry)
    {
        const char *name = json_get_string(entry, "name");
        if (strncmp(name, last, strlen(last)) != 0 || n++ >= VALUES_MAX)
            continue;
        /* A folder ends with a slash, to continue from there. */
        json_array_append_new(values, json_sprintf("%.*s%s%s", (int)(last - typed), typed, name,
                                                   json_get_bool(entry, "folder") ? "/" : ""));
    }
    return json_pack("{s:{s:o, s:I, s:b}}", "completion", "values", values, "total", (json_int_t)n,
                     "hasMore", n > VALUES_MAX);
}
