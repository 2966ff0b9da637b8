/*
 * Server-sent events (the HTML standard's text/event-stream), out of bytes that come in pieces of
 * any size.
 *
 *     struct sse s = SSE_INIT(16 << 20);
 *     …read n bytes to data…
 *     while ((r = sse_take(&s, &data, &n, &event)) > 0)
 *         …event…
 *
 * Lines end in LF, CR LF or CR; several `data` lines make one text; comments and unknown fields are
 * skipped; an event that is incomplete at the end of the stream is dropped. SSE_INIT's maximum
 * bounds the memory.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text.h"

#define SSE_NAME_MAX 256
#define SSE_ID_MAX   4096

struct sse_event {
    const char *type; /* "message" if it was not named */
    const char *data; /* n bytes, a NUL behind them; valid until the next sse_take */
    size_t n;
};

struct sse {
    struct buf line, data, name;
    struct buf id;      /* the last event's, for Last-Event-ID; NUL behind it if not empty */
    struct buf next_id; /* of the event in progress */
    int64_t retry_ms;   /* how long to wait before reconnecting; -1: not set */
    bool began;         /* past the byte order mark */
    bool after_cr;      /* an LF would belong to the last line's end */
    bool has_data;
    bool handed_out;
};

#define SSE_INIT(maximum)                                                                          \
    ((struct sse){.line = BUF_INIT(maximum),                                                       \
                  .data = BUF_INIT(maximum),                                                       \
                  .name = BUF_INIT(SSE_NAME_MAX),                                                  \
                  .id = BUF_INIT(SSE_ID_MAX),                                                      \
                  .next_id = BUF_INIT(SSE_ID_MAX),                                                 \
                  .retry_ms = -1})

void sse_free(struct sse *s);
#define _cleanup_sse_ _cleanup_(sse_free)

/* Takes bytes up to the end of the next event, and moves *data and *n past them. Returns 1 with an
 * event, 0 when all bytes were taken, -EMSGSIZE if a line or an event is longer than the maximum
 * (the stream cannot be used any more), -ENOMEM. */
int sse_take(struct sse *s, const char **data, size_t *n, struct sse_event *ret);

/* The id of the last complete event, or NULL. */
const char *sse_last_id(struct sse *s);
