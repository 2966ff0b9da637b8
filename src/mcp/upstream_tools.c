/* The tools of an upstream server: its list, page by page, calls, and results. All of it comes from
 * the server: untrusted and bounded. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "encoding.h"
#include "text.h"
#include "schema.h"
#include "json.h"
#include "upstream.h"
#include "banned.h"

#define NAME_MAX_BYTES 128
#define CURSOR_MAX     4096
#define TEXT_MAX       (RESULT_TEXT_MAX - 4096u)
#define LABEL_MAX      500u

/* --- results --- */

/* A short text of a member, cleaned, in `out`. */
static const char *label_of(const json_t *object, const char *member, char *out, size_t size)
{
    const json_t *v = json_object_get(object, member);
    _cleanup_free_ char *clean =
        json_is_string(v) ? foreign_text(json_string_value(v), json_string_length(v), LABEL_MAX)
                          : NULL;
    snprintf(out, size, "%s", clean ? clean : "");
    return out;
}

static void result_add_text(struct buf *b, const json_t *v)
{
    if (!json_is_string(v))
        return;
    size_t n = json_string_length(v), room = b->len < TEXT_MAX ? TEXT_MAX - b->len : 0;
    if (rpc_has_nul(v)) /* a NUL becomes three bytes */
        room /= 3;
    text_append(b, json_string_value(v), n > room ? room : n);
    if (n > room)
        buf_printf(b, "\n[… %zu bytes left out …]\n", n - room);
}

/* The first picture is passed on; a result holds one. */
static void result_add_media(struct tool_result *r, const json_t *item, const char *kind)
{
    static const char *const KNOWN[] = {"image/png", "image/jpeg", "image/gif", "image/webp"};
    char mime[LABEL_MAX + 8];
    const json_t *data = json_object_get(item, "data");
    size_t n = json_is_string(data) ? json_string_length(data) : 0;
    label_of(item, "mimeType", mime, sizeof mime);
    for (size_t i = 0; i < ARRAY_SIZE(KNOWN) && strcmp(kind, "image") == 0 && !r->mime && n; i++) {
        if (strcmp(KNOWN[i], mime) != 0)
            continue;
        if (base64_decode(&r->image, json_string_value(data), n) == 0) {
            r->mime = KNOWN[i];
            return;
        }
        r->image.len = 0; /* what was decoded of it */
        r->image.failed = false;
    }
    buf_end_line(&r->text);
    buf_printf(&r->text, "[%s %s, %zu bytes of base64, not shown]\n", kind, mime, n);
}

static void result_add_item(struct tool_result *r, const json_t *item)
{
    char type[LABEL_MAX + 8], name[LABEL_MAX + 8], uri[LABEL_MAX + 8], about[LABEL_MAX + 8];
    label_of(item, "type", type, sizeof type);
    if (strcmp(type, "image") == 0 || strcmp(type, "audio") == 0) {
        result_add_media(r, item, type);
        return;
    }
    buf_end_line(&r->text);
    if (strcmp(type, "text") == 0) {
        result_add_text(&r->text, json_object_get(item, "text"));
    } else if (strcmp(type, "resource") == 0) {
        const json_t *resource = json_object_get(item, "resource");
        const json_t *text = json_object_get(resource, "text");
        label_of(resource, "uri", uri, sizeof uri);
        label_of(resource, "mimeType", name, sizeof name);
        buf_printf(&r->text, "[resource %s %s", uri, name);
        if (json_is_string(text)) {
            buf_append_str(&r->text, "]\n");
            result_add_text(&r->text, text);
        } else {
            buf_printf(&r->text, ", %zu bytes of base64, not shown]\n",
                       json_string_length(json_object_get(resource, "blob")));
        }
    } else if (strcmp(type, "resource_link") == 0) {
        label_of(item, "name", name, sizeof name);
        label_of(item, "uri", uri, sizeof uri);
        label_of(item, "description", about, sizeof about);
        buf_printf(&r->text, "[link to resource %s: %s%s%s]\n", uri, name, *about ? " - " : "",
                   about);
    } else {
        buf_printf(&r->text, "[%.100s: content of a kind that hutch does not know]\n", type);
    }
}

