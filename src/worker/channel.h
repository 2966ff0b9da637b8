/*
 * Channels: the WebSockets on which a worker's live jobs get their calls. One thread serves them all;
 * live.c uses them, worker.c opens and closes it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "error.h"
#include "text.h"

struct channels;

/* `server` and `key` as in worker_options; both are borrowed. */
int channels_open(const char *server, const char *key, struct channels **ret, struct error *err);
struct channels *channels_close(struct channels *cs); /* all channels are closed before */

struct channel;

/* Called from the thread of the channels: must not block. */
struct channel_events {
    /* One whole message. Negative: it breaks the protocol, and the channel is opened anew. */
    int (*message)(void *data, const void *bytes, size_t n, bool binary);
    void (*up)(void *data);   /* connected; what was queued before is sent */
    void (*down)(void *data); /* the connection broke; it is made again, after a while */
    void (*room)(void *data); /* less is queued than CHANNEL_QUEUE_MAX again */
    void *data;
};

/* Connects to PATH of the server, and again whenever the connection breaks. */
int channel_open(struct channels *cs, const char *path, const struct channel_events *events,
                 struct channel **ret, struct error *err);
/* No event is called after it returned. */
struct channel *channel_close(struct channel *c);

/* Queues a message; n bytes behind `prefix` (m bytes) are one message. From any thread; never
 * blocks. False: dropped, it is not connected. */
#define CHANNEL_QUEUE_MAX (1u << 20)
bool channel_send(struct channel *c, const void *prefix, size_t m, const void *data, size_t n,
                  bool binary);
/* More than CHANNEL_QUEUE_MAX is queued: wait for `room` before sending more data. */
bool channel_is_full(struct channel *c);
