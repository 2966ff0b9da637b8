/*
 * Anthropic: the Messages API.
 *
 * What it refuses, and the encoder avoids:
 *
 *   - a text of nothing but white space, and an empty message;
 *   - an assistant's message that ends in white space (only as the last one, but all are trimmed,
 * so that a message is the same bytes in every request), or in a thinking block;
 *   - a result behind anything else of a user's message;
 *   - more than four cache marks. They are at the ends of the tools, of the system prompt, and of
 * the last two messages of the user: the next request repeats the first three byte for byte.
 *
 * In an answer every block starts, grows and stops under its index; `ping` and unknown events may
 * come anywhere. Blocks of unknown kinds (of the provider's own tools) are kept, and sent back
 * unchanged.
 */
#include <errno.h>
#include <string.h>

#include "decode.h"
#include "encode.h"
#include "provider.h"
#include "banned.h"

#define MAX_TOKENS_DEFAULT 8192
#define ID_MAX             64

static const char *const ANTHROPIC_OWN[] = {"model", "messages", "system", "stream", NULL};

static void anthropic_mark_cache(struct encoding *e, json_t *object)
{
    encode_set(e, object, "cache_control", json_pack("{s:s}", "type", "ephemeral"));
}

static json_t *anthropic_image(const json_t *block)
{
    return json_pack("{s:s, s:{s:s, s:O, s:O}}", "type", "image", "source", "type", "base64",
                     "media_type", json_object_get(block, "mime"), "data",
                     json_object_get(block, "data"));
}

static json_t *anthropic_result(struct encoding *e, const json_t *block)
{
    const json_t *one;
    json_t *content = json_array();
    size_t i;
    json_array_foreach(json_object_get(block, "content"), i, one)
    {
        if (block_is(one, "image"))
            encode_append(e, content, anthropic_image(one));
        else if (!block_is_blank(one))
            encode_append(
                e, content,
                json_pack("{s:s, s:O}", "type", "text", "text", json_object_get(one, "text")));
    }
    if (json_array_size(content) == 0)
        encode_append(e, content, json_pack("{s:s, s:s}", "type", "text", "text", NO_OUTPUT));
    json_t *made = json_pack("{s:s, s:o, s:o}", "type", "tool_result", "tool_use_id",
                             encode_result_id(e, block), "content", content);
    if (json_is_true(json_object_get(block, "is_error")))
        encode_set(e, made, "is_error", json_true());
    return made;
}

static json_t *anthropic_block(struct encoding *e, const json_t *block, bool trimmed)
{
    if (block_is(block, "image"))
        return anthropic_image(block);
    if (block_is(block, "tool_result"))
        return anthropic_result(e, block);
    if (block_is(block, "tool_use"))
        return json_pack("{s:s, s:o, s:o, s:o}", "type", "tool_use", "id", encode_call_id(e, block),
                         "name", encode_name(block), "input", encode_input(block));
    if (!block_is(block, "text"))
        return json_copy(json_object_get(block, "raw"));
    const json_t *text = json_object_get(block, "text");
    const json_t *citations = json_object_get(block, "citations");
    const char *s = json_string_value(text);
    size_t i, n = json_string_length(text);
    json_t *one, *list,
        *made = json_pack("{s:s, s:o}", "type", "text", "text",
                          encode_text(s, trimmed ? text_trimmed(s, n) : n));
    /* Citations are sent back to the model that made them, without the members that only an answer
     * may have. */
    if (json_array_size(citations) == 0 || !block_is_from(e, block))
        return made;
    list = json_array();
    json_array_foreach(citations, i, one)
    {
        json_t *copy = json_copy(one);
        json_object_del(copy, "file_id");
        encode_append(e, list, copy);
    }
    encode_set(e, made, "citations", list);
    return made;
}

/* Blocks that the same model sent through another API are left out. */
static bool anthropic_is_sent(const struct encoding *e, const json_t *block)
{
    const char *type = json_string_value(json_object_get(json_object_get(block, "raw"), "type"));
    if (block_is(block, "thinking"))
        return block_goes_back(e, block) && type &&
               (strcmp(type, "thinking") == 0 || strcmp(type, "redacted_thinking") == 0);
    if (block_is(block, "other"))
        return block_goes_back(e, block) && type;
    return !block_is(block, "text") || !block_is_blank(block);
}

