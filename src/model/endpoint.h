/*
 * Where requests to a model go: URLs and headers, from the model's spec and its provider's row.
 *
 * Only http and https; no name and password in the URL, since URLs are shown; and nothing in a key
 * or a header that could end its line.
 */
#pragma once

#include "conversation.h"

struct curl_slist;

struct endpoint {
    char *url;        /* of requests */
    char *embed_url;  /* of requests for embeddings; NULL: the provider has none */
    char *origin;     /* "https://host:port", for messages and to compare; the port only if given */
    const char *host; /* of the origin, with the port */
    struct curl_slist *headers;
};

int endpoint_make(const struct model_spec *spec, struct endpoint *ret, struct error *err);
void endpoint_free(struct endpoint *e);

/* Does this URL lie on the endpoint's scheme, host and port? */
bool endpoint_contains(const struct endpoint *e, const char *url);

/* Scheme, host and port of a URL, for messages; a new string, NULL: not a URL, or out of memory. */
char *endpoint_origin(const char *url);
