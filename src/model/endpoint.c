#include <curl/curl.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "endpoint.h"
#include "provider.h"
#include "banned.h"

#define URL_MAX     4096u
#define KEY_MAX     8192u
#define HEADERS_MAX 64u

/* Headers that frame the request: the configuration cannot set them. */
static const char *const RESERVED[] = {
    "accept", "accept-encoding", "connection", "content-length",   "content-type", "expect", "host",
    "te",     "trailer",         "upgrade",    "transfer-encoding"};

static CURLU *url_parse(const char *url)
{
    CURLU *u = strlen(url) <= URL_MAX ? curl_url() : NULL;
    if (u && curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK)
        return u;
    curl_url_cleanup(u);
    return NULL;
}

/* NULL if there is none; for curl_free. */
static char *url_part(CURLU *u, CURLUPart part, unsigned flags)
{
    char *text = NULL;
    return curl_url_get(u, part, &text, flags) == CURLUE_OK ? text : NULL;
}

static char *url_origin(CURLU *u)
{
    char *origin = NULL;
    char *scheme = url_part(u, CURLUPART_SCHEME, 0), *host = url_part(u, CURLUPART_HOST, 0);
    char *port = url_part(u, CURLUPART_PORT, CURLU_NO_DEFAULT_PORT);
    if (!scheme || !host ||
        asprintf(&origin, "%s://%s%s%s", scheme, host, port ? ":" : "", port ? port : "") < 0)
        origin = NULL;
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    return origin;
}

char *endpoint_origin(const char *url)
{
    CURLU *u = url_parse(url);
    char *origin = u ? url_origin(u) : NULL;
    curl_url_cleanup(u);
    return origin;
}

bool endpoint_contains(const struct endpoint *e, const char *url)
{
    _cleanup_free_ char *origin = endpoint_origin(url);
    return origin && strcasecmp(origin, e->origin) == 0;
}

static bool ends_with(const char *text, size_t n, const char *end)
{
    size_t m = strlen(end);
    return n >= m && strncmp(text + n - m, end, m) == 0;
}

/*
 * The URL of a request below the base URL; a new string, NULL without memory. People write the base
 * with /v1 or without, and some give the whole URL. A query (?api-version=…) stays behind the path.
 */
static char *base_url_join(CURLU *base, const struct provider *api, const char *request_path)
{
    char *path = url_part(base, CURLUPART_PATH, 0), *url = NULL;
    _cleanup_free_ char *joined = NULL;
    size_t n = path ? strlen(path) : 0;
    while (n > 0 && path[n - 1] == '/')
        n--;
    bool has_version = api->is_versioned ? ends_with(path, n, "/v1") : n > 0;
    if (path && ends_with(path, n, request_path))
        joined = strndup(path, n);
    else if (!path || asprintf(&joined, "%.*s%s%s", (int)n, path, has_version ? "" : "/v1",
                               request_path) < 0)
        joined = NULL;
    curl_free(path);
    CURLU *u = joined ? curl_url_dup(base) : NULL;
    if (u && curl_url_set(u, CURLUPART_PATH, joined, 0) == CURLUE_OK &&
        curl_url_set(u, CURLUPART_FRAGMENT, NULL, 0) == CURLUE_OK)
        url = url_part(u, CURLUPART_URL, 0);
    char *copy = url ? strdup(url) : NULL;
    curl_free(url);
    curl_url_cleanup(u);
    return copy;
}

static int endpoint_set_urls(const struct model_spec *spec, CURLU *base, struct endpoint *e,
                             struct error *err)
{
    const struct provider *api = spec->api;
    char *scheme = base ? url_part(base, CURLUPART_SCHEME, 0) : NULL;
    char *user = base ? url_part(base, CURLUPART_USER, 0) : NULL;
    char *password = base ? url_part(base, CURLUPART_PASSWORD, 0) : NULL;
    bool is_http = scheme && (strcmp(scheme, "https") == 0 || strcmp(scheme, "http") == 0);
    bool has_login = user || password;
    curl_free(scheme);
    curl_free(user);
    curl_free(password);
    if (!is_http)
        return error_set(err, EINVAL, "%s must start with http:// or https://",
                         provider_base_url_setting(spec->provider));
    if (has_login)
        return error_set(err, EINVAL,
                         "%s contains a user name or password: remove it, and set the API key",
                         provider_base_url_setting(spec->provider));
    e->url = base_url_join(base, api, api->path);
    e->embed_url = api->embed_path ? base_url_join(base, api, api->embed_path) : NULL;
    e->origin = url_origin(base);
    if (!e->url || !e->origin || (api->embed_path && !e->embed_url))
        return error_set(err, ENOMEM, "out of memory");
    e->host = strstr(e->origin, "://") + 3;
    return 0;
}

