#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "session.h"
#include "banned.h"

#define METHOD_MAX        32
#define LENGTH_DIGITS_MAX 18
#define DEFAULT_HTTP_PORT 80
#define CHUNK_SIZE_LIMIT  (1ull << 60)
#define CHUNK_LINE_MAX    4096

static const char scheme[] = "http://";

static int request_bad(const char **why, const char *text)
{
    *why = text;
    return -EBADMSG;
}

static bool span_is(struct proxy_span s, const char *word)
{
    return s.len == strlen(word) && strncasecmp(s.data, word, s.len) == 0;
}

static bool span_is_token(struct proxy_span s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.data[i];
        if (!c || !isascii(c) || !(isalnum(c) || strchr("!#$%&'*+-.^_`|~", c)))
            return false;
    }
    return s.len > 0;
}

static struct proxy_span span_trim(struct proxy_span s)
{
    while (s.len && (s.data[0] == ' ' || s.data[0] == '\t')) {
        s.data++;
        s.len--;
    }
    while (s.len && (s.data[s.len - 1] == ' ' || s.data[s.len - 1] == '\t'))
        s.len--;
    return s;
}

/* Cuts what is before the next separator off the front; all of it, and false, if there is none. */
static bool span_cut(struct proxy_span *rest, const char *separator, struct proxy_span *ret)
{
    size_t n = strlen(separator);
    const char *end = rest->len ? memmem(rest->data, rest->len, separator, n) : NULL;
    *ret = (struct proxy_span){rest->data, end ? (size_t)(end - rest->data) : rest->len};
    size_t used = end ? ret->len + n : ret->len;
    rest->data += used;
    rest->len -= used;
    return end != NULL;
}

size_t proxy_head_end(const char *data, size_t n)
{
    const char *end = n ? memmem(data, n, "\r\n\r\n", 4) : NULL;
    return end ? (size_t)(end - data) + 4 : 0;
}

/* CONNECT takes HOST:PORT, everything else an absolute URL. */
static int parse_request_line(struct proxy_span line, struct proxy_request *r, const char **why)
{
    const size_t prefix = sizeof scheme - 1;
    struct proxy_span uri;

    if (!span_cut(&line, " ", &r->method) || !span_cut(&line, " ", &uri) || uri.len == 0)
        return request_bad(why, "not a request line");
    if (!span_is_token(r->method) || r->method.len > METHOD_MAX)
        return request_bad(why, "not a method");
    r->http10 = line.len == 8 && memcmp(line.data, "HTTP/1.0", 8) == 0;
    if (!r->http10 && !(line.len == 8 && memcmp(line.data, "HTTP/1.1", 8) == 0))
        return request_bad(why, "the version is not HTTP/1.0 or HTTP/1.1");

    for (size_t i = 0; i < uri.len; i++)
        if (uri.data[i] < 0x21 || uri.data[i] > 0x7e)
            return request_bad(why, "an invalid byte in the request line");
    if (r->method.len == 7 && memcmp(r->method.data, "CONNECT", 7) == 0) {
        r->connect = true;
        if (proxy_target_parse(uri.data, uri.len, &r->target) < 0 || r->target.port == 0)
            return request_bad(why, "CONNECT needs HOST:PORT");
        return 0;
    }
    if (uri.len < prefix || strncasecmp(uri.data, scheme, prefix) != 0)
        return request_bad(
            why, "this is a proxy: send CONNECT, or a request with an absolute http:// URL");
    const char *authority = uri.data + prefix, *end = uri.data + uri.len, *path = authority;
    while (path < end && *path != '/' && *path != '?' && *path != '#')
        path++;
    if (memchr(authority, '@', (size_t)(path - authority)))
        return request_bad(why, "a user name in the URL");
    if (memchr(path, '#', (size_t)(end - path)))
        return request_bad(why, "a fragment in the URL");
    if (proxy_target_parse(authority, (size_t)(path - authority), &r->target) < 0)
        return request_bad(why, "no valid host and port in the URL");
    if (r->target.port == 0)
        r->target.port = DEFAULT_HTTP_PORT;
    r->path = (struct proxy_span){path, (size_t)(end - path)};
    return 0;
}

