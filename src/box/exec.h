/*
 * One running command from the host's side, shared by exec.c and the runs of warm processes, and
 * the streams between it and the host's descriptors.
 *
 * A command holds no descriptor of the host's but the ends of pipes made for it; what comes out of
 * them is moved on (spliced where the kernel can, so that a gigabyte passes without being copied
 * here) or captured. Nothing blocks: a reader that is slow makes the pump `full`, and the caller
 * then waits for room at `to` instead of bytes at `from`.
 */
#pragma once

#include <poll.h>

#include "box_internal.h"
#include "text.h"

#define TICK_MS 25

/* One stream out of the command. */
struct pump {
    int from; /* our end of the pipe, non-blocking; -1 once it has ended */
    int to;   /* where it goes, or -1: into capture, or nowhere */
    struct box_capture *capture;
    uint64_t *total; /* of both streams, for the limit on output */
    int error;       /* why `to` takes no more, an errno; 0: it does */
    bool no_splice;
    bool full;
    bool is_terminal; /* a user looks at it: what it would obey is made harmless */
    struct harmless cut;
    struct buf pending; /* what was read and did not go out yet, where nothing can be spliced */
};

#define PUMP_CHUNK 65536u

struct pollfd pump_poll(const struct pump *p); /* what to poll for */

/* Moves what can be moved now, at most about a megabyte. False once there is nothing more to move
 * for now. */
bool pump_out(struct pump *p);
void pump_close(struct pump *p);

/* The stream into the command. */
struct feed {
    int from; /* the host's descriptor; -1 once it has ended */
    int to;   /* our end of the pipe, non-blocking; -1 once closed */
    struct buf pending;
};

/* Reads once and writes as much as goes; closes `to` when all of `from` has gone through. */
void feed_step(struct feed *f, bool readable);

/* A pipe from the command beside its output. */
struct side_pipe {
    int from; /* our end, non-blocking; -1: there is none */
    bool (*received)(void *data, const void *bytes, size_t n); /* false: the command is to end */
    void *data;
};

struct call {
    uint64_t refused_before; /* proxy_refused() when it began */
    struct box *box;
    const struct box_command *command;
    struct box_result *result;
    struct wire_reader wire;
    struct pump out, err;
    struct feed in;
    struct side_pipe side;
    uint64_t output; /* bytes of both streams so far */
    bool waiting;    /* of a process that comes from outside: the guest waits for it, */
    bool arrived;    /* and has met it */
    bool done;       /* the RESULT is there */
    bool killed;     /* we asked the guest to end it */
    bool lost;       /* the stream has ended without a RESULT */
    bool silent; /* the guest did not end the command when its time was over: we ended the box */
    struct box_pulse pulse;
    int rows, cols; /* of the host's terminal, as last sent */
    struct usage before;
    /* the counters cost a few reads: they are looked at once a tick, not on every byte */
    int64_t next_watch;
    int64_t deadline; /* after which the host ends the box, whatever the guest does; 0: none */
};

/* The course of a command: init, send a request, step until it is done, finish, free. */
void call_init(struct call *c, struct box *b, const struct box_command *cmd,
               struct box_result *result);
int call_step(struct call *c, struct error *err);
/* -EPIPE if the box ended meanwhile, by no limit. */
int call_finish(struct call *c, struct error *err);
void call_free(struct call *c);

/* A pipe of which one end goes to the command and the other, non-blocking, stays here. */
int call_pipe(bool into_command, int *ret_ours, int *ret_theirs);

/* Limits go to the guest where it is the one to enforce them: always wall time, the rest where
 * nothing counts them. */
void call_put_limits(struct buf *b, const struct call *c);
