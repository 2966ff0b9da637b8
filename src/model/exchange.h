/*
 * A POST that is tried until it is answered.
 *
 * Worth another try: an answer whose status or headers say so, a connection that breaks off or is
 * silent, and what the reader of the body says is. A server that does not listen, or a name that
 * cannot be found, is mostly a mistake in the base URL: these are tried only twice again. The sink
 * gets an event before each wait, and a wait ends at once when the request is cancelled.
 */
#pragma once

#include <time.h>

#include "endpoint.h"
#include "conversation.h"
#include "provider_error.h"
#include "transport.h"

/* A model that is reached by HTTP. */
struct http_client {
    const struct model_spec *spec;
    struct endpoint at;
    struct transport *transport; /* NULL until it is needed */
};

struct exchange {
    const char *url;
    const char *name; /* of the model asked, for messages */
    const void *body;
    size_t n;
    int cancel;
    const struct model_sink *sink; /* gets MODEL_WAIT; or NULL */
    /* Called before every attempt; for every piece of a 2xx answer's body (0 more, 1 enough, or a
     * negative errno with the text and the hint set); and at its end: 0 if it is whole. */
    int (*begin)(void *data, struct error *err);
    int (*take)(void *data, const char *bytes, size_t n, struct retry_hint *ret, struct error *err);
    int (*end)(void *data, struct retry_hint *ret, struct error *err);
    void *data;
};
int exchange_run(struct http_client *c, const struct exchange *x, struct error *err);

/* A conversation as an exchange (ask.c): as model_ask(). */
int ask_run(struct http_client *c, const struct model_request *q, const struct model_sink *sink,
            struct model_reply *ret, struct error *err);

/* When to try again. Pure but for retry_wait(). */

#define RETRY_AFTER_MAX_MS 60000 /* a longer delay that a server asks for is ignored */

/* Is an answer with this head worth another try? */
bool retry_wanted(const struct transport_answer *a);

/* How long the head says to wait, in ms; -1: it does not. */
int64_t retry_after_ms(const struct transport_answer *a, time_t now);

/* How long to wait before try number `attempt` (from 1): `after_ms`, if that is not too long; else
 * `base_ms`, doubled with every attempt up to 16 times, less up to a quarter by `random`. */
int retry_delay_ms(unsigned attempt, int base_ms, int64_t after_ms, uint32_t random);

/* 0, or -ECANCELED as soon as `cancel` is readable. */
int retry_wait(int ms, int cancel);
