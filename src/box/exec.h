/* One running command from the host's side; private to exec*.c and warm_run.c. */
#pragma once

#include "local_box.h"
#include "pump.h"

#define TICK_MS 25

/* Somebody who is given what comes over a pipe beside the output, as it comes. */
struct ear {
    int from; /* our end, non-blocking; -1: there is none */
    bool (*said)(void *data, const void *bytes, size_t n); /* false: the command is to end */
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
    struct ear ear;
    uint64_t output; /* bytes of both streams so far */
    bool waiting;    /* of a process that comes from outside: the guest waits for it, */
    bool arrived;    /* and has met it */
    bool done;       /* the RESULT is there */
    bool killed;     /* we asked the guest to end it */
    bool lost;       /* the stream has ended without a RESULT */
    bool silent; /* the guest did not end the command when its time was over: we ended the box */
    struct box_pulse pulse;
    int rows, cols; /* of the host's terminal, as last told */
    struct usage before;
    int64_t next_watch; /* the counters cost a few reads: they are looked at once a tick, not on
                           every byte */
    int64_t deadline; /* after which the guest is not believed any more and the whole box is ended;
                         0: none */
};

/* The course of a command: begin, send a request, step until it is done, finish, free. */
void call_init(struct call *c, struct box *b, const struct box_command *cmd,
               struct box_result *result);
int call_step(struct call *c, struct error *err);
int call_finish(struct call *c,
                struct error *err); /* -EPIPE if the box ended meanwhile, by no limit */
void call_free(struct call *c);

/* A pipe of which one end goes to the command and the other, non-blocking, stays here. */
int call_pipe(bool into_command, int *ret_ours, int *ret_theirs);

/* The request; -E2BIG. And the time that a command may take, 0: any. */
int call_build_request(struct buf *b, const struct call *c, enum wire_stdio stdio);
int64_t call_wall_limit(const struct call *c);

/* Limits go to the guest where it is the one to enforce them: always wall time, the rest where
 * nothing counts them. */
void call_put_limits(struct buf *b, const struct call *c);

/* Sends SIGKILL to the command's tree, once, and notes which limit it was. */
void call_kill(struct call *c, enum wire_limit limit);

/* Compares what the kernel counted with the limits; called on every tick. */
void call_watch(struct call *c);

/* Which limit a command ran into that was not ended by us: decided from its end and the kernel's
 * counters. */
enum wire_limit call_limit(struct call *c);

/* A script's request and what its result has more than a command's. */
void call_put_shell(struct buf *b, const struct call *c);
void call_take_shell(struct box_result *r, const struct wire_frame *f);

/* Output that comes in frames. */
int call_output(struct call *c, const struct wire_frame *f);

/* Frames between a command on a pseudo-terminal and the host's descriptors. */
int call_tty_input(struct call *c);
void call_tty_resize(struct call *c);
