/*
 * A server of hutch (`hutch serve`) as a command reaches it: over TCP, TLS or a unix socket, with
 * libcurl.
 *
 * A request that the server may get twice is repeated while the server cannot be reached or says
 * that it is busy: for 10 seconds at first, for 5 minutes once it has answered, so that a command
 * that waits survives a restart of the server. The first signal ends any call with -ECANCELED
 * (interrupt_watch).
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "text.h"

#define API_ANSWER_MAX (64u << 20) /* of JSON */

struct api {
    char *name;   /* as the user wrote it */
    char *base;   /* http://HOST:PORT; of a socket http://localhost */
    char *socket; /* path; NULL: none */
    char *key;    /* NULL: none */
    bool reached; /* the server has answered once */
};

/* NULL: HUTCH_SERVER, else http://127.0.0.1:8642; HUTCH_API_KEY, else none. -EINVAL. */
int api_open(const char *server, const char *key, struct api *ret, struct error *err);
void api_free(struct api *a);
#define _cleanup_api_ _cleanup_(api_free)

/* Where the body of an answer goes, unless it is a problem. */
struct api_sink {
    int (*begin)(void *data); /* of an attempt: what came before is void */
    int (*take)(void *data, const void *bytes, size_t n);
    void *data;
};

struct api_request {
    const char *method, *path; /* with its query; quoted */
    const char *accept;        /* NULL: JSON */
    const char *idempotency;   /* NULL: none */
    const char *last_event;    /* Last-Event-ID; NULL: none */
    uint64_t from;             /* only the bytes from there on (a Range) */
    const char *body;          /* JSON; NULL: none, or… */
    int upload;                /* …a file, from its beginning, of this size */
    uint64_t upload_size;
    bool once; /* the server must not get it twice */
    struct api_sink sink;
};

/* 0 with the status, which is below 400; -EIO: the server cannot be reached; otherwise by the
 * status: -ENOENT 404, -EACCES 401 and 403, -EBUSY 409, -ERANGE 416, -EINVAL 400 and 422, -EPROTO
 * others. */
int api_call(struct api *a, const struct api_request *q, long *ret_status, struct error *err);

/* A request with a JSON body (taken over; may be NULL) and a JSON answer. */
int api_json(struct api *a, const char *method, const char *path, json_t *body, json_t **ret,
             struct error *err);
/* `q` without a sink. */
int api_json_call(struct api *a, const struct api_request *q, json_t **ret, struct error *err);

/* Writes what GET answers with, from an offset on, to a descriptor: standard output, or a file,
 * which begins anew when the connection broke. *ret_size: the bytes written, also on failure. */
int api_download(struct api *a, const char *path, uint64_t from, int fd, uint64_t *ret_size,
                 struct error *err);

/* Follows events, over as many connections as it takes, until the server has no more. `each` gets
 * them one by one, and NULL when it has all that arrived so far; it returns 0 or an error. */
int api_follow(struct api *a, const char *path, int (*each)(void *data, const json_t *event),
               void *data, struct error *err);

/* Percent-encodes a part of a path; `keep` are further characters that stay ("/"). */
void api_quote(struct buf *out, const char *text, const char *keep);