int upstream_take_result(const struct upstream_tool *t, const json_t *answer, struct tool_result *r,
                         struct error *err)
{
    const json_t *content = json_object_get(answer, "content");
    json_t *data = json_object_get(answer, "structuredContent"), *item;
    size_t i;
    if (content && !json_is_array(content))
        return error_set(err, EPROTO,
                         "the MCP server '%s' answered with a content that is not an array",
                         t->upstream->name);
    r->failed = json_get_bool(answer, "isError");
    if (t->output && !r->failed &&
        schema_check_text(t->output, data ? data : json_null(), "output", err) < 0)
        return error_wrap(err, "the result of %s does not match its output schema", t->name);
    if (json_is_object(data))
        r->data = json_incref(data);
    json_array_foreach(content, i, item)
    {
        if (r->text.len > TEXT_MAX) {
            buf_printf(&r->text, "[… %zu more pieces left out …]\n", json_array_size(content) - i);
            break;
        }
        result_add_item(r, item);
    }
    if (r->text.len == 0 && r->data && !r->mime) { /* models read text */
        char *text = json_dumps(r->data, JSON_COMPACT);
        _cleanup_json_ json_t *string = text ? json_string_nocheck(text) : NULL;
        result_add_text(&r->text, string);
        free(text);
    }
    if (r->text.len == 0 && r->failed)
        buf_append_str(&r->text, "the tool failed without a message");
    return 0;
}

/* --- calls --- */

static int upstream_tool_run(struct tool_call *c, struct error *err)
{
    const struct upstream_tool *t = (const struct upstream_tool *)c->tool;
    _cleanup_json_ json_t *answer = NULL;
    int r = -ESTALE;
    /* Again if the server has forgotten the session: then it did not look at the call. */
    for (int tries = 0; tries < 2 && r == -ESTALE; tries++) {
        struct client *client = NULL;
        r = upstream_client(t->upstream, &client, err);
        if (r < 0)
            return r;
        struct client_call call = {
            .method = "tools/call",
            .params = json_pack("{s:s, s:O}", "name", t->remote, "arguments", c->input),
            .timeout_ns = t->upstream->timeout_ns,
            .cancel = c->cancel,
            .progress = c->progress};
        r = call.params ? client_ask(client, &call, &answer, err)
                        : error_set(err, ENOMEM, "no memory");
    }
    return r == 0 ? upstream_take_result(t, answer, c->result, err) : r;
}

/* --- the list --- */

void upstream_tool_free(struct upstream_tool *t)
{
    if (!t)
        return;
    char *const strings[] = {t->name, t->remote, t->title, t->summary, t->input, t->output};
    for (size_t i = 0; i < ARRAY_SIZE(strings); i++)
        free(strings[i]);
    free(t);
}

static void cleanup_upstream_tool(struct upstream_tool **t)
{
    upstream_tool_free(*t);
}

/* A string without NUL, or NULL. */
static const char *member_string(const json_t *object, const char *member)
{
    const json_t *v = json_object_get(object, member);
    return json_is_string(v) && !rpc_has_nul(v) ? json_string_value(v) : NULL;
}

static int upstream_tool_new(struct upstream *u, const json_t *item, const char *name,
                             struct upstream_tool **ret, struct error *err)
{
    _cleanup_(cleanup_upstream_tool) struct upstream_tool *t = calloc(1, sizeof *t);
    const json_t *annotations = json_object_get(item, "annotations"),
                 *input = json_object_get(item, "inputSchema"),
                 *output = json_object_get(item, "outputSchema");
    const char *title = member_string(item, "title"), *about = member_string(item, "description");
    struct error ignored;
    if (!title)
        title = member_string(annotations, "title");
    title = title ? title : name;
    about = about ? about : "";
    if (!t)
        return error_set(err, ENOMEM, "no memory");
    if (rpc_has_nul(input))
        return error_set(err, EINVAL, "inputSchema: contains a NUL character");
    int r = schema_take_foreign(input, "inputSchema", &t->input, err);
    if (r < 0)
        return r;
    /* A bad output schema is as good as none. */
    if (output && !rpc_has_nul(output) &&
        schema_take_foreign(output, "outputSchema", &t->output, &ignored) < 0)
        t->output = NULL;
    t->upstream = u;
    t->remote = strdup(name);
    t->title = foreign_text(title, strlen(title), TOOL_TITLE_MAX);
    t->summary = foreign_text(about, strlen(about), TOOL_SUMMARY_MAX);
    t->name = str_printf("%s.%s", u->name, name);
    if (!t->remote || !t->title || !t->summary || !t->name)
        return error_set(err, ENOMEM, "no memory");
    /* The hint only decides what may run beside it. */
    bool reads = json_get_bool(annotations, "readOnlyHint");
    t->tool = (struct tool){.name = t->name,
                            .title = t->title,
                            .summary = t->summary,
                            .input = t->input,
                            .output = t->output,
                            .flags = TOOL_HOST | (reads ? TOOL_READS : TOOL_RUNS),
                            .run = upstream_tool_run};
    *ret = TAKE_PTR(t);
    return 0;
}

