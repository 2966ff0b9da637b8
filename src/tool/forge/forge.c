/*
 * Which forge a repository belongs to, the token for it, and calls of its REST API. Only what the
 * person wrote counts: their configuration, environment and the files of gh, glab and tea; a
 * workspace's files are never asked. A token goes to no host but the one that it was given for.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#include "config.h"
#include "forge.h"
#include "http.h"
#include "io.h"
#include "json.h"
#include "text.h"
#include "banned.h"

#define FILE_MAX   (1u << 20)
#define ANSWER_MAX (8u << 20)
#define TIMEOUT_MS 60000
#define PATH_ROOM  (8u << 10)

/* GitHub: docs.github.com/rest/pulls; GitLab: docs.gitlab.com/api/merge_requests; Gitea and
 * Forgejo: their /api/swagger. */
static const struct forge_kind GITHUB = {
    .name = "github",
    .noun = "pull request",
    .host = "github.com",
    .public_api = "https://api.github.com",
    .api_path = "/api/v3",
    .authorization = "Bearer",
    .git_user = "x-access-token",
    .token_host = "github.com",
    .variables = (const char *const[]){"GH_TOKEN", "GITHUB_TOKEN", NULL},
    .host_variables = (const char *const[]){"GH_HOST", NULL},
    .rights = "\"Contents\" and \"Pull requests\" read and write (classic: the scope repo)",
    .accept = "application/vnd.github+json",
    .find_path = "/repos/%r/pulls?state=open&head=%o%%3A%h&base=%b",
    .create_path = "/repos/%r/pulls",
    .body_member = "body",
    .head_member = "head",
    .base_member = "base",
    .number_member = "number",
    .url_member = "html_url",
};

static const struct forge_kind GITLAB = {
    .name = "gitlab",
    .noun = "merge request",
    .host = "gitlab.com",
    .api_path = "/api/v4",
    .authorization = "Bearer",
    .git_user = "oauth2",
    .token_host = "gitlab.com",
    .variables = (const char *const[]){"GITLAB_TOKEN", NULL},
    .host_variables = (const char *const[]){"GITLAB_HOST", NULL},
    .rights = "the scopes api and write_repository",
    .accept = "application/json",
    .nested = true,
    .find_path = "/projects/%R/merge_requests?state=opened&source_branch=%h&target_branch=%b",
    .create_path = "/projects/%R/merge_requests",
    .body_member = "description",
    .head_member = "source_branch",
    .base_member = "target_branch",
    .draft_mark = "Draft: ",
    .number_member = "iid",
    .url_member = "web_url",
};

static const struct forge_kind GITEA = {
    .name = "gitea",
    .noun = "pull request",
    .host = "codeberg.org",
    .api_path = "/api/v1",
    .authorization = "token",
    .git_user = "x-access-token",
    .variables = (const char *const[]){"GITEA_TOKEN", "FORGEJO_TOKEN", NULL},
    .host_variables = (const char *const[]){"GITEA_SERVER_URL", "FORGEJO_SERVER_URL", NULL},
    .rights = "the scopes write:repository and write:issue",
    .accept = "application/json",
    /* Its API cannot ask for a head branch that has a slash in it: the newest that are open are
     * looked through. */
    .find_path = "/repos/%r/pulls?state=open&sort=recentupdate&limit=50",
    .create_path = "/repos/%r/pulls",
    .lists_all = true,
    .body_member = "body",
    .head_member = "head",
    .base_member = "base",
    .draft_mark = "WIP: ",
    .number_member = "number",
    .url_member = "html_url",
};

const struct forge_kind *const FORGE_KINDS[] = {&GITHUB, &GITLAB, &GITEA, NULL};

/* The other programs whose files may have a token. */
static const struct {
    const char *program, *folder_variable, *file, *kind;
} PROGRAMS[] = {
    [FORGE_FILE_GH] = {"gh", "GH_CONFIG_DIR", "gh/hosts.yml", "github"},
    [FORGE_FILE_GLAB] = {"glab", "GLAB_CONFIG_DIR", "glab-cli/config.yml", "gitlab"},
    [FORGE_FILE_TEA] = {"tea", NULL, "tea/config.yml", "gitea"},
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

/* The value of a key of a mapping; NULL if there is none. */
static yaml_node_t *yaml_member(yaml_document_t *d, yaml_node_t *map, const char *key)
{
    if (!map || map->type != YAML_MAPPING_NODE)
        return NULL;
    for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top;
         p++) {
        yaml_node_t *name = yaml_document_get_node(d, p->key);
        if (name && name->type == YAML_SCALAR_NODE &&
            strcasecmp((const char *)name->data.scalar.value, key) == 0)
            return yaml_document_get_node(d, p->value);
    }
    return NULL;
}

