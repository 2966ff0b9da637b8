/*
 * The HTTP server: what a route's function is given, and what it may answer.
 *
 * One thread runs the event loop of libwebsockets (http.c); a route's function runs on a thread of
 * its own pool and may block: on the store, on a worker's answer, on a slow client. The loop reads
 * the request first, whole: its headers, and its body into memory (JSON) or into an unnamed file
 * (uploads). Authentication, roles, limits, schemas and CSRF have been checked by then.
 *
 * A file routes_SUBJECT.c defines one table of routes and their functions; routes.def lists the
 * tables. The rows are also what /openapi.json, /docs and the tests of authorization are made of.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "jobs.h"
#include "schema.h"
#include "text.h"

struct serve;   /* the server */
struct request; /* one request and its answer */

#define ROUTE_PARAMS_MAX 3

/* Who may call a route. An admin may call everything, a user everything but ADMIN and WORKER. */
enum route_access {
    ACCESS_PUBLIC, /* no key */
    ACCESS_READ,   /* also read-only keys */
    ACCESS_USER,
    ACCESS_ADMIN,
    ACCESS_WORKER, /* a worker's key only, or the workers' socket */
};

#define ROUTE_INLINE    1u /* the function never blocks: it runs in the loop */
#define ROUTE_UPLOAD    2u /* the body is spooled into a file: request_upload() */
#define ROUTE_WEBSOCKET 4u /* the function gets a WebSocket: websocket_*() */
#define ROUTE_SSE       8u /* it may answer with events (for the description) */
#define ROUTE_BYTES     16u /* it answers with a file of any type (for the description) */
#define ROUTE_AUDIT     32u /* a line in the audit log */
#define ROUTE_ANY_BODY  64u /* the body is not JSON, in memory: request_bytes() */
#define ROUTE_NOTHING   128u /* it may answer 204: there is nothing (for the description) */

struct route {
    const char *method, *path; /* "/v1/jobs/{id}"; the last may be "{path*}": the rest, with slashes */
    const char *operation;     /* operationId: "job_get" */
    const char *tag, *summary;
    enum route_access access;
    unsigned flags;
    int status;            /* of success: 200, 201, 202, 204 */
    const char *query;     /* JSON Schema of an object: its properties are the query's members */
    const char *input;     /* JSON Schema of the body, as SCHEMA(…); NULL: none */
    const char *output;    /* of the answer; may be {"$ref": "#/components/schemas/Job"}, see
                              api_schemas.c; NULL: none, or described by flags */
    void (*run)(struct request *q);
};

extern const struct route *const ROUTE_TABLES[]; /* each ended by a row without a method */

/* --- the request --- */

struct caller {
    enum role role;
    const char *user; /* NULL: an admin or a worker; use it for jobs.h */
    const char *name; /* the user's name also for admins: what new jobs belong to */
    const char *key;  /* its ID; NULL: none is needed here */
    struct user_limits limits;
};

struct jobs *request_jobs(struct request *q);
struct serve *request_serve(struct request *q);
const struct route *request_route(const struct request *q);
const struct caller *request_caller(const struct request *q);
const char *request_param(const struct request *q, unsigned i); /* decoded; never NULL */
const char *request_query(const struct request *q, const char *name); /* decoded; or NULL */
int64_t request_query_int(const struct request *q, const char *name, int64_t fallback);
const char *request_header(const struct request *q, const char *name); /* or NULL */
json_t *request_body(const struct request *q); /* borrowed; allowed by the schema; NULL: none */
const void *request_bytes(const struct request *q, size_t *ret_n);
int request_upload(struct request *q, uint64_t *ret_size); /* a descriptor, borrowed; size or NULL */
const char *request_id(const struct request *q);
int request_cancel(const struct request *q); /* readable once the client has gone, or at shutdown */

/* --- the answer: exactly one of these; the first one counts --- */

void respond_json(struct request *q, int status, json_t *body); /* takes it over; NULL: no memory */
void respond_empty(struct request *q, int status);
void respond_bytes(struct request *q, int status, const char *type, const void *data, size_t n);
/* A whole file, or the range that the client asked for; takes the descriptor over. `name`: as an
 * attachment of that name, else inline. Files of users are always sent as attachments. */
void respond_file(struct request *q, int fd, const char *type, const char *name);
/* application/problem+json; `type` is the last part of its URI: "not-found", "lost-lease", … */
void respond_problem(struct request *q, int status, const char *type, const char *fmt, ...)
    PRINTF(4, 5);
/* The same from an error of jobs.h or of live_call. */
void respond_error(struct request *q, const struct error *err);
/* Before any of the others: a header of the answer. */
void respond_header(struct request *q, const char *name, const char *value);

/* A body of any length from this thread, as it comes: an attachment `name` of `size` bytes, or
 * UINT64_MAX where that is not known. respond_write waits while the client is slow (more than 1 MiB
 * is unsent); -EPIPE: it has gone. n 0: the end. A function that returns before the end breaks the
 * connection, so that the client does not take a part for the whole. */
int respond_stream(struct request *q, const char *type, const char *name, uint64_t size);
int respond_write(struct request *q, const void *data, size_t n);

/* Server-sent events from this thread. sse_send waits while the client is slow; -EPIPE: it has gone.
 * The stream ends when the function returns. id 0: none. */
int sse_begin(struct request *q);
int sse_send(struct request *q, uint64_t id, const char *event, const char *data, size_t n);

