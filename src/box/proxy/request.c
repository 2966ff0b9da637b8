#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "request.h"
#include "banned.h"

#define METHOD_MAX        32
#define LENGTH_DIGITS_MAX 18
#define DEFAULT_HTTP_PORT 80

static const char scheme[] = "http://";

static int bad(const char **why, const char *text)
{
    *why = text;
    return -EBADMSG;
}

static bool span_is(struct proxy_span s, const char *word)
{
    return s.len == strlen(word) && strncasecmp(s.data, word, s.len) == 0;
}

static bool is_token_char(char c)
{
    return (isascii((unsigned char)c) && isalnum((unsigned char)c)) ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_token(struct proxy_span s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!is_token_char(s.data[i]))
            return false;
    return s.len > 0;
}

/* Printable ASCII without the blank. */
static bool is_visible(struct proxy_span s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.data[i] < 0x21 || s.data[i] > 0x7e)
            return false;
    return true;
}

static bool is_field_text(struct proxy_span s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.data[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

size_t proxy_head_end(const char *data, size_t n)
{
    const char *end = n ? memmem(data, n, "\r\n\r\n", 4) : NULL;
    return end ? (size_t)(end - data) + 4 : 0;
}

/* Cuts a line off the front. The head is complete, so each line has its end. */
static struct proxy_span next_line(struct proxy_span *rest)
{
    const char *end = memmem(rest->data, rest->len, "\r\n", 2);
    struct proxy_span line = {rest->data, end ? (size_t)(end - rest->data) : rest->len};
    size_t used = end ? line.len + 2 : line.len;
    rest->data += used;
    rest->len -= used;
    return line;
}

/* Cuts what is before the next blank off the front. */
static bool next_word(struct proxy_span *line, struct proxy_span *ret)
{
    const char *blank = line->len ? memchr(line->data, ' ', line->len) : NULL;
    if (!blank)
        return false;
    *ret = (struct proxy_span){line->data, (size_t)(blank - line->data)};
    line->data += ret->len + 1;
    line->len -= ret->len + 1;
    return true;
}

static int parse_connect(struct proxy_span uri, struct proxy_request *r, const char **why)
{
    r->connect = true;
    if (proxy_target_parse(uri.data, uri.len, &r->target) < 0 || r->target.port == 0)
        return bad(why, "CONNECT needs HOST:PORT");
    return 0;
}

static int parse_url(struct proxy_span uri, struct proxy_request *r, const char **why)
{
    const size_t prefix = sizeof scheme - 1;

    if (uri.len < prefix || strncasecmp(uri.data, scheme, prefix) != 0)
        return bad(why,
                   "this is a proxy: it takes CONNECT, and requests with an absolute http:// URL");
    const char *authority = uri.data + prefix, *end = uri.data + uri.len, *path = authority;
    while (path < end && *path != '/' && *path != '?' && *path != '#')
        path++;
    if (memchr(authority, '@', (size_t)(path - authority)))
        return bad(why, "a user name in the URL");
    if (memchr(path, '#', (size_t)(end - path)))
        return bad(why, "a fragment in the URL");
    if (proxy_target_parse(authority, (size_t)(path - authority), &r->target) < 0)
        return bad(why, "no valid host and port in the URL");
    if (r->target.port == 0)
        r->target.port = DEFAULT_HTTP_PORT;
    r->path = (struct proxy_span){path, (size_t)(end - path)};
    return 0;
}

static int parse_request_line(struct proxy_span line, struct proxy_request *r, const char **why)
{
    struct proxy_span uri;

    if (!next_word(&line, &r->method) || !next_word(&line, &uri))
        return bad(why, "not a request line");
    if (!is_token(r->method) || r->method.len > METHOD_MAX)
        return bad(why, "not a method");
    r->http10 = line.len == 8 && memcmp(line.data, "HTTP/1.0", 8) == 0;
    if (!r->http10 && !(line.len == 8 && memcmp(line.data, "HTTP/1.1", 8) == 0))
        return bad(why, "the version is not HTTP/1.0 or HTTP/1.1");
    if (uri.len == 0 || !is_visible(uri))
        return bad(why, "an invalid byte in the request line");
    if (r->method.len == 7 && memcmp(r->method.data, "CONNECT", 7) == 0)
        return parse_connect(uri, r, why);
    return parse_url(uri, r, why);
}

static void trim(struct proxy_span *s)
{
    while (s->len && (s->data[0] == ' ' || s->data[0] == '\t')) {
        s->data++;
        s->len--;
    }
    while (s->len && (s->data[s->len - 1] == ' ' || s->data[s->len - 1] == '\t'))
        s->len--;
}

static int parse_header(struct proxy_span line, struct proxy_request *r, const char **why)
{
    struct proxy_header h;
    const char *colon = memchr(line.data, ':', line.len);

    if (!colon)
        return bad(why, "a header without a colon");
    h.name = (struct proxy_span){line.data, (size_t)(colon - line.data)};
    h.value = (struct proxy_span){colon + 1, line.len - h.name.len - 1};
    trim(&h.value);
    if (!is_token(h.name))
        return bad(why, "not a header name");
    if (!is_field_text(h.value))
        return bad(why, "a control character in a header");
    if (r->n_headers == PROXY_HEADERS_MAX)
        return bad(why, "too many headers");
    r->headers[r->n_headers++] = h;
    return 0;
}

static const struct proxy_header *find_header(const struct proxy_request *r, const char *name,
                                              size_t *ret_count)
{
    const struct proxy_header *found = NULL;
    *ret_count = 0;
    for (size_t i = 0; i < r->n_headers; i++)
        if (span_is(r->headers[i].name, name)) {
            found = &r->headers[i];
            (*ret_count)++;
        }
    return found;
}

static bool parse_length(struct proxy_span s, uint64_t *ret)
{
    uint64_t n = 0;
    if (s.len == 0 || s.len > LENGTH_DIGITS_MAX)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        if (s.data[i] < '0' || s.data[i] > '9')
            return false;
        n = n * 10 + (uint64_t)(s.data[i] - '0');
    }
    *ret = n;
    return true;
}

/* How long the body is must be beyond doubt, or what follows it is a request that nobody looked at.
 */
static int parse_framing(struct proxy_request *r, const char **why)
{
    size_t n_hosts, n_lengths, n_codings;
    find_header(r, "host", &n_hosts);
    const struct proxy_header *length = find_header(r, "content-length", &n_lengths);
    const struct proxy_header *coding = find_header(r, "transfer-encoding", &n_codings);

    if (n_hosts > 1)
        return bad(why, "more than one Host");
    if (n_lengths + n_codings > 1)
        return bad(why, "more than one length of the body");
    if (coding && (r->http10 || !span_is(coding->value, "chunked")))
        return bad(why, "an unknown transfer coding");
    if (length && !parse_length(length->value, &r->body_length))
        return bad(why, "not a length");
    if (coding)
        r->body = PROXY_BODY_CHUNKED;
    else if (r->body_length > 0)
        r->body = PROXY_BODY_LENGTH;
    if (r->connect && r->body != PROXY_BODY_NONE)
        return bad(why, "CONNECT with a body");
    return 0;
}

int proxy_request_parse(const char *head, size_t n, struct proxy_request *ret, const char **why)
{
    struct proxy_span rest = {head, n};

    *ret = (struct proxy_request){.n_headers = 0};
    int r = parse_request_line(next_line(&rest), ret, why);
    while (r == 0) {
        struct proxy_span line = next_line(&rest);
        if (line.len == 0)
            return parse_framing(ret, why);
        r = parse_header(line, ret, why);
    }
    return r;
}

/* Whether a Connection header names this one as meant for the proxy alone. */
static bool is_nominated(const struct proxy_request *r, struct proxy_span name)
{
    for (size_t i = 0; i < r->n_headers; i++) {
        if (!span_is(r->headers[i].name, "connection"))
            continue;
        struct proxy_span rest = r->headers[i].value;
        while (rest.len) {
            const char *comma = memchr(rest.data, ',', rest.len);
            struct proxy_span word = {rest.data, comma ? (size_t)(comma - rest.data) : rest.len};
            size_t used = comma ? word.len + 1 : word.len;
            trim(&word);
            if (word.len == name.len && strncasecmp(word.data, name.data, name.len) == 0)
                return true;
            rest.data += used;
            rest.len -= used;
        }
    }
    return false;
}

/* Host is written anew; the two that frame the body always go along with it. */
static bool is_dropped(const struct proxy_request *r, struct proxy_span name)
{
    static const char *const hop_by_hop[] = {
        "host",    "connection",         "proxy-connection",    "keep-alive", "te",
        "trailer", "proxy-authenticate", "proxy-authorization", "upgrade",    "http2-settings"};

    if (span_is(name, "content-length") || span_is(name, "transfer-encoding"))
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(hop_by_hop); i++)
        if (span_is(name, hop_by_hop[i]))
            return true;
    return is_nominated(r, name);
}

