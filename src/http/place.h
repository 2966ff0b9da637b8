/* Where the server is, and what the person wants to be sent along. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "error.h"

struct curl_slist;

struct place {
    char *url;
    char *shown; /* for messages: without name, password and query, which may be secrets */
    struct curl_slist *headers;
    double timeout; /* seconds, of one answer */
};

/* From {"url", "headers", "timeout"}. */
int place_parse(const json_t *settings, struct place *ret, struct error *err);
void place_free(struct place *p);

/* The URL as it may be shown; a new string, never NULL but without memory. */
char *place_shown(const char *url);

/* Do both URLs have the same scheme, host and port? */
bool place_same_origin(const char *a, const char *b);
