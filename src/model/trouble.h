/*
 * What a provider says went wrong in the middle of an answer (before one: refusal.h): from its
 * error object to an errno, a line for a person, and whether asking again may help.
 *
 * All of them have {"type", "code", "message"} in some form; `code` may be a number (an HTTP
 * status), and the whole may be just a string. What is known by name decides, `code` before `type`;
 * a conversation that is too long, many say only in words.
 */
#pragma once

#include "decoder.h"

/* `error`: the object, or a string. Returns the negative errno: -EMSGSIZE longer than the window,
 * -EACCES the key, -EDQUOT no money, -ENOENT no such model, -EBUSY too many requests, -EINVAL the
 * request is refused, -EIO anything else. */
int trouble_take(const json_t *error, struct decoder_trouble *ret, struct error *err);

/* How long to wait, as a text says it ("try again in 1.3s", "retry after 20 seconds"), in ms; -1:
 * it does not. */
int64_t trouble_delay(const char *message);
