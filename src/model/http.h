/*
 * Requests to a provider over HTTP, in three steps: an endpoint (URLs and headers), a transport
 * (one POST with libcurl), and an exchange (a POST that is retried until it is answered). Also the
 * errors of providers, and a sink that shows nothing twice when a request is retried.
 */
#pragma once

#include <time.h>

#include "conversation.h"
#include "text.h"

struct curl_slist;

/* Where requests to a model go. Only http and https; no name and password in the URL, since URLs
 * are shown; no key or header with characters that could end its line. */
struct endpoint {
    char *url;        /* of requests */
    char *embed_url;  /* of requests for embeddings; NULL: the provider has none */
    char *origin;     /* "https://host:port", for messages and to compare; the port only if given */
    const char *host; /* of the origin, with the port */
    struct curl_slist *headers;
};

int endpoint_make(const struct model_spec *spec, struct endpoint *ret, struct error *err);
void endpoint_free(struct endpoint *e);

/* Is this URL on the endpoint's scheme, host and port? */
bool endpoint_contains(const struct endpoint *e, const char *url);

/* Scheme, host and port of a URL, for messages; a new string, NULL: not a URL, or out of memory. */
char *endpoint_origin(const char *url);

/*
 * The transport holds one connection and reuses it. It waits only in curl's poll, together with the
 * caller's `cancel`, so that cancelling works at once, also during a name lookup. Redirections are
 * not followed here. Memory is bounded: headers here, the body by `take`.
 */
struct transport;

/* The head of an answer. */
struct transport_answer {
    int status;            /* 0: none came */
    char should_retry[16]; /* x-should-retry */
    char retry_ms[32];     /* retry-after-ms */
    char retry_after[64];
    char location[1024]; /* the target of a redirection, made absolute */
};

struct transport_call {
    const char *url;
    struct curl_slist *headers;
    const void *body;
    size_t n;
    int cancel;  /* -1: none */
    int idle_ms; /* a connection without a byte in either direction for so long is dead */
    /* Bytes of the body. 0: continue; 1: the answer is complete; a negative errno aborts. */
    int (*take)(void *data, const struct transport_answer *head, const char *bytes, size_t n);
    void *data;
};

int transport_new(struct transport **ret, struct error *err);
struct transport *transport_free(struct transport *t);

/* 0: an answer came, to its end or until `take` had enough. -ECANCELED; the result of `take`; or
 * with the text set: -ETIMEDOUT, -ECONNREFUSED, -EHOSTUNREACH (no such name), -EPIPE (it broke
 * off), -EKEYREJECTED (the certificate), -EPROTO (not HTTP, or too many headers), -EIO, -ENOMEM.
 * *ret holds what came of the head in any case. */
int transport_post(struct transport *t, const struct transport_call *c,
                   struct transport_answer *ret, struct error *err);

/*
 * Errors of providers, as the answer to a request (a status and a body) or within a stream (an
 * error object). Each becomes an errno, one line for a person, and a hint whether and when to
 * retry. Providers and gateways agree on little more than a status and, mostly, a message somewhere
 * in JSON. It is shown shortened, on one line, and never with the key in it.
 *
 * -EACCES (the key), -ENOENT (the model, or the URL), -EMSGSIZE (longer than the window), -EDQUOT
 * (no credit), -EBUSY (too many requests), -EINVAL (the request), -EIO (anything else).
 */
struct retry_hint {
    bool retry;       /* a retry may help */
    int64_t after_ms; /* the delay that the provider asks for; -1: none */
};

/* An answer with a status that is not 2xx. `name` is that of the model asked for. *ret_after_ms is
 * the delay that the message asks for; else -1. */
int provider_error_of_status(const struct model_spec *spec, const char *name, int status,
                             const char *body, size_t n, int64_t *ret_after_ms, struct error *err);

/* An error object of a stream: {"type", "code", "message"} in some form, where `code` may be a
 * number (an HTTP status); or just a string. Known names decide, `code` before `type`; many
 * providers say only in the message that a conversation is too long. */
int provider_error_of_event(const json_t *error, struct retry_hint *ret, struct error *err);

/* Untrusted text as one line: control characters and bytes that are not UTF-8 become spaces and
 * '?', the key an ellipsis; cut to `size` with its NUL. */
void provider_error_line(const char *key, const char *text, size_t n, char *ret, size_t size);

/* The delay that a text asks for ("try again in 1.3s", "retry after 20 seconds"), in ms; -1:
 * none. */
int64_t provider_error_delay_ms(const char *message);

/*
 * Exchanges. Worth a retry: an answer whose status or headers say so, a connection that breaks off
 * or is silent, and what the reader of the body says is. A server that does not listen, or a name
 * that cannot be resolved, is mostly a mistake in the base URL, and is retried twice only. The sink
 * gets an event before each wait; cancelling ends a wait at once.
 */
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
    /* Called before every attempt; for every piece of a 2xx answer's body (0: more, 1: enough, or a
     * negative errno with the text and the hint set); and at its end: 0 if it is complete. */
    int (*begin)(void *data, struct error *err);
    int (*take)(void *data, const char *bytes, size_t n, struct retry_hint *ret, struct error *err);
    int (*end)(void *data, struct retry_hint *ret, struct error *err);
    void *data;
};
int exchange_run(struct http_client *c, const struct exchange *x, struct error *err);

#define RETRY_AFTER_MAX_MS 60000 /* a longer delay that a server asks for is ignored */

/* Is an answer with this head worth a retry? */
bool retry_wanted(const struct transport_answer *a);

/* The delay that the head asks for, in ms; -1: none. */
int64_t retry_after_ms(const struct transport_answer *a, time_t now);

/* The wait before retry number `attempt` (from 1): `after_ms`, unless that is too long; else
 * `base_ms`, doubled with every attempt up to 16 times, less up to a quarter by `random`. */
int retry_delay_ms(unsigned attempt, int base_ms, int64_t after_ms, uint32_t random);

/* 0, or -ECANCELED as soon as `cancel` is readable. */
int retry_wait(int ms, int cancel);

/*
 * The sink of a request that may be retried. It stands between the decoders of all attempts and the
 * caller's sink, remembers what it passed on, and holds back as much of a new attempt as repeats
 * that. At the first difference it sends how much of what was shown is still valid (MODEL_BACK),
 * and passes on everything from there.
 */
struct retry_stream {
    struct buf given; /* what the caller's sink got, as far as it is still valid */
    size_t at;        /* bytes of it that this attempt has repeated; given.len: all */
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

/* The attempt is the answer: text that was shown beyond it is not valid. */
void retry_sink_end(struct retry_sink *s);