static json_t *anthropic_message(struct encoding *e, const json_t *message, bool user, bool marked)
{
    const json_t *content = json_object_get(message, "content");
    json_t *sent = json_array(), *list = json_array(), *block;
    size_t i;
    json_array_foreach(content, i, block) /* results first */
    {
        if (block_is(block, "tool_result"))
            encode_append(e, sent, json_incref(block));
    }
    json_array_foreach(content, i, block)
    {
        if (!block_is(block, "tool_result") && anthropic_is_sent(e, block))
            encode_append(e, sent, json_incref(block));
    }
    size_t n = json_array_size(sent);
    while (n > 0 && block_is(json_array_get(sent, n - 1), "thinking"))
        n--;
    if (!user)
        encode_begin_calls(e);
    for (i = 0; i < n; i++) {
        json_t *made = anthropic_block(e, json_array_get(sent, i), !user && i + 1 == n);
        if (marked && i + 1 == n)
            anthropic_mark_cache(e, made);
        encode_append(e, list, made);
    }
    if (n == 0)
        encode_append(e, list, json_pack("{s:s, s:s}", "type", "text", "text", NOTHING_SAID));
    json_decref(sent);
    return json_pack("{s:s, s:o}", "role", user ? "user" : "assistant", "content", list);
}

/* Cache marks are on the last of hutch's own tools (the provider's come behind it), on the system
 * prompt, and on the last two messages of the user. */
static json_t *anthropic_encode(struct encoding *e)
{
    const struct model_request *q = e->q;
    size_t i, n_tools = json_array_size(q->tools), n = json_array_size(q->messages);
    size_t last = n - 1 - (n - 1) % 2; /* the user's are the even ones */
    json_t *tool, *tools = json_array(), *messages = json_array();
    e->ids = (struct call_ids){.max = ID_MAX, .plain = true, .once = true};
    json_t *body =
        json_pack("{s:s, s:I, s:b}", "model", e->spec->name, "max_tokens",
                  (json_int_t)(q->max_tokens ? q->max_tokens : MAX_TOKENS_DEFAULT), "stream", 1);
    json_array_foreach(q->tools, i, tool)
    {
        json_t *schema = json_object_get(tool, "input_schema");
        json_t *made =
            json_pack("{s:O, s:O*, s:o}", "name", json_object_get(tool, "name"), "description",
                      json_object_get(tool, "description"), "input_schema",
                      schema ? json_incref(schema) : json_pack("{s:s}", "type", "object"));
        if (i + 1 == n_tools)
            anthropic_mark_cache(e, made);
        encode_append(e, tools, made);
    }
    if (n_tools > 0)
        encode_set(e, body, "tools", json_incref(tools));
    json_decref(tools);
    encode_extra(e, body, ANTHROPIC_OWN);
    if (q->system && text_trimmed(q->system, strlen(q->system)) > 0) {
        json_t *text = json_pack("{s:s, s:o}", "type", "text", "text",
                                 encode_text(q->system, strlen(q->system)));
        anthropic_mark_cache(e, text);
        encode_set(e, body, "system", json_pack("[o]", text));
    }
    for (i = 0; i < n; i++)
        encode_append(e, messages,
                      anthropic_message(e, json_array_get(q->messages, i), i % 2 == 0,
                                        i == last || i + 2 == last));
    encode_set(e, body, "messages", messages);
    return body;
}

/* Figures are cumulative: the last one counts. Input comes in three parts. */
static void anthropic_take_usage(struct decoder *d, const json_t *usage)
{
    struct model_usage *u = &d->usage;
    if (!json_is_object(usage))
        return;
    uint64_t fresh = u->input - u->cache_read - u->cache_write;
    u->known = true;
    u->cache_read = decode_count(usage, "cache_read_input_tokens", u->cache_read);
    u->cache_write = decode_count(usage, "cache_creation_input_tokens", u->cache_write);
    u->input = decode_count(usage, "input_tokens", fresh) + u->cache_read + u->cache_write;
    u->output = decode_count(usage, "output_tokens", u->output);
    u->thinking = decode_count(json_object_get(usage, "output_tokens_details"), "thinking_tokens",
                               u->thinking);
}

static void anthropic_take_stop(struct decoder *d, const json_t *from)
{
    const char *reason = json_get_string(from, "stop_reason");
    if (!reason)
        return;
    d->stopped = true;
    d->stop = MODEL_END_TURN;
    for (enum model_stop stop = MODEL_END_TURN; stop <= MODEL_WINDOW_EXCEEDED; stop++)
        if (strcmp(model_stop_name(stop), reason) == 0)
            d->stop = stop;
}

