/*
 * Relays bytes between a command's pipes or terminal and the host's connection, in frames.
 *
 * Both ways are bounded: output is read only while the connection's queue has room, and frames of
 * input are read only while the command takes them. A relay that was never opened is inert.
 */
#pragma once

#include <stdbool.h>

#include "loop.h"
#include "text.h"
#include "wire.h"

struct conn;

struct relay {
    struct loop *loop;
    struct conn *conn;
    uint8_t *scratch;          /* WIRE_DATA_MAX bytes, borrowed while a piece is relayed */
    struct loop_source out[2]; /* of stdout and stderr; a terminal has only the first */
    struct loop_source in;
    struct buf backlog; /* input that the command has not taken yet */
    bool in_ends;       /* once the backlog is written */
    bool pty;
    bool draining;  /* the command has ended */
    size_t drained; /* since then */
};

void relay_init(struct relay *c, struct loop *l, uint8_t *scratch);
void relay_close(struct relay *c);

/* Makes pipes, or a terminal, and returns the command's ends, which the caller closes. */
#define RELAY_STDIN  1u
#define RELAY_STDOUT 2u
#define RELAY_STDERR 4u
int relay_open_pipes(struct relay *c, unsigned which, int ret_fds[3]);
int relay_open_pty(struct relay *c, uint64_t rows, uint64_t cols, int ret_fds[3]);

void relay_start(struct relay *c, struct conn *conn);

/* Input for the command. -EPIPE if its input is closed; -ENOBUFS if too much would wait for it,
 * which without a connection is RELAY_INPUT_MAX. */
#define RELAY_INPUT_MAX (1u << 20)
int relay_feed(struct relay *c, const void *data, size_t n, bool end);
void relay_resize(struct relay *c, const struct wire_frame *f);

/* Reads output, or leaves it in the pipes until the connection has room again. */
void relay_watch_output(struct relay *c, bool on);

/* After the command's end: relays what is already there. True once that is done; false: call it
 * again when the connection has room. */
bool relay_drain(struct relay *c);
