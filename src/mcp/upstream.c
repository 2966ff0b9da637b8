/*
 * The MCP servers of the configuration: from the settings to a connection; the list of a server's
 * tools, calls and results, all of which are untrusted and bounded; and the servers as a source of
 * tools.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "encoding.h"
#include "json.h"
#include "mcp.h"
#include "text.h"
#include "thread.h"
#include "banned.h"

#define UPSTREAMS_MAX     128 /* twice what one file may name */
#define DEFAULT_TIMEOUT_S 60.0
#define TROUBLE_MAX       (64u << 10)
#define WORDS_MAX         2048
#define STARTS_MAX        4                /* in a row; */
#define LASTED_NS         (300 * NS_PER_S) /* a connection that lasted so long ends the row */
#define PAGES_MAX         100
#define KEPT_MAX          4000 /* tools with their earlier states */
#define NAME_MAX_BYTES    128
#define CURSOR_MAX        4096
#define TEXT_MAX          (RESULT_TEXT_MAX - 4096u)
#define LABEL_MAX         500u

/* What a program needs to find its way, and nothing that is a secret. */
static const char *const INHERITED[] = {"HOME",    "LANG", "LC_ALL", "LC_CTYPE",
                                        "LOGNAME", "PATH", "SHELL",  "TERM",
                                        "TMPDIR",  "TZ",   "USER",   "XDG_RUNTIME_DIR"};

/* --- one server --- */

struct upstream *upstream_new(const char *name, json_t *settings)
{
    const json_t *timeout = json_object_get(settings, "timeout");
    struct upstream *u = calloc(1, sizeof *u);
    if (!u)
        return NULL;
    u->name = strdup(name);
    u->settings = json_incref(settings);
    u->timeout_ns =
        (int64_t)((timeout ? json_number_value(timeout) : DEFAULT_TIMEOUT_S) * NS_PER_S) + 1;
    u->trouble = BUF_INIT(TROUBLE_MAX);
    pthread_mutex_init(&u->lock, NULL);
    return u->name ? u : upstream_free(u);
}

static void upstream_tool_free(struct upstream_tool *t)
{
    if (!t)
        return;
    char *const strings[] = {t->name, t->remote, t->title, t->summary, t->input, t->output};
    for (size_t i = 0; i < ARRAY_SIZE(strings); i++)
        free(strings[i]);
    free(t);
}

struct upstream *upstream_free(struct upstream *u)
{
    if (!u)
        return NULL;
    for (size_t i = 0; i < u->n_clients; i++)
        client_free(u->clients[i]);
    free(u->clients);
    while (u->kept) {
        struct upstream_tool *next = u->kept->next;
        upstream_tool_free(u->kept);
        u->kept = next;
    }
    buf_free(&u->trouble);
    json_decref(u->settings);
    pthread_mutex_destroy(&u->lock);
    free(u->name);
    free(u);
    return NULL;
}

struct words {
    char *list[WORDS_MAX + 1];
    size_t count;
};

static void words_free(struct words **w)
{
    for (size_t i = 0; *w && i < (*w)->count; i++)
        free((*w)->list[i]);
    free(*w);
}

/* Takes the word over. */
static int words_add(struct words *w, char *word, struct error *err)
{
    if (!word)
        return error_set(err, ENOMEM, "no memory");
    if (w->count == WORDS_MAX) {
        free(word);
        return error_set(err, E2BIG, "more than %d arguments or variables", WORDS_MAX);
    }
    w->list[w->count++] = word;
    return 0;
}

/* Replaces ${NAME} in a setting. */
static int upstream_expand(const struct upstream *u, const char *member, const json_t *value,
                           char **ret, struct error *err)
{
    char where[256];
    snprintf(where, sizeof where, "mcpServers.%s.%.80s", u->name, member);
    return config_expand(json_string_value(value), where, ret, err);
}

