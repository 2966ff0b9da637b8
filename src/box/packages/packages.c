#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cleanup.h"
#include "packages.h"
#include "proxy/allow.h"
#include "banned.h"

static const struct group {
    const char *name;
    int (*resolve)(const char *workspace, struct package_hosts *h, struct error *err);
} GROUPS[] = {
    {"pip", package_resolve_pip},
    {"npm", package_resolve_npm},
    {"cargo", package_resolve_cargo},
    {"apt", package_resolve_apt},
};

static const struct group *group_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(GROUPS); i++)
        if (strcmp(GROUPS[i].name, name) == 0)
            return &GROUPS[i];
    return NULL;
}

bool package_group_is_known(const char *name)
{
    return group_find(name) != NULL;
}

const char *package_group_list(void)
{
    return "@pip, @npm, @cargo, @apt";
}

int package_group_resolve(const char *name, const char *workspace, struct package_hosts *hosts,
                          struct error *err)
{
    const struct group *g = group_find(name);
    if (!g)
        return error_set(err, EINVAL, "there is no group '@%.32s'; the groups are %s", name,
                         package_group_list());
    int r = g->resolve(workspace, hosts, err);
    return r < 0 ? error_wrap(err, "@%s", name) : 0;
}

void package_hosts_free(struct package_hosts *h)
{
    for (size_t i = 0; i < h->n_hosts; i++)
        free(h->hosts[i]);
    for (size_t i = 0; i < h->n_env; i++)
        free(h->env[i]);
    *h = (struct package_hosts){0};
}

static int add_text(char **list, size_t *n, size_t max, char *text, struct error *err)
{
    for (size_t i = 0; text && i < *n; i++)
        if (strcmp(list[i], text) == 0) {
            free(text);
            return 0;
        }
    if (!text || *n == max) {
        free(text);
        return error_set(err, text ? E2BIG : ENOMEM,
                         text ? "it has more than %zu entries" : "no memory", max);
    }
    list[(*n)++] = text;
    return 0;
}

int package_add_host(struct package_hosts *h, const char *host, unsigned port, struct error *err)
{
    struct proxy_target target;
    char text[PROXY_TARGET_TEXT];
    if (proxy_target_parse(host, strlen(host), &target) < 0)
        return error_set(err, EINVAL, "'%.200s' is not a host name", host);
    target.port = target.port ? target.port : (uint16_t)port;
    proxy_target_format(&target, text);
    return add_text(h->hosts, &h->n_hosts, ARRAY_SIZE(h->hosts), strdup(text), err);
}

int package_add_env(struct package_hosts *h, const char *key, const char *value, struct error *err)
{
    char *text = NULL;
    return add_text(h->env, &h->n_env, ARRAY_SIZE(h->env),
                    asprintf(&text, "%s=%s", key, value) < 0 ? NULL : text, err);
}

int package_add_file(struct package_hosts *h, const char *key, const char *path, struct error *err)
{
    bool seen = strncmp(path, "/etc/", 5) == 0 || strncmp(path, "/usr/", 5) == 0;
    return seen ? package_add_env(h, key, path, err) : 0;
}

/* KEY's value so far, with one more behind it. */
static int add_to_variable(struct package_hosts *h, const char *key, const char *url,
                           struct error *err)
{
    size_t n = strlen(key);
    for (size_t i = 0; i < h->n_env; i++) {
        char *longer = NULL;
        if (strncmp(h->env[i], key, n) != 0 || h->env[i][n] != '=')
            continue;
        if (asprintf(&longer, "%s %s", h->env[i], url) < 0)
            return error_set(err, ENOMEM, "no memory");
        free(h->env[i]);
        h->env[i] = longer;
        return 0;
    }
    return package_add_env(h, key, url, err);
}

/* Strict where it matters: the host goes through the parser of the allow-list. */
int package_add_url(struct package_hosts *h, const char *url, const char *variable,
                    struct error *err)
{
    const char *scheme = strstr(url, "://");
    bool https =
        strncasecmp(url, "https://", 8) == 0 || strncasecmp(url, "sparse+https://", 15) == 0;
    bool http = strncasecmp(url, "http://", 7) == 0 || strncasecmp(url, "sparse+http://", 14) == 0;
    if (!scheme || !(https || http))
        return 0; /* a file, a folder, a CD: nothing of the network */
    const char *authority = scheme + 3;
    size_t n = strcspn(authority, "/?#");
    const char *at = memrchr(authority, '@', n), *host = at ? at + 1 : authority;
    _cleanup_free_ char *name = strndup(host, n - (size_t)(host - authority));
    _cleanup_free_ char *clean = NULL;
    if (!name || asprintf(&clean, "%.*s%s", (int)(authority - url), url, host) < 0)
        return error_set(err, ENOMEM, "no memory");
    if (at)
        snprintf(h->credentials, sizeof h->credentials, "%.100s", name);
    int r = package_add_host(h, name, https ? 443 : 80, err);
    return r < 0 || !variable ? r : add_to_variable(h, variable, clean, err);
}
