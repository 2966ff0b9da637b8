/*
 * The guest: one event loop over descriptors and timers, and the connections of the host, each of
 * which carries one request (loop.c). Everything that the loop calls reaches the one struct guest.
 *
 * The loop is built on poll and not on epoll, whose watches the kernel counts per user: another box
 * of the same user could use them all up, and no guest would start any more.
 */
#pragma once

#include <dirent.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/resource.h>

#include "wire.h"

/* The struct that holds `member` at `ptr`. */
#define CONTAINER_OF(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

struct loop_source {
    int fd;
    short events; /* what is watched now; 0: nothing, not even a hang-up */
    size_t index; /* in the loop's lists, while something is watched */
    void (*ready)(struct loop_source *s, short events);
    void *owner; /* for a handler that cannot find it by CONTAINER_OF */
};

struct loop_timer {
    int64_t at; /* clock_now() time; 0: not set */
    void (*fire)(struct loop_timer *t);
    LIST_ENTRY(loop_timer) link;
};

LIST_HEAD(loop_timers, loop_timer);

struct loop {                     /* all zero: empty */
    struct pollfd *polls;         /* the argument of poll, */
    struct loop_source **sources; /* and the source of each entry */
    size_t count, room;
    size_t turn; /* where the search for the next ready source starts: sources take turns */
    struct loop_timers timers;
};

/* Changes what is watched of a source; 0 forgets it. Fails only when there is no memory for it. */
int loop_watch(struct loop *l, struct loop_source *s, short events);

/* Forgets the source and closes its descriptor (which may be -1 already). */
void loop_close(struct loop *l, struct loop_source *s);

/* Lets the timer fire once at that time; 0 cancels it. */
void loop_timer_set(struct loop *l, struct loop_timer *t, int64_t at);

/* Waits for one event or timer and handles it. Only one, so a handler may free any source or timer,
 * its own included. What a handler leaves unread is reported again. */
void loop_step(struct loop *l);

/*
 * A connection: frames in, frames out, never blocking.
 *
 * It calls its user for each frame, for room in a queue that was full, and at the connection's end.
 * A connection frees itself: when its peer is gone or sent a malformed frame (`closed` is called
 * last), or after conn_finish() once all is sent. Composing frames into conn->out and pushing them
 * never frees it.
 */
struct conn;

struct conn_user { /* each may be NULL; then a frame ends the connection */
    int (*frame)(struct conn *c, const struct wire_frame *f); /* negative: the connection ends */
    void (*room)(struct conn *c);
    void (*closed)(struct conn *c);
};

struct conn {
    struct loop_source source;
    struct guest *guest;
    const struct conn_user *user;
    void *data; /* the user's */
    struct wire_reader in;
    struct buf out; /* bytes from `sent` on wait for the peer */
    size_t sent;
    bool busy;    /* one of our handlers is on the stack: it frees the connection if it is over */
    bool full;    /* the user waits for room */
    bool paused;  /* frames are left unread */
    bool resumed; /* frames may wait in the reader */
    bool closing; /* ends once all is sent */
    bool dead;
};

/* Takes over fd; a request that is already there is served before this returns. */
void conn_open(struct guest *g, int fd);

/* Sends what was composed into c->out as far as the peer takes it now. */
void conn_push(struct conn *c);

/* True while the queue is long: the user stops producing until `room` is called. */
bool conn_is_full(struct conn *c);

/* Leaves frames unread, or reads them again. */
void conn_pause(struct conn *c, bool on);

/* The user is done: sends the rest, then closes. The connection must not be touched after this. */
void conn_finish(struct conn *c);

/* Ends the frame that began at `at` in c->out, and finishes. */
void conn_finish_frame(struct conn *c, size_t at);

/* Takes the descriptor: the connection is freed without closing it. */
int conn_take_fd(struct conn *c);

/* Answers with an ERROR and finishes. */
void conn_error(struct conn *c, int code, const char *fmt, ...) PRINTF(3, 4);

/* An ERROR frame, also where there is no conn. */
void conn_put_error(struct buf *b, int code, const char *text);

LIST_HEAD(commands, command);
LIST_HEAD(workers, worker);
LIST_HEAD(sessions, session);

#define FREEZE_HOLDERS_MAX 16

enum freeze_state { FREEZE_OFF, FREEZE_STOPPING, FREEZE_ON };

struct freeze {
    enum freeze_state state;
    struct conn *holders[FREEZE_HOLDERS_MAX];
    size_t n_holders;
    struct buf stopped_before; /* pid_t each */
    unsigned count;            /* processes that are frozen */
    bool mapped;               /* one of them has a file mapped to write to it */
    struct loop_timer timer;
    int64_t began;
};

struct notify {
    int listener;           /* -1: none */
    atomic_bool busy;       /* a call is being served: files may be half-way between two folders */
    atomic_bool landlocked; /* a process of the box has set itself rules */
};

struct guest {
    struct loop loop;
    struct loop_source control; /* where the host sends connections */
    struct loop_source signals; /* SIGCHLD */
    unsigned n_conns;
    struct commands commands; /* running, and ended background ones; newest first */
    unsigned n_commands;
    struct workers workers;
    unsigned n_workers;
    struct sessions sessions; /* of shells; the last used first */
    unsigned n_sessions;
    bool has_children; /* false: no process but this one exists */
    DIR *proc;         /* /proc, opened when first needed and kept */
    struct freeze freeze;
    struct notify notify;
    rlim_t next_tag;
    rlim_t tags_end; /* every process that a command started has a lower tag */
    uint64_t next_handle;
    uint8_t scratch[WIRE_DATA_MAX]; /* bytes on their way from a pipe into a frame */
};

/* notify.c: starts its thread, before any other task is made. `listener` is the filter's, or -1. */
int notify_start(struct notify *n, int listener);

/* store.c: the store process, which never comes near a box's namespaces. Returns its status. */
int store_main(int control);
