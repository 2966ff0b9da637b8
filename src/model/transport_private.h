/* What a transport is told by libcurl, in hutch's own terms. Pure. */
#pragma once

#include <curl/curl.h>

#include "transport.h"

/* Takes a header's value without the spaces around it, if it fits and is of visible characters;
 * else `to` stays as it is. */
void transport_copy_value(char *to, size_t size, const char *from, size_t n);

/* One line of the head of an answer. */
void transport_take_field(struct transport_answer *a, const char *line, size_t n);

/* Why curl gave up, as a negative errno. */
int transport_errno(CURLcode code);
