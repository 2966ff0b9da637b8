/*
 * Encoders: the body of a provider's request for a conversation. Pure and deterministic: the same
 * conversation gives the same bytes, and a longer one the same bytes in front (cache marks apart),
 * which is what prompt caching lives on.
 *
 * Members of spec->extra go into the body: lists are put behind hutch's own of that name (tools of
 * the provider's own, say), null takes a member of hutch's out, everything else replaces it. The
 * conversation, the system prompt, the model's name and streaming are hutch's alone.
 *
 * What other providers' answers left in the conversation is made fit: ids and names of calls,
 * blocks that only they can read, messages that are empty then. A call whose input was no JSON
 * shows it as
 * {"INVALID_JSON": text}.
 */
#pragma once

#include "buf.h"
#include "model.h"

#define ENCODER_BYTES_MAX (256u << 20)

/* Appends the body. -EINVAL: the conversation is not in order; -EMSGSIZE: it does not fit into the
 * buffer, whose maximum should be ENCODER_BYTES_MAX; -ENOMEM. */
int encode_request(const struct model_spec *spec, const struct model_request *q, struct buf *ret,
                   struct error *err);

/* Does the conversation keep the rules that providers insist on (model.h)? 0, or -EINVAL with the
 * place. */
int conversation_check(const json_t *messages, struct error *err);
