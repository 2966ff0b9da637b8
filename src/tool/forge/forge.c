/*
 * Which forge a repository belongs to, and the token for it. Only what the person wrote counts:
 * their configuration, environment and the files of gh, glab and tea; a workspace's files are never
 * asked. A token goes to no host but the one that it was given for.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "buf.h"
#include "config.h"
#include "forge.h"
#include "ownfile.h"
#include "banned.h"

#define FILE_MAX (1u << 20)

/* The other programs whose files may have a token. */
static const struct {
    const char *program, *folder_variable, *file, *kind;
    bool (*find)(const char *text, size_t n, const char *host, char *ret, size_t size);
} PROGRAMS[] = {
    {"gh", "GH_CONFIG_DIR", "gh/hosts.yml", "github", forge_yaml_gh},
    {"glab", "GLAB_CONFIG_DIR", "glab-cli/config.yml", "gitlab", forge_yaml_glab},
    {"tea", NULL, "tea/config.yml", "gitea", forge_yaml_tea},
};

static const struct forge_kind *forge_kind_named(const char *name)
{
    if (strcmp(name, "forgejo") == 0)
        name = "gitea";
    for (size_t i = 0; FORGE_KINDS[i]; i++)
        if (strcmp(FORGE_KINDS[i]->name, name) == 0)
            return FORGE_KINDS[i];
    return NULL;
}

/* The file of another program: below its own variable's folder, or where configuration is kept. */
static char *forge_program_file(size_t i)
{
    const char *folder = PROGRAMS[i].folder_variable ? getenv(PROGRAMS[i].folder_variable) : NULL;
    char *path = NULL;
    if (folder && folder[0] == '/')
        return asprintf(&path, "%s/%s", folder, strchr(PROGRAMS[i].file, '/') + 1) < 0 ? NULL
                                                                                       : path;
    _cleanup_free_ char *own = ownfile_config_path(NULL);
    char *end = own ? strrchr(own, '/') : NULL;
    if (!end)
        return NULL;
    return asprintf(&path, "%.*s/%s", (int)(end - own), own, PROGRAMS[i].file) < 0 ? NULL : path;
}

static bool forge_program_token(size_t i, const char *host, char *ret, size_t size)
{
    _cleanup_free_ char *path = forge_program_file(i);
    _cleanup_buf_ struct buf text = BUF_INIT(FILE_MAX);
    return path && ownfile_read(path, &text, NULL) == 0 && text.len &&
           PROGRAMS[i].find((const char *)text.data, text.len, host, ret, size);
}

static const json_t *forge_settings(const json_t *own, const struct git_url *u)
{
    char place[300];
    const json_t *forges = json_object_get(own, "forges");
    git_url_authority(u, place, sizeof place);
    const json_t *found = json_object_get(forges, place);
    return found ? found : json_object_get(forges, u->host);
}

bool forge_allows_http(const struct git_url *u, const json_t *own)
{
    return git_url_is_loopback(u) || json_is_true(json_object_get(forge_settings(own, u), "http"));
}

static const struct forge_kind *forge_kind_of(const char *host, const char *authority)
{
    for (size_t i = 0; FORGE_KINDS[i]; i++)
        if (FORGE_KINDS[i]->host && strcmp(FORGE_KINDS[i]->host, authority) == 0)
            return FORGE_KINDS[i];
    if (strncmp(host, "gitlab.", 7) == 0)
        return forge_kind_named("gitlab");
    for (size_t i = 0; i < ARRAY_SIZE(PROGRAMS); i++) {
        char token[FORGE_TOKEN_MAX];
        if (forge_program_token(i, authority, token, sizeof token)) {
            explicit_bzero(token, sizeof token);
            return forge_kind_named(PROGRAMS[i].kind);
        }
    }
    return NULL;
}

