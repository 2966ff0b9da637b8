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
 * come anywhere. Blocks of unknown kinds (of the provider's own tools) are kept, and go back as
 * they came.
 */
#include <errno.h>
#include <string.h>

#include "decode.h"
#include "encode.h"
#include "provider.h"
#include "banned.h"

#define CACHE_MARK         ",\"cache_control\":{\"type\":\"ephemeral\"}"
#define MAX_TOKENS_DEFAULT 8192
#define ID_MAX             64

static const char *const OWN[] = {"model", "messages", "system", "stream", NULL};

static json_t *anthropic_tool_of(const json_t *tool, bool last)
{
    json_t *schema = json_object_get(tool, "input_schema");
    json_t *made = json_pack("{s:O, s:O*, s:o}", "name", json_object_get(tool, "name"),
                             "description", json_object_get(tool, "description"), "input_schema",
                             schema ? json_incref(schema) : json_pack("{s:s}", "type", "object"));
    if (made && last)
        json_object_set_new(made, "cache_control", json_pack("{s:s}", "type", "ephemeral"));
    return made;
}

/* The mark is on the last of hutch's own: tools of the provider's come behind it (extra). */
static json_t *anthropic_tools_of(const json_t *tools)
{
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(tools); i++)
        if (json_array_append_new(
                list, anthropic_tool_of(json_array_get(tools, i), i + 1 == json_array_size(tools))))
            break;
    return list;
}

static int anthropic_put_start(struct encoding *e)
{
    uint64_t most = e->q->max_tokens ? e->q->max_tokens : MAX_TOKENS_DEFAULT;
    json_t *head = json_pack("{s:s, s:I, s:b}", "model", e->spec->name, "max_tokens",
                             (json_int_t)most, "stream", 1);
    if (json_array_size(e->q->tools) > 0)
        json_object_set_new(head, "tools", anthropic_tools_of(e->q->tools));
    int r = body_head(e, head, OWN);
    const char *system = e->q->system;
    if (r == 0 && system && body_trimmed(system, strlen(system)) > 0) {
        body_put(e, ",\"system\":[{\"type\":\"text\",\"text\":");
        body_text(e, system, strlen(system));
        body_put(e, CACHE_MARK "}]");
    }
    return r;
}

