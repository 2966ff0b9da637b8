/*
 * The bridge between JSON-RPC on stdin and stdout, one message per line, and an MCP server that is
 * reached by streamable HTTP.
 *
 * Each message is POSTed by itself. A request is answered in the body, or in a stream of events,
 * which is taken up again where it broke off if its events have ids. Requests are under way side by
 * side; a notification, and the handshake, is waited for before the next message goes, so that a
 * server sees them in order. Once hands are shaken a GET stream brings what the server says by
 * itself, where it offers one.
 *
 * One thread: curl's multi handle waits for all transfers and for stdin.
 */
#pragma once

#include <curl/curl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "buf.h"
#include "place.h"
#include "rpc.h"
#include "sse.h"

#define UNDER_WAY_MAX 32
#define QUEUE_MAX     64
#define RESUMES_MAX   5
#define REDIRECTS_MAX 3
#define SESSION_MAX   1024

enum transfer_kind {
    TRANSFER_POST,   /* a message, and its answer */
    TRANSFER_RESUME, /* GET: the rest of an answer that broke off */
    TRANSFER_LISTEN, /* GET: what the server says by itself */
};

struct bridge;

struct transfer {
    struct bridge *bridge;
    enum transfer_kind kind;
    CURL *easy;    /* NULL while it waits for `due` */
    int64_t due;   /* when to begin; or, once it is answered, when to end */
    char *body;    /* of a POST */
    char *url;     /* the place's, or where that led to */
    json_t *id;    /* of the request that is to be answered; NULL: none */
    bool hello;    /* it is the handshake */
    bool ready;    /* it is the notification that ends the handshake */
    bool in_order; /* nothing else is sent meanwhile */
    bool answered;
    bool lost;   /* the server knows the session no more */
    bool events; /* the answer is a stream of events */
    unsigned resumes, redirects;
    struct curl_slist *headers;
    struct buf in; /* an answer that is no stream, or what the server says about its refusal */
    struct sse sse;
    char *last_id;    /* where to take a stream up again, */
    int64_t retry_ms; /* and after how long; -1: the server did not say */
    int failed;       /* why we broke it off: a positive errno */
    char why[CURL_ERROR_SIZE];
    struct transfer *next;
};

/* A message that has not gone out yet. */
struct queued {
    json_t *message;
    struct queued *next;
};

struct bridge {
    struct place place;
    CURLM *multi;
    struct transfer *transfers;
    size_t under_way;
    struct queued *first, **last;
    size_t n_queued;
    char *session; /* Mcp-Session-Id, once the server gave one */
    char *version; /* MCP-Protocol-Version, once it was agreed on */
    bool waiting;  /* a message is under way that the next one must not overtake */
    bool over;     /* there is no talking to the server any more */
};

int bridge_init(struct bridge *b, struct place *place); /* takes the place over */
void bridge_free(struct bridge *b);

/* One message of the client's; borrows it. */
int bridge_send(struct bridge *b, json_t *message);

/* Is there room for another message? */
bool bridge_has_room(const struct bridge *b);

/* Does what can be done now, then waits for the network, for `in` (-1: not) or for time. */
int bridge_step(struct bridge *b, int in);

/* Tells the server that the session is over. */
void bridge_end(struct bridge *b);

/* Writes a message to the client. */
void bridge_deliver(struct bridge *b, const json_t *message);

/* transfer.c: one exchange, from its making to its beginning. */
struct transfer *transfer_new(struct bridge *b, enum transfer_kind kind);
struct transfer *transfer_free(struct transfer *t);
int transfer_begin(struct transfer *t);

/* outcome.c: what came of it. */
size_t outcome_receive(char *data, size_t size, size_t n,
                       void *transfer); /* curl's write function */
void outcome_ended(struct transfer *t, CURLcode code);

/* Answers the request for the server, with an error, if it is not answered. */
void outcome_fail(struct transfer *t, const char *fmt, ...) PRINTF(2, 3);
