/* A model from inside: what its parts share. */
#pragma once

#include "endpoint.h"
#include "model.h"
#include "transport.h"

struct replay;

struct model {
    struct model_spec spec;
    struct endpoint at;
    struct transport *transport; /* NULL until it is needed */
    struct replay *replay;       /* of MODEL_REPLAY only */
};

/* What may be done about a failure. */
struct trouble_hint {
    bool retry;
    int64_t told_ms; /* -1: nobody said when */
};

/*
 * exchange.c: a POST that is tried until it is answered.
 *
 * `begin` is called before every attempt, `take` for every piece of a 2xx answer's body (0 more, 1
 * enough, or a negative errno with the text and what may be done), `end` when there is no more of
 * it: 0 if it is whole.
 */
struct exchange {
    const char *url;
    const char *name; /* of the model asked, for messages */
    const void *body;
    size_t n;
    int cancel;
    const struct model_sink *sink; /* is told about waits; or NULL */
    int (*begin)(void *data, struct error *err);
    int (*take)(void *data, const char *bytes, size_t n, struct trouble_hint *ret,
                struct error *err);
    int (*end)(void *data, struct trouble_hint *ret, struct error *err);
    void *data;
};
int exchange_run(struct model *m, const struct exchange *x, struct error *err);

/* Takes the key out of a message, should somebody have put it there. */
void exchange_hide_key(const struct model *m, struct error *err);

/* ask.c: the providers that are reached by HTTP. */
int ask_run(struct model *m, const struct model_request *q, const struct model_sink *sink,
            struct model_reply *ret, struct error *err);