static int forward_head(const struct proxy_request *r, bool absolute, const char *authorization,
                        struct buf *out)
{
    char host[PROXY_TARGET_TEXT];

    proxy_target_format(&r->target, host);
    if (r->target.port == DEFAULT_HTTP_PORT)
        *strrchr(host, ':') = '\0';
    buf_append(out, r->method.data, r->method.len);
    buf_append_str(out, " ");
    if (absolute)
        buf_printf(out, "%s%s", scheme, host);
    buf_append_str(out, r->path.len && r->path.data[0] == '/' ? "" : "/");
    buf_append(out, r->path.data, r->path.len);
    buf_append_str(out, r->http10 ? " HTTP/1.0\r\n" : " HTTP/1.1\r\n");
    buf_printf(out, "Host: %s\r\n", host);
    for (size_t i = 0; i < r->n_headers; i++) {
        const struct proxy_header *h = &r->headers[i];
        if (is_dropped(r, h->name))
            continue;
        buf_append(out, h->name.data, h->name.len);
        buf_append_str(out, ": ");
        buf_append(out, h->value.data, h->value.len);
        buf_append_str(out, "\r\n");
    }
    if (*authorization)
        buf_printf(out, "Proxy-Authorization: %s\r\n", authorization);
    return buf_append_str(out, "Connection: close\r\n\r\n");
}

int proxy_request_forward(const struct proxy_request *r, struct buf *out)
{
    return forward_head(r, false, "", out);
}

int proxy_request_forward_upstream(const struct proxy_request *r, const char *authorization,
                                   struct buf *out)
{
    return forward_head(r, true, authorization, out);
}