static int upstream_open_program(const struct upstream *u, struct client **ret, struct error *err)
{
    _cleanup_(words_free) struct words *argv = calloc(1, sizeof *argv),
                                       *env = calloc(1, sizeof *env);
    _cleanup_free_ char *cwd = NULL;
    const json_t *own_cwd = json_object_get(u->settings, "cwd");
    json_t *own = json_object_get(u->settings, "env"), *value;
    const char *home = getenv("HOME"), *name;
    char *word = NULL;
    size_t i;
    if (!argv || !env)
        return error_set(err, ENOMEM, "no memory");
    int r = upstream_expand(u, "command", json_object_get(u->settings, "command"), &word, err);
    if (r == 0)
        r = words_add(argv, word, err);
    json_array_foreach(json_object_get(u->settings, "args"), i, value)
    {
        if (r == 0)
            r = upstream_expand(u, "args", value, &word, err);
        if (r == 0)
            r = words_add(argv, word, err);
    }
    for (i = 0; r == 0 && i < ARRAY_SIZE(INHERITED); i++) {
        const char *text = getenv(INHERITED[i]);
        if (text && strncmp(text, "()", 2) != 0 && !json_object_get(own, INHERITED[i]))
            r = words_add(env, str_printf("%s=%s", INHERITED[i], text), err);
    }
    json_object_foreach(own, name, value)
    {
        _cleanup_free_ char *text = NULL;
        if (r == 0)
            r = upstream_expand(u, "env", value, &text, err);
        if (r == 0)
            r = words_add(env, str_printf("%s=%s", name, text), err);
    }
    /* Not the workspace: programs trust files in the folder they start in. */
    if (r == 0 && own_cwd)
        r = upstream_expand(u, "cwd", own_cwd, &cwd, err);
    else if (r == 0)
        cwd = strdup(home && home[0] == '/' && access(home, X_OK) == 0 ? home : "/");
    if (r == 0 && !cwd)
        r = error_set(err, ENOMEM, "no memory");
    if (r < 0)
        return error_wrap(err, "cannot start the MCP server '%s'", u->name);
    struct child_options program = {
        .command = argv->list[0], .argv = argv->list, .env = env->list, .cwd = cwd};
    return client_open(
        &(struct client_options){.name = u->name, .program = &program, .timeout_ns = u->timeout_ns},
        ret, err);
}

static int upstream_open_url(const struct upstream *u, struct client **ret, struct error *err)
{
    _cleanup_free_ char *url = NULL;
    _cleanup_json_ json_t *headers = json_object();
    const char *name;
    json_t *value;
    int r = upstream_expand(u, "url", json_object_get(u->settings, "url"), &url, err);
    json_object_foreach(json_object_get(u->settings, "headers"), name, value)
    {
        _cleanup_free_ char *text = NULL;
        if (r == 0)
            r = upstream_expand(u, "headers", value, &text, err);
        if (r == 0 && json_object_set_new(headers, name, json_string(text)) < 0)
            r = error_set(err, EINVAL, "headers.%.80s: not valid UTF-8", name);
    }
    if (r < 0)
        return error_wrap(err, "cannot reach the MCP server '%s'", u->name);
    return client_open(
        &(struct client_options){
            .name = u->name, .url = url, .headers = headers, .timeout_ns = u->timeout_ns},
        ret, err);
}

/* The lock is held. */
static int upstream_get_client(struct upstream *u, struct client **ret, struct error *err)
{
    struct client *c = u->n_clients ? u->clients[u->n_clients - 1] : NULL;
    if (c && client_alive(c)) {
        *ret = c;
        return 0;
    }
    int64_t now = clock_now();
    if (c && now - u->started > LASTED_NS)
        u->starts = 0;
    if (u->starts == STARTS_MAX && u->failure.code)
        return error_set(err, u->failure.code, "%.700s (tried %d times; not again in this session)",
                         u->failure.text, STARTS_MAX);
    if (u->starts == STARTS_MAX)
        return error_set(err, EPIPE,
                         "the MCP server '%s' ended %d times; it is not started again in this "
                         "session",
                         u->name, STARTS_MAX);
    struct client **more = realloc(u->clients, (u->n_clients + 1) * sizeof(void *));
    if (!more)
        return error_set(err, ENOMEM, "no memory");
    u->clients = more;
    u->starts++;
    u->started = now;
    u->listed = false;
    u->failure = (struct error){0};
    int r = json_object_get(u->settings, "url")
                ? upstream_open_url(u, &u->clients[u->n_clients], &u->failure)
                : upstream_open_program(u, &u->clients[u->n_clients], &u->failure);
    if (r == 0)
        *ret = u->clients[u->n_clients++];
    else if (err)
        *err = u->failure;
    return r;
}

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

