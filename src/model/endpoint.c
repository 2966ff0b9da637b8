#include <curl/curl.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "endpoint.h"
#include "banned.h"

#define URL_MAX     4096u
#define KEY_MAX     8192u
#define HEADERS_MAX 64u

/* Headers that frame the request: they are made here, whatever the configuration says. */
static const char *const RESERVED[] = {
    "accept", "accept-encoding", "connection", "content-length",   "content-type", "expect", "host",
    "te",     "trailer",         "upgrade",    "transfer-encoding"};

static CURLU *parse_url(const char *url)
{
    CURLU *u = strlen(url) <= URL_MAX ? curl_url() : NULL;
    if (u && curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK)
        return u;
    curl_url_cleanup(u);
    return NULL;
}

/* NULL if there is none; for curl_free. */
static char *part_of(CURLU *u, CURLUPart part, unsigned flags)
{
    char *text = NULL;
    return curl_url_get(u, part, &text, flags) == CURLUE_OK ? text : NULL;
}

static char *origin_of(CURLU *u)
{
    char *origin = NULL;
    char *scheme = part_of(u, CURLUPART_SCHEME, 0), *host = part_of(u, CURLUPART_HOST, 0);
    char *port = part_of(u, CURLUPART_PORT, CURLU_NO_DEFAULT_PORT);
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
    CURLU *u = parse_url(url);
    char *origin = u ? origin_of(u) : NULL;
    curl_url_cleanup(u);
    return origin;
}

bool endpoint_holds(const struct endpoint *e, const char *url)
{
    _cleanup_free_ char *origin = endpoint_origin(url);
    return origin && strcasecmp(origin, e->origin) == 0;
}

static const char *own_base(enum model_api api)
{
    return api == MODEL_ANTHROPIC ? "https://api.anthropic.com" : "https://api.openai.com/v1";
}

static const char *where_set(const struct model_spec *spec)
{
    if (strcmp(spec->provider, "anthropic") == 0)
        return "ANTHROPIC_BASE_URL";
    return strcmp(spec->provider, "openai") == 0 ? "OPENAI_BASE_URL" : "the provider's base URL";
}

static int check_base(const struct model_spec *spec, CURLU *u, struct error *err)
{
    char *scheme = u ? part_of(u, CURLUPART_SCHEME, 0) : NULL,
         *user = u ? part_of(u, CURLUPART_USER, 0) : NULL;
    char *password = u ? part_of(u, CURLUPART_PASSWORD, 0) : NULL;
    bool good = scheme && (strcmp(scheme, "https") == 0 || strcmp(scheme, "http") == 0);
    bool named = user || password;
    curl_free(scheme);
    curl_free(user);
    curl_free(password);
    if (!good)
        return error_set(err, EINVAL, "%s is no URL that begins with https:// or http://",
                         where_set(spec));
    if (named)
        return error_set(err, EINVAL,
                         "%s holds a name or password: take it out, and give the key as a key",
                         where_set(spec));
    return 0;
}

static bool ends_in(const char *text, size_t n, const char *end)
{
    size_t m = strlen(end);
    return n >= m && strncmp(text + n - m, end, m) == 0;
}

/*
 * The path of a request below the base's: people write the base with /v1 or without, and some give
 * the whole address. A query of the base (?api-version=…) stays behind it.
 */
static char *join(CURLU *base, const char *tail)
{
    char *path = part_of(base, CURLUPART_PATH, 0), *url = NULL;
    _cleanup_free_ char *joined = NULL;
    size_t n = path ? strlen(path) : 0;
    while (n > 0 && path[n - 1] == '/')
        n--;
    const char *version = strcmp(tail, "/messages") == 0 ? !ends_in(path, n, "/v1") ? "/v1" : ""
                          : n                            ? ""
                                                         : "/v1";
    if (path && ends_in(path, n, tail))
        joined = strndup(path, n);
    else if (!path || asprintf(&joined, "%.*s%s%s", (int)n, path, version, tail) < 0)
        joined = NULL;
    curl_free(path);
    CURLU *u = joined ? curl_url_dup(base) : NULL;
    if (u && curl_url_set(u, CURLUPART_PATH, joined, 0) == CURLUE_OK &&
        curl_url_set(u, CURLUPART_FRAGMENT, NULL, 0) == CURLUE_OK)
        url = part_of(u, CURLUPART_URL, 0);
    char *own = url ? strdup(url) : NULL;
    curl_free(url);
    curl_url_cleanup(u);
    return own;
}

