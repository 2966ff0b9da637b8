/*
 * The server as a worker reaches it: one request, tried once (server_client_call), or repeated while the
 * server cannot be reached and a lease is held (server_post, server_put, server_get of worker.h).
 *
 * Connections stay open and are shared by the threads. Any thread may call.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "error.h"

struct server_client;

/* `server` and `key` as in worker_options. */
int server_client_new(const char *server, const char *key, struct server_client **ret,
                      struct error *err);
struct server_client *server_client_free(struct server_client *c);

struct client_call {
    const char *path;   /* "/v1/worker/lease" */
    const json_t *body; /* of a POST; NULL: */
    int fd;             /* a PUT of `size` bytes of it; -1: a GET */
    uint64_t size;
    int timeout_ms; /* of the answer's beginning; 0: a minute */
    int cancel;     /* ends the request when it becomes readable; -1: none */
    /* Asked several times a second meanwhile; true ends the request, with -ECANCELED. */
    bool (*give_up)(void *data);
    void *data;
};

/* What came back: JSON, or of a GET a file without a name (-1: there is none). */
struct client_answer {
    json_t *json;
    int fd;
    char type[32]; /* of the file: "application/zip" */
};

/* 0; -ESTALE: the lease is lost; -EAGAIN: the server could not be reached or has trouble of its own,
 * so the request may be repeated; -ECANCELED; or what the server refused, with its reason. */
int server_client_call(struct server_client *c, const struct client_call *q,
                       struct client_answer *ret, struct error *err);

/* Milliseconds to wait before try number n (from 1): 100 doubled up to 5 s, less up to a half, so
 * that many workers do not come at once. */
int server_delay_ms(unsigned n);
