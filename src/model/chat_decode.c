/*
 * Chat Completions: chunks with a `delta` of the one message, ended by [DONE]. The text, what is
 * thought and each call are blocks, in the order in which they began; a text goes on where it was
 * left, whatever came between.
 *
 * A whole answer has the same form with `message` for `delta`, and is read as its only chunk. What
 * compatible servers do with calls is chat_calls.c's.
 */
#include <errno.h>
#include <string.h>

#include "chat_calls.h"
#include "decoder_private.h"
#include "banned.h"

static uint64_t count_in(const json_t *usage, const char *group, const char *name, uint64_t before)
{
    return decode_count(json_object_get(usage, group), name, before);
}

/* In the last chunk, or in each: cumulative. */
static void take_usage(struct decoder *d, const json_t *usage)
{
    struct model_usage *u = &d->usage;
    if (!json_is_object(usage))
        return;
    u->known = true;
    u->input = decode_count(usage, "prompt_tokens", u->input);
    u->output = decode_count(usage, "completion_tokens", u->output);
    u->cache_read = decode_count(usage, "prompt_cache_hit_tokens", u->cache_read);
    u->cache_read = count_in(usage, "prompt_tokens_details", "cached_tokens", u->cache_read);
    u->cache_write = count_in(usage, "prompt_tokens_details", "cache_write_tokens", u->cache_write);
    u->thinking = count_in(usage, "completion_tokens_details", "reasoning_tokens", u->thinking);
}

static int block_of(struct decoder *d, int64_t key, enum block_kind kind, struct block **ret)
{
    struct block *b = assembly_find(&d->a, key, 0);
    if (!b)
        return assembly_add(&d->a, kind, key, 0, ret);
    *ret = b;
    return 0;
}

static bool is_empty(const json_t *piece)
{
    return json_string_length(piece) == 0;
}

static int add_text(struct decoder *d, const json_t *piece)
{
    struct block *b;
    if (is_empty(piece))
        return 0;
    int r = block_of(d, CHAT_TEXT, BLOCK_TEXT, &b);
    return r < 0 ? r : assembly_text(&d->a, b, piece);
}

/* `member` is what the server calls it: that is how it goes back, should it have to. */
static int add_thinking(struct decoder *d, const json_t *piece, const char *member)
{
    struct block *b;
    if (is_empty(piece))
        return 0;
    int r = block_of(d, CHAT_THINKING, BLOCK_THINKING, &b);
    if (r < 0)
        return r;
    if (!b->raw) {
        b->raw = json_object();
        b->raw_text = member;
    }
    return b->raw ? assembly_text(&d->a, b, piece) : -ENOMEM;
}

/* A part of a content that is a list: text, or a list of its own of what was thought. */
static int add_part(struct decoder *d, const json_t *part)
{
    const json_t *thinking = json_object_get(part, "thinking"), *one;
    size_t i;
    int r = add_text(d, json_object_get(part, "text"));
    json_array_foreach(thinking, i, one)
    {
        if (r == 0)
            r = add_thinking(d, json_object_get(one, "text"), "reasoning_content");
    }
    return r;
}

static int add_parts(struct decoder *d, const json_t *parts)
{
    const json_t *part;
    size_t i;
    int r = 0;
    json_array_foreach(parts, i, part)
    {
        if (r == 0)
            r = add_part(d, part);
    }
    return r;
}

/* The same under one of two names; where both come they say the same. */
static int take_thinking(struct decoder *d, const json_t *delta)
{
    const json_t *reasoning = json_object_get(delta, "reasoning_content");
    if (!is_empty(reasoning))
        return add_thinking(d, reasoning, "reasoning_content");
    return add_thinking(d, json_object_get(delta, "reasoning"), "reasoning");
}

/* `reasoning_details` of a gateway: signed parts, which go back as they came. Parts of one index
 * are one. */