/* The same without a thread: after the function returned, `more` is called on a thread of the pool
 * whenever `topic` was notified (and once at the beginning) and appends what there is, at most
 * FEED_MAX bytes; again when that was sent. 1: there is more now; 0: wait for the topic; negative:
 * the end. The feed is freed with `free`. A comment is sent every 15 s, to see that the client is
 * there. */
#define FEED_MAX (64u << 10)
struct feed {
    int (*more)(void *data, struct buf *out);
    void (*free)(void *data);
    void *data;
};
void respond_feed(struct request *q, const char *topic, const struct feed *f);
void topic_notify(struct serve *s, const char *topic); /* from any thread; cheap without listeners */
int sse_append(struct buf *out, uint64_t id, const char *event, const char *data, size_t n);

/* --- WebSockets (ROUTE_WEBSOCKET): the thread of the function owns it until it returns --- */

/* Accepts it; before, a problem can be answered. */
int websocket_accept(struct request *q);
/* 1: a whole message; 0: nothing within timeout_ms; -EPIPE: it has ended. The buffer is replaced.
 * `wake` (-1: none): a descriptor that ends the wait, too, with 0. */
int websocket_receive(struct request *q, struct buf *ret, bool *ret_binary, int timeout_ms, int wake);
/* Waits while more than 1 MiB is unsent. From any thread. */
int websocket_send(struct request *q, const void *data, size_t n, bool binary);
void websocket_close(struct request *q, unsigned code, const char *why);

/* --- live jobs (live.c) --- */

/* What the server holds of live jobs: made before the first request, freed after the last.
 * live_job_changed is to be called for each of jobs_options.changed. */
struct live;
struct live *live_new(void); /* NULL without memory */
struct live *live_free(struct live *l);
struct live *serve_live(struct serve *s);
void live_job_changed(struct live *l, const char *job);

/* Receives what a call does, on the thread of live_call, live_stream_next or live_stream_wait. */
struct live_sink {
    int (*event)(void *data, const json_t *event); /* negative: cancels the call */
    int (*bytes)(void *data, const void *bytes, size_t n); /* n 0: the end */
    void *data;
};

struct live_result {
    int status;
    json_t *body; /* a problem's has "type", "title", "detail" */
};
void live_result_free(struct live_result *r);
#define _cleanup_live_result_ _cleanup_(live_result_free)

/*
 * Calls an operation of a live job and waits for its end: the body (a new reference). `op` is
 * "KIND/NAME" ("box/exec"): a job of another kind does not exist here, nor one of another user. The
 * job may not have a worker yet: waits for one, up to 30 s. 0 also with a problem of the worker,
 * which has a status of 400 or more; -ENOENT; -EALREADY: the job has ended, and why; -EAGAIN: it has no
 * worker (503); -ETIMEDOUT (504); -EPROTO: the worker broke the protocol (502); -ECANCELED: the request's client has gone, or the sink refused. The
 * call counts as a use of the job. `timeout_ms` -1: none. `sink` NULL: nothing but the end is
 * looked at.
 */
int live_call(struct request *q, const char *job, const char *op, json_t *input, /* taken over */
              const struct live_sink *sink, int timeout_ms, struct live_result *ret,
              struct error *err);
/* A call with data in both directions: open, send (waits for credit), wait. */
struct live_stream;
int live_stream_open(struct request *q, const char *job, const char *op, json_t *input,
                     const struct live_sink *sink, struct live_stream **ret, struct error *err);
int live_stream_send(struct live_stream *s, const void *data, size_t n); /* n 0: the end */
/* How many bytes it would take now without waiting. */
size_t live_stream_room(const struct live_stream *s);
/* Waits for the end of the call while the sink is called. */
int live_stream_wait(struct live_stream *s, int timeout_ms, struct live_result *ret,
                     struct error *err);
/* The same for a thread that waits for other things, too: readable when there is something; gives it
 * to the sink without waiting. 1: the call has ended; 0: not yet; or a negative errno as above. */
int live_stream_fd(const struct live_stream *s);
int live_stream_next(struct live_stream *s, struct live_result *ret, struct error *err);
struct live_stream *live_stream_close(struct live_stream *s); /* cancels what still runs */
/* Waits until a job of any kind has ended: the job, as jobs_get() gives it. -ETIMEDOUT; -ECANCELED: the
 * client has gone. */
int live_wait_end(struct request *q, const char *job, int timeout_ms, json_t **ret,
                  struct error *err);
/* Answers with the result of a call, with the route's status, or with its problem. For the errors of
 * these calls: respond_error(). */
void respond_live(struct request *q, struct live_result *r);

/* --- a route of several tables (routes_jobs.c) --- */

/* The events of the job {id}, from its first parameter. */
void job_events_run(struct request *q);
extern const char JOB_EVENTS_QUERY[];

/* --- the server itself (serve.c) --- */

enum log_level { LOG_WARN, LOG_INFO, LOG_DEBUG };

struct serve_options {
    const char *listen; /* HOST:PORT */
    const char *data;
    const char *store;
    unsigned workers;
    const char *tls; /* CERT,KEY */
    bool insecure_http;
    const char *origins[16]; /* CORS */
    size_t n_origins;
    const char *hosts[16]; /* names that the Host header may have, beside the address's */
    size_t n_hosts;
    int64_t keep_ms;
    uint64_t max_body, max_upload;
    enum log_level log;
    /* It listens. `key` is the one that the first start made, or NULL. */
    void (*ready)(void *data, const char *url, const char *key);
    void *ready_data;
};
/* Runs until SIGTERM or SIGINT: 0, or a negative errno if it could not begin. */
int serve_run(const struct serve_options *o, struct error *err);