static bool yaml_text(yaml_node_t *n, char *ret, size_t size)
{
    if (!n || n->type != YAML_SCALAR_NODE || n->data.scalar.length == 0 ||
        n->data.scalar.length >= size)
        return false;
    snprintf(ret, size, "%s", (const char *)n->data.scalar.value);
    return true;
}

/* Is this URL, or host[:port] alone, one of this host? */
static bool forge_host_is(const char *url, const char *authority)
{
    const char *at = strstr(url, "://");
    at = at ? at + 3 : url;
    size_t n = strcspn(at, "/");
    return n == strlen(authority) && strncasecmp(at, authority, n) == 0;
}

bool forge_file_token(enum forge_file which, const char *text, size_t n, const char *host,
                      char *ret, size_t size)
{
    yaml_parser_t p;
    yaml_document_t d;
    bool found = false;
    if (!yaml_parser_initialize(&p))
        return false;
    yaml_parser_set_input_string(&p, (const unsigned char *)text, n);
    if (!yaml_parser_load(&p, &d)) {
        yaml_parser_delete(&p);
        return false;
    }
    yaml_node_t *root = yaml_document_get_root_node(&d);
    yaml_node_t *logins = yaml_member(&d, root, "logins");
    if (which == FORGE_FILE_GH) {
        found = yaml_text(yaml_member(&d, yaml_member(&d, root, host), "oauth_token"), ret, size);
    } else if (which == FORGE_FILE_GLAB) {
        yaml_node_t *own = yaml_member(&d, yaml_member(&d, root, "hosts"), host);
        found = yaml_text(yaml_member(&d, own, "token"), ret, size);
    } else if (logins && logins->type == YAML_SEQUENCE_NODE) {
        yaml_node_item_t *i = logins->data.sequence.items.start;
        for (; !found && i < logins->data.sequence.items.top; i++) {
            char url[GIT_URL_MAX];
            yaml_node_t *login = yaml_document_get_node(&d, *i);
            found = yaml_text(yaml_member(&d, login, "url"), url, sizeof url) &&
                    forge_host_is(url, host) &&
                    yaml_text(yaml_member(&d, login, "token"), ret, size);
        }
    }
    yaml_document_delete(&d);
    yaml_parser_delete(&p);
    return found;
}

/* The token in the file of another program: below its own variable's folder, or where configuration
 * is kept. */
static bool forge_program_token(size_t i, const char *host, char *ret, size_t size)
{
    const char *folder = PROGRAMS[i].folder_variable ? getenv(PROGRAMS[i].folder_variable) : NULL;
    _cleanup_free_ char *own = ownfile_config_path(NULL), *path = NULL;
    _cleanup_buf_ struct buf text = BUF_INIT(FILE_MAX);
    if (folder && folder[0] == '/')
        path = str_printf("%s/%s", folder, strchr(PROGRAMS[i].file, '/') + 1);
    else if (own && strrchr(own, '/'))
        path = str_printf("%.*s/%s", (int)(strrchr(own, '/') - own), own, PROGRAMS[i].file);
    return path && ownfile_read(path, &text, NULL) == 0 && text.len &&
           forge_file_token((enum forge_file)i, (const char *)text.data, text.len, host, ret, size);
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
    return git_url_is_loopback(u) || json_get_bool(forge_settings(own, u), "http");
}