static void anthropic_put_image(struct encoding *e, const json_t *block)
{
    body_put(e, "{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":");
    body_value(e, json_object_get(block, "mime"));
    body_put(e, ",\"data\":");
    body_value(e, json_object_get(block, "data"));
    body_put(e, "}");
}

/* What the same model said through another protocol is not for this one. */
static bool anthropic_goes_back(const struct encoding *e, const json_t *block)
{
    const char *type = json_string_value(json_object_get(json_object_get(block, "raw"), "type"));
    if (block_is(block, "thinking"))
        return body_returns(e, block) && type &&
               (strcmp(type, "thinking") == 0 || strcmp(type, "redacted_thinking") == 0);
    if (block_is(block, "other"))
        return body_returns(e, block) && type;
    return !block_is(block, "text") || !body_blank(block);
}

/* The blocks of a message that are sent, in their order: results first. Borrowed. */
static json_t *anthropic_blocks_to_send(const struct encoding *e, const json_t *message)
{
    const json_t *content = json_object_get(message, "content");
    json_t *list = json_array(), *block;
    size_t i;
    json_array_foreach(content, i, block)
    {
        if (block_is(block, "tool_result"))
            json_array_append(list, block);
    }
    json_array_foreach(content, i, block)
    {
        if (!block_is(block, "tool_result") && anthropic_goes_back(e, block))
            json_array_append(list, block);
    }
    size_t n = json_array_size(list);
    while (n > 0 && block_is(json_array_get(list, n - 1), "thinking"))
        json_array_remove(list, --n);
    return list;
}

static void anthropic_put_result(struct encoding *e, const json_t *block)
{
    const json_t *content = json_object_get(block, "content"), *one;
    bool first = true;
    size_t i;
    body_put(e, "{\"type\":\"tool_result\",\"tool_use_id\":");
    body_result_id(e, block);
    body_put(e, ",\"content\":[");
    json_array_foreach(content, i, one)
    {
        if (block_is(one, "text") && body_blank(one))
            continue;
        body_put(e, first ? "" : ",");
        first = false;
        if (block_is(one, "image")) {
            anthropic_put_image(e, one);
        } else {
            body_put(e, "{\"type\":\"text\",\"text\":");
            body_value(e, json_object_get(one, "text"));
        }
        body_put(e, "}");
    }
    body_put(e, first ? "{\"type\":\"text\",\"text\":\"" NO_OUTPUT "\"}]" : "]");
    if (json_is_true(json_object_get(block, "is_error")))
        body_put(e, ",\"is_error\":true");
}

/* Citations go back to whom they came from; what they may hold in a request is less than in an
 * answer. */
static void anthropic_put_citations(struct encoding *e, const json_t *block)
{
    const json_t *citations = json_object_get(block, "citations");
    json_t *one;
    size_t i;
    if (json_array_size(citations) == 0 || !body_is_from(e, block))
        return;
    body_put(e, ",\"citations\":[");
    json_array_foreach(citations, i, one)
    {
        _cleanup_json_ json_t *copy = json_copy(one);
        json_object_del(copy, "file_id");
        body_put(e, i ? "," : "");
        body_value(e, copy);
    }
    body_put(e, "]");
}

static void anthropic_put_words(struct encoding *e, const json_t *block, bool trimmed)
{
    const json_t *text = json_object_get(block, "text");
    const char *s = json_string_value(text);
    size_t n = trimmed ? body_trimmed(s, json_string_length(text)) : json_string_length(text);
    body_put(e, "{\"type\":\"text\",\"text\":");
    body_text(e, s, n);
    anthropic_put_citations(e, block);
}

static void anthropic_put_use(struct encoding *e, const json_t *block)
{
    _cleanup_json_ json_t *input = body_input(block);
    body_put(e, "{\"type\":\"tool_use\",\"id\":");
    body_call_id(e, block);
    body_put(e, ",\"name\":");
    body_name(e, block);
    body_put(e, ",\"input\":");
    body_value(e, input);
}

/* All but the closing brace, so that a mark can follow. */
static void anthropic_put_block(struct encoding *e, const json_t *block, bool trimmed)
{
    if (block_is(block, "text")) {
        anthropic_put_words(e, block, trimmed);
    } else if (block_is(block, "image")) {
        anthropic_put_image(e, block);
    } else if (block_is(block, "tool_use")) {
        anthropic_put_use(e, block);
    } else if (block_is(block, "tool_result")) {
        anthropic_put_result(e, block);
    } else {
        body_put(e, "{");
        body_members(e, json_object_get(block, "raw"));
    }
}

static int anthropic_put_message(struct encoding *e, const json_t *message, bool marked)
{
    bool user = message_is_user(message);
    _cleanup_json_ json_t *blocks = anthropic_blocks_to_send(e, message);
    if (!blocks || (!user && call_ids_turn(&e->ids) < 0))
        return -ENOMEM;
    size_t n = json_array_size(blocks);
    body_put(e,
             user ? "{\"role\":\"user\",\"content\":[" : "{\"role\":\"assistant\",\"content\":[");
    for (size_t i = 0; i < n; i++) {
        body_put(e, i ? "," : "");
        anthropic_put_block(e, json_array_get(blocks, i), !user && i + 1 == n);
        body_put(e, marked && i + 1 == n ? CACHE_MARK "}" : "}");
    }
    if (n == 0)
        body_put(e, "{\"type\":\"text\",\"text\":\"" NOTHING_SAID "\"}");
    body_put(e, "]}");
    return 0;
}

static int anthropic_encode(struct encoding *e)
{
    const json_t *messages = e->q->messages;
    size_t n = json_array_size(messages),
           last = n - 1 - (n - 1) % 2; /* the user's are the even ones */
    e->ids = (struct call_ids){.max = ID_MAX, .plain = true, .once = true};
    body_put(e, "{");
    int r = anthropic_put_start(e);
    body_put(e, ",\"messages\":[");
    for (size_t i = 0; i < n && r == 0; i++) {
        body_put(e, i ? "," : "");
        r = anthropic_put_message(e, json_array_get(messages, i), i == last || i + 2 == last);
    }
    body_put(e, "]}");
    return r;
}

/* Figures are cumulative: the last one that was said counts. Input comes in three parts. */
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

static int anthropic_message_start(struct decoder *d, json_t *event)
{
    const json_t *message = json_object_get(event, "message");
    d->answered = true;
    decode_head(d, message);
    anthropic_take_usage(d, json_object_get(message, "usage"));
    return 0;
}

static int anthropic_start_text(struct decoder *d, struct block *b, json_t *given)
{
    json_t *citations = json_object_get(given, "citations");
    int r = assembly_text(&d->a, b, json_object_get(given, "text"));
    if (r == 0 && json_array_size(citations) > 0) {
        _cleanup_json_ json_t *extra = json_pack("{s:O}", "citations", citations);
        r = assembly_keep(&d->a, &b->extra, extra);
    }
    return r;
}

static int anthropic_start_thinking(struct decoder *d, struct block *b, json_t *given)
{
    int r = assembly_keep(&d->a, &b->raw, given);
    b->raw_text = strcmp(decode_type(given), "thinking") == 0 ? "thinking" : NULL;
    return r < 0 ? r : assembly_text(&d->a, b, json_object_get(given, "thinking"));
}

static int anthropic_start_call(struct decoder *d, struct block *b, json_t *given)
{
    json_t *input = json_object_get(given, "input");
    int r = assembly_call(&d->a, b, json_object_get(given, "id"), json_object_get(given, "name"));
    return r < 0 || json_object_size(input) == 0 ? r : assembly_keep(&d->a, &b->given, input);
}

static int anthropic_start_other(struct decoder *d, struct block *b, json_t *given)
{
    return assembly_keep(&d->a, &b->raw, given);
}

static const struct start {
    const char *type;
    enum block_kind kind;
    int (*take)(struct decoder *d, struct block *b, json_t *given);
} STARTS[] = {
    {"text", BLOCK_TEXT, anthropic_start_text},
    {"thinking", BLOCK_THINKING, anthropic_start_thinking},
    {"redacted_thinking", BLOCK_THINKING, anthropic_start_thinking},
    {"tool_use", BLOCK_CALL, anthropic_start_call},
};
static const struct start START_OTHER = {NULL, BLOCK_OTHER, anthropic_start_other};

static int64_t anthropic_index_of(const json_t *event)
{
    return json_integer_value(json_object_get(event, "index"));
}

static int anthropic_add_block(struct decoder *d, int64_t key, json_t *given, struct block **ret)
{
    const struct start *how = &START_OTHER;
    for (size_t i = 0; i < ARRAY_SIZE(STARTS); i++)
        if (strcmp(STARTS[i].type, decode_type(given)) == 0)
            how = &STARTS[i];
    int r = assembly_add(&d->a, how->kind, key, 0, ret);
    return r < 0 ? r : how->take(d, *ret, given);
}

/* An index that begins twice is a second block: what the first one has got stays. */
static int anthropic_content_block_start(struct decoder *d, json_t *event)
{
    json_t *given = json_object_get(event, "content_block");
    struct block *b = assembly_find(&d->a, anthropic_index_of(event), 0);
    d->answered = true;
    if (!json_is_object(given))
        return 0;
    int r = b ? assembly_end(&d->a, b) : 0;
    return r < 0 ? r : anthropic_add_block(d, anthropic_index_of(event), given, &b);
}

static int anthropic_add_citation(struct decoder *d, struct block *b, json_t *citation)
{
    _cleanup_json_ json_t *one = NULL;
    if (!json_is_object(citation))
        return 0;
    int r = assembly_keep(&d->a, &one, citation);
    if (r < 0)
        return r;
    if (!b->extra)
        b->extra = json_pack("{s:[]}", "citations");
    return json_array_append(json_object_get(b->extra, "citations"), one) < 0 ? -ENOMEM : 0;
}

/* A change of a block that nobody knows: strings grow, other members are replaced. */
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

static int anthropic_block_change(struct decoder *d, struct block *b, json_t *delta)
{
    const char *type = decode_type(delta);
    json_t *signature = json_object_get(delta, "signature");
    if (strcmp(type, "text_delta") == 0 && b->kind == BLOCK_TEXT)
        return assembly_text(&d->a, b, json_object_get(delta, "text"));
    if (strcmp(type, "thinking_delta") == 0 && b->kind == BLOCK_THINKING)
        return assembly_text(&d->a, b, json_object_get(delta, "thinking"));
    if (strcmp(type, "input_json_delta") == 0 && (b->kind == BLOCK_CALL || b->kind == BLOCK_OTHER))
        return assembly_input(&d->a, b, json_object_get(delta, "partial_json"));
    if (strcmp(type, "citations_delta") == 0 && b->kind == BLOCK_TEXT)
        return anthropic_add_citation(d, b, json_object_get(delta, "citation"));
    if (strcmp(type, "signature_delta") == 0 && b->kind == BLOCK_THINKING &&
        json_is_string(signature)) {
        json_t *kept = NULL;
        int r = assembly_keep(&d->a, &kept, signature);
        return r < 0 ? r : json_object_set_new(b->raw, "signature", kept) < 0 ? -ENOMEM : 0;
    }
    return b->kind == BLOCK_OTHER ? anthropic_change_other(d, b, delta) : 0;
}

static int anthropic_content_block_delta(struct decoder *d, json_t *event)
{
    struct block *b = assembly_find(&d->a, anthropic_index_of(event), 0);
    return b && !b->whole ? anthropic_block_change(d, b, json_object_get(event, "delta")) : 0;
}

static int anthropic_content_block_stop(struct decoder *d, json_t *event)
{
    struct block *b = assembly_find(&d->a, anthropic_index_of(event), 0);
    return b ? assembly_end(&d->a, b) : 0;
}

static void anthropic_take_stop(struct decoder *d, const json_t *from)
{
    const char *reason = json_string_value(json_object_get(from, "stop_reason"));
    if (!reason)
        return;
    d->stopped = true;
    d->stop = MODEL_END_TURN;
    for (enum model_stop stop = MODEL_END_TURN; stop <= MODEL_WINDOW_EXCEEDED; stop++)
        if (strcmp(model_stop_name(stop), reason) == 0)
            d->stop = stop;
}

static int anthropic_message_delta(struct decoder *d, json_t *event)
{
    anthropic_take_stop(d, json_object_get(event, "delta"));
    anthropic_take_usage(d, json_object_get(event, "usage"));
    return 0;
}

static int anthropic_message_stop(struct decoder *d, json_t *event)
{
    return d->answered;
}

static int anthropic_error_event(struct decoder *d, json_t *event)
{
    json_t *what = json_object_get(event, "error");
    return decode_error(d, what ? what : event);
}

static const struct decode_handler HANDLERS[] = {
    {"message_start", anthropic_message_start},
    {"content_block_start", anthropic_content_block_start},
    {"content_block_delta", anthropic_content_block_delta},
    {"content_block_stop", anthropic_content_block_stop},
    {"message_delta", anthropic_message_delta},
    {"message_stop", anthropic_message_stop},
    {"error", anthropic_error_event},
    {0},
};

static int anthropic_decode_event(struct decoder *d, const char *type, json_t *event)
{
    const struct decode_handler *h = decode_handler_of(HANDLERS, type, event);
    return h ? h->take(d, event) : 0;
}

static int anthropic_decode_whole(struct decoder *d, json_t *answer)
{
    const json_t *content = json_object_get(answer, "content");
    json_t *given;
    size_t i;
    if (json_object_get(answer, "error") || strcmp(decode_type(answer), "error") == 0)
        return anthropic_error_event(d, answer);
    if (!json_is_array(content))
        return -EBADMSG;
    decode_head(d, answer);
    anthropic_take_usage(d, json_object_get(answer, "usage"));
    anthropic_take_stop(d, answer);
    json_array_foreach(content, i, given)
    {
        struct block *b;
        int r = json_is_object(given) ? anthropic_add_block(d, (int64_t)i, given, &b) : 0;
        if (r == 0 && json_is_object(given))
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