static int set_urls(const struct model_spec *spec, CURLU *base, struct endpoint *e,
                    struct error *err)
{
    static const char *const TAILS[] = {"/messages", "/chat/completions", "/responses"};
    int r = check_base(spec, base, err);
    if (r < 0)
        return r;
    e->url = join(base, TAILS[spec->api]);
    e->embed = spec->api == MODEL_ANTHROPIC ? NULL : join(base, "/embeddings");
    e->origin = origin_of(base);
    if (!e->url || !e->origin || (!e->embed && spec->api != MODEL_ANTHROPIC))
        return error_set(err, ENOMEM, "no memory");
    e->host = strstr(e->origin, "://") + 3;
    return 0;
}

static int add_header(struct endpoint *e, const char *name, const char *value, struct error *err)
{
    _cleanup_free_ char *line = NULL;
    /* An empty value is written with a semicolon: a colon alone would take the header away. */
    if (asprintf(&line, *value ? "%s: %s" : "%s;%s", name, value) < 0)
        line = NULL;
    struct curl_slist *more = line ? curl_slist_append(e->headers, line) : NULL;
    if (!more)
        return error_set(err, ENOMEM, "no memory");
    e->headers = more;
    return 0;
}

/* The key is never part of a message. */
static int add_key(const struct model_spec *spec, struct endpoint *e, struct error *err)
{
    _cleanup_free_ char *bearer = NULL;
    const char *key = spec->key;
    for (const char *at = key; *at; at++)
        if (*at <= ' ' || *at >= 0x7f)
            return error_set(
                err, EINVAL,
                "the key for %s has a space, a line end or another character in it that no "
                "key has: copy it again",
                spec->provider);
    if (strlen(key) > KEY_MAX)
        return error_set(err, EINVAL, "the key for %s is longer than %u bytes", spec->provider,
                         KEY_MAX);
    if (spec->api == MODEL_ANTHROPIC)
        return add_header(e, "x-api-key", key, err);
    if (asprintf(&bearer, "Bearer %s", key) < 0) {
        bearer = NULL;
        return error_set(err, ENOMEM, "no memory");
    }
    return add_header(e, "Authorization", bearer, err);
}

static bool is_token(const char *name)
{
    static const char TOKEN[] =
        "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    return *name && strlen(name) <= 256 && name[strspn(name, TOKEN)] == 0;
}

static int check_header(const char *name, const json_t *value, struct error *err)
{
    if (!is_token(name))
        return error_set(err, EINVAL, "headers: a name that is no header's name");
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
                             "headers.%s: its value has a line end or control character", name);
    return 0;
}

/* Of the configuration. Those that say who asks take the place of the key. */
static int add_own_headers(const struct model_spec *spec, struct endpoint *e, bool *ret_named,
                           struct error *err)
{
    const char *name;
    json_t *value;
    if (json_object_size(spec->headers) > HEADERS_MAX)
        return error_set(err, EINVAL, "headers: more than %u", HEADERS_MAX);
    json_object_foreach(spec->headers, name, value)
    {
        int r = check_header(name, value, err);
        if (r == 0)
            r = add_header(e, name, json_string_value(value), err);
        if (r < 0)
            return r;
        *ret_named = *ret_named || strcasecmp(name, "authorization") == 0 ||
                     strcasecmp(name, "x-api-key") == 0;
    }
    return 0;
}

static bool has_header(const struct model_spec *spec, const char *name)
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

static int set_headers(const struct model_spec *spec, struct endpoint *e, struct error *err)
{
    bool named = false;
    int r = add_header(e, "Content-Type", "application/json", err);
    if (r == 0)
        r = add_header(e, "Accept", "text/event-stream, application/json", err);
    if (r == 0)
        r = curl_slist_append(e->headers, "Expect:") ? 0 : error_set(err, ENOMEM, "no memory");
    if (r == 0 && spec->api == MODEL_ANTHROPIC && !has_header(spec, "anthropic-version"))
        r = add_header(e, "anthropic-version", "2023-06-01", err);
    if (r == 0)
        r = add_own_headers(spec, e, &named, err);
    return r < 0 || !spec->key || named ? r : add_key(spec, e, err);
}

int endpoint_make(const struct model_spec *spec, struct endpoint *ret, struct error *err)
{
    struct endpoint e = {0};
    CURLU *base = parse_url(spec->base_url ? spec->base_url : own_base(spec->api));
    int r = set_urls(spec, base, &e, err);
    curl_url_cleanup(base);
    if (r == 0)
        r = set_headers(spec, &e, err);
    if (r == 0)
        *ret = e;
    else
        endpoint_free(&e);
    return r;
}

void endpoint_free(struct endpoint *e)
{
    free(e->url);
    free(e->embed);
    free(e->origin);
    curl_slist_free_all(e->headers);
    *e = (struct endpoint){0};
}