/* The length of the body must be beyond doubt, or a request that was not checked follows it. */
static int parse_framing(struct proxy_request *r, const char **why)
{
    size_t n_hosts = 0, n_lengths = 0, n_codings = 0;
    struct proxy_span length = {0}, coding = {0};

    for (size_t i = 0; i < r->n_headers; i++) {
        const struct proxy_header *h = &r->headers[i];
        if (span_is(h->name, "host")) {
            n_hosts++;
        } else if (span_is(h->name, "content-length")) {
            n_lengths++;
            length = h->value;
        } else if (span_is(h->name, "transfer-encoding")) {
            n_codings++;
            coding = h->value;
        }
    }
    if (n_hosts > 1)
        return request_bad(why, "more than one Host");
    if (n_lengths + n_codings > 1)
        return request_bad(why, "more than one length of the body");
    if (n_codings && (r->http10 || !span_is(coding, "chunked")))
        return request_bad(why, "an unknown transfer coding");
    if (n_lengths && (length.len == 0 || length.len > LENGTH_DIGITS_MAX))
        return request_bad(why, "not a length");
    for (size_t i = 0; i < length.len; i++) {
        if (length.data[i] < '0' || length.data[i] > '9')
            return request_bad(why, "not a length");
        r->body_length = r->body_length * 10 + (uint64_t)(length.data[i] - '0');
    }
    if (n_codings)
        r->body = PROXY_BODY_CHUNKED;
    else if (r->body_length > 0)
        r->body = PROXY_BODY_LENGTH;
    if (r->connect && r->body != PROXY_BODY_NONE)
        return request_bad(why, "CONNECT with a body");
    return 0;
}

int proxy_request_parse(const char *head, size_t n, struct proxy_request *ret, const char **why)
{
    struct proxy_span rest = {head, n}, line;
    *ret = (struct proxy_request){.n_headers = 0};
    span_cut(&rest, "\r\n", &line);
    int r = parse_request_line(line, ret, why);
    if (r < 0)
        return r;
    while (span_cut(&rest, "\r\n", &line), line.len) {
        struct proxy_header h;
        if (!span_cut(&line, ":", &h.name))
            return request_bad(why, "a header without a colon");
        h.value = span_trim(line);
        if (!span_is_token(h.name))
            return request_bad(why, "not a header name");
        for (size_t i = 0; i < h.value.len; i++) {
            unsigned char c = (unsigned char)h.value.data[i];
            if ((c < 0x20 && c != '\t') || c == 0x7f)
                return request_bad(why, "a control character in a header");
        }
        if (ret->n_headers == PROXY_HEADERS_MAX)
            return request_bad(why, "too many headers");
        ret->headers[ret->n_headers++] = h;
    }
    return parse_framing(ret, why);
}

/* Hop-by-hop headers, and those that a Connection header names, are for the proxy alone. Host is
 * written anew; the two that frame the body always go along with it. */
static bool header_is_dropped(const struct proxy_request *r, struct proxy_span name)
{
    static const char *const hop_by_hop[] = {
        "host",    "connection",         "proxy-connection",    "keep-alive", "te",
        "trailer", "proxy-authenticate", "proxy-authorization", "upgrade",    "http2-settings"};

    if (span_is(name, "content-length") || span_is(name, "transfer-encoding"))
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(hop_by_hop); i++)
        if (span_is(name, hop_by_hop[i]))
            return true;
    for (size_t i = 0; i < r->n_headers; i++) {
        if (!span_is(r->headers[i].name, "connection"))
            continue;
        struct proxy_span rest = r->headers[i].value, word;
        while (rest.len) {
            span_cut(&rest, ",", &word);
            word = span_trim(word);
            if (word.len == name.len && strncasecmp(word.data, name.data, name.len) == 0)
                return true;
        }
    }
    return false;
}

int proxy_request_forward(const struct proxy_request *r, bool upstream, const char *authorization,
                          struct buf *out)
{
    char host[PROXY_TARGET_TEXT];

