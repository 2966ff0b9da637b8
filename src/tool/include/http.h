/* HTTP with libcurl by hutch's rules: http and https only, certificates checked (SSL_CERT_FILE and
 * SSL_CERT_DIR count), and no redirection followed, since headers may hold secrets. */
#pragma once

#include <curl/curl.h>

#include "error.h"
#include "text.h"

/* Appends a header. 0 or -ENOMEM. */
int http_headers_add(struct curl_slist **list, const char *fmt, ...) PRINTF(2, 3);

/* A handle for one request; `headers` and `why`, which gets libcurl's message, outlive it. NULL
 * without memory. */
CURL *http_easy_new(const char *url, const struct curl_slist *headers, char why[CURL_ERROR_SIZE]);

struct http_exchange {
    const char *url;
    const struct curl_slist *headers;
    const char *body; /* JSON to POST; NULL: GET */
    int timeout_ms;
    int cancel; /* ends the exchange when it becomes readable; -1: none */
};

/* One request and its answer: at most as long as the buffer takes. -EIO if there is none. */
int http_exchange(const struct http_exchange *x, struct buf *answer, long *ret_status,
                  struct error *err);
