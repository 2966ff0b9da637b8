/* Endpoints and exchanges: see http.h. */
#include <curl/curl.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "http.h"
#include "provider.h"
#include "text.h"
#include "thread.h"
#include "banned.h"

#define URL_MAX         4096u
#define KEY_MAX         8192u
#define HEADERS_MAX     64u
#define IDLE_MS         300000
#define RETRIES         8
#define BACKOFF_MS      500
#define LONGEST_WAIT    5u /* the retry from which on the wait does not grow */
#define UNREACHABLE_MAX 2
#define REDIRECTS_MAX   3
#define ERROR_BODY_MAX  (64u << 10) /* of the body that explains an error; more is not read */

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
    if (scheme && host)
        origin = str_printf("%s://%s%s%s", scheme, host, port ? ":" : "", port ? port : "");
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

/* The URL of a request below the base URL; a new string, NULL without memory. People write the base
 * with /v1 or without, and some give the whole URL. A query (?api-version=…) stays behind the
 * path. */
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
    else if (path)
        joined = str_printf("%.*s%s%s", (int)n, path, has_version ? "" : "/v1", request_path);
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

static int endpoint_add_header(struct endpoint *e, const char *name, const char *value,
                               struct error *err)
{
    /* curl takes an empty value with a semicolon; a colon alone would remove the header. */
    _cleanup_free_ char *line = str_printf(*value ? "%s: %s" : "%s;%s", name, value);
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
    /* Headers that frame the request: the configuration cannot set them. */
    static const char *const RESERVED[] = {"accept",
                                           "accept-encoding",
                                           "connection",
                                           "content-length",
                                           "content-type",
                                           "expect",
                                           "host",
                                           "te",
                                           "trailer",
                                           "upgrade",
                                           "transfer-encoding"};
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

    for (const char *at = spec->key; *at; at++)
        if (*at <= ' ' || *at >= 0x7f)
            return error_set(err, EINVAL,
                             "the key for %s contains a blank, a line break or another character "
                             "that keys do not have: copy it again",
                             spec->provider);
    if (strlen(spec->key) > KEY_MAX)
        return error_set(err, EINVAL, "the key for %s is longer than %u bytes", spec->provider,
                         KEY_MAX);
    _cleanup_free_ char *line = str_printf("%s%s", spec->api->key_prefix, spec->key);
    return line ? endpoint_add_header(e, spec->api->key_header, line, err)
                : error_set(err, ENOMEM, "out of memory");
}

