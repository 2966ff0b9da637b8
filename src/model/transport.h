/*
 * One POST over HTTP, and its answer as it comes. libcurl ends here.
 *
 * A transport holds one connection and uses it again. Waiting is in one place, curl's own poll, and
 * includes the caller's `cancel`: cancelling works at once, also during a name lookup. Redirections
 * are not followed here. What a server can make this keep is bounded: its headers here, its body by
 * `take`.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

struct transport;
struct curl_slist;

/* What the head of an answer says. */
struct transport_answer {
    int status;            /* 0: none came */
    char should_retry[16]; /* x-should-retry */
    char retry_ms[32];     /* retry-after-ms */
    char retry_after[64];
    char location[1024]; /* where a redirection leads, made absolute */
};

struct transport_call {
    const char *url;
    struct curl_slist *headers;
    const void *body;
    size_t n;
    int cancel;  /* -1: none */
    int idle_ms; /* without a byte in either direction for so long, the connection is dead */
    /* Bytes of the body. 0: go on; 1: nothing more is needed; a negative errno breaks it off. */
    int (*take)(void *data, const struct transport_answer *head, const char *bytes, size_t n);
    void *data;
};

int transport_new(struct transport **ret, struct error *err);
struct transport *transport_free(struct transport *t);

/*
 * 0: an answer came, to its end or as far as it was needed. -ECANCELED; what `take` returned; or
 * with the text set: -ETIMEDOUT, -ECONNREFUSED, -EHOSTUNREACH (no such name), -EPIPE (it broke
 * off), -EKEYREJECTED (the certificate), -EPROTO (not HTTP, or too many headers), -EIO, -ENOMEM.
 * *ret holds what came of the head in any case.
 */
int transport_post(struct transport *t, const struct transport_call *c,
                   struct transport_answer *ret, struct error *err);
