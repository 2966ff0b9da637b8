/*
 * Conversations with a model, requests and replies, in the one form that the layers above know.
 *
 * A conversation is a JSON array of messages. In order, user and assistant in turns:
 *
 *     {"role": "user" | "assistant", "content": [block, …]}
 *
 * Blocks of both, or of a user:
 *
 *     {"type": "text", "text": S}
 *     {"type": "image", "mime": S, "data": BASE64}
 *     {"type": "tool_result", "tool_use_id": S, "content": [text or image, …], "is_error": B}
 *
 * Blocks of an assistant:
 *
 *     {"type": "thinking", "from": S, "text": S, "raw": {…}}
 *     {"type": "other", "from": S, "raw": {…}}
 *     {"type": "tool_use", "id": S, "name": S, "input": {…}}
 *
 * `raw` is what the provider sent, and is sent back to it verbatim; `from` ("anthropic/claude-x":
 * the spec's provider and name) is the only model that may get it. A thinking block without `raw`
 * is never sent. `text` is for people, and may be empty. An `other` block is one of the provider's
 * own tools (its web search and what that found). A text may have `citations` or `phase`, a
 * tool_use `raw`, beside a `from`: they are sent back likewise. A tool_use whose input was not a
 * JSON object has an empty input and "bad_input": S, the text that came. Every tool_use needs its
 * tool_result in the next message; encoders refuse a conversation without it (-EINVAL).
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "error.h"
#include "json.h"

static inline bool block_is(const json_t *block, const char *type)
{
    return strcmp(json_get_string_or(block, "type", ""), type) == 0;
}

static inline json_t *text_block(const char *text)
{
    return json_pack("{s:s, s:s}", "type", "text", "text", text);
}

struct provider;

/* Which model, and where. Strings are borrowed and must outlive the model. */
struct model_spec {
    const struct provider *api; /* the row of its API (provider.h) */
    const char *provider;       /* "anthropic", "openai", or a name of the configuration */
    const char *name;           /* as the provider calls it; of a replay: the file */
    const char *base_url;       /* NULL: the provider's own */
    const char *key;            /* NULL: none is sent */
    json_t *headers;            /* more of them, an object of strings; or NULL */
    json_t *extra;      /* members set in every request's body (temperature, …); or NULL */
    const char *record; /* a file that the conversation is recorded to; or NULL */
    int idle_ms;        /* without a byte for so long, a stream is dead; 0: 300 s */
    int retries;        /* of a request that failed; -1: 8 */
    int backoff_ms;     /* the wait before the first retry, doubled each time; 0: 500 */
    double pace;        /* of a replay: 0 at once, 1 as fast as it was recorded, 2 half as fast */
};

/* `input` includes cache_read and cache_write. Of a stream these are the last, cumulative
 * figures. */
struct model_usage {
    bool known; /* the provider sent figures */
    uint64_t input, output;
    uint64_t cache_read, cache_write; /* parts of input */
    uint64_t thinking;                /* part of output, where known */
};
void model_usage_add(struct model_usage *sum, const struct model_usage *one);

enum model_stop {
    MODEL_END_TURN,
    MODEL_TOOL_USE,
    MODEL_MAX_TOKENS,
    MODEL_STOP_SEQUENCE,
    MODEL_PAUSE_TURN, /* ask again with the answer so far: it continues */
    MODEL_REFUSAL,
    MODEL_WINDOW_EXCEEDED,
};
/* `end_turn`, `tool_use`, … as Anthropic calls them */
const char *model_stop_name(enum model_stop stop);

enum model_event_kind {
    MODEL_TEXT,     /* text: more of the answer */
    MODEL_THINKING, /* text: more thinking */
    MODEL_CALL,     /* text: the name of a tool whose input is coming, for display only */
    MODEL_WAIT,     /* text: why; wait_ms: until the attempt'th retry */
    /* A retry differs from what was shown: only `keep` bytes of the text (and keep_thinking of the
     * thinking) are still valid; what follows continues there. */
    MODEL_BACK,
};

struct model_event {
    enum model_event_kind kind;
    const char *text; /* n bytes of valid UTF-8 (whole characters); a NUL behind them */
    size_t n;
    int wait_ms, attempt, attempts; /* attempts: the most retries */
    size_t keep, keep_thinking;
};

struct model_sink {
    void (*event)(void *data, const struct model_event *e);
    void *data;
};

struct model_request {
    const char *system;  /* the same in every turn, for the provider's cache; NULL: none */
    json_t *tools;       /* [{"name", "description", "input_schema"}, …]; likewise; NULL: none */
    json_t *messages;    /* the conversation */
    uint64_t max_tokens; /* of the answer */
    int cancel;          /* becomes readable to cancel the request; -1: never */
};

struct model_reply {
    json_t *content; /* the assistant's blocks; never NULL after success, may be empty */
    enum model_stop stop;
    struct model_usage usage;
    char model[128]; /* as the provider names it, or empty */
};
void model_reply_free(struct model_reply *r);
#define _cleanup_reply_ _cleanup_(model_reply_free)

/* Checks the rules above, which providers enforce. 0, or -EINVAL with the position. */
int conversation_check(const json_t *messages, struct error *err);
