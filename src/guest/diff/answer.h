/*
 * Answers of the diff worker on one connection: records, a stream of bytes cut into DATA frames,
 * one RESULT or ERROR.
 *
 * The first failure to send sticks to `status`, and everything after it is dropped, so that a run
 * of calls can be checked once.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "error.h"
#include "wire.h"

struct answer {
    int fd;
    int status;       /* 0 or a negative errno */
    struct buf data;  /* bytes not sent yet */
    struct buf frame; /* the frame that is built */
    size_t begin;
};

#define ANSWER_INIT(sock)                                                                          \
    ((struct answer){                                                                              \
        .fd = (sock), .data = BUF_INIT(WIRE_DATA_MAX), .frame = BUF_INIT(2 * WIRE_BODY_MAX)})

void answer_free(struct answer *a);

/* Adds to the stream of bytes; sends whole frames as they fill up. Returns the status. */
int answer_write(struct answer *a, const void *bytes, size_t n);
int answer_printf(struct answer *a, const char *fmt, ...) PRINTF(2, 3);

/* Sends what is left of the stream; then the next bytes are at this offset of the file (a hole was
 * left out).
 */
int answer_seek(struct answer *a, uint64_t offset);

/* One frame: begin, put fields into a->frame, end. Records are sent many at a time. */
void answer_begin(struct answer *a, enum wire_type type);
int answer_end(struct answer *a);

/* Sends all that is held back. */
int answer_flush(struct answer *a);

int answer_error(struct answer *a, const struct error *err);
