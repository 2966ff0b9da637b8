/*
 * Carries bytes between a command's pipes or terminal and the host's connection, in frames.
 *
 * Both ways are bounded: output is read only while the connection's queue has room, and frames of
 * input are read only while the command takes them. A carry that was never opened is inert.
 */
#pragma once

#include <stdbool.h>

#include "buf.h"
#include "loop.h"
#include "wire.h"

struct conn;

struct carry {
    struct loop *loop;
    struct conn *conn;
    struct loop_source out[2]; /* of stdout and stderr; a terminal has only the first */
    struct loop_source in;
    struct buf backlog; /* input that the command has not taken yet */
    bool in_ends;       /* once the backlog is written */
    bool pty;
    bool draining;  /* the command has ended */
    size_t drained; /* since then */
};

void carry_init(struct carry *c, struct loop *l);
void carry_close(struct carry *c);

/* Makes pipes, or a terminal; and gives the command's ends, which the caller closes. */
int carry_open_pipes(struct carry *c, int ret_fds[3]);
int carry_open_pty(struct carry *c, uint64_t rows, uint64_t cols, int ret_fds[3]);

/* One pipe for both streams out and none in; or one in and none out, without any connection. */
int carry_open_output(struct carry *c, int ret_fds[3]);
int carry_open_input(struct carry *c, int ret_fds[3]);

/* Begins to carry. */
void carry_start(struct carry *c, struct conn *conn);

/* A STDIN or RESIZE frame came. Negative if it is malformed. */
int carry_input(struct carry *c, const struct wire_frame *f);
/* Input for a command without a connection. -EPIPE if it takes none any more, -ENOBUFS if more than
 * CARRY_INPUT_MAX would wait for it. */
#define CARRY_INPUT_MAX (1u << 20)
int carry_feed(struct carry *c, const void *data, size_t n, bool end);
void carry_resize(struct carry *c, const struct wire_frame *f);

/* The connection has room again. */
void carry_room(struct carry *c);

/* After the command's end: carries what is already there. True once that is done, false to be
 * called on room.
 */
bool carry_drain(struct carry *c);