static int anthropic_add_block(struct decoder *d, int64_t key, json_t *given, struct block **ret)
{
    const char *type = decode_type(given);
    bool is_thinking = strcmp(type, "thinking") == 0;
    enum block_kind kind = strcmp(type, "text") == 0                               ? BLOCK_TEXT
                           : is_thinking || strcmp(type, "redacted_thinking") == 0 ? BLOCK_THINKING
                           : strcmp(type, "tool_use") == 0                         ? BLOCK_CALL
                                                                                   : BLOCK_OTHER;
    json_t *citations = json_object_get(given, "citations");
    json_t *input = json_object_get(given, "input");
    int r = assembly_add(&d->a, kind, key, 0, ret);
    if (r < 0)
        return r;
    struct block *b = *ret;
    switch (kind) {
    case BLOCK_TEXT:
        r = assembly_text(&d->a, b, json_object_get(given, "text"));
        if (r == 0 && json_array_size(citations) > 0) {
            _cleanup_json_ json_t *extra = json_pack("{s:O}", "citations", citations);
            r = assembly_keep(&d->a, &b->extra, extra);
        }
        return r;
    case BLOCK_THINKING:
        b->raw_text = is_thinking ? "thinking" : NULL;
        r = assembly_keep(&d->a, &b->raw, given);
        return r < 0 ? r : assembly_text(&d->a, b, json_object_get(given, "thinking"));
    case BLOCK_CALL:
        r = assembly_call(&d->a, b, json_object_get(given, "id"), json_object_get(given, "name"));
        return r < 0 || json_object_size(input) == 0 ? r : assembly_keep(&d->a, &b->given, input);
    default:
        return assembly_keep(&d->a, &b->raw, given);
    }
}