static void result_add_item(struct tool_result *r, const json_t *item)
{
    static const char *const PICTURES[] = {"image/png", "image/jpeg", "image/gif", "image/webp"};
    char type[LABEL_MAX + 8], name[LABEL_MAX + 8], uri[LABEL_MAX + 8], about[LABEL_MAX + 8];
    label_of(item, "type", type, sizeof type);
    if (strcmp(type, "image") == 0 || strcmp(type, "audio") == 0) {
        const json_t *data = json_object_get(item, "data");
        size_t n = json_is_string(data) ? json_string_length(data) : 0;
        label_of(item, "mimeType", name, sizeof name);
        /* The first picture is passed on; a result holds one. */
        for (size_t i = 0; i < ARRAY_SIZE(PICTURES) && !r->mime && n && type[0] == 'i'; i++) {
            if (strcmp(PICTURES[i], name) != 0)
                continue;
            if (base64_decode(&r->image, json_string_value(data), n) == 0) {
                r->mime = PICTURES[i];
                return;
            }
            r->image.len = 0; /* what was decoded of it */
            r->image.failed = false;
        }
        buf_end_line(&r->text);
        buf_printf(&r->text, "[%s %s, %zu bytes of base64, not shown]\n", type, name, n);
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
        pthread_mutex_lock(&t->upstream->lock);
        r = upstream_get_client(t->upstream, &client, err);
        pthread_mutex_unlock(&t->upstream->lock);
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

/* A string without NUL, or NULL. */
static const char *member_string(const json_t *object, const char *member)
{
    const json_t *v = json_object_get(object, member);
    return json_is_string(v) && !rpc_has_nul(v) ? json_string_value(v) : NULL;
}

/* *ret is the caller's to free, also on failure. */
static int upstream_tool_new(struct upstream *u, const json_t *item, const char *name,
                             struct upstream_tool **ret, struct error *err)
{
    struct upstream_tool *t = *ret = calloc(1, sizeof *t);
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
    return 0;
}

static bool text_equal(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
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
    struct upstream_tool *old = r == 0 ? u->kept : NULL;
    while (old && (old->tool.flags != t->tool.flags || !text_equal(old->remote, t->remote) ||
                   !text_equal(old->title, t->title) || !text_equal(old->summary, t->summary) ||
                   !text_equal(old->input, t->input) || !text_equal(old->output, t->output)))
        old = old->next;
    if (r == 0 && !old && u->n_kept == KEPT_MAX)
        r = error_set(err, ENOBUFS, "changed its tools too often in this session");
    if (r < 0 || old) {
        upstream_tool_free(t);
        t = old; /* as it was kept before */
    } else {
        t->next = u->kept;
        u->kept = t;
        u->n_kept++;
    }
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

static int upstream_list_tools(struct upstream *u, struct client *c, struct error *err)
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
        if (page == PAGES_MAX) {
            snprintf(text, sizeof text, "tools behind %d pages", PAGES_MAX);
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

/* --- all servers, as a source of tools --- */

/* Starts it if need be, and asks for its tools if they are not known. */
static int upstream_refresh(struct upstream *u, struct error *err)
{
    struct client *c = NULL;
    LOCKED(&u->lock);
    int r = upstream_get_client(u, &c, err);
    if (r == 0 && (client_tools_changed(c) || !u->listed)) {
        r = upstream_list_tools(u, c, err);
        u->listed = r == 0;
    }
    return r;
}

struct upstreams {
    struct tool_source source; /* the first member */
    struct config config;
    struct upstream *list[UPSTREAMS_MAX];
    size_t count;
};

static struct upstream *upstreams_get(const struct upstreams *s, const char *name, size_t n)
{
    for (size_t i = 0; i < s->count; i++)
        if (strlen(s->list[i]->name) == n && memcmp(s->list[i]->name, name, n) == 0)
            return s->list[i];
    return NULL;
}

/* Why the workspace's servers are not started, and what to do if they should be. */
static int upstreams_refuse_untrusted(const struct config *c, struct error *err)
{
    char names[200] = "";
    size_t len = 0;
    const char *name;
    json_t *ignored;
    json_object_foreach(json_object_get(c->untrusted, "mcpServers"), name, ignored)
    {
        int n = snprintf(names + len, sizeof names - len, "%s%.60s", len ? ", " : "", name);
        len += n > 0 && (size_t)n < sizeof names - len ? (size_t)n : 0;
    }
    return error_set(
        err, EPERM,
        "the MCP servers of %s/" CONFIG_WORKSPACE_FILE
        " are not started (%s): the folder is not trusted. They would run on this machine with"
        " your rights; `hutch trust --show %s` shows them, `hutch trust %s` allows them",
        c->workspace, names, c->workspace, c->workspace);
}

static const struct tool *upstreams_find(struct tool_source *source, struct tool_session *session,
                                         const char *name, struct error *err)
{
    struct upstreams *s = (struct upstreams *)source;
    const char *dot = strchr(name, '.');
    if (!dot)
        return NULL;
    struct upstream *u = upstreams_get(s, name, (size_t)(dot - name));
    if (u && json_get_bool(u->settings, "disabled")) {
        error_set(err, ENOENT, "the MCP server '%s' is disabled in the configuration", u->name);
        return NULL;
    }
    if (u) {
        if (upstream_refresh(u, err) < 0)
            return NULL;
        LOCKED(&u->lock);
        for (size_t i = 0; i < u->n_tools; i++)
            if (strcmp(u->tools[i]->remote, dot + 1) == 0)
                return &u->tools[i]->tool;
        error_set(err, ENOENT,
                  "the MCP server '%s' has no tool '%.100s'; `hutch tool --list` shows all",
                  u->name, dot + 1);
        return NULL;
    }
    _cleanup_free_ char *first = strndup(name, (size_t)(dot - name));
    if (first && json_object_get(json_object_get(s->config.untrusted, "mcpServers"), first))
        upstreams_refuse_untrusted(&s->config, err);
    else if (s->config.trouble.code)
        *err = s->config.trouble;
    return NULL;
}

/* One server, asked in a thread of its own: starting them one after the other would add up. */
struct refresh {
    struct upstream *upstream;
    struct error err;
    int r;
    pthread_t thread;
    bool threaded;
};

static void *refresh_thread(void *data)
{
    struct refresh *f = data;
    f->r = upstream_refresh(f->upstream, &f->err);
    return NULL;
}

static void upstreams_list(struct tool_source *source, struct tool_session *session,
                           void (*each)(void *data, const struct tool *t),
                           void (*trouble)(void *data, const char *text), void *data)
{
    struct upstreams *s = (struct upstreams *)source;
    struct error err = {0};
    struct refresh *all = calloc(UPSTREAMS_MAX, sizeof *all);
    for (size_t i = 0; all && i < s->count; i++) {
        if (json_get_bool(s->list[i]->settings, "disabled"))
            continue;
        all[i].upstream = s->list[i];
        all[i].threaded = pthread_create(&all[i].thread, NULL, refresh_thread, &all[i]) == 0;
        if (!all[i].threaded)
            refresh_thread(&all[i]);
    }
    for (size_t i = 0; all && i < s->count; i++) {
        if (all[i].threaded)
            pthread_join(all[i].thread, NULL);
        struct upstream *u = all[i].upstream;
        if (u && all[i].r < 0)
            trouble(data, all[i].err.text);
        if (!u || all[i].r < 0)
            continue;
        pthread_mutex_lock(&u->lock);
        for (size_t t = 0; t < u->n_tools; t++)
            each(data, &u->tools[t]->tool);
        _cleanup_free_ char *lines =
            u->trouble.len ? strndup((char *)u->trouble.data, u->trouble.len) : NULL;
        pthread_mutex_unlock(&u->lock);
        for (char *at = lines, *line; at && (line = strsep(&at, "\n"));)
            if (*line)
                trouble(data, line);
    }
    free(all);
    if (s->config.reported)
        return;
    if (s->config.trouble.code)
        trouble(data, s->config.trouble.text);
    if (json_object_size(json_object_get(s->config.untrusted, "mcpServers")) > 0) {
        upstreams_refuse_untrusted(&s->config, &err);
        trouble(data, err.text);
    }
}

/* All are stopped at once, so that several that do not want to end take no longer than one. */
static void upstreams_free(struct tool_source *source)
{
    struct upstreams *s = (struct upstreams *)source;
    for (size_t i = 0; i < s->count; i++)
        for (size_t j = 0; j < s->list[i]->n_clients; j++)
            client_stop(s->list[i]->clients[j]);
    for (size_t i = 0; i < s->count; i++)
        upstream_free(s->list[i]);
    config_free(&s->config);
    free(s);
}

static int upstreams_add(struct tool_session *session, struct config *config, struct error *err)
{
    struct upstreams *s = calloc(1, sizeof *s);
    const char *name;
    json_t *settings;
    int r = 0;
    if (!s) {
        config_free(config);
        return error_set(err, ENOMEM, "no memory");
    }
    s->config = *config;
    *config = (struct config){0};
    s->source = (struct tool_source){
        .find = upstreams_find, .list = upstreams_list, .free = upstreams_free};
    /* The workspace's servers replace the person's of the same name. */
    const json_t *files[] = {s->config.trusted, s->config.own};
    for (size_t i = 0; i < ARRAY_SIZE(files); i++)
        json_object_foreach(json_object_get(files[i], "mcpServers"), name, settings)
        {
            if (r < 0 || upstreams_get(s, name, strlen(name)))
                continue;
            struct upstream *u = s->count < UPSTREAMS_MAX ? upstream_new(name, settings) : NULL;
            if (u)
                s->list[s->count++] = u;
            else
                r = -ENOMEM;
        }
    if (r == 0)
        r = tool_session_add(session, &s->source);
    if (r == 0)
        return 0;
    upstreams_free(&s->source);
    return error_errno(err, -r, "cannot add the MCP servers");
}

void mcp_tools_register(void)
{
    tool_servers_add = upstreams_add;
}
