#include <curl/curl.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "place.h"
#include "banned.h"

/* Headers that this program sets itself, or that would change how bytes are framed. */
static const char *const RESERVED[] = {
    "accept", "connection",    "content-length",       "content-type",   "expect",
    "host",   "last-event-id", "mcp-protocol-version", "mcp-session-id", "transfer-encoding"};

static CURLU *parse_url(const char *url)
{
    CURLU *u = curl_url();
    if (u && curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK)
        return u;
    curl_url_cleanup(u);
    return NULL;
}

static char *part_of(CURLU *u, CURLUPart part)
{
    char *text = NULL;
    return curl_url_get(u, part, &text, CURLU_DEFAULT_PORT) == CURLUE_OK ? text : NULL;
}

char *place_shown(const char *url)
{
    char *shown = NULL;
    CURLU *u = parse_url(url);
    if (!u)
        return strdup("an invalid URL");
    char *scheme = part_of(u, CURLUPART_SCHEME), *host = part_of(u, CURLUPART_HOST);
    char *port = part_of(u, CURLUPART_PORT), *path = part_of(u, CURLUPART_PATH);
    if (asprintf(&shown, "%s://%s:%s%s", scheme ? scheme : "", host ? host : "", port ? port : "",
                 path ? path : "") < 0)
        shown = NULL;
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    curl_free(path);
    curl_url_cleanup(u);
    return shown;
}

static bool same_part(CURLU *a, CURLU *b, CURLUPart part)
{
    char *one = part_of(a, part), *other = part_of(b, part);
    bool same = one && other && strcasecmp(one, other) == 0;
    curl_free(one);
    curl_free(other);
    return same;
}

bool place_same_origin(const char *a, const char *b)
{
    CURLU *one = parse_url(a), *other = parse_url(b);
    bool same = one && other && same_part(one, other, CURLUPART_SCHEME) &&
                same_part(one, other, CURLUPART_HOST) && same_part(one, other, CURLUPART_PORT);
    curl_url_cleanup(one);
    curl_url_cleanup(other);
    return same;
}

static int check_url(const char *url, struct error *err)
{
    CURLU *u = parse_url(url);
    char *scheme = u ? part_of(u, CURLUPART_SCHEME) : NULL;
    bool good = scheme && (strcmp(scheme, "https") == 0 || strcmp(scheme, "http") == 0);
    curl_free(scheme);
    curl_url_cleanup(u);
    return good ? 0
                : error_set(err, EINVAL, "\"url\" is no URL that begins with https:// or http://");
}

static int check_header(const char *name, const json_t *value, struct error *err)
{
    for (size_t i = 0; i < ARRAY_SIZE(RESERVED); i++)
        if (strcasecmp(name, RESERVED[i]) == 0)
            return error_set(err, EINVAL, "headers.%s: hutch sets this header itself", name);
    if (!json_is_string(value))
        return error_set(err, EINVAL, "headers.%s: must be a string", name);
    for (const char *at = json_string_value(value); *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            return error_set(err, EINVAL,
                             "headers.%s: its value has a line end or control character", name);
    return 0;
}

static int add_header(struct place *p, const char *name, const json_t *value, struct error *err)
{
    _cleanup_free_ char *line = NULL;
    const char *text = json_string_value(value);
    int r = check_header(name, value, err);
    if (r < 0)
        return r;
    /* An empty value is written with a semicolon: a colon alone would take the header away. */
    if (asprintf(&line, *text ? "%s: %s" : "%s;%s", name, text) < 0)
        line = NULL;
    struct curl_slist *more = line ? curl_slist_append(p->headers, line) : NULL;
    if (!more)
        return error_set(err, ENOMEM, "no memory");
    p->headers = more;
    return 0;
}

int place_parse(const json_t *settings, struct place *ret, struct error *err)
{
    const char *url = json_string_value(json_object_get(settings, "url")), *name;
    json_t *value;
    struct place p = {.timeout = json_number_value(json_object_get(settings, "timeout"))};
    if (!url)
        return error_set(err, EINVAL, "the first line is no {\"url\": …}");
    int r = check_url(url, err);
    if (r == 0) {
        p.url = strdup(url);
        p.shown = place_shown(url);
        r = p.url && p.shown ? 0 : error_set(err, ENOMEM, "no memory");
    }
    json_object_foreach(json_object_get(settings, "headers"), name, value)
    {
        if (r == 0)
            r = add_header(&p, name, value, err);
    }
    if (p.timeout <= 0)
        p.timeout = 60;
    if (r == 0)
        *ret = p;
    else
        place_free(&p);
    return r;
}

void place_free(struct place *p)
{
    free(p->url);
    free(p->shown);
    curl_slist_free_all(p->headers);
}
