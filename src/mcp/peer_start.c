/*
 * How a server is started: from its settings to a program with arguments and environment. One that
 * is reached by URL is the program hutch-http, which is told URL and headers on its stdin: they may
 * be secrets, and everybody on the host can read a command line.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "parts.h"
#include "peer.h"
#include "banned.h"

#define WORDS_MAX   2048
#define PREFACE_MAX (1u << 20)

/* What a program needs to find its way, and nothing that is a secret. */
static const char *const INHERITED[] = {"HOME",    "LANG", "LC_ALL", "LC_CTYPE",
                                        "LOGNAME", "PATH", "SHELL",  "TERM",
                                        "TMPDIR",  "TZ",   "USER",   "XDG_RUNTIME_DIR"};
/* What one that speaks HTTP needs of it besides. */
static const char *const INHERITED_HTTP[] = {"http_proxy", "https_proxy",   "HTTPS_PROXY",
                                             "no_proxy",   "NO_PROXY",      "all_proxy",
                                             "ALL_PROXY",  "SSL_CERT_FILE", "SSL_CERT_DIR"};

struct words {
    char *list[WORDS_MAX + 1];
    size_t count;
};

struct launch {
    struct words argv, env;
    char *cwd;
    struct buf preface;
};

static void words_free(struct words *w)
{
    for (size_t i = 0; i < w->count; i++)
        free(w->list[i]);
}

static void launch_free(struct launch *l)
{
    words_free(&l->argv);
    words_free(&l->env);
    free(l->cwd);
    buf_free(&l->preface);
    free(l);
}

static void cleanup_launch(struct launch **l)
{
    if (*l)
        launch_free(*l);
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

static int expand(const struct peer *s, const char *member, const char *value, char **ret,
                  struct error *err)
{
    char where[256];
    snprintf(where, sizeof where, "mcpServers.%s.%.80s", s->name, member);
    return config_expand(value, where, ret, err);
}

static int add_expanded(const struct peer *s, const char *member, const char *value,
                        struct words *w, struct error *err)
{
    char *word = NULL;
    int r = expand(s, member, value, &word, err);
    return r < 0 ? r : words_add(w, word, err);
}

static int add_variable(const char *name, const char *value, struct words *env, struct error *err)
{
    char *entry = NULL;
    return words_add(env, asprintf(&entry, "%s=%s", name, value) < 0 ? NULL : entry, err);
}

static int inherit(const struct peer *s, const char *const *names, size_t n, struct words *env,
                   struct error *err)
{
    const json_t *own = json_object_get(s->settings, "env");
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        const char *value = getenv(names[i]);
        if (value && strncmp(value, "()", 2) != 0 && !json_object_get(own, names[i]))
            r = add_variable(names[i], value, env, err);
    }
    return r;
}

static int add_environment(const struct peer *s, struct words *env, struct error *err)
{
    const char *name;
    json_t *value;
    int r = inherit(s, INHERITED, ARRAY_SIZE(INHERITED), env, err);
    json_object_foreach(json_object_get(s->settings, "env"), name, value)
    {
        _cleanup_free_ char *text = NULL;
        if (r == 0)
            r = expand(s, "env", json_string_value(value), &text, err);
        if (r == 0)
            r = add_variable(name, text, env, err);
    }
    return r;
}

/* A home is the person's; the workspace is not, and programs believe what lies in the folder they
 * start in.
 */
static int set_cwd(const struct peer *s, struct launch *l, struct error *err)
{
    const char *cwd = json_string_value(json_object_get(s->settings, "cwd")),
               *home = getenv("HOME");
    if (cwd)
        return expand(s, "cwd", cwd, &l->cwd, err);
    l->cwd = strdup(home && home[0] == '/' && access(home, X_OK) == 0 ? home : "/");
    return l->cwd ? 0 : error_set(err, ENOMEM, "no memory");
}

static int plan_program(const struct peer *s, struct launch *l, struct error *err)
{
    size_t i;
    json_t *arg;
    int r = add_expanded(s, "command", json_string_value(json_object_get(s->settings, "command")),
                         &l->argv, err);
    json_array_foreach(json_object_get(s->settings, "args"), i, arg)
    {
        if (r == 0)
            r = add_expanded(s, "args", json_string_value(arg), &l->argv, err);
    }
    return r == 0 ? set_cwd(s, l, err) : r;
}

static json_t *expand_headers(const struct peer *s, struct error *err)
{
    json_t *headers = json_object(), *value;
    const char *name;
    json_object_foreach(json_object_get(s->settings, "headers"), name, value)
    {
        _cleanup_free_ char *text = NULL;
        if (expand(s, "headers", json_string_value(value), &text, err) < 0) {
            json_decref(headers);
            return NULL;
        }
        json_object_set_new(headers, name, json_string(text));
    }
    return headers;
}

static int put_preface(const struct peer *s, struct launch *l, struct error *err)
{
    _cleanup_free_ char *url = NULL, *line = NULL;
    int r = expand(s, "url", json_string_value(json_object_get(s->settings, "url")), &url, err);
    if (r < 0)
        return r;
    json_t *headers = expand_headers(s, err);
    if (!headers)
        return -err->code;
    json_t *told = json_pack("{s:s, s:o, s:f}", "url", url, "headers", headers, "timeout",
                             (double)s->timeout_ns / 1e9);
    line = told ? json_dumps(told, JSON_COMPACT) : NULL;
    json_decref(told);
    if (!line)
        return error_set(err, ENOMEM, "no memory");
    l->preface = BUF_INIT(PREFACE_MAX);
    buf_append_str(&l->preface, line);
    r = buf_append_str(&l->preface, "\n");
    return r < 0 ? error_set(err, E2BIG, "its URL and headers are too long") : 0;
}

static int plan_http(const struct peer *s, struct launch *l, struct error *err)
{
    char path[PARTS_PATH_MAX];
    int r = parts_find("hutch-http", path, err);
    if (r == 0)
        r = words_add(&l->argv, strdup(path), err);
    if (r == 0)
        r = inherit(s, INHERITED_HTTP, ARRAY_SIZE(INHERITED_HTTP), &l->env, err);
    if (r == 0)
        r = put_preface(s, l, err);
    l->cwd = strdup("/");
    return r == 0 && !l->cwd ? error_set(err, ENOMEM, "no memory") : r;
}

int peer_start(const struct peer *s, struct client **ret, struct error *err)
{
    _cleanup_(cleanup_launch) struct launch *l = calloc(1, sizeof *l);
    if (!l)
        return error_set(err, ENOMEM, "no memory");
    bool http = json_object_get(s->settings, "url");
    int r = http ? plan_http(s, l, err) : plan_program(s, l, err);
    if (r == 0)
        r = add_environment(s, &l->env, err);
    if (r < 0)
        return error_wrap(err, "the MCP server '%s' was not started", s->name);
    struct client_options o = {.name = s->name,
                               .program = {.command = l->argv.list[0],
                                           .argv = l->argv.list,
                                           .env = l->env.list,
                                           .cwd = l->cwd},
                               .preface = l->preface.len ? &l->preface : NULL,
                               .timeout_ns = s->timeout_ns};
    return client_open(&o, ret, err);
}
