/*
 * The output of a background command on its way to a file of the box. The file is bounded: it holds
 * the head and the tail of the output, and between them a line with the number of bytes left out.
 *
 * The command writes to a pipe that the guest empties, so that it can neither fill the disk nor
 * exceed the limit. The agent can read and damage the file: the guest trusts only its own
 * descriptor and counts.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loop.h"

#define OUTPUT_LOG_MIN     (64u << 10) /* smaller and larger limits are */
#define OUTPUT_LOG_MAX     (64u << 20) /* raised and lowered to these */
#define OUTPUT_LOG_DEFAULT (1u << 20)

struct output_log {
    struct loop_source pipe; /* our end; fd -1 once all writers are gone */
    int file;                /* -1: there is no log */
    uint64_t keep;           /* bytes of output that the file may hold */
    uint64_t total;          /* bytes that came: head + dropped + tail */
    uint64_t head, dropped, tail;
    bool head_ended; /* all that comes from now on belongs to the tail */
};

#define OUTPUT_LOG_INIT                                                                            \
    {                                                                                              \
        .pipe = {.fd = -1}, .file = -1, .keep = OUTPUT_LOG_DEFAULT                                 \
    }

void output_log_close(struct output_log *l, struct loop *loop);

/* Moves one piece from the pipe to the file. False when there is nothing to read now, or never
 * again. */
bool output_log_step(struct output_log *l, struct loop *loop, void *scratch, size_t size);

/* What came since byte `from`: its first bytes, and its last ones if that is not all of it. Each of
 * the two buffers has room for `room` bytes. */
struct output_log_news {
    size_t first, last;
    uint64_t dropped; /* bytes of it that the file does not have any more */
};
void output_log_read(const struct output_log *l, uint64_t from, void *first, void *last,
                     size_t room, struct output_log_news *ret);
