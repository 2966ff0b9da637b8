/*
 * The sink of a request that may be tried again: what was shown is not shown twice.
 *
 * A stream may break off in the middle, and the request is then tried again. This sink stands
 * between the decoders of all attempts and the caller's: it remembers what it handed on, and holds
 * back as much of a new attempt as repeats that. At the first difference it sends how much of what
 * was shown is still valid (MODEL_BACK), and from there on everything is new. Pure.
 */
#pragma once

#include "conversation.h"
#include "text.h"

struct retry_stream {
    struct buf given; /* what the caller's sink got, as far as it is still valid */
    size_t at;        /* so much of it this attempt has repeated; given.len: it is new from here */
};

struct retry_sink {
    const struct model_sink *sink;
    struct retry_stream text, thinking;
    struct retry_stream calls; /* names with a NUL behind each */
    bool failed;               /* out of memory */
};

void retry_sink_init(struct retry_sink *s, const struct model_sink *sink);
void retry_sink_free(struct retry_sink *s);

/* The sink for the decoders; valid while `s` stays where it is. */
struct model_sink retry_sink_input(struct retry_sink *s);

/* Another attempt begins: it is compared from the start. */
void retry_sink_restart(struct retry_sink *s);

/* Was more shown than this attempt has repeated? */
bool retry_sink_is_behind(const struct retry_sink *s);

/* The attempt is the answer: what was shown beyond it is not valid. */
void retry_sink_end(struct retry_sink *s);
