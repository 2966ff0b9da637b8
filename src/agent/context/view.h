/*
 * What a context is made of.
 *
 *     history   0 ............. start ........... stubs ............ end
 *     view        head: words,        items, with        items in
 *                 summary             stubs for output   full
 *
 * `start` and `stubs` move only when the view is pruned (prune.c); between prunings items are added
 * at the end and nothing else changes.
 */
#pragma once

#include "context.h"
#include "text.h"
#include "tokens.h"

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

/* Budgets, in estimated tokens. */
uint64_t context_room(const struct context *c);     /* what may be sent at all */
uint64_t context_estimate(const struct context *c); /* of the view as it is */
uint64_t context_expected(const struct context *c); /* the same in the provider's tokens */

/* form.c: message `index` of the history as the view shows it, {"role", "content"}. */
int form_show(const struct context *c, size_t index, json_t **ret, struct error *err);

/* The text with its middle left out if it is longer than `max` bytes: whole characters, `note` in
 * between. */
json_t *form_cut(const char *text, size_t n, size_t head, size_t tail, const char *note);

/* view.c: brings the items up to date with the history. */
int context_load_back(struct context *c, uint64_t enough, struct error *err);
void context_drop_items(struct context *c, size_t first, size_t n);
void context_reform(struct context *c); /* after `stubs` or `squeeze` changed */

/* prune.c */
struct asking {
    struct model *m; /* or NULL */
    int cancel;
    const struct agent_sink *sink; /* or NULL */
};
int context_prune(struct context *c, const struct asking *a, bool all, struct error *err);
int context_squeeze(struct context *c, struct error *err);

/* conversation.c: the view as a provider is sent it; the message that the view begins with. */
json_t *context_emit(struct context *c);
int context_make_head(struct context *c, struct error *err);

/* summary.c: what happened in [c->start, until), with what the summary said before: a new
 * string. */
int context_summarise(struct context *c, size_t until, const struct asking *a, char **ret,
                      struct error *err);
uint64_t context_summary_budget(const struct context *c);
