/*
 * Encoders: the body of a provider's request for a conversation. Pure and deterministic: the same
 * conversation gives the same bytes, and a longer one the same bytes in front (cache marks apart), which is
 * what prompt caching lives on.
 */
#pragma once

#include "buf.h"
#include "model.h"

#define ENCODER_BYTES_MAX (256u << 20)

int encode_request(const struct model_spec *spec, const struct model_request *q, struct buf *ret,
                   struct error *err);

/* Does the conversation keep the rules that providers insist on (model.h)? 0, or -EINVAL with the place. */
int conversation_check(const json_t *messages, struct error *err);
