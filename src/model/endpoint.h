/*
 * Where a model is asked, and what is sent along: URL and headers, from a model's spec.
 *
 * Only http and https; no name and password in the URL, since URLs are shown; and nothing in a key
 * or a header that could end its line.
 */
#pragma once

#include "model.h"

struct curl_slist;

struct endpoint {
    char *url; /* where the conversation goes */
    char *
        embed; /* where texts go that are to become vectors; NULL: the provider has no such thing */
    char *origin; /* "https://host:port" for messages and to compare with; the port only if it was
                     given */
    const char *host; /* of the origin */
    struct curl_slist *headers;
};

int endpoint_make(const struct model_spec *spec, struct endpoint *ret, struct error *err);
void endpoint_free(struct endpoint *e);

/* Does this URL lie on the endpoint's scheme, host and port? */
bool endpoint_holds(const struct endpoint *e, const char *url);

/* Scheme, host and port of a URL, for messages; a new string, NULL without memory or if it is no
 * URL. */
char *endpoint_origin(const char *url);