/* A change of a block of an unknown kind: strings grow, other members are replaced. */
static int anthropic_change_other(struct decoder *d, struct block *b, json_t *delta)
{
    _cleanup_json_ json_t *change = NULL;
    const char *name;
    json_t *value;
    int r = assembly_keep(&d->a, &change, delta);
    if (r < 0)
        return r;
    json_object_del(change, "type");
    json_object_foreach(change, name, value)
    {
        const json_t *had = json_object_get(b->raw, name);
        json_t *now = json_is_string(had) && json_is_string(value)
                          ? json_pack("s+", json_string_value(had), json_string_value(value))
                          : json_incref(value);
        if (json_object_set_new(b->raw, name, now) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int anthropic_change_block(struct decoder *d, struct block *b, json_t *delta)
{
    const char *type = decode_type(delta);
    json_t *signature = json_object_get(delta, "signature");
    if (strcmp(type, "text_delta") == 0 && b->kind == BLOCK_TEXT)
        return assembly_text(&d->a, b, json_object_get(delta, "text"));
    if (strcmp(type, "thinking_delta") == 0 && b->kind == BLOCK_THINKING)
        return assembly_text(&d->a, b, json_object_get(delta, "thinking"));
    if (strcmp(type, "input_json_delta") == 0 && (b->kind == BLOCK_CALL || b->kind == BLOCK_OTHER))
        return assembly_input(&d->a, b, json_object_get(delta, "partial_json"));
    if (strcmp(type, "citations_delta") == 0 && b->kind == BLOCK_TEXT) {
        _cleanup_json_ json_t *one = NULL;
        json_t *citation = json_object_get(delta, "citation");
        int r = json_is_object(citation) ? assembly_keep(&d->a, &one, citation) : 0;
        if (r < 0 || !one)
            return r;
        if (!b->extra)
            b->extra = json_pack("{s:[]}", "citations");
        return json_array_append(json_object_get(b->extra, "citations"), one) < 0 ? -ENOMEM : 0;
    }
    if (strcmp(type, "signature_delta") == 0 && b->kind == BLOCK_THINKING &&
        json_is_string(signature)) {
        json_t *kept = NULL;
        int r = assembly_keep(&d->a, &kept, signature);
        return r < 0 ? r : json_object_set_new(b->raw, "signature", kept) < 0 ? -ENOMEM : 0;
    }
    return b->kind == BLOCK_OTHER ? anthropic_change_other(d, b, delta) : 0;
}

static int anthropic_decode_event(struct decoder *d, const char *type, json_t *event)
{
    int64_t key = json_get_integer(event, "index");
    struct block *b = assembly_find(&d->a, key, 0);
    json_t *message = json_object_get(event, "message");
    json_t *given = json_object_get(event, "content_block");
    json_t *delta = json_object_get(event, "delta");
    if (*decode_type(event))
        type = decode_type(event);
    if (strcmp(type, "message_start") == 0) {
        d->answered = true;
        decode_head(d, message);
        anthropic_take_usage(d, json_object_get(message, "usage"));
    } else if (strcmp(type, "content_block_start") == 0) {
        /* An index that begins twice is a second block: what the first one has got stays. */
        d->answered = true;
        int r = json_is_object(given) && b ? assembly_end(&d->a, b) : 0;
        return r < 0 || !json_is_object(given) ? r : anthropic_add_block(d, key, given, &b);
    } else if (strcmp(type, "content_block_delta") == 0) {
        return b && !b->whole ? anthropic_change_block(d, b, delta) : 0;
    } else if (strcmp(type, "content_block_stop") == 0) {
        return b ? assembly_end(&d->a, b) : 0;
    } else if (strcmp(type, "message_delta") == 0) {
        anthropic_take_stop(d, delta);
        anthropic_take_usage(d, json_object_get(event, "usage"));
    } else if (strcmp(type, "message_stop") == 0) {
        return d->answered;
    } else if (strcmp(type, "error") == 0) {
        json_t *what = json_object_get(event, "error");
        return decode_error(d, what ? what : event);
    }
    return 0;
}

static int anthropic_decode_whole(struct decoder *d, json_t *answer)
{
    const json_t *content = json_object_get(answer, "content");
    json_t *given;
    size_t i;
    json_t *error = json_object_get(answer, "error");
    if (error || strcmp(decode_type(answer), "error") == 0)
        return decode_error(d, error ? error : answer);
    if (!json_is_array(content))
        return -EBADMSG;
    decode_head(d, answer);
    anthropic_take_usage(d, json_object_get(answer, "usage"));
    anthropic_take_stop(d, answer);
    json_array_foreach(content, i, given)
    {
        struct block *b;
        if (!json_is_object(given))
            continue;
        int r = anthropic_add_block(d, (int64_t)i, given, &b);
        if (r == 0)
            r = assembly_end(&d->a, b);
        if (r < 0)
            return r;
    }
    return 1;
}

static const struct decode_protocol ANTHROPIC_DECODER = {.take = anthropic_decode_event,
                                                         .take_whole = anthropic_decode_whole};

#define K 1000u
#define M 1000000u

static const struct provider_model ANTHROPIC_MODELS[] = {
    {"claude-fable-5-1", {M, 128 * K, {10, 50, 0.25, 12.5, 0, 1, 1}}},
    {"claude-fable-5", {M, 128 * K, {10, 50, 1, 12.5, 0, 1, 1}}},
    {"claude-opus-5-5", {M, 128 * K, {4, 20, 0.2, 5, 0, 1, 1}}},
    {"claude-opus-5", {M, 128 * K, {5, 25, 0.5, 6.25, 0, 1, 1}}},
    {"claude-opus-4-8", {M, 128 * K, {5, 25, 0.5, 6.25, 0, 1, 1}}},
    {"claude-opus-4-7", {M, 128 * K, {5, 25, 0.5, 6.25, 0, 1, 1}}},
    {"claude-opus-4-6", {200 * K, 128 * K, {5, 25, 0.5, 6.25, 0, 1, 1}}},
    {"claude-opus-4-5", {200 * K, 64 * K, {5, 25, 0.5, 6.25, 0, 1, 1}}},
    {"claude-opus-4", {200 * K, 32 * K, {15, 75, 1.5, 18.75, 0, 1, 1}}},
    {"claude-sonnet-5-5", {M, 128 * K, {2, 10, 0.1, 2.5, 0, 1, 1}}},
    {"claude-sonnet-5", {M, 128 * K, {2, 10, 0.2, 2.5, 0, 1, 1}}},
    {"claude-sonnet-4", {200 * K, 64 * K, {3, 15, 0.3, 3.75, 0, 1, 1}}},
    {"claude-3-7-sonnet", {200 * K, 64 * K, {3, 15, 0.3, 3.75, 0, 1, 1}}},
    {"claude-3-5-sonnet", {200 * K, 8192, {3, 15, 0.3, 3.75, 0, 1, 1}}},
    {"claude-haiku-5-5", {M, 128 * K, {0.1, 0.5, 0.01, 0.125, 100 * K, 5, 5}}},
    {"claude-haiku-4-5", {200 * K, 64 * K, {1, 5, 0.1, 1.25, 0, 1, 1}}},
    {"claude-3-5-haiku", {200 * K, 8192, {0.8, 4, 0.08, 1, 0, 1, 1}}},
    {"claude-3-haiku", {200 * K, 4096, {0.25, 1.25, 0.03, 0.3, 0, 1, 1}}},
    {NULL},
};

static const char *const ANTHROPIC_HEADERS[] = {"anthropic-version", "2023-06-01", NULL};
static const char *const ANTHROPIC_PREFIXES[] = {"claude", NULL};

const struct provider PROVIDER_ANTHROPIC = {
    .base_url = "https://api.anthropic.com/v1",
    .path = "/messages",
    .is_versioned = true,
    .key_header = "x-api-key",
    .key_prefix = "",
    .headers = ANTHROPIC_HEADERS,
    .encode = anthropic_encode,
    .decoder = &ANTHROPIC_DECODER,
    .default_model = "claude-sonnet-5-5",
    .model_prefixes = ANTHROPIC_PREFIXES,
    .models = ANTHROPIC_MODELS,
    .guess = {200 * K, 32 * K, {-1, -1, -1, -1, 0, 1, 1}},
    .cache_read_rate = 0.1,
    .cache_write_rate = 1.25,
};
