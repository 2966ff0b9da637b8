/*
 * What the files of the HTTP server share; routes see serve.h only.
 *
 * A request belongs to two sides. The loop's side (http.c) owns the connection and is the only one
 * that calls libwebsockets. The other side is the thread that runs the route's function, or the feed
 * that the function left. Each side holds a reference. They meet in the answer: threads fill it under
 * the request's lock and queue the request for the loop (loop_wake), which writes it out.
 */
#pragma once

#include <libwebsockets.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "json.h"
#include "serve.h"
#include "thread.h"

#define BODY_MAX           (8u << 20) /* of JSON */
#define BODY_VALUES_MAX    200000u
#define UNSENT_MAX         (1u << 20) /* bytes that a thread may be ahead of its client */
#define HEADERS_OUT_MAX    4096u      /* of the headers that a route adds */
#define MESSAGE_MAX        ((1u << 20) + (64u << 10)) /* of a WebSocket */
#define WORKER_MESSAGE_MAX (24u << 20) /* of that of a worker: an answer, see live.c */
#define HANDLERS_MAX       512u
#define HANDLERS_RESERVED  64u /* of these, for workers: a flood of users' requests keeps none out */
#define CONNECTIONS_MAX    16384u
#define SCRATCH_SIZE       (80u << 10)
#define QUERY_MAX          32u
#define HEADERS_MAX        24u
#define REQUEST_ID_MAX     64u

/* A connection; several requests follow each other on it, or run at once (HTTP/2). */
struct conn {
    bool is_conn; /* the first member of both kinds of descriptors that the loop has */
    struct serve *serve;
    bool local; /* the workers' socket */
    char address[INET6_ADDRSTRLEN];
    struct request *upgrade; /* between the checks and the WebSocket */
};

struct pair {
    const char *name, *value;
};

enum answer_kind { ANSWER_NONE, ANSWER_WHOLE, ANSWER_FILE, ANSWER_STREAM, ANSWER_WEBSOCKET };

struct ws_message {
    struct ws_message *next;
    size_t n;
    bool binary;
    uint8_t data[]; /* LWS_PRE bytes of room in front */
};

/* The part of a request that is a WebSocket. */
struct websocket {
    struct ws_message *in, **in_end, *out, **out_end;
    size_t in_bytes, out_bytes;
    struct buf partial; /* the message that is arriving; the loop's */
    int event;          /* counts what arrived */
    bool paused;        /* the loop does not read: in_bytes is too much */
    bool closing;       /* close_code and close_why are to be sent */
    unsigned close_code;
    char close_why[124];
};

struct ready_route;

struct request {
    struct serve *serve;
    atomic_uint refs;

    /* The loop's. */
    struct lws *wsi; /* NULL: gone */
    enum { PHASE_HEADERS, PHASE_AUTH, PHASE_BODY, PHASE_RUN } phase;
    bool h2, http10, head, close_after, body_complete, headers_sent, watched;
    int64_t body_begin;
    uint64_t body_size, body_got; /* Content-Length, and what came of it */
    int watch_fd;                 /* under `lock`; -1: cannot be watched */
    struct request *next_ready, *next_open, **open_at;
    uint64_t sent;

    /* Set before the function runs. */
    bool local;
    char address[INET6_ADDRSTRLEN];
    const char *method;
    const struct route *route;
    const struct ready_route *ready_route;
    char *path; /* decoded */
    char *params[ROUTE_PARAMS_MAX];
    struct pair query[QUERY_MAX];
    size_t n_query;
    struct pair headers[HEADERS_MAX];
    size_t n_headers;
    char *text; /* the bytes of path, query and headers */
    struct buf body;
    json_t *json;
    int upload;
    struct caller caller;
    struct api_key key; /* what `caller` points into */
    bool authenticated;
    char basic_key[256]; /* decoded from Authorization: Basic */
    char id[REQUEST_ID_MAX + 1];
    int64_t began;

    /* The answer; under `lock` while both sides run. */
    pthread_mutex_t lock;
    pthread_cond_t drained;
    _Atomic(enum answer_kind) answer; /* the loop also looks at it without the lock */
    int status;
    bool ready;    /* in the loop's list */
    bool gone;     /* the client */
    bool stopping; /* the server */
    bool finished; /* the function returned and left no feed: nothing is added any more */
    bool complete; /* what it sent is all there is */
    bool sse, chunked;
    int64_t sent_at;        /* the last comment or event */
    struct buf headers_out; /* name NUL value NUL … */
    struct buf out;         /* what is to be sent next */
    int file;
    uint64_t file_at, left; /* bytes of the body that are not sent; UINT64_MAX: not known */
    int cancel;
    struct websocket *ws;
    struct feed_state *feed;
};

struct tls_files {
    char cert[4096], key[4096];
    struct timespec changed[2];
    ino_t inodes[2];
};

struct dispatch;
struct pool;
struct topics;
struct auth;
struct supervisor;

struct serve {
    const struct serve_options *options;
    struct jobs *jobs;
    struct live *live;
    struct pool *pool;
    struct topics *topics;
    struct auth *auth;
    struct dispatch *dispatch;
    struct supervisor *supervisor;

