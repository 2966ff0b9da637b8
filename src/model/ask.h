/* A request to a provider over HTTP, and its answer. */
#pragma once

#include "exchange.h"

/* As model_ask(). */
int ask_run(struct http_client *c, const struct model_request *q, const struct model_sink *sink,
            struct model_reply *ret, struct error *err);
