/* One running command from the host's side; private to exec.c, exec_tty.c and exec_watch.c. */
#pragma once

#include "backend.h"
#include "pump.h"

#define TICK_MS 25

struct call {
    struct box *box;
    const struct box_command *command;
    struct box_result *result;
    struct wire_reader wire;
    struct pump out, err;
    struct feed in;
    uint64_t output; /* bytes of both streams so far */
    bool done;       /* the RESULT is there */
    bool killed;     /* we asked the guest to end it */
    int rows, cols;  /* of the host's terminal, as last told */
    struct usage before;
    int64_t next_watch; /* the counters cost a few reads: they are looked at once a tick, not on every byte */
    int64_t deadline; /* after which the guest is not believed any more and the whole box is ended; 0: none */
};

/* The request; -E2BIG. And the time that a command may take, 0: any. */
int call_build_request(struct buf *b, const struct call *c, enum wire_stdio stdio);
int64_t call_wall_limit(const struct call *c);

/* Sends SIGKILL to the command's tree, once, and notes which limit it was. */
void call_kill(struct call *c, enum wire_limit limit);

/* Compares what the kernel counted with the limits; called on every tick. */
void call_watch(struct call *c);

/* Which limit a command ran into that was not ended by us: decided from its end and the kernel's counters. */
enum wire_limit call_limit(struct call *c);

/* A script's request and what its result has more than a command's. */
void call_put_shell(struct buf *b, const struct call *c);
void call_take_shell(struct box_result *r, const struct wire_frame *f);

/* Output that comes in frames. */
int call_output(struct call *c, const struct wire_frame *f);

/* Frames between a command on a pseudo-terminal and the host's descriptors. */
int call_tty_input(struct call *c);
void call_tty_resize(struct call *c);