    struct lws_context *context;
    struct lws_vhost *vhost;
    struct loop_source *sources;
    struct request *open; /* all that have a connection; the loop's */
    unsigned port;
    char url[300];
    uint64_t max_body, max_upload;
    struct tls_files tls_files;
    bool tls, stopping;
    int64_t stop_at;
    unsigned connections, requests; /* open now; the loop's */
    unsigned max_connections;
    size_t early_bytes; /* of bodies whose keys are being checked; the loop's */
    uint8_t *scratch;

    pthread_mutex_t lock; /* of the list */
    struct request *ready, **ready_end;

    pthread_t loop_thread;
    int epoll; /* of connections whose function waits: did the client close? */
    atomic_uint_fast64_t n_requests, n_bytes, n_status[6], busy_us;
    atomic_uint_fast64_t worker_seen; /* monotonic ns of the last lease */
};

/* loop.c: descriptors and signals. */
int loop_open(struct serve *s, struct error *err);
void loop_run(struct serve *s); /* until the server has stopped */
void loop_close(struct serve *s);
int listen_parse(const char *text, char *host, size_t size, const char **ret_port,
                 struct error *err);
void loop_conn_free(struct serve *s, struct lws *wsi);
int loop_source_callback(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in,
                         size_t n);

/* tls.c */
int tls_prepare(struct serve *s, struct lws_context_creation_info *info, struct error *err);
void tls_reload(struct serve *s, bool asked); /* if the files changed, or `asked` */

/* http.c: requests in, answers out. */
extern const struct lws_protocols HTTP_PROTOCOLS[];
void http_enter(struct request *q);     /* it has a connection now */
void http_write_now(struct request *q); /* the whole answer, at once */
/* The answer of q has something for the loop. Any thread, under the request's lock. */
void loop_wake(struct request *q);
/* Notice when the client closes its side, although nothing is read meanwhile. The same. */
void loop_watch(struct request *q);

/* request.c */
struct request *request_new(struct serve *s, const struct conn *c);
/* Copies path, query and headers. 0, or the status of the answer with *ret_why. */
int request_read(struct request *q, struct lws *wsi, const char **ret_why);
void request_ref(struct request *q);
void request_unref(struct request *q);
void request_mark_gone(struct request *q); /* the client has gone: wakes who waits */

/* respond.c */
/* "bytes=FIRST-LAST", "bytes=FIRST-", "bytes=-SUFFIX": 1. 0: not a range that we know; send the whole
 * (RFC 9110). -1: nothing of the file is in it. */
int range_parse(const char *text, uint64_t size, uint64_t *ret_first, uint64_t *ret_n);
void respond_busy(struct request *q); /* 503: no thread is free */

/* websocket.c */
int websocket_callback(struct serve *s, struct lws *wsi, enum lws_callback_reasons reason,
                       void *user, void *in, size_t n);
void websocket_service(struct request *q); /* in the loop: read on if there is room again */

/* dispatch.c: from the headers to the function. */
int dispatch_new(struct dispatch **ret, struct error *err);
void dispatch_free(struct dispatch *d);
/* Finds the route and checks what the head says; false: it was answered. */
bool dispatch_begin(struct request *q);
/* Opens the file that an upload goes to. False: it was answered. */
bool dispatch_spool(struct request *q);
/* The body is there, or there is none: calls the function, here or in a thread. */
void dispatch_run(struct request *q);

/* auth.c */
struct auth *auth_new(const char *admin_key); /* NULL: none; returns NULL without memory */
void auth_free(struct auth *a);
bool auth_has_key(struct request *q); /* did it send one, or need none? False: it was answered */
/* Who is it, and may it do this? May take long the first time. False: it was answered. */
bool auth_check(struct request *q);
bool auth_host_allowed(const struct serve *s, const char *host);
bool auth_origin_allowed(const struct serve *s, const char *origin);
bool auth_origin_is_own(const struct request *q, const char *origin);

/* pool.c: the threads of functions. */
struct pool *pool_new(void);
bool pool_end(struct pool *p); /* waits for all; false: some function does not end */
void pool_free(struct pool *p);
/* -EAGAIN: all are busy. */
int pool_submit(struct pool *p, bool reserved, void (*run)(void *data), void *data);
unsigned pool_busy(struct pool *p);

/* stream.c: events. */
struct topics *topics_new(struct serve *s);
void topics_free(struct topics *t);
void feed_drained(struct request *q); /* the loop has sent everything */
void feed_gone(struct request *q);
void feeds_tick(struct serve *s); /* once a second, in the loop */
void feeds_end(struct serve *s);

/* openapi.c */
json_t *openapi_document(void);
json_t *openapi_components(void);       /* {"schemas": {…}} */
extern const struct pair API_SCHEMAS[]; /* api_schemas.c: name and JSON Schema; ends with a NULL */

/* supervise.c */
int supervisor_start(struct serve *s, struct supervisor **ret, struct error *err);
void supervisor_stop(struct supervisor *v); /* SIGTERM to all; does not wait */
bool supervisor_has_ended(const struct supervisor *v);
void supervisor_free(struct supervisor *v);

/* log.c */
extern enum log_level log_level;
void log_request(const struct request *q);
void log_message(enum log_level level, const char *fmt, ...) PRINTF(2, 3);