    proxy_target_format(&r->target, host);
    if (r->target.port == DEFAULT_HTTP_PORT)
        *strrchr(host, ':') = '\0';
    buf_append(out, r->method.data, r->method.len);
    buf_printf(out, " %s%s%s", upstream ? scheme : "", upstream ? host : "",
               r->path.len && r->path.data[0] == '/' ? "" : "/");
    buf_append(out, r->path.data, r->path.len);
    buf_printf(out, " HTTP/1.%c\r\nHost: %s\r\n", r->http10 ? '0' : '1', host);
    for (size_t i = 0; i < r->n_headers; i++) {
        const struct proxy_header *h = &r->headers[i];
        if (header_is_dropped(r, h->name))
            continue;
        buf_append(out, h->name.data, h->name.len);
        buf_append_str(out, ": ");
        buf_append(out, h->value.data, h->value.len);
        buf_append_str(out, "\r\n");
    }
    if (authorization && *authorization)
        buf_printf(out, "Proxy-Authorization: %s\r\n", authorization);
    return buf_append_str(out, "Connection: close\r\n\r\n");
}

/* The chunked coding, byte by byte: SIZE [; extension] CRLF data CRLF … 0 CRLF [trailer CRLF]…
 * CRLF */
enum chunk_state {
    SIZE_FIRST,
    SIZE,
    EXTENSION,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER_FIRST,
    TRAILER,
    TRAILER_LF,
    LAST_LF
};

void proxy_body_begin(struct proxy_body *b, const struct proxy_request *r)
{
    *b = (struct proxy_body){.kind = r->body, .left = r->body_length, .state = SIZE_FIRST};
    b->done = r->body == PROXY_BODY_NONE;
}

/* The state after one byte, or -EBADMSG. */
static int chunk_step(struct proxy_body *b, char c)
{
    bool is_text = c == '\t' || (unsigned char)c >= 0x20;

    switch ((enum chunk_state)b->state) {
    case SIZE_FIRST:
    case SIZE:
        if (b->state == SIZE_FIRST)
            b->left = 0;
        else if (c == '\r')
            return SIZE_LF;
        else if (c == ';')
            return EXTENSION;
        if (!isxdigit((unsigned char)c) || b->left >= CHUNK_SIZE_LIMIT >> 4)
            return -EBADMSG;
        b->left =
            b->left << 4 | (uint64_t)(isdigit((unsigned char)c) ? c - '0' : (c | 0x20) - 'a' + 10);
        return SIZE;
    case EXTENSION:
        return c == '\r' ? (int)SIZE_LF : is_text ? (int)EXTENSION : -EBADMSG;
    case SIZE_LF:
        return c != '\n' ? -EBADMSG : b->left ? (int)DATA : (int)TRAILER_FIRST;
    case DATA_CR:
        return c == '\r' ? (int)DATA_LF : -EBADMSG;
    case DATA_LF:
        return c == '\n' ? (int)SIZE_FIRST : -EBADMSG;
    case TRAILER_FIRST:
        return c == '\r' ? (int)LAST_LF : is_text ? (int)TRAILER : -EBADMSG;
    case TRAILER:
        return c == '\r' ? (int)TRAILER_LF : is_text ? (int)TRAILER : -EBADMSG;
    case TRAILER_LF:
        return c == '\n' ? (int)TRAILER_FIRST : -EBADMSG;
    case LAST_LF:
        b->done = c == '\n';
        return b->done ? (int)LAST_LF : -EBADMSG;
    case DATA: /* skipped as a whole */
        break;
    }
    return -EBADMSG;
}

ssize_t proxy_body_scan(struct proxy_body *b, const char *data, size_t n)
{
    size_t i = 0;
    while (i < n && !b->done) {
        if (b->kind == PROXY_BODY_LENGTH || b->state == DATA) {
            size_t skip = n - i < b->left ? n - i : (size_t)b->left;
            i += skip;
            b->left -= skip;
            b->in_line = 0;
            if (b->left == 0 && b->kind == PROXY_BODY_LENGTH)
                b->done = true;
            else if (b->left == 0)
                b->state = DATA_CR;
            continue;
        }
        b->state = chunk_step(b, data[i++]);
        if (b->state < 0 || ++b->in_line > CHUNK_LINE_MAX)
            return -EBADMSG;
    }
    return (ssize_t)i;
}
