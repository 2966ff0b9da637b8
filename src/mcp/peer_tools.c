/* The tools of a server: asking for the list, page by page, and judging what is on it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "foreign.h"
#include "rpc.h"
#include "peer.h"
#include "banned.h"

#define NAME_MAX_BYTES 128
#define CURSOR_MAX     4096

void peer_tool_free(struct peer_tool *t)
{
    if (!t)
        return;
    free(t->name);
    free(t->remote);
    free(t->title);
    free(t->summary);
    free(t->input);
    free(t->output);
    free(t);
}

static void cleanup_tool(struct peer_tool **t)
{
    peer_tool_free(*t);
}

/* A string without NUL, or NULL. */
static const char *string_of(const json_t *object, const char *member)
{
    const json_t *v = json_object_get(object, member);
    return json_is_string(v) && !rpc_has_nul(v) ? json_string_value(v) : NULL;
}

static char *text_of(const json_t *object, const char *member, const char *fallback, size_t max)
{
    const char *text = string_of(object, member);
    if (!text)
        text = fallback;
    return foreign_text(text, strlen(text), max);
}

static bool name_valid(const char *name)
{
    static const char ALLOWED[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./";
    size_t n = strlen(name);
    return n > 0 && n <= NAME_MAX_BYTES && strspn(name, ALLOWED) == n;
}

/* What it says of itself decides what may run beside it; for all else it may do anything. */
static unsigned flags_of(const json_t *annotations)
{
    bool reads = json_is_true(json_object_get(annotations, "readOnlyHint"));
    return TOOL_HOST | (reads ? TOOL_READS : TOOL_RUNS);
}

static int take_schemas(const json_t *one, struct peer_tool *t, struct error *err)
{
    struct error ignored;
    const json_t *input = json_object_get(one, "inputSchema"),
                 *output = json_object_get(one, "outputSchema");
    if (rpc_has_nul(input))
        return error_set(err, EINVAL, "inputSchema: holds a NUL");
    if (output && !rpc_has_nul(output) &&
        foreign_schema(output, "outputSchema", &t->output, &ignored) < 0)
        t->output = NULL; /* it promises less */
    return foreign_schema(input, "inputSchema", &t->input, err);
}

static int make_tool(struct peer *s, const json_t *one, const char *name, struct peer_tool **ret,
                     struct error *err)
{
    _cleanup_(cleanup_tool) struct peer_tool *t = calloc(1, sizeof *t);
    const json_t *annotations = json_object_get(one, "annotations");
    if (!t)
        return error_set(err, ENOMEM, "no memory");
    int r = take_schemas(one, t, err);
    if (r < 0)
        return r;
    const char *title = string_of(annotations, "title");
    t->peer = s;
    t->remote = strdup(name);
    t->title = text_of(one, "title", title ? title : name, FOREIGN_TITLE_MAX);
    t->summary = text_of(one, "description", "", FOREIGN_SUMMARY_MAX);
    if (asprintf(&t->name, "%s.%s", s->name, name) < 0)
        t->name = NULL;
    if (!t->remote || !t->title || !t->summary || !t->name)
        return error_set(err, ENOMEM, "no memory");
    t->tool = (struct tool){.name = t->name,
                            .title = t->title,
                            .summary = t->summary,
                            .input = t->input,
                            .output = t->output,
                            .flags = flags_of(annotations),
                            .run = peer_tool_run};
    *ret = TAKE_PTR(t);
    return 0;
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_tool(const struct peer_tool *a, const struct peer_tool *b)
{
    return a->tool.flags == b->tool.flags && same_text(a->remote, b->remote) &&
           same_text(a->title, b->title) && same_text(a->summary, b->summary) &&
           same_text(a->input, b->input) && same_text(a->output, b->output);
}

/* The tool as it was already kept, or this one, kept from now on. Takes it over. */
static int keep(struct peer *s, struct peer_tool *t, struct peer_tool **ret, struct error *err)
{
    for (struct peer_tool *old = s->kept; old; old = old->next)
        if (same_tool(old, t)) {
            peer_tool_free(t);
            *ret = old;
            return 0;
        }
    if (s->n_kept == PEER_KEPT_MAX) {
        peer_tool_free(t);
        return error_set(err, ENOBUFS, "changed its tools too often in this session");
    }
    t->next = s->kept;
    s->kept = t;
    s->n_kept++;
    *ret = t;
    return 0;
}

/* Is it on the person's list of those that are wanted, if there is such a list? */
static bool is_wanted(const struct peer *s, const char *name)
{
    const json_t *wanted = json_object_get(s->settings, "tools");
    size_t i;
    json_t *one;
    json_array_foreach(wanted, i, one)
    {
        if (strcmp(json_string_value(one), name) == 0)
            return true;
    }
    return !wanted;
}

static bool is_listed(const struct peer *s, const char *name)
{
    for (size_t i = 0; i < s->n_tools; i++)
        if (strcmp(s->tools[i]->remote, name) == 0)
            return true;
    return false;
}

static int judge(struct peer *s, const json_t *one, struct error *err)
{
    const char *name = string_of(one, "name");
    struct peer_tool *t = NULL;
    if (!name || !name_valid(name))
        return error_set(err, EINVAL, "a tool without a proper name");
    if (!is_wanted(s, name))
        return 0;
    if (is_listed(s, name))
        return error_set(err, EEXIST, "a second tool '%s'", name);
    if (s->n_tools == PEER_TOOLS_MAX)
        return error_set(err, E2BIG, "'%s' and all behind it: more than %d tools", name,
                         PEER_TOOLS_MAX);
    int r = make_tool(s, one, name, &t, err);
    if (r == 0 && t)
        r = keep(s, t, &t, err);
    if (r < 0)
        return error_wrap(err, "the tool '%s'", name);
    s->tools[s->n_tools++] = t;
    return 0;
}

static void tell(struct peer *s, const struct error *err)
{
    size_t before = s->trouble.len;
    buf_printf(&s->trouble, "the MCP server '%s': left out: %s\n", s->name, err->text);
    if (s->trouble.failed) { /* enough is enough */
        s->trouble.failed = false;
        s->trouble.len = before;
    }
}

int peer_take_page(struct peer *s, const json_t *page, char **ret_cursor, struct error *err)
{
    const json_t *tools = json_object_get(page, "tools");
    const char *cursor = string_of(page, "nextCursor");
    size_t i;
    json_t *one;
    if (!json_is_array(tools))
        return error_set(err, EPROTO, "the MCP server '%s' answered tools/list without tools",
                         s->name);
    json_array_foreach(tools, i, one)
    {
        struct error why = {0};
        int r = judge(s, one, &why);
        if (r < 0)
            tell(s, &why);
        if (r == -E2BIG)
            return 0;
    }
    *ret_cursor = cursor && strlen(cursor) <= CURSOR_MAX ? strdup(cursor) : NULL;
    return 0;
}

static void tell_missing(struct peer *s)
{
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(s->settings, "tools"), i, one)
    {
        struct error err;
        if (is_listed(s, json_string_value(one)))
            continue;
        error_set(&err, ENOENT,
                  "'%.100s', which the configuration asks for: the server does not have it",
                  json_string_value(one));
        tell(s, &err);
    }
}

int peer_list_tools(struct peer *s, struct client *c, struct error *err)
{
    _cleanup_free_ char *cursor = NULL;
    int r = 0;
    s->n_tools = 0;
    s->trouble.len = 0;
    for (int page = 0; client_has_tools(c) && r == 0 && (page == 0 || cursor); page++) {
        json_t *answer = NULL;
        if (page == PEER_PAGES_MAX) {
            struct error why;
            error_set(&why, E2BIG, "tools behind %d pages", PEER_PAGES_MAX);
            tell(s, &why);
            break;
        }
        struct client_call call = {.method = "tools/list",
                                   .params = json_pack("{s:s*}", "cursor", cursor),
                                   .timeout_ns = s->timeout_ns,
                                   .cancel = -1};
        r = client_ask(c, &call, &answer, err);
        free(TAKE_PTR(cursor));
        if (r == 0)
            r = peer_take_page(s, answer, &cursor, err);
        json_decref(answer);
    }
    tell_missing(s);
    return r;
}
