/*
 * A decoder: from a provider's server-sent events to model events and the reply. Pure: no clock, no
 * network; what it is fed is untrusted, and what it keeps is bounded (DECODER_BYTES_MAX of text in
 * all, DECODER_BLOCKS_MAX blocks).
 *
 * One decoder is one attempt at one request. decoder_take() is given every event in turn;
 * decoder_finish() is asked at the end of the stream, or when it is cancelled.
 */
#pragma once

#include "assembly.h"
#include "conversation.h"
#include "provider_error.h"
#include "sse.h"

struct decoder;
struct decode_protocol;

int decoder_new(const struct decode_protocol *protocol, const char *from,
                const struct model_sink *sink, struct decoder **ret);
struct decoder *decoder_free(struct decoder *d);

/* 0: go on; 1: the stream is complete, nothing more is needed; or a negative errno with the text
 * set, and the hint whether trying again may help (after an overloaded_error, say). */
int decoder_take(struct decoder *d, const struct sse_event *e, struct retry_hint *ret_hint,
                 struct error *err);

/* The reply. -EPIPE (worth a retry) if the stream ended before it was complete, unless `cut`: then
 * what had come by then is given, without calls, and without what only the rest would make
 * whole. */
int decoder_finish(struct decoder *d, bool cut, struct model_reply *ret, struct error *err);

/* A whole answer that came as one JSON document, without a stream (some gateways do that): the same
 * events and reply. */
int decoder_take_whole(struct decoder *d, const char *text, size_t n, struct retry_hint *ret_hint,
                       struct error *err);

/* For the providers: what their decoders share. */

struct decode_protocol {
    /* One event: its type, as the event itself or the stream names it, and its data. As
     * decoder_take(). */
    int (*take)(struct decoder *d, const char *type, json_t *event);
    /* A whole answer: 1, or a negative errno. */
    int (*take_whole)(struct decoder *d, json_t *answer);
    /* Before the content is made, if there is anything to do. */
    void (*finish)(struct decoder *d);
    const char *last; /* data that ends the stream without being JSON; or NULL */
};

struct decoder {
    const struct decode_protocol *protocol;
    char *from;
    struct assembly a;
    struct model_usage usage;
    enum model_stop stop;
    bool answered; /* something of an answer has come */
    bool stopped;  /* a stop reason came: the stream may end now */
    bool complete; /* nothing more is needed */
    bool refused;
    int64_t last_key;
    char model[sizeof((struct model_reply *)0)->model];
    struct retry_hint *hint; /* of the call under way */
    struct error *err;
};

/* The member `type`, or an empty string. */
const char *decode_type(const json_t *value);

/* The provider reports an error. */
int decode_error(struct decoder *d, json_t *error);
/* The first `model` and `id` of an answer. */
void decode_head(struct decoder *d, const json_t *head);
/* A figure of usage; `before` where there is none. */
uint64_t decode_count(const json_t *usage, const char *name, uint64_t before);
