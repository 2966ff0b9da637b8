/*
 * Bytes between a command and the host's descriptors.
 *
 * A command never holds a descriptor of the host's but the ends of pipes made for it; what comes out of them is moved on
 * (spliced where the kernel can, so that a gigabyte passes without being copied here) or captured.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "box.h"

/* One stream out of the command. */
struct pump {
    int from; /* our end of the pipe, non-blocking; -1 once it has ended */
    int to;   /* where it goes, or -1: into capture, or nowhere */
    struct box_capture *capture;
    uint64_t *total; /* of both streams, for the limit on output */
    bool no_splice;
};

/* Moves what is there now, at most about a megabyte. 1: something moved, 0: nothing there, or ended (from is -1). */
int pump_out(struct pump *p);

/* The stream into the command. */
struct feed {
    int from; /* the host's descriptor; -1 once it has ended */
    int to;   /* our end of the pipe, non-blocking; -1 once closed */
    struct buf pending;
};

/* Reads once and writes as much as goes; closes `to` when all of `from` has gone through. */
void feed_step(struct feed *f, bool readable);
