/*
 * Where the body of a forwarded request ends. What a client sends behind it is another request,
 * perhaps for another host, and must not reach this server: the proxy passes on the body's bytes
 * and no more.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "request.h"

struct proxy_body {
    enum proxy_body_kind kind;
    int state;      /* of the chunked coding, see body.c */
    uint64_t left;  /* bytes of the body, or of the chunk */
    size_t in_line; /* bytes of coding since the last data */
    bool done;
};

void proxy_body_begin(struct proxy_body *b, const struct proxy_request *r);

/* How many of the n bytes belong to the body, or -EBADMSG where its coding is broken. Sets done at
 * its end.
 */
ssize_t proxy_body_scan(struct proxy_body *b, const char *data, size_t n);
