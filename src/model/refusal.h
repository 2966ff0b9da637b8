/*
 * What a provider says instead of an answer, as one line for a person and a number for programs.
 * Pure.
 *
 * Providers and gateways agree on little more than a status and, mostly, a message somewhere in
 * JSON. What they write is shown shortened, on one line, and never with the key in it.
 */
#pragma once

#include "model.h"

struct refusal_from {
    const struct model_spec *spec;
    const char *host;
    const char *name; /* of the model that was asked for */
};

/*
 * A negative errno with the text: -EACCES (the key), -ENOENT (the model, or the address), -EMSGSIZE
 * (longer than the window), -EDQUOT (no credit), -EBUSY (too many requests), -EINVAL (the request),
 * -EIO (its own trouble). *ret_told_ms is when to try again, where only the message says it; -1: it
 * does not.
 */
int refusal_explain(const struct refusal_from *from, int status, const char *body, size_t n,
                    int64_t *ret_told_ms, struct error *err);

/* Does a message (or a code, a type) say that the conversation is longer than the model's window?
 */
bool refusal_is_too_long(const char *said);

/* Untrusted text as one line: control characters, and bytes that are no UTF-8, become spaces and
 * '?', the key an ellipsis; cut to `size` with its NUL. */
void refusal_one_line(const char *key, const char *text, size_t n, char *ret, size_t size);
