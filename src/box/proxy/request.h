/*
 * The head of a request to the proxy, read strictly from a buffer: no input, however strange, is
 * taken in two ways.
 *
 * Refused: bare line feeds, NUL and other controls, folded lines, blanks before a colon, user names
 * in URLs, ports out of range, two hosts, two lengths, a length together with a transfer coding,
 * codings other than chunked.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "target.h"

#define PROXY_HEAD_MAX    (32u << 10)
#define PROXY_HEADERS_MAX 128

/* Bytes within the parsed buffer. */
struct proxy_span {
    const char *data;
    size_t len;
};

struct proxy_header {
    struct proxy_span name;
    struct proxy_span value;
};

enum proxy_body_kind { PROXY_BODY_NONE, PROXY_BODY_LENGTH, PROXY_BODY_CHUNKED };

struct proxy_request {
    bool connect;
    bool http10;
    struct proxy_span method;
    struct proxy_span path; /* path and query; may lack the slash in front, or be empty */
    struct proxy_target target;
    enum proxy_body_kind body;
    uint64_t body_length; /* of PROXY_BODY_LENGTH */
    size_t n_headers;
    struct proxy_header headers[PROXY_HEADERS_MAX];
};

/* Where the head ends (behind its empty line), or 0 when it is not complete. */
size_t proxy_head_end(const char *data, size_t n);

/* Parses a complete head. Returns 0, or -EBADMSG with *why saying what is wrong with it. */
int proxy_request_parse(const char *head, size_t n, struct proxy_request *ret, const char **why);

/* Writes the head as it goes to the server: path only, its own Host, no hop-by-hop headers,
 * Connection: close. */
int proxy_request_forward(const struct proxy_request *r, struct buf *out);

/* The same as it goes to another proxy: an absolute URL, and the authorization for that proxy
 * unless empty.
 */
int proxy_request_forward_upstream(const struct proxy_request *r, const char *authorization,
                                   struct buf *out);