static bool text_equal(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* The same tool as it was kept before, or this one, kept from now on. Takes it over. */
static int upstream_keep_tool(struct upstream *u, struct upstream_tool *t,
                              struct upstream_tool **ret, struct error *err)
{
    for (struct upstream_tool *old = u->kept; old; old = old->next)
        if (old->tool.flags == t->tool.flags && text_equal(old->remote, t->remote) &&
            text_equal(old->title, t->title) && text_equal(old->summary, t->summary) &&
            text_equal(old->input, t->input) && text_equal(old->output, t->output)) {
            upstream_tool_free(t);
            *ret = old;
            return 0;
        }
    if (u->n_kept == UPSTREAM_KEPT_MAX) {
        upstream_tool_free(t);
        return error_set(err, ENOBUFS, "changed its tools too often in this session");
    }
    t->next = u->kept;
    u->kept = t;
    u->n_kept++;
    *ret = t;
    return 0;
}

static bool upstream_has_listed(const struct upstream *u, const char *name)
{
    for (size_t i = 0; i < u->n_tools; i++)
        if (strcmp(u->tools[i]->remote, name) == 0)
            return true;
    return false;
}

static int upstream_take_item(struct upstream *u, const json_t *item, struct error *err)
{
    static const char ALLOWED[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./";
    const json_t *wanted = json_object_get(u->settings, "tools"); /* NULL: all */
    const char *name = member_string(item, "name");
    struct upstream_tool *t = NULL;
    bool is_wanted = !wanted;
    json_t *one;
    size_t i;
    if (!name || !*name || strlen(name) > NAME_MAX_BYTES || name[strspn(name, ALLOWED)])
        return error_set(err, EINVAL, "a tool without a valid name");
    json_array_foreach(wanted, i, one) is_wanted |= strcmp(json_string_value(one), name) == 0;
    if (!is_wanted)
        return 0;
    if (upstream_has_listed(u, name))
        return error_set(err, EEXIST, "a second tool '%s'", name);
    if (u->n_tools == UPSTREAM_TOOLS_MAX)
        return error_set(err, E2BIG, "'%s' and all behind it: more than %d tools", name,
                         UPSTREAM_TOOLS_MAX);
    int r = upstream_tool_new(u, item, name, &t, err);
    if (r == 0)
        r = upstream_keep_tool(u, t, &t, err);
    if (r < 0)
        return error_wrap(err, "the tool '%s'", name);
    u->tools[u->n_tools++] = t;
    return 0;
}

static void upstream_left_out(struct upstream *u, const char *what)
{
    size_t before = u->trouble.len;
    buf_printf(&u->trouble, "the MCP server '%s': left out: %s\n", u->name, what);
    if (u->trouble.failed) { /* it has said enough */
        u->trouble.failed = false;
        u->trouble.len = before;
    }
}

int upstream_take_page(struct upstream *u, const json_t *page, char **ret_cursor, struct error *err)
{
    const json_t *tools = json_object_get(page, "tools");
    const char *cursor = member_string(page, "nextCursor");
    size_t i;
    json_t *item;
    if (!json_is_array(tools))
        return error_set(err, EPROTO, "the MCP server '%s' answered tools/list without tools",
                         u->name);
    json_array_foreach(tools, i, item)
    {
        struct error why = {0};
        int r = upstream_take_item(u, item, &why);
        if (r < 0)
            upstream_left_out(u, why.text);
        if (r == -E2BIG)
            return 0;
    }
    *ret_cursor = cursor && strlen(cursor) <= CURSOR_MAX ? strdup(cursor) : NULL;
    return 0;
}

int upstream_list_tools(struct upstream *u, struct client *c, struct error *err)
{
    _cleanup_free_ char *cursor = NULL;
    char text[256];
    json_t *wanted;
    size_t i;
    int r = 0;
    u->n_tools = 0;
    u->trouble.len = 0;
    for (int page = 0; client_has_tools(c) && r == 0 && (page == 0 || cursor); page++) {
        _cleanup_json_ json_t *answer = NULL;
        if (page == UPSTREAM_PAGES_MAX) {
            snprintf(text, sizeof text, "tools behind %d pages", UPSTREAM_PAGES_MAX);
            upstream_left_out(u, text);
            break;
        }
        struct client_call call = {.method = "tools/list",
                                   .params = json_pack("{s:s*}", "cursor", cursor),
                                   .timeout_ns = u->timeout_ns,
                                   .cancel = -1};
        r = client_ask(c, &call, &answer, err);
        free(TAKE_PTR(cursor));
        if (r == 0)
            r = upstream_take_page(u, answer, &cursor, err);
    }
    json_array_foreach(json_object_get(u->settings, "tools"), i, wanted)
    {
        if (upstream_has_listed(u, json_string_value(wanted)))
            continue;
        snprintf(text, sizeof text,
                 "'%.100s', which the configuration asks for: the server does not have it",
                 json_string_value(wanted));
        upstream_left_out(u, text);
    }
    return r;
}
