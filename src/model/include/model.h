/*
 * Models.
 *
 * A model turns a conversation and the schemas of the tools into a stream of events, and in the end
 * into a reply. What differs between providers stays in this layer:
 *
 *     bytes → server-sent events (base/sse.h) → a decoder (decode.h) → events and the reply
 */
#pragma once

#include "conversation.h"

struct model;

int model_open(const struct model_spec *spec, struct model **ret, struct error *err);
struct model *model_close(struct model *m);
const struct model_spec *model_spec_of(const struct model *m);

/*
 * Sends the request, retries where that may help, and sends events to the sink as the answer comes.
 * Returns 0 with the reply; -ECANCELED when the request's `cancel` became readable, with the text
 * so far in the reply, without calls; or another negative errno with the text set: -EMSGSIZE if the
 * conversation is longer than the model's window, -EACCES for a rejected key, -EIO, -ENOENT (no
 * such model), -EPROTO, … One call at a time per model.
 */
int model_ask(struct model *m, const struct model_request *q, const struct model_sink *sink,
              struct model_reply *ret, struct error *err);

/* Vectors of n texts, from the provider's endpoint for them; ret_vectors: array of arrays of
 * numbers. */
int model_embed(struct model *m, const char *embedder, json_t *texts, int cancel,
                json_t **ret_vectors, struct error *err);