int forge_find(const struct git_url *u, const json_t *own, struct forge *ret, struct error *err)
{
    struct forge f = {.settings = forge_settings(own, u)};
    struct git_url web = *u;
    if (u->scheme == GIT_SSH)
        web.port = 0; /* that of the SSH server says nothing about the API's */
    git_url_authority(&web, f.authority, sizeof f.authority);
    const char *kind = json_string_value(json_object_get(f.settings, "kind"));
    const char *api = json_string_value(json_object_get(f.settings, "api"));
    f.kind = kind ? forge_kind_named(kind) : forge_kind_of(u->host, f.authority);
    if (!f.kind)
        return error_set(err, ENOENT,
                         "nothing says what kind of forge %s is; the person can add \"forges\": "
                         "{\"%s\": {\"kind\":"
                         " \"github\", \"gitlab\" or \"gitea\"}} to ~/.config/hutch/config.json",
                         f.authority, f.authority);
    if (api)
        snprintf(f.api, sizeof f.api, "%.*s", (int)(strlen(api) - (api[strlen(api) - 1] == '/')),
                 api);
    else if (f.kind->public_api && strcmp(f.kind->host, f.authority) == 0)
        snprintf(f.api, sizeof f.api, "%s", f.kind->public_api);
    else
        snprintf(f.api, sizeof f.api, "http%s://%s%s", u->scheme == GIT_HTTP ? "" : "s",
                 f.authority, f.kind->api_path);
    struct git_url to;
    char probe[FORGE_API_MAX + 2];
    snprintf(probe, sizeof probe, "%s/x", f.api); /* an API needs no path of its own */
    if (git_url_parse(probe, &to, err) < 0)
        return error_wrap(err, "forges.%s.api", f.authority);
    if (to.scheme == GIT_HTTP && !git_url_is_loopback(&to) &&
        !json_is_true(json_object_get(f.settings, "http")))
        return error_set(
            err, EINVAL,
            "the API at %s is not encrypted: a token would be sent in the clear; use https://",
            f.api);
    *ret = f;
    return 0;
}

/* "host[:port]" of a URL or of a host alone. */
static bool forge_host_is(const char *value, const char *authority)
{
    const char *at = strstr(value, "://");
    at = at ? at + 3 : value;
    size_t n = strcspn(at, "/");
    return n == strlen(authority) && strncasecmp(at, authority, n) == 0;
}

/* Is the token in the environment for this host? */
static bool forge_variable_is_for(const struct forge *f, const json_t *own)
{
    const char *name;
    json_t *one;
    size_t same = 0;
    for (const char *const *v = f->kind->host_variables; *v; v++) {
        const char *host = getenv(*v);
        if (host && *host)
            return forge_host_is(host, f->authority);
    }
    if (f->kind->token_host && strcmp(f->kind->token_host, f->authority) == 0)
        return true;
    json_object_foreach(json_object_get(own, "forges"), name, one)
    {
        const char *kind = json_string_value(json_object_get(one, "kind"));
        same += kind && forge_kind_named(kind) == f->kind;
    }
    return f->settings && same == 1;
}

static int forge_token_set(struct forge_token *t, const char *text, const char *source,
                           bool explicit, struct error *err)
{
    for (const char *c = text; *c; c++)
        if (*c <= ' ' || *c >= 0x7f)
            return error_set(err, EINVAL, "the token in %s has a character that no token has",
                             source);
    if (strlen(text) >= sizeof t->text)
        return error_set(err, EINVAL, "the token in %s is too long", source);
    snprintf(t->text, sizeof t->text, "%s", text);
    snprintf(t->source, sizeof t->source, "%s", source);
    t->explicit = explicit;
    return 0;
}

int forge_token_find(const struct forge *f, const json_t *own, struct forge_token *ret,
                     struct error *err)
{
    char source[128], found[FORGE_TOKEN_MAX];
    const char *configured = json_string_value(json_object_get(f->settings, "token"));
    if (configured) {
        _cleanup_free_ char *text = NULL;
        snprintf(source, sizeof source, "forges.%.80s.token", f->authority);
        int r = config_expand(configured, source, &text, err);
        return r < 0 || !text ? r : forge_token_set(ret, text, source, true, err);
    }
    for (const char *const *v = f->kind->variables; *v && forge_variable_is_for(f, own); v++) {
        const char *token = getenv(*v);
        if (token && *token)
            return forge_token_set(ret, token, *v, true, err);
    }
    for (size_t i = 0; i < ARRAY_SIZE(PROGRAMS); i++) {
        if (strcmp(PROGRAMS[i].kind, f->kind->name) != 0 ||
            !forge_program_token(i, f->authority, found, sizeof found))
            continue;
        snprintf(source, sizeof source, "the configuration of %s", PROGRAMS[i].program);
        int r = forge_token_set(ret, found, source, false, err);
        explicit_bzero(found, sizeof found);
        return r;
    }
    return -ENOENT;
}

void forge_token_advice(const struct forge *f, char *ret, size_t size)
{
    const char *program = "tea";
    for (size_t i = 0; i < ARRAY_SIZE(PROGRAMS); i++)
        if (strcmp(PROGRAMS[i].kind, f->kind->name) == 0)
            program = PROGRAMS[i].program;
    snprintf(ret, size,
             "set %s (for %s), log in with %s, or store one with `git credential`; it must have %s",
             f->kind->variables[0], f->authority, program, f->kind->rights);
}
