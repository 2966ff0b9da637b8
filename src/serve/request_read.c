/*
 * Reads the head of a request out of libwebsockets, once and strictly.
 *
 * Its parser accepts more than it should: a decoded line feed in a path ends the request line, so
 * that the rest becomes a header, and the version is then missing; fields that come twice are joined
 * with commas. What is ambiguous is refused here and the connection closed, because a proxy in front
 * of us might have read it in another way.
 *
 * Over HTTP/2, libwebsockets 4.1 drops all headers that it has no number for (`custom` below).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "encoding.h"
#include "server.h"
#include "banned.h"

#define CUSTOM (-1)

static const struct known_header {
    const char *name; /* with the colon, as the parser keeps it */
    int token;
    bool single; /* twice is an attack, or a mistake */
} HEADERS[] = {
    {"host:", WSI_TOKEN_HOST, true},
    {"origin:", WSI_TOKEN_ORIGIN, true},
    {"authorization:", WSI_TOKEN_HTTP_AUTHORIZATION, true},
    {"content-length:", WSI_TOKEN_HTTP_CONTENT_LENGTH, true},
    {"content-type:", WSI_TOKEN_HTTP_CONTENT_TYPE, true},
    {"transfer-encoding:", WSI_TOKEN_HTTP_TRANSFER_ENCODING, false},
    {"expect:", WSI_TOKEN_HTTP_EXPECT, false},
    {"range:", WSI_TOKEN_HTTP_RANGE, true},
    {"accept:", WSI_TOKEN_HTTP_ACCEPT, false},
    {"cookie:", WSI_TOKEN_HTTP_COOKIE, false},
    {"if-none-match:", WSI_TOKEN_HTTP_IF_NONE_MATCH, false},
    {"access-control-request-headers:", WSI_TOKEN_HTTP_AC_REQUEST_HEADERS, false},
    {"access-control-request-method:", CUSTOM, false},
    {"x-api-key:", CUSTOM, true},
    {"x-request-id:", CUSTOM, true},
    {"idempotency-key:", CUSTOM, true},
    {"last-event-id:", CUSTOM, true},
    {"mcp-session-id:", CUSTOM, true},
    {"mcp-protocol-version:", CUSTOM, true},
    {"mcp-method:", CUSTOM, true},
    {"mcp-name:", CUSTOM, true},
    {"transfer-encoding :", CUSTOM, false},
};
_Static_assert(ARRAY_SIZE(HEADERS) < HEADERS_MAX, "struct request has no room for all headers");

/* Where the text is put together, before it is copied into a block of its size. */
struct head_text {
    char *at, *end;
};

static const char *head_put(struct head_text *t, const char *data, size_t n)
{
    if ((size_t)(t->end - t->at) <= n)
        return NULL;
    char *start = t->at;
    if (n > 0)
        memcpy(start, data, n);
    start[n] = 0;
    t->at += n + 1;
    return start;
}

/* No control characters, and valid UTF-8. */
static bool head_is_plain(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((uint8_t)text[i] < 0x20 || text[i] == 0x7f)
            return false;
    return utf8_valid((const uint8_t *)text, n);
}

static int head_read_header(struct request *q, struct lws *wsi, const struct known_header *h,
                            struct head_text *t, const char **ret_why)
{
    int n, max = (int)(t->end - t->at), name = (int)strlen(h->name);
    if (h->token == CUSTOM) {
        n = lws_hdr_custom_length(wsi, h->name, name);
        if (n >= 0 && (n + 1 >= max || lws_hdr_custom_copy(wsi, t->at, max, h->name, name) < 0))
            n = -2;
    } else {
        n = lws_hdr_total_length(wsi, (enum lws_token_indexes)h->token);
        if (n == 0)
            n = -1;
        else if (h->single && lws_hdr_fragment_length(wsi, (enum lws_token_indexes)h->token, 1) > 0)
            n = -3;
        else if (lws_hdr_copy(wsi, t->at, max, (enum lws_token_indexes)h->token) < 0)
            n = -2;
    }
    if (n == -1)
        return 0;
    if (n < 0) {
        *ret_why =
            n == -3 ? "a header that may occur once occurs twice" : "the headers are too long";
        return n == -3 ? 400 : 431;
    }
    char *value = t->at;
    while (n > 0 && (value[n - 1] == ' ' || value[n - 1] == '\t'))
        n--;
    value[n] = 0;
    if (memchr(value, 0, (size_t)n) || !head_is_plain(value, (size_t)n)) {
        *ret_why = "a header has control characters";
        return 400;
    }
    t->at += n + 1;
    const char *copy = head_put(t, h->name, (size_t)name - 1);
    if (!copy)
        return 431;
    q->headers[q->n_headers++] = (struct pair){copy, value};
    return 0;
}

