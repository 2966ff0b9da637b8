/*
 * Errors of providers: as the answer to a request (an HTTP status and a body) or in the middle of a
 * stream (an error object). Each becomes an errno for programs, one line for a person, and whether
 * and when to try again. Pure.
 *
 * Providers and gateways agree on little more than a status and, mostly, a message somewhere in
 * JSON. What they write is shown shortened, on one line, and never with the key in it.
 *
 * The errno: -EACCES (the key), -ENOENT (the model, or the URL), -EMSGSIZE (longer than the
 * window), -EDQUOT (no credit), -EBUSY (too many requests), -EINVAL (the request), -EIO (anything
 * else).
 */
#pragma once

#include "conversation.h"

struct retry_hint {
    bool retry;       /* trying again may help */
    int64_t after_ms; /* when, as the provider says; -1: it does not */
};

/* An answer with a status that is not 2xx. `name` is that of the model asked for. *ret_after_ms is
 * when to try again, where only the message says it; else -1. */
int provider_error_of_status(const struct model_spec *spec, const char *name, int status,
                             const char *body, size_t n, int64_t *ret_after_ms, struct error *err);

/* An error object of a stream: {"type", "code", "message"} in some form, where `code` may be a
 * number (an HTTP status); or just a string. Known names decide, `code` before `type`; many
 * providers say only in words that a conversation is too long. */
int provider_error_of_event(const json_t *error, struct retry_hint *ret, struct error *err);

/* Untrusted text as one line: control characters, and bytes that are not UTF-8, become spaces and
 * '?', the key an ellipsis; cut to `size` with its NUL. */
void provider_error_line(const char *key, const char *text, size_t n, char *ret, size_t size);

/* How long to wait, as a text says it ("try again in 1.3s", "retry after 20 seconds"), in ms; -1:
 * it does not. */
int64_t provider_error_delay_ms(const char *message);