static int endpoint_add_header(struct endpoint *e, const char *name, const char *value,
                               struct error *err)
{
    _cleanup_free_ char *line = NULL;
    /* An empty value is written with a semicolon: a colon alone would take the header away. */
    if (asprintf(&line, *value ? "%s: %s" : "%s;%s", name, value) < 0)
        line = NULL;
    struct curl_slist *more = line ? curl_slist_append(e->headers, line) : NULL;
    if (!more)
        return error_set(err, ENOMEM, "out of memory");
    e->headers = more;
    return 0;
}

/* Checks a header of the configuration. */
static int header_check(const char *name, const json_t *value, struct error *err)
{
    static const char token[] =
        "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    if (!*name || strlen(name) > 256 || name[strspn(name, token)])
        return error_set(err, EINVAL, "headers: invalid header name");
    for (size_t i = 0; i < ARRAY_SIZE(RESERVED); i++)
        if (strcasecmp(name, RESERVED[i]) == 0)
            return error_set(err, EINVAL, "headers.%s: hutch sets this header itself", name);
    if (!json_is_string(value) || json_string_length(value) != strlen(json_string_value(value)) ||
        json_string_length(value) > KEY_MAX)
        return error_set(err, EINVAL, "headers.%s: must be a string of at most %u bytes", name,
                         KEY_MAX);
    for (const char *at = json_string_value(value); *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            return error_set(err, EINVAL,
                             "headers.%s: the value contains a line break or a control character",
                             name);
    return 0;
}

static bool spec_has_header(const struct model_spec *spec, const char *name)
{
    const char *own;
    json_t *value;
    json_object_foreach(spec->headers, own, value)
    {
        if (strcasecmp(own, name) == 0)
            return true;
    }
    return false;
}

/* Headers of the configuration replace the provider's; one that authenticates replaces the key,
 * which is never part of a message. */
static int endpoint_set_headers(const struct model_spec *spec, struct endpoint *e,
                                struct error *err)
{
    const char *name;
    json_t *value;
    int r = endpoint_add_header(e, "Content-Type", "application/json", err);
    if (r == 0)
        r = endpoint_add_header(e, "Accept", "text/event-stream, application/json", err);
    if (r == 0 && !curl_slist_append(e->headers, "Expect:"))
        r = error_set(err, ENOMEM, "out of memory");
    for (const char *const *h = spec->api->headers; r == 0 && h && *h; h += 2)
        if (!spec_has_header(spec, h[0]))
            r = endpoint_add_header(e, h[0], h[1], err);
    if (r == 0 && json_object_size(spec->headers) > HEADERS_MAX)
        r = error_set(err, EINVAL, "headers: more than %u", HEADERS_MAX);
    json_object_foreach(spec->headers, name, value)
    {
        if (r == 0)
            r = header_check(name, value, err);
        if (r == 0)
            r = endpoint_add_header(e, name, json_string_value(value), err);
    }
    if (r < 0 || !spec->key || spec_has_header(spec, "authorization") ||
        spec_has_header(spec, "x-api-key"))
        return r;

    _cleanup_free_ char *line = NULL;
    for (const char *at = spec->key; *at; at++)
        if (*at <= ' ' || *at >= 0x7f)
            return error_set(err, EINVAL,
                             "the key for %s contains a blank, a line break or another character "
                             "that keys do not have: copy it again",
                             spec->provider);
    if (strlen(spec->key) > KEY_MAX)
        return error_set(err, EINVAL, "the key for %s is longer than %u bytes", spec->provider,
                         KEY_MAX);
    if (asprintf(&line, "%s%s", spec->api->key_prefix, spec->key) < 0) {
        line = NULL;
        return error_set(err, ENOMEM, "out of memory");
    }
    return endpoint_add_header(e, spec->api->key_header, line, err);
}

int endpoint_make(const struct model_spec *spec, struct endpoint *ret, struct error *err)
{
    struct endpoint e = {0};
    CURLU *base = url_parse(spec->base_url ? spec->base_url : spec->api->base_url);
    int r = endpoint_set_urls(spec, base, &e, err);
    curl_url_cleanup(base);
    if (r == 0)
        r = endpoint_set_headers(spec, &e, err);
    if (r == 0)
        *ret = e;
    else
        endpoint_free(&e);
    return r;
}

void endpoint_free(struct endpoint *e)
{
    free(e->url);
    free(e->embed_url);
    free(e->origin);
    curl_slist_free_all(e->headers);
    *e = (struct endpoint){0};
}