int forge_find(const struct git_url *u, const json_t *own, struct forge *ret, struct error *err)
{
    struct forge f = {.settings = forge_settings(own, u)};
    struct git_url web = *u;
    if (u->scheme == GIT_SSH)
        web.port = 0; /* that of the SSH server says nothing about the API's */
    git_url_authority(&web, f.authority, sizeof f.authority);
    const char *kind = json_get_string(f.settings, "kind");
    const char *api = json_get_string(f.settings, "api");
    f.kind = kind                                  ? forge_kind_named(kind)
             : strncmp(u->host, "gitlab.", 7) == 0 ? forge_kind_named("gitlab")
                                                   : NULL;
    for (size_t i = 0; !kind && FORGE_KINDS[i]; i++)
        if (FORGE_KINDS[i]->host && strcmp(FORGE_KINDS[i]->host, f.authority) == 0)
            f.kind = FORGE_KINDS[i];
    for (size_t i = 0; !kind && !f.kind && i < ARRAY_SIZE(PROGRAMS); i++) {
        char token[FORGE_TOKEN_MAX];
        if (!forge_program_token(i, f.authority, token, sizeof token))
            continue;
        explicit_bzero(token, sizeof token);
        f.kind = forge_kind_named(PROGRAMS[i].kind);
    }
    if (!f.kind)
        return error_set(err, ENOENT,
                         "the kind of forge that %s is is not known; add \"forges\": {\"%s\":"
                         " {\"kind\": \"github\", \"gitlab\" or \"gitea\"}} to"
                         " ~/.config/hutch/config.json",
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
    if (to.scheme == GIT_HTTP && !git_url_is_loopback(&to) && !json_get_bool(f.settings, "http"))
        return error_set(
            err, EINVAL,
            "the API at %s is not encrypted: a token would be sent in the clear; use https://",
            f.api);
    *ret = f;
    return 0;
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
    const char *configured = json_get_string(f->settings, "token");
    if (configured) {
        _cleanup_free_ char *text = NULL;
        snprintf(source, sizeof source, "forges.%.80s.token", f->authority);
        int r = config_expand(configured, source, &text, err);
        return r < 0 || !text ? r : forge_token_set(ret, text, source, true, err);
    }
    /* A token in the environment is for the host that another variable names, else for the public
     * one, else for the only configured forge of its kind. */
    const char *name, *host = NULL;
    json_t *one;
    size_t same = 0;
    for (const char *const *v = f->kind->host_variables; *v && !(host && *host); v++)
        host = getenv(*v);
    json_object_foreach(json_object_get(own, "forges"), name, one)
    {
        const char *kind = json_get_string(one, "kind");
        same += kind && forge_kind_named(kind) == f->kind;
    }
    bool is_for = host && *host
                      ? forge_host_is(host, f->authority)
                      : (f->kind->token_host && strcmp(f->kind->token_host, f->authority) == 0) ||
                            (f->settings && same == 1);
    for (const char *const *v = f->kind->variables; *v && is_for; v++) {
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

char *forge_path(const struct forge_pr *p, const char *form)
{
    struct buf b = BUF_INIT(PATH_ROOM);
    char owner[256];
    snprintf(owner, sizeof owner, "%.*s", (int)strcspn(p->repo, "/"), p->repo);
    for (; *form; form++) {
        if (*form != '%' || *++form == '%') {
            buf_append(&b, form, 1);
            continue;
        }
        const char *text = *form == 'o'   ? owner
                           : *form == 'h' ? p->head
                           : *form == 'b' ? p->base
                                          : p->repo;
        for (; *text; text++) { /* all but unreserved characters are percent-encoded */
            if (isalnum((unsigned char)*text) || strchr("-._~", *text) ||
                (*form == 'r' && *text == '/'))
                buf_append(&b, text, 1);
            else
                buf_printf(&b, "%%%02X", (unsigned char)*text);
        }
    }
    char *path = buf_cstr(&b);
    if (!path)
        buf_free(&b);
    return path;
}

json_t *forge_body(const struct forge_kind *k, const struct forge_pr *p)
{
    const char *mark = k->draft_mark;
    return json_pack("{s:o, s:s, s:s, s:s, s:o*}", "title",
                     json_sprintf("%s%s", mark && p->draft ? mark : "", p->title), k->body_member,
                     p->body, k->head_member, p->head, k->base_member, p->base, "draft",
                     mark ? NULL : json_boolean(p->draft));
}

bool forge_read(const struct forge_kind *k, const json_t *answer, const struct forge_pr *p,
                struct forge_answer *ret)
{
    const json_t *one = json_is_array(answer) ? json_array_get(answer, 0) : answer;
    /* The one that goes from this branch to that one. */
    for (size_t i = 0; k->lists_all && json_is_array(answer) && one; i++) {
        one = json_array_get(answer, i);
        const json_t *head = json_object_get(one, "head"), *base = json_object_get(one, "base");
        if (strcmp(json_get_string_or(head, "ref", ""), p->head) == 0 &&
            strcmp(json_get_string_or(base, "ref", ""), p->base) == 0)
            break;
    }
    const char *url = json_get_string(one, k->url_member);
    if (!url || (strncmp(url, "https://", 8) != 0 && strncmp(url, "http://", 7) != 0) ||
        strlen(url) >= sizeof ret->url || !json_is_integer(json_object_get(one, k->number_member)))
        return false;
    for (const char *c = url; *c; c++)
        if (*c <= ' ' || *c >= 0x7f)
            return false;
    snprintf(ret->url, sizeof ret->url, "%s", url);
    ret->number = json_get_integer(one, k->number_member);
    return true;
}

int forge_call(const struct forge *f, const struct forge_token *t, const char *path,
               const json_t *body, int cancel, json_int_t *ret_status, json_t **ret_answer,
               struct error *err)
{
    _cleanup_buf_ struct buf answer = BUF_INIT(ANSWER_MAX);
    _cleanup_free_ char *url = str_printf("%s%s", f->api, path),
                        *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    struct curl_slist *headers = NULL;
    long status = 0;
    int r = url && (!body || text) ? 0 : -ENOMEM;
    if (r == 0)
        r = http_headers_add(&headers, "Authorization: %s %s", f->kind->authorization, t->text);
    if (r == 0)
        r = http_headers_add(&headers, "Accept: %s", f->kind->accept);
    if (r == 0)
        r = http_headers_add(&headers, "Expect:"); /* do not wait for "100 Continue" */
    if (r == 0 && body)
        r = http_headers_add(&headers, "Content-Type: application/json");
    struct http_exchange x = {
        .url = url, .headers = headers, .body = text, .timeout_ms = TIMEOUT_MS, .cancel = cancel};
    r = r == 0 ? http_exchange(&x, &answer, &status, err) : error_set(err, ENOMEM, "no memory");
    curl_slist_free_all(headers);
    if (r == -EIO) {
        forge_redact(err->text, t->text);
        error_wrap(err, "cannot reach %s", f->api);
    }
    if (r < 0)
        return r;
    *ret_status = status;
    *ret_answer = answer.len ? json_loadb((const char *)answer.data, answer.len, 0, NULL) : NULL;
    return 0;
}

int forge_explain(const struct forge *f, const struct forge_token *t, json_int_t status,
                  const json_t *answer, struct error *err)
{
    /* What the server says: "message" with "errors" (GitHub), "message" or "error" (GitLab,
     * Gitea). */
    const json_t *message = json_object_get(answer, "message");
    const json_t *more = json_object_get(answer, "errors");
    message = message ? message : json_object_get(answer, "error");
    _cleanup_free_ char *text = json_is_string(message)
                                    ? strdup(json_string_value(message))
                                    : json_dumps(message, JSON_COMPACT | JSON_ENCODE_ANY);
    _cleanup_free_ char *details = json_array_size(more) ? json_dumps(more, JSON_COMPACT) : NULL;
    char both[700], said[500] = "", advice[400];
    snprintf(both, sizeof both, "%.300s%s%.300s", text ? text : "", details ? " " : "",
             details ? details : "");
    _cleanup_free_ char *clean = foreign_text(both, strlen(both), sizeof said - 12);
    if (clean && *clean)
        snprintf(said, sizeof said, ": %s", clean);
    forge_redact(said, t->text);
    forge_token_advice(f, advice, sizeof advice);
    const char *host = f->authority, *source = t->source, *rights = f->kind->rights;
    long long n = (long long)status;
    switch (status) {
    case 401:
        return error_set(err, EACCES, "%s does not accept the token from %s (401%s); %s", host,
                         source, said, advice);
    case 403:
        return error_set(err, EACCES, "%s forbids it (403%s); the token from %s must have %s", host,
                         said, source, rights);
    case 404:
        return error_set(err, ENOENT,
                         "%s has no such repository, or hides it from the token from %s (404%s);"
                         " it must have %s",
                         host, source, said, rights);
    case 409:
    case 422:
        return error_set(err, EINVAL,
                         "%s refused the %s (%lld%s); check that base exists, that the branch has"
                         " commits that base does not have, and that it has no open one yet",
                         host, f->kind->noun, n, said);
    case 301:
    case 302:
    case 307:
    case 308:
        return error_set(err, EIO,
                         "%s redirects elsewhere (%lld); if the repository moved, update the"
                         " remote's URL with `git remote set-url`",
                         host, n);
    case 429:
        return error_set(err, EBUSY, "%s limits the rate of requests (429%s); try again later",
                         host, said);
    default:
        return error_set(err, EIO, "%s answered with status %lld%s", host, n, said);
    }
}

void forge_redact(char *text, const char *secret)
{
    size_t n = strlen(secret);
    for (char *at = text; n >= 4 && (at = strstr(at, secret)); at += n)
        memset(at, '*', n);
}