static int head_read_query(struct request *q, struct lws *wsi, struct head_text *t,
                           const char **ret_why)
{
    for (int i = 0; lws_hdr_total_length(wsi, WSI_TOKEN_HTTP_URI_ARGS) > 0; i++) {
        int n =
            lws_hdr_copy_fragment(wsi, t->at, (int)(t->end - t->at), WSI_TOKEN_HTTP_URI_ARGS, i);
        if (n < 0)
            break;
        if (n == 0)
            continue;
        if (!head_is_plain(t->at, (size_t)n) || q->n_query == QUERY_MAX) {
            *ret_why = q->n_query == QUERY_MAX ? "the query has too many parameters"
                                               : "the query has control characters";
            return 400;
        }
        char *name = t->at, *equals = memchr(name, '=', (size_t)n);
        t->at += n + 1;
        if (equals)
            *equals = 0;
        q->query[q->n_query++] = (struct pair){name, equals ? equals + 1 : name + n};
    }
    return 0;
}

static int head_read_path(struct request *q, struct lws *wsi, struct head_text *t,
                          const char **ret_why)
{
    static const char *const METHODS[] = {
        [LWSHUMETH_GET] = "GET",         [LWSHUMETH_POST] = "POST",
        [LWSHUMETH_OPTIONS] = "OPTIONS", [LWSHUMETH_PUT] = "PUT",
        [LWSHUMETH_PATCH] = "PATCH",     [LWSHUMETH_DELETE] = "DELETE",
        [LWSHUMETH_CONNECT] = "CONNECT", [LWSHUMETH_HEAD] = "HEAD",
    };
    char *path = NULL, text[16];
    int n = 0, method = lws_http_get_uri_and_method(wsi, &path, &n);
    if (method == LWSHUMETH_COLON_PATH) { /* HTTP/2 */
        q->method = "";
        if (lws_hdr_copy(wsi, text, sizeof text, WSI_TOKEN_HTTP_COLON_METHOD) > 0)
            for (size_t i = 0; i < ARRAY_SIZE(METHODS); i++)
                if (METHODS[i] && strcmp(METHODS[i], text) == 0)
                    q->method = METHODS[i];
    } else if (method >= 0 && (size_t)method < ARRAY_SIZE(METHODS)) {
        q->method = METHODS[method];
    }
    if (!q->h2) {
        int version = lws_hdr_copy(wsi, text, sizeof text, WSI_TOKEN_HTTP);
        q->http10 = version > 0 && strcmp(text, "HTTP/1.0") == 0;
        if (version <= 0 || (!q->http10 && strcmp(text, "HTTP/1.1") != 0)) {
            *ret_why = "the request line is not one of HTTP/1.1";
            return 400;
        }
    }
    if (!q->method || !path || n < 1 || path[0] != '/' || memchr(path, 0, (size_t)n) ||
        !head_is_plain(path, (size_t)n)) {
        *ret_why = "the path is malformed";
        return 400;
    }
    q->head = strcmp(q->method, "HEAD") == 0;
    q->path = (char *)head_put(t, path, (size_t)n);
    return q->path ? 0 : 431;
}

/* Over HTTP/2 the host is in a pseudo-header. */
static int head_read_authority(struct request *q, struct lws *wsi, struct head_text *t)
{
    int n = lws_hdr_total_length(wsi, WSI_TOKEN_HTTP_COLON_AUTHORITY);
    if (!q->h2 || n <= 0 || request_header(q, "host"))
        return 0;
    if (lws_hdr_copy(wsi, t->at, (int)(t->end - t->at), WSI_TOKEN_HTTP_COLON_AUTHORITY) < 0)
        return 431;
    const char *value = t->at;
    t->at += n + 1;
    q->headers[q->n_headers++] = (struct pair){"host", value};
    return 0;
}

int request_read(struct request *q, struct lws *wsi, const char **ret_why)
{
    struct head_text t = {(char *)q->serve->scratch, (char *)q->serve->scratch + SCRATCH_SIZE};
    *ret_why = "the headers are too long";
    q->h2 = lws_get_network_wsi(wsi) != wsi;
    int status = head_read_path(q, wsi, &t, ret_why);
    if (!status)
        status = head_read_query(q, wsi, &t, ret_why);
    for (size_t i = 0; i < ARRAY_SIZE(HEADERS) && !status; i++)
        status = head_read_header(q, wsi, &HEADERS[i], &t, ret_why);
    if (!status)
        status = head_read_authority(q, wsi, &t);
    char *base = (char *)q->serve->scratch;
    size_t n = (size_t)(t.at - base);
    q->text = status ? NULL : malloc(n + 1);
    if (!q->text) {
        q->path = NULL;
        q->n_query = q->n_headers = 0;
        return status ? status : 503;
    }
    memcpy(q->text, base, n);
    /* What points into the scratch area moves along; "host" of HTTP/2 is a literal. */
#define MOVED(p) ((p) >= base && (p) < base + n ? q->text + ((p)-base) : (p))
    q->path = (char *)MOVED(q->path);
    for (size_t i = 0; i < q->n_query; i++)
        q->query[i] = (struct pair){MOVED(q->query[i].name), MOVED(q->query[i].value)};
    for (size_t i = 0; i < q->n_headers; i++)
        q->headers[i] = (struct pair){MOVED(q->headers[i].name), MOVED(q->headers[i].value)};
#undef MOVED
    return 0;
}
