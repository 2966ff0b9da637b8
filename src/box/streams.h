/*
 * Bytes between a command and the host's descriptors; what is captured of them (box.h).
 *
 * A command never holds a descriptor of the host's but the ends of pipes made for it; what comes
 * out of them is moved on (spliced where the kernel can, so that a gigabyte passes without being
 * copied here) or captured. Nothing blocks: a reader that is slow makes the pump `full`, and
 * whoever polls waits for room at `to` instead of bytes at `from`.
 */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "box.h"
#include "text.h"

/* One stream out of the command. */
struct pump {
    int from; /* our end of the pipe, non-blocking; -1 once it has ended */
    int to;   /* where it goes, or -1: into capture, or nowhere */
    struct box_capture *capture;
    uint64_t *total; /* of both streams, for the limit on output */
    int error;       /* why `to` takes no more, an errno; 0: it does */
    bool no_splice;
    bool full;
    bool is_terminal; /* a person looks at it: what it would obey is made harmless */
    struct harmless cut;
    struct buf pending; /* what was read and did not go out yet, where nothing can be spliced */
};

#define PUMP_CHUNK 65536u

/* What to poll for. */
struct pollfd pump_poll(const struct pump *p);

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
