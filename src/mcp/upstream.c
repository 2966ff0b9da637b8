/* Upstream servers: from the configuration to a connection, and as a source of tools. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "mcp_tools.h"
#include "session.h"
#include "thread.h"
#include "upstream.h"
#include "banned.h"

#define UPSTREAMS_MAX     128 /* twice what one file may name */
#define DEFAULT_TIMEOUT_S 60.0
#define TROUBLE_MAX       (64u << 10)
#define WORDS_MAX         2048

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

/* The command with its arguments, and its environment. */
static int upstream_words(const struct upstream *u, struct words *argv, struct words *env,
                          struct error *err)
{
    json_t *own = json_object_get(u->settings, "env"), *value;
    const char *name;
    char *word = NULL;
    size_t i;
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
    return r;
}

static int upstream_open_program(const struct upstream *u, struct client **ret, struct error *err)
{
    _cleanup_(words_free) struct words *argv = calloc(1, sizeof *argv),
                                       *env = calloc(1, sizeof *env);
    _cleanup_free_ char *cwd = NULL;
    const json_t *own_cwd = json_object_get(u->settings, "cwd");
    const char *home = getenv("HOME");
    if (!argv || !env)
        return error_set(err, ENOMEM, "no memory");
    int r = upstream_words(u, argv, env, err);
    /* Not the workspace: programs believe what lies in the folder they start in. */
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
    if (c && now - u->started > UPSTREAM_LASTED_NS)
        u->starts = 0;
    if (u->starts == UPSTREAM_STARTS_MAX && u->failure.code)
        return error_set(err, u->failure.code, "%.700s (tried %d times; not again in this session)",
                         u->failure.text, UPSTREAM_STARTS_MAX);
    if (u->starts == UPSTREAM_STARTS_MAX)
        return error_set(err, EPIPE,
                         "the MCP server '%s' ended %d times; it is not started again in this "
                         "session",
                         u->name, UPSTREAM_STARTS_MAX);
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

int upstream_client(struct upstream *u, struct client **ret, struct error *err)
{
    LOCKED(&u->lock);
    return upstream_get_client(u, ret, err);
}

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

static const struct tool *upstream_find_tool(struct upstream *u, const char *name,
                                             struct error *err)
{
    if (json_get_bool(u->settings, "disabled")) {
        error_set(err, ENOENT, "the MCP server '%s' is disabled in the configuration", u->name);
        return NULL;
    }
    if (upstream_refresh(u, err) < 0)
        return NULL;
    LOCKED(&u->lock);
    for (size_t i = 0; i < u->n_tools; i++)
        if (strcmp(u->tools[i]->remote, name) == 0)
            return &u->tools[i]->tool;
    error_set(err, ENOENT,
              "the MCP server '%s' has no tool '%.100s'; `hutch tool --list` shows all", u->name,
              name);
    return NULL;
}

/* --- all of them, as a source of tools --- */

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
    if (u)
        return upstream_find_tool(u, dot + 1, err);
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

static void upstream_list(struct upstream *u, void (*each)(void *data, const struct tool *t),
                          void (*trouble)(void *data, const char *text), void *data)
{
    pthread_mutex_lock(&u->lock);
    for (size_t i = 0; i < u->n_tools; i++)
        each(data, &u->tools[i]->tool);
    char *lines = u->trouble.len ? strndup((char *)u->trouble.data, u->trouble.len) : NULL;
    pthread_mutex_unlock(&u->lock);
    for (char *at = lines, *end; at && *at && (end = strchr(at, '\n')); at = end + 1) {
        *end = 0;
        trouble(data, at);
    }
    free(lines);
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
        if (all[i].upstream && all[i].r < 0)
            trouble(data, all[i].err.text);
        else if (all[i].upstream)
            upstream_list(all[i].upstream, each, trouble, data);
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
