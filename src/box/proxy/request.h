/*
 * A request to the proxy: its head, read strictly from a buffer so that no input has two readings,
 * and where its body ends.
 *
 * Rejected: bare line feeds, NUL and other controls, folded lines, blanks before a colon, user
 * names in URLs, ports out of range, two hosts, two lengths, a length together with a transfer
 * coding, codings other than chunked.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "allow.h"
#include "text.h"

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

/* Parses a complete head. Returns 0, or -EBADMSG with the reason in *why. */
int proxy_request_parse(const char *head, size_t n, struct proxy_request *ret, const char **why);

/* Writes the head as it goes to the server: path only, its own Host, no hop-by-hop headers,
 * Connection: close. To another proxy (`upstream`) goes an absolute URL, and `authorization` for it
 * unless NULL or empty. */
int proxy_request_forward(const struct proxy_request *r, bool upstream, const char *authorization,
                          struct buf *out);

/* The state of a scan for the end of the body. What a client sends behind it is another request,
 * perhaps for another host, and must not reach this server. */
struct proxy_body {
    enum proxy_body_kind kind;
    int state;      /* of the chunked coding, see request.c */
    uint64_t left;  /* bytes of the body, or of the chunk */
    size_t in_line; /* bytes of coding since the last data */
    bool done;
};

void proxy_body_begin(struct proxy_body *b, const struct proxy_request *r);

/* How many of the n bytes belong to the body, or -EBADMSG if its coding is broken. Sets done at its
 * end. */
ssize_t proxy_body_scan(struct proxy_body *b, const char *data, size_t n);
