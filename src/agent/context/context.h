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

#include <stddef.h>

#include "text.h"
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

/*
 * Inside of context/. How many tokens a text is, without the provider's tokenizer: an estimate from
 * what kinds of characters it is made of, and a ratio that learns from what the provider reports.
 */
#define TOKENS_IMAGE   1600 /* an image, whatever its size */
#define TOKENS_MESSAGE 6    /* what a message takes besides its content */

uint64_t tokens_of_text(const char *text, size_t n);

/* Of a JSON value as a provider gets it; a block is counted by its kind (an image's data is not
 * text). */
uint64_t tokens_of_json(const json_t *value);
uint64_t tokens_of_block(const json_t *block);
uint64_t tokens_of_message(const json_t *message);

/* Reported over estimated, smoothed, within bounds. One per model. */
struct tokens_ratio {
    double value;
    unsigned seen;
};
#define TOKENS_RATIO_INIT ((struct tokens_ratio){.value = 1})
#define TOKENS_RATIO_MIN  0.4
#define TOKENS_RATIO_MAX  4.0

void tokens_learn(struct tokens_ratio *r, uint64_t estimated, uint64_t reported);
uint64_t tokens_corrected(const struct tokens_ratio *r, uint64_t estimated);

/*
 * What a context is made of.
 *
 *     history   0 ............. start ........... stubs ............ end
 *     view        head: words,        items, with        items in
 *                 summary             stubs for output   full
 *
 * `start` and `stubs` move only when the view is pruned; between prunings items are added at the
 * end and nothing else changes.
 */
struct item {
    size_t index; /* in the history */
    enum history_role role;
    bool begins_turn;
    json_t *message; /* as the view shows it: {"role", "content"} */
    uint64_t tokens; /* estimated, as all sums here */
};

/* The agent's status (plan, background commands), and the message that it stands behind. */
struct status_note {
    size_t index;
    json_t *block;
    uint64_t tokens;
};

struct context {
    struct history *h;
    uint64_t window, reserve;
    /* window less reserve, at first: how long texts may be follows from it, and from nothing that
     * changes, so that a resumed session shows them the same */
    uint64_t span;
    uint64_t fixed; /* the system prompt and the tools */
    char *summary_prompt;
    int (*ask)(struct model *m, const struct model_request *q, const struct model_sink *sink,
               struct model_reply *ret, struct error *err); /* model_ask; tests have their own */

    struct item *items;
    size_t count, room;
    size_t seen;     /* messages of the history that were looked at */
    size_t start;    /* those before are summarised */
    size_t stubs;    /* tool output of those before is shortened */
    size_t thoughts; /* thinking of those before is left out; never of the current turn */
    /* items hold all that counts from here; more than `start` only until the view is pruned */
    size_t from;
    unsigned squeeze; /* how often the longest text that may be shown was halved */
    char *summary;    /* of what is before `start`; or NULL */
    json_t *head;     /* the message that begins the view then; or NULL */
    uint64_t head_tokens;
    struct status_note *status;
    size_t n_status;

    struct tokens_ratio ratio;
    uint64_t built;               /* estimate of the last build; 0: none */
    uint64_t reported, estimated; /* the provider's word about a build, and its estimate; 0: none */
    struct model_usage spent;     /* for summaries */
};

struct asking {
    struct model *m; /* or NULL */
    int cancel;
    const struct agent_sink *sink; /* or NULL */
};

uint64_t context_room(const struct context *c); /* what may be sent at all, in estimated tokens */
uint64_t context_expected(
    const struct context *c); /* of the view as it is, in the provider's tokens */

/* conversation.c: message `index` of the history as the view shows it, {"role", "content"}; the
 * view as a provider is sent it; the message that the view begins with. */
int form_show(const struct context *c, size_t index, json_t **ret, struct error *err);
json_t *context_emit(struct context *c);
int context_make_head(struct context *c, struct error *err);

/* The text with its middle left out if it is longer than head + tail bytes: whole characters,
 * `note` in between. */
json_t *form_cut(const char *text, size_t n, size_t head, size_t tail, const char *note);

/* summary.c: what happened in [c->start, until), with what the summary said before: a new
 * string. */
int context_summarise(struct context *c, size_t until, const struct asking *a, char **ret,
                      struct error *err);
uint64_t context_summary_budget(const struct context *c);
