/*
 * Context: the view over a history that goes to the model. It fits the model's window whatever the
 * history weighs.
 *
 * Pinned, always: the system prompt with AGENTS.md (system_prompt.h), the person's own words (the
 * first in full, the others as far as a budget goes), the plan, background handles that run. Then
 * the summary of what was pruned, then the recent tail in full. Pruning, in this order: old tool
 * output becomes a stub that says how to get it back; older turns are summarised by the model; if
 * that call overflows too, in pieces; if there is no model to ask, extractively. Nothing in the
 * history changes: a summary is one more message of it.
 *
 * Between two prunings the view only grows at its end, so that the provider's cache stays of use.
 */
#pragma once

#include "event.h"
#include "history.h"

struct context;

struct context_options {
    uint64_t window;            /* of the model, tokens */
    uint64_t reserve;           /* for the answer, tokens */
    const char *system;         /* borrowed */
    json_t *tools;              /* borrowed */
    const char *summary_prompt; /* NULL: the built-in */
};

int context_new(struct history *h, const struct context_options *o, struct context **ret,
                struct error *err);
struct context *context_free(struct context *c);

/* The conversation to send: a new reference. Prunes first if it would not fit; `m` writes summaries
 * (NULL: they are made without a model). `status` is text about the present (plan, background
 * commands), put behind the last message of the user; or NULL. */
int context_build(struct context *c, struct model *m, const char *status, int cancel,
                  const struct agent_sink *sink, json_t **ret_messages, struct error *err);

/* What the provider reported for the last build: corrects the estimate. */
void context_learn(struct context *c, const struct model_usage *usage);

/* Summarises everything but the recent tail now (`/compact`). */
int context_compact(struct context *c, struct model *m, int cancel, const struct agent_sink *sink,
                    struct error *err);

/* After the provider said that the conversation is too long for it: makes the view smaller than
 * what was built last. */
void context_shrink(struct context *c);

uint64_t context_tokens(
    const struct context *c); /* of the last build: reported where known, else estimated */

/* What summaries used since the last call of this: part of what the session costs. */
void context_spent(struct context *c, struct model_usage *ret);
