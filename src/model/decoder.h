/*
 * A decoder: from a provider's server-sent events to model events and the reply. Pure: no clock, no
 * network; what it is fed is untrusted, and what it keeps is bounded (DECODER_BYTES_MAX of text in
 * all, DECODER_BLOCKS_MAX blocks).
 *
 * One decoder is one attempt at one request. decoder_take() is given every event in turn;
 * decoder_finish() is asked at the end of the stream, or when it is cancelled.
 */
#pragma once

#include "model.h"
#include "sse.h"

#define DECODER_BYTES_MAX  (64u << 20)
#define DECODER_BLOCKS_MAX 1024

struct decoder;

int decoder_new(enum model_api api, const char *from, const struct model_sink *sink,
                struct decoder **ret);
struct decoder *decoder_free(struct decoder *d);

/* 0: go on; 1: the stream is complete, nothing more is needed; or a negative errno with the text
 * set, whose `retry` says whether asking again may help (an overloaded_error after HTTP 200, say).
 */
struct decoder_trouble {
    bool retry;
    int64_t retry_ms; /* the provider's own word about when; -1: none */
};
int decoder_take(struct decoder *d, const struct sse_event *e, struct decoder_trouble *ret_trouble,
                 struct error *err);

/* The reply. -EPIPE (worth a retry) if the stream ended before it was complete, unless `cut`: then
 * what had come by then is given, without calls, and without what only the rest would make whole.
 */
int decoder_finish(struct decoder *d, bool cut, struct model_reply *ret, struct error *err);

/* A whole answer that came as one JSON document, without a stream (some gateways do that): the same
 * events and reply. */
int decoder_take_whole(struct decoder *d, const char *text, size_t n,
                       struct decoder_trouble *ret_trouble, struct error *err);