int endpoint_make(const struct model_spec *spec, struct endpoint *ret, struct error *err)
{
    const struct provider *api = spec->api;
    const char *setting = provider_base_url_setting(spec->provider);
    struct endpoint e = {0};
    CURLU *base = url_parse(spec->base_url ? spec->base_url : api->base_url);
    char *scheme = base ? url_part(base, CURLUPART_SCHEME, 0) : NULL;
    char *user = base ? url_part(base, CURLUPART_USER, 0) : NULL;
    char *password = base ? url_part(base, CURLUPART_PASSWORD, 0) : NULL;
    int r = 0;
    if (!scheme || (strcmp(scheme, "https") != 0 && strcmp(scheme, "http") != 0))
        r = error_set(err, EINVAL, "%s must start with http:// or https://", setting);
    else if (user || password)
        r = error_set(err, EINVAL,
                      "%s contains a user name or password: remove it, and set the API key",
                      setting);
    curl_free(scheme);
    curl_free(user);
    curl_free(password);
    if (r == 0) {
        e.url = base_url_join(base, api, api->path);
        e.embed_url = api->embed_path ? base_url_join(base, api, api->embed_path) : NULL;
        e.origin = url_origin(base);
        if (!e.url || !e.origin || (api->embed_path && !e.embed_url))
            r = error_set(err, ENOMEM, "out of memory");
        else
            e.host = strstr(e.origin, "://") + 3;
    }
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

struct attempt {
    struct http_client *c;
    const struct exchange *x;
    struct buf error_body;
    bool is_refused; /* the reader of the body returned an error */
    struct retry_hint hint;
    struct error *err;
    char url[1024 + 4096]; /* the target of a redirection, or empty */
};

bool retry_wanted(const struct transport_answer *a)
{
    if (strcasecmp(a->should_retry, "true") == 0)
        return true;
    if (strcasecmp(a->should_retry, "false") == 0)
        return false;
    return a->status == 408 || a->status == 409 || a->status == 429 || a->status >= 500;
}

/* A number without a sign, with or without a fraction, and nothing else. */
static bool retry_parse_number(const char *text, double *ret)
{
    char *end;
    if (*text == 0 || text[strspn(text, "0123456789.")] != 0)
        return false;
    *ret = strtod(text, &end);
    return *end == 0;
}

int64_t retry_after_ms(const struct transport_answer *a, time_t now)
{
    double number;
    if (retry_parse_number(a->retry_ms, &number))
        return number < 1e12 ? (int64_t)number : -1;
    if (retry_parse_number(a->retry_after, &number))
        return number < 1e9 ? (int64_t)(number * 1000) : -1;
    time_t date = a->retry_after[0] ? curl_getdate(a->retry_after, NULL) : -1;
    if (date == -1)
        return -1;
    return date > now ? (int64_t)(date - now) * 1000 : 0;
}

int retry_delay_ms(unsigned attempt, int base_ms, int64_t after_ms, uint32_t random)
{
    if (after_ms >= 0 && after_ms <= RETRY_AFTER_MAX_MS)
        return (int)after_ms;
    unsigned step = attempt < 1 ? 1 : attempt > LONGEST_WAIT ? LONGEST_WAIT : attempt;
    int64_t delay = (int64_t)base_ms << (step - 1);
    if (delay > INT32_MAX)
        delay = INT32_MAX;
    return (int)(delay - delay * (random % 1024) / 4096);
}

int retry_wait(int ms, int cancel)
{
    int64_t until = clock_now() + ms * NS_PER_MS;
    for (;;) {
        struct pollfd p = {.fd = cancel, .events = POLLIN}; /* poll ignores a negative one */
        if (poll(&p, 1, clock_poll_ms(until)) > 0)
            return -ECANCELED;
        if (clock_now() >= until)
            return 0;
    }
}

static bool is_success(const struct transport_answer *head)
{
    return head->status >= 200 && head->status < 300;
}

static bool is_redirection(const struct transport_answer *head)
{
    return head->status >= 300 && head->status < 400 && head->location[0];
}

static int attempt_take(void *data, const struct transport_answer *head, const char *bytes,
                        size_t n)
{
    struct attempt *a = data;
    if (is_success(head)) {
        int r = a->x->take(a->x->data, bytes, n, &a->hint, a->err);
        a->is_refused = r < 0;
        return r;
    }
    size_t room = ERROR_BODY_MAX - a->error_body.len;
    buf_append(&a->error_body, bytes, n < room ? n : room);
    return n >= room;
}

/* The provider answered with an error. */
static int attempt_explain_status(struct attempt *a, const struct transport_answer *head)
{
    int64_t in_words = -1;
    int r = provider_error_of_status(a->c->spec, a->x->name, head->status,
                                     (const char *)a->error_body.data, a->error_body.len, &in_words,
                                     a->err);
    a->hint.retry = r != -EDQUOT && r != -EMSGSIZE && retry_wanted(head);
    a->hint.after_ms = retry_after_ms(head, time(NULL));
    if (a->hint.after_ms < 0)
        a->hint.after_ms = in_words;
    return r;
}

/* No answer came, or not all of it. */
static int attempt_explain_failure(struct attempt *a, int r)
{
    static const struct {
        int code;
        const char *before, *behind; /* the host */
        bool retry;
    } failures[] = {
        {ECONNREFUSED, "cannot connect to ", ": is the server running?", true},
        {EHOSTUNREACH, "cannot find the host ", ": check its name and your network", true},
        {EKEYREJECTED, "the certificate of ",
         " was rejected; to trust another authority, set SSL_CERT_FILE", false},
        {ETIMEDOUT, "", " does not respond", true},
        {EPIPE, "", " closed the connection before its answer was complete", true},
        {EPROTO, "the answer of ", " is not valid HTTP", false},
        {EIO, "the request to ", " failed", true},
    };
    size_t i = 0;
    while (i + 1 < ARRAY_SIZE(failures) && failures[i].code != -r)
        i++;
    struct error inner = *a->err;
    a->hint.retry = failures[i].code == -r && failures[i].retry;
    return error_set(a->err, -r, "%s%s%s (%.300s)", failures[i].before,
                     r == -ECONNREFUSED ? a->c->at.origin : a->c->at.host, failures[i].behind,
                     inner.text);
}

/* Only within the same scheme, host and port, for which the request and its key are meant. Returns
 * 1 to send it there. */
static int attempt_redirect(struct attempt *a, const struct transport_answer *head, unsigned *n)
{
    const struct endpoint *at = &a->c->at;
    if (!endpoint_contains(at, head->location)) {
        _cleanup_free_ char *to = endpoint_origin(head->location);
        return error_set(a->err, EPROTO,
                         "%s redirects to %.200s; if that is right, set it as the base URL",
                         at->host, to ? to : "an invalid URL");
    }
    if ((head->status != 307 && head->status != 308) || (*n)++ == REDIRECTS_MAX)
        return error_set(a->err, EPROTO,
                         "%s redirects (status %d) to %.500s; set the right base URL", at->host,
                         head->status, head->location);
    snprintf(a->url, sizeof a->url, "%s", head->location);
    return 1;
}

static int attempt_run(struct attempt *a)
{
    const struct model_spec *spec = a->c->spec;
    struct transport_answer head = {0};
    unsigned redirects = 0;
    int r;
    a->hint = (struct retry_hint){.after_ms = -1};
    do {
        const struct transport_call call = {.url = *a->url ? a->url : a->x->url,
                                            .headers = a->c->at.headers,
                                            .body = a->x->body,
                                            .n = a->x->n,
                                            .cancel = a->x->cancel,
                                            .idle_ms = spec->idle_ms > 0 ? spec->idle_ms : IDLE_MS,
                                            .take = attempt_take,
                                            .data = a};
        a->error_body.len = 0;
        a->is_refused = false;
        r = a->x->begin(a->x->data, a->err);
        if (r == 0)
            r = transport_post(a->c->transport, &call, &head, a->err);
        if (r == -ECANCELED || a->is_refused)
            return r;
        if (r < 0)
            break;
        r = is_redirection(&head) ? attempt_redirect(a, &head, &redirects) : 0;
        if (r < 0)
            return r;
    } while (r > 0);
    if (r == 0)
        return is_success(&head) ? a->x->end(a->x->data, &a->hint, a->err)
                                 : attempt_explain_status(a, &head);
    /* The connection broke off: the head may explain it, and a body may still be complete, if only
     * its end was missing. */
    struct error broken = *a->err;
    if (head.status >= 300 && !is_redirection(&head))
        return attempt_explain_status(a, &head);
    if (r == -EPIPE && is_success(&head) && a->x->end(a->x->data, &a->hint, a->err) == 0)
        return 0;
    *a->err = broken;
    return attempt_explain_failure(a, r);
}

/* Removes the key from a message, in case a server put it there. */
static void hide_key(const char *key, struct error *err)
{
    size_t n = key ? strlen(key) : 0;
    for (char *at = err->text; n >= 4 && (at = strstr(at, key)); at += 3) {
        memmove(at + 3, at + n, strlen(at + n) + 1);
        memcpy(at, "...", 3); /* NOLINT(bugprone-not-null-terminated-result) */
    }
}

int exchange_run(struct http_client *c, const struct exchange *x, struct error *err)
{
    struct error own = {0};
    const struct model_spec *spec = c->spec;
    struct attempt a = {
        .c = c, .x = x, .error_body = BUF_INIT(ERROR_BODY_MAX), .err = err ? err : &own};
    unsigned most = spec->retries < 0 ? RETRIES : (unsigned)spec->retries, unreachable = 0;
    int r = c->transport ? 0 : transport_new(&c->transport, err);
    if (r < 0)
        return r;
    for (unsigned number = 1; (r = attempt_run(&a)) < 0 && r != -ECANCELED; number++) {
        hide_key(spec->key, a.err);
        bool is_unreachable = r == -ECONNREFUSED || r == -EHOSTUNREACH;
        if (!a.hint.retry || number > most ||
            (is_unreachable && unreachable++ == UNREACHABLE_MAX)) {
            size_t used = strlen(a.err->text);
            if (number > 1)
                snprintf(a.err->text + used, sizeof a.err->text - used, "; tried %u times", number);
            break;
        }
        uint32_t random;
        if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
            random = (uint32_t)clock_now();
        int ms = retry_delay_ms(number, spec->backoff_ms > 0 ? spec->backoff_ms : BACKOFF_MS,
                                a.hint.after_ms, random);
        const struct model_event e = {.kind = MODEL_WAIT,
                                      .text = a.err->text,
                                      .n = strlen(a.err->text),
                                      .wait_ms = ms,
                                      .attempt = (int)number,
                                      .attempts = (int)most};
        if (x->sink)
            x->sink->event(x->sink->data, &e);
        r = retry_wait(ms, x->cancel);
        if (r < 0)
            break;
    }
    buf_free(&a.error_body);
    return r;
}
