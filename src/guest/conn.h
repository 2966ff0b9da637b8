/*
 * A connection: frames in, frames out, never blocking.
 *
 * It calls its user for each frame, for room in a queue that was full, and at the connection's end.
 * A connection frees itself: when its peer is gone or sent a malformed frame (`closed` is called
 * last), or after conn_finish() once all is sent (the user has let go of it then). Composing frames
 * into conn->out and pushing them never frees it.
 */
#pragma once

#include <stdbool.h>

#include "loop.h"
#include "wire.h"

struct guest;
struct conn;

struct conn_user { /* each may be NULL; then a frame ends the connection */
    int (*frame)(struct conn *c, const struct wire_frame *f); /* negative: the connection ends */
    void (*room)(struct conn *c);
    void (*closed)(struct conn *c);
};

/* What all connections of a guest share. */
struct conn_owner {
    struct loop *loop;
    unsigned n_open;
};

#define CONNS_MAX 1024

struct conn {
    struct loop_source source;
    struct guest *guest;
    struct conn_owner *owner;
    const struct conn_user *user;
    void *data; /* the user's */
    struct wire_reader in;
    struct buf out; /* bytes from `sent` on wait for the peer */
    size_t sent;
    bool busy;    /* one of our handlers is on the stack: it settles things at its end */
    bool full;    /* the user waits for room */
    bool paused;  /* frames are left unread */
    bool resumed; /* frames may wait in the reader */
    bool closing; /* ends once all is sent */
    bool dead;
};

/* Takes over fd; a request that is already there is served before this returns. */
void conn_open(struct guest *g, struct conn_owner *owner, int fd, const struct conn_user *user);

/* Sends what was composed into c->out as far as the peer takes it now. */
void conn_push(struct conn *c);

/* True while the queue is long: the user stops producing until `room` is called. */
bool conn_is_full(struct conn *c);

/* Leaves frames unread, or goes on reading them. */
void conn_pause(struct conn *c, bool on);

/* The user is done: sends the rest, then closes. The connection must not be touched after this. */
void conn_finish(struct conn *c);

/* Takes the descriptor: the connection is freed without closing it. */
int conn_take_fd(struct conn *c);

/* Answers with an ERROR and finishes. */
void conn_error(struct conn *c, int code, const char *fmt, ...) PRINTF(3, 4);

/* An ERROR frame, also where there is no conn. */
void conn_put_error(struct buf *b, int code, const char *text);