static int merge_detail(json_t *details, json_t *detail)
{
    static const char *const GROWS[] = {"text", "summary", "data"};
    json_t *last = json_array_get(details, json_array_size(details) - 1);
    const json_t *index = json_object_get(detail, "index");
    if (!index || !json_equal(json_object_get(last, "index"), index) ||
        !json_equal(json_object_get(last, "type"), json_object_get(detail, "type")))
        return json_array_append(details, detail) < 0 ? -ENOMEM : 0;
    for (size_t i = 0; i < ARRAY_SIZE(GROWS); i++) {
        const char *had = json_string_value(json_object_get(last, GROWS[i]));
        const char *more = json_string_value(json_object_get(detail, GROWS[i]));
        if (had && more)
            json_object_set_new(detail, GROWS[i], json_pack("s+", had, more));
    }
    const char *name;
    json_t *value;
    json_object_foreach(detail, name, value)
    {
        if (!json_is_null(value) && json_object_set(last, name, value) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int take_details(struct decoder *d, json_t *details)
{
    _cleanup_json_ json_t *kept = NULL;
    struct block *b = NULL;
    json_t *one;
    size_t i;
    if (json_array_size(details) == 0)
        return 0;
    int r = assembly_keep(&d->a, &kept, details);
    if (r == 0)
        r = block_of(d, CHAT_THINKING, BLOCK_THINKING, &b);
    if (r != 0)
        return r;
    if (!json_object_get(b->raw, "reasoning_details")) {
        json_decref(b->raw);
        b->raw = json_pack("{s:[]}", "reasoning_details");
        b->raw_text = NULL;
    }
    json_array_foreach(kept, i, one)
    {
        if (r == 0 && json_is_object(one))
            r = merge_detail(json_object_get(b->raw, "reasoning_details"), one);
    }
    return r;
}

static int take_refusal(struct decoder *d, const json_t *refusal)
{
    if (is_empty(refusal))
        return 0;
    d->refused = true;
    return add_text(d, refusal);
}

static int take_delta(struct decoder *d, json_t *delta)
{
    const json_t *content = json_object_get(delta, "content");
    int r = take_thinking(d, delta);
    if (r == 0)
        r = take_details(d, json_object_get(delta, "reasoning_details"));
    if (r == 0)
        r = json_is_array(content) ? add_parts(d, content) : add_text(d, content);
    if (r == 0)
        r = take_refusal(d, json_object_get(delta, "refusal"));
    if (r == 0)
        r = chat_calls_take(&d->a, json_object_get(delta, "tool_calls"));
    return r < 0 ? r : chat_function_take(&d->a, json_object_get(delta, "function_call"));
}

static const struct reason {
    const char *name;
    enum model_stop stop;
} REASONS[] = {
    {"stop", MODEL_END_TURN},
    {"tool_calls", MODEL_TOOL_USE},
    {"function_call", MODEL_TOOL_USE},
    {"tool_use", MODEL_TOOL_USE},
    {"length", MODEL_MAX_TOKENS},
    {"max_tokens", MODEL_MAX_TOKENS},
    {"content_filter", MODEL_REFUSAL},
    {"refusal", MODEL_REFUSAL},
    {"model_length", MODEL_WINDOW_EXCEEDED},
    {"model_context_window_exceeded", MODEL_WINDOW_EXCEEDED},
};

/* Some reasons are none: the server has given up. */
static int take_reason(struct decoder *d, json_t *choice)
{
    const char *reason = json_string_value(json_object_get(choice, "finish_reason"));
    if (!reason || !*reason)
        return 0;
    if (strcmp(reason, "error") == 0 || strcmp(reason, "insufficient_system_resource") == 0) {
        _cleanup_json_ json_t *what = json_pack("{s:s, s:s+}", "type", "server_error", "message",
                                                "it gave up in the middle of the answer: ", reason);
        return decode_trouble(d, what);
    }
    d->stopped = true;
    d->stop = MODEL_END_TURN;
    for (size_t i = 0; i < ARRAY_SIZE(REASONS); i++)
        if (strcasecmp(REASONS[i].name, reason) == 0)
            d->stop = REASONS[i].stop;
    return 0;
}

static int take_choice(struct decoder *d, json_t *choice)
{
    json_t *delta = json_object_get(choice, "delta");
    if (json_integer_value(json_object_get(choice, "index")) != 0)
        return 0; /* one answer was asked for */
    d->answered = true;
    if (!json_is_object(delta))
        delta = json_object_get(choice, "message");
    int r = json_is_object(delta) ? take_delta(d, delta) : 0;
    return r < 0 ? r : take_reason(d, choice);
}

/* The error that a chunk holds, in one of the forms seen; or NULL. */
static json_t *error_in(json_t *chunk, const char *type)
{
    json_t *error = json_object_get(chunk, "error");
    const char *object = json_string_value(json_object_get(chunk, "object"));
    if (json_is_object(error) || json_is_string(error))
        return error;
    return (object && strcmp(object, "error") == 0) || strcmp(type, "error") == 0 ? chunk : NULL;
}

static int take(struct decoder *d, const char *type, json_t *chunk)
{
    json_t *error = error_in(chunk, type), *choice;
    size_t i;
    int r = 0;
    if (error)
        return decode_trouble(d, error);
    decode_head(d, chunk);
    take_usage(d, json_object_get(json_object_get(chunk, "x_groq"), "usage"));
    take_usage(d, json_object_get(chunk, "usage"));
    json_array_foreach(json_object_get(chunk, "choices"), i, choice)
    {
        if (r == 0)
            r = take_choice(d, choice);
    }
    return r;
}

static int take_whole(struct decoder *d, json_t *answer)
{
    int r = take(d, "message", answer);
    if (r < 0)
        return r;
    return d->answered ? 1 : -EBADMSG;
}

static void finish(struct decoder *d)
{
    assembly_sort(&d->a, true);
}

const struct decode_protocol CHAT_DECODE = {
    .take = take, .take_whole = take_whole, .finish = finish, .last = "[DONE]"};
