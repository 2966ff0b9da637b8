/*
 * OpenAI: the Responses API.
 *
 * A request is a flat list of items. The provider stores nothing; so reasoning comes encrypted and
 * is sent back with every request, before the item that it led to. Reasoning without such an item,
 * or without content that the provider can read again, would be refused and is left out.
 *
 * An answer is a list of items, each known by its output_index, which begin, grow and end; at the
 * end the whole response. The item that ends an item is trusted over its pieces, the response's
 * list over items that never ended; pieces count where nothing better comes. A message is a text
 * per part: a block's key is the item's index and its part.
 */
#include <errno.h>
#include <string.h>

#include "decode.h"
#include "encode.h"
#include "provider.h"
#include "banned.h"

#define ID_MAX 64

static const char *const RESPONSES_OWN[] = {"model", "input", "instructions", "stream", NULL};

/* Texts and images. */
static json_t *responses_parts(struct encoding *e, const json_t *blocks)
{
    const json_t *block;
    json_t *parts = json_array();
    size_t i;
    json_array_foreach(blocks, i, block)
    {
        if (block_is(block, "text") && !block_is_blank(block))
            encode_append(e, parts,
                          json_pack("{s:s, s:O}", "type", "input_text", "text",
                                    json_object_get(block, "text")));
        else if (block_is(block, "image"))
            encode_append(e, parts,
                          json_pack("{s:s, s:s, s:o}", "type", "input_image", "detail", "auto",
                                    "image_url", encode_image_url(block)));
    }
    return parts;
}

static void responses_put_user(struct encoding *e, const json_t *content, json_t *items)
{
    const json_t *block;
    bool results = false;
    size_t i;
    json_array_foreach(content, i, block)
    {
        const json_t *inner = json_object_get(block, "content");
        if (!block_is(block, "tool_result"))
            continue;
        /* A plain string where there is no image. */
        _cleanup_buf_ struct buf text = encode_joined(inner, "\n", false);
        json_t *output = blocks_have(inner, "image") ? responses_parts(e, inner)
                         : text.failed               ? NULL
                         : text.len ? encode_text((const char *)text.data, text.len)
                                    : json_string(NO_OUTPUT);
        encode_append(e, items,
                      json_pack("{s:s, s:o, s:o}", "type", "function_call_output", "call_id",
                                encode_result_id(e, block), "output", output));
        results = true;
    }
    json_t *parts = responses_parts(e, content);
    if (json_array_size(parts) == 0 && results) {
        json_decref(parts);
        return;
    }
    if (json_array_size(parts) == 0)
        encode_append(e, parts,
                      json_pack("{s:s, s:s}", "type", "input_text", "text", NOTHING_SAID));
    encode_append(
        e, items,
        json_pack("{s:s, s:s, s:o}", "type", "message", "role", "user", "content", parts));
}

/* Is a block of the assistant sent as an item? Reasoning only if the provider can read it again. */
static bool responses_is_item(const struct encoding *e, const json_t *block)
{
    const json_t *raw = json_object_get(block, "raw");
    if (block_is(block, "text"))
        return !block_is_blank(block);
    if (block_is(block, "tool_use"))
        return true;
    if (!block_goes_back(e, block))
        return false;
    return block_is(block, "other") ||
           (strcmp(decode_type(raw), "reasoning") == 0 &&
            (json_string_length(json_object_get(raw, "encrypted_content")) > 0 ||
             json_array_size(json_object_get(raw, "content")) > 0));
}

static json_t *responses_item(struct encoding *e, const json_t *block)
{
    json_t *phase = json_object_get(block, "phase"), *value;
    const char *name;
    void *next;
    if (block_is(block, "tool_use"))
        return json_pack("{s:s, s:o, s:o, s:o}", "type", "function_call", "call_id",
                         encode_call_id(e, block), "name", encode_name(block), "arguments",
                         encode_arguments(block));
    if (block_is(block, "text")) {
        bool is_sent = json_is_string(phase) && block_is_from(e, block);
        return json_pack("{s:s, s:s, s:O, s:O*}", "type", "message", "role", "assistant", "content",
                         json_object_get(block, "text"), "phase", is_sent ? phase : NULL);
    }
    /* As it came, without members that are null: answers have them, requests must not. */
    json_t *raw = json_copy(json_object_get(block, "raw"));
    json_object_foreach_safe(raw, next, name, value)
    {
        if (json_is_null(value))
            json_object_del(raw, name);
    }
    return raw;
}

static json_t *responses_encode(struct encoding *e)
{
    const struct model_request *q = e->q;
    json_t *tool, *message, *tools = json_array(), *items = json_array();
    size_t i;
    e->ids = (struct call_ids){.max = ID_MAX, .plain = true, .once = true};
    json_t *body = json_pack("{s:s, s:b, s:b, s:[s]}", "model", e->spec->name, "stream", 1, "store",
                             0, "include", "reasoning.encrypted_content");
    if (q->max_tokens)
        encode_set(e, body, "max_output_tokens", json_integer((json_int_t)q->max_tokens));
    json_array_foreach(q->tools, i, tool)
    {
        json_t *schema = json_object_get(tool, "input_schema");
        encode_append(e, tools,
                      json_pack("{s:s, s:O, s:O*, s:o, s:b}", "type", "function", "name",
                                json_object_get(tool, "name"), "description",
                                json_object_get(tool, "description"), "parameters",
                                schema ? json_incref(schema)
                                       : json_pack("{s:s, s:{}}", "type", "object", "properties"),
                                "strict", 0));
    }
    if (json_array_size(tools) > 0)
        encode_set(e, body, "tools", json_incref(tools));
    json_decref(tools);
    encode_extra(e, body, RESPONSES_OWN);
    if (q->system && *q->system)
        encode_set(e, body, "instructions", encode_text(q->system, strlen(q->system)));

    json_array_foreach(q->messages, i, message)
    {
        const json_t *content = json_object_get(message, "content");
        size_t n = json_array_size(content);
        if (i % 2 == 0) {
            responses_put_user(e, content, items);
            continue;
        }
        for (; n > 0; n--) { /* reasoning at the end, which led to nothing, is not sent */
            const json_t *block = json_array_get(content, n - 1);
            if (responses_is_item(e, block) && !block_is(block, "thinking"))
                break;
        }
        encode_begin_calls(e);
        for (size_t k = 0; k < n; k++)
            if (responses_is_item(e, json_array_get(content, k)))
                encode_append(e, items, responses_item(e, json_array_get(content, k)));
    }
    encode_set(e, body, "input", items);
    return body;
}

static bool is_type(const json_t *value, const char *type)
{
    return strcmp(decode_type(value), type) == 0;
}

/* The item that an event is about; where it does not say, the last one. */
static int64_t responses_key(struct decoder *d, const json_t *event)
{
    const json_t *index = json_object_get(event, "output_index");
    if (json_is_integer(index))
        d->last_key = json_integer_value(index);
    return d->last_key;
}

static int responses_block(struct decoder *d, int64_t key, int64_t part, enum block_kind kind,
                           struct block **ret)
{
    struct block *b = assembly_find(&d->a, key, part);
    d->answered = true;
    if (b && b->kind == kind) {
        *ret = b;
        return 0;
    }
    return assembly_add(&d->a, kind, key, part, ret);
}

/* Pieces of text, of thinking (a summary comes in parts: paragraphs) and of arguments. */
static int responses_take_delta(struct decoder *d, const char *type, json_t *event)
{
    int64_t key = responses_key(d, event), part = 0;
    enum block_kind kind = strstr(type, "reasoning")  ? BLOCK_THINKING
                           : strstr(type, "function") ? BLOCK_CALL
                                                      : BLOCK_TEXT;
    struct block *b;
    if (kind == BLOCK_TEXT)
        part = json_get_integer(event, "content_index");
    if (strcmp(type, "response.refusal.delta") == 0)
        d->refused = true;
    int r = responses_block(d, key, part, kind, &b);
    if (r < 0)
        return r;
    if (strcmp(type, "response.function_call_arguments.done") == 0)
        return assembly_input_is(&d->a, b, json_object_get(event, "arguments"));
    if (kind == BLOCK_CALL)
        return assembly_input(&d->a, b, json_object_get(event, "delta"));
    return assembly_text(&d->a, b, json_object_get(event, "delta"));
}

static int responses_add_call(struct decoder *d, int64_t key, json_t *item, struct block **ret)
{
    const json_t *id = json_object_get(item, "call_id");
    int r = responses_block(d, key, 0, BLOCK_CALL, ret);
    if (r == 0)
        r = assembly_call(&d->a, *ret, json_string_length(id) ? id : json_object_get(item, "id"),
                          json_object_get(item, "name"));
    return r < 0 ? r : assembly_input_is(&d->a, *ret, json_object_get(item, "arguments"));
}

/* Drops parts that only the pieces had; but an item without any parts has only been shortened. */
static int responses_message_done(struct decoder *d, int64_t key, json_t *item)
{
    const json_t *content = json_object_get(item, "content");
    const json_t *phase = json_object_get(item, "phase");
    json_t *part;
    size_t i, n = json_array_size(content);
    for (i = 0; i < d->a.n && n > 0; i++)
        if (d->a.blocks[i]->key == key && d->a.blocks[i]->part >= (int64_t)n)
            d->a.blocks[i]->text.len = 0;
    json_array_foreach(content, i, part)
    {
        struct block *b;
        bool refusal = is_type(part, "refusal");
        if (!refusal && !is_type(part, "output_text"))
            continue;
        d->refused |= refusal;
        int r = responses_block(d, key, (int64_t)i, BLOCK_TEXT, &b);
        if (r == 0)
            r = assembly_text_is(&d->a, b, json_object_get(part, refusal ? "refusal" : "text"));
        if (r == 0 && json_is_string(phase)) {
            _cleanup_json_ json_t *extra = json_pack("{s:O}", "phase", phase);
            r = assembly_keep(&d->a, &b->extra, extra);
        }
        if (r == 0)
            r = assembly_end(&d->a, b);
        if (r < 0)
            return r;
    }
    return 0;
}

/* The texts of a list, as paragraphs. NULL: there are none. */
static json_t *responses_paragraphs(const json_t *list)
{
    _cleanup_buf_ struct buf all = BUF_INIT(DECODER_BYTES_MAX);
    const json_t *one;
    size_t i;
    json_array_foreach(list, i, one)
    {
        const json_t *text = json_object_get(one, "text");
        if (!json_is_string(text))
            continue;
        if (all.len)
            buf_append_str(&all, "\n\n");
        buf_append(&all, json_string_value(text), json_string_length(text));
    }
    return all.len && !all.failed ? json_stringn((char *)all.data, all.len) : NULL;
}

/* A whole item. */
static int responses_take_item(struct decoder *d, int64_t key, json_t *item)
{
    struct block *b;
    int r;
    if (!json_is_object(item))
        return 0;
    d->answered = true;
    if (is_type(item, "message"))
        return responses_message_done(d, key, item);
    if (is_type(item, "function_call")) {
        r = responses_add_call(d, key, item, &b);
        return r < 0 ? r : assembly_end(&d->a, b);
    }
    bool is_reasoning = is_type(item, "reasoning");
    r = responses_block(d, key, 0, is_reasoning ? BLOCK_THINKING : BLOCK_OTHER, &b);
    if (r == 0)
        r = assembly_keep(&d->a, &b->raw, item);
    if (r == 0 && is_reasoning) {
        _cleanup_json_ json_t *summary = responses_paragraphs(json_object_get(item, "summary"));
        _cleanup_json_ json_t *content = responses_paragraphs(json_object_get(item, "content"));
        r = assembly_text_is(&d->a, b, summary ? summary : content);
    }
    return r < 0 ? r : assembly_end(&d->a, b);
}

static void responses_take_usage(struct decoder *d, const json_t *usage)
{
    struct model_usage *u = &d->usage;
    const json_t *in = json_object_get(usage, "input_tokens_details");
    const json_t *out = json_object_get(usage, "output_tokens_details");
    if (!json_is_object(usage))
        return;
    u->known = true;
    u->input = decode_count(usage, "input_tokens", u->input);
    u->output = decode_count(usage, "output_tokens", u->output);
    u->cache_read = decode_count(in, "cached_tokens", u->cache_read);
    u->cache_write = decode_count(in, "cache_write_tokens", u->cache_write);
    u->thinking = decode_count(out, "reasoning_tokens", u->thinking);
}

static bool is_error(const json_t *value)
{
    return json_is_object(value) || json_is_string(value);
}

static int responses_failed(struct decoder *d, json_t *event)
{
    json_t *error = json_object_get(event, "error");
    if (!is_error(error))
        error = json_object_get(json_object_get(event, "response"), "error");
    return decode_error(d, is_error(error) ? error : event);
}

/* The whole response, with the items that never ended by themselves. */
static int responses_take_response(struct decoder *d, json_t *response, bool is_incomplete)
{
    const char *status = json_get_string(response, "status");
    const json_t *details = json_object_get(response, "incomplete_details");
    const char *reason = json_get_string(details, "reason");
    json_t *item;
    size_t i;
    if (status && strcmp(status, "failed") == 0)
        return responses_failed(d, response);
    decode_head(d, response);
    responses_take_usage(d, json_object_get(response, "usage"));
    json_array_foreach(json_object_get(response, "output"), i, item)
    {
        const struct block *b = assembly_find(&d->a, (int64_t)i, 0);
        int r = !b || !b->whole ? responses_take_item(d, (int64_t)i, item) : 0;
        if (r < 0)
            return r;
    }
    if (is_incomplete || (status && strcmp(status, "incomplete") == 0))
        d->stop = reason && strcmp(reason, "content_filter") == 0 ? MODEL_REFUSAL
                  : reason && strstr(reason, "context")           ? MODEL_WINDOW_EXCEEDED
                                                                  : MODEL_MAX_TOKENS;
    return 1;
}

static int responses_decode_event(struct decoder *d, const char *type, json_t *event)
{
    static const char *const deltas[] = {
        "response.output_text.delta",
        "response.refusal.delta",
        "response.reasoning_summary_text.delta",
        "response.reasoning_text.delta",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
    };
    json_t *item = json_object_get(event, "item"), *response = json_object_get(event, "response");
    struct block *b;
    if (*decode_type(event))
        type = decode_type(event);
    for (size_t i = 0; i < ARRAY_SIZE(deltas); i++)
        if (strcmp(deltas[i], type) == 0)
            return responses_take_delta(d, type, event);
    if (strcmp(type, "response.created") == 0 || strcmp(type, "response.in_progress") == 0) {
        decode_head(d, response);
        return 0;
    }
    if (strcmp(type, "response.output_item.added") == 0) {
        int64_t key = responses_key(d, event);
        d->answered = true;
        if (is_type(item, "function_call"))
            return responses_add_call(d, key, item, &b);
        return is_type(item, "reasoning") ? responses_block(d, key, 0, BLOCK_THINKING, &b) : 0;
    }
    if (strcmp(type, "response.reasoning_summary_part.added") == 0) {
        b = assembly_find(&d->a, responses_key(d, event), 0);
        if (!b || b->kind != BLOCK_THINKING || b->text.len == 0)
            return 0;
        _cleanup_json_ json_t *gap = json_string("\n\n");
        return assembly_text(&d->a, b, gap);
    }
    if (strcmp(type, "response.output_item.done") == 0)
        return responses_take_item(d, responses_key(d, event), item);
    if (strcmp(type, "response.completed") == 0 || strcmp(type, "response.incomplete") == 0)
        return responses_take_response(d, response, strcmp(type, "response.incomplete") == 0);
    if (strcmp(type, "response.failed") == 0 || strcmp(type, "error") == 0 ||
        is_error(json_object_get(event, "error")))
        return responses_failed(d, event);
    return 0;
}

static int responses_decode_whole(struct decoder *d, json_t *answer)
{
    if (is_error(json_object_get(answer, "error")) || is_type(answer, "error"))
        return responses_failed(d, answer);
    if (!json_is_array(json_object_get(answer, "output")))
        return -EBADMSG;
    return responses_take_response(d, answer, false);
}

static const struct decode_protocol RESPONSES_DECODER = {
    .take = responses_decode_event, .take_whole = responses_decode_whole, .order = ORDER_BY_KEY};

#define K 1000u

static const struct provider_model OPENAI_MODELS[] = {
    {"gpt-6-sol", {1050 * K, 128 * K, {2, 10, 0.2, 2.5, 272 * K, 2, 1.5}}},
    {"gpt-6-luna", {1050 * K, 128 * K, {0.1, 0.5, 0.01, 0.125, 272 * K, 2, 1.5}}},
    {"gpt-6", {1050 * K, 128 * K, {-1, -1, -1, -1, 0, 1, 1}}},
    {"gpt-5.6-terra", {1050 * K, 128 * K, {2, 12, 0.2, 2.5, 272 * K, 2, 1.5}}},
    {"gpt-5.6-luna", {1050 * K, 128 * K, {0.2, 1.2, 0.02, 0.25, 272 * K, 2, 1.5}}},
    {"gpt-5.6", {1050 * K, 128 * K, {4, 20, 0.4, 5, 272 * K, 2, 1.5}}},
    {"gpt-5.5", {1050 * K, 128 * K, {5, 30, 0.5, 5, 272 * K, 2, 1.5}}},
    {"gpt-5.5-pro", {1050 * K, 128 * K, {30, 180, 3, 30, 272 * K, 2, 1.5}}},
    {"gpt-5.4", {1050 * K, 128 * K, {2.5, 15, 0.25, 2.5, 272 * K, 2, 1.5}}},
    {"gpt-5.4-mini", {400 * K, 128 * K, {0.75, 4.5, 0.075, 0.75, 0, 1, 1}}},
    {"gpt-5.4-nano", {400 * K, 128 * K, {0.2, 1.25, 0.02, 0.2, 0, 1, 1}}},
    {"gpt-5.3", {400 * K, 128 * K, {1.75, 14, 0.175, 1.75, 0, 1, 1}}},
    {"gpt-5.2", {400 * K, 128 * K, {1.75, 14, 0.175, 1.75, 0, 1, 1}}},
    {"gpt-5-pro", {400 * K, 128 * K, {15, 120, 15, 15, 0, 1, 1}}},
    {"gpt-5-mini", {400 * K, 128 * K, {0.25, 2, 0.025, 0.25, 0, 1, 1}}},
    {"gpt-5-nano", {400 * K, 128 * K, {0.05, 0.4, 0.005, 0.05, 0, 1, 1}}},
    {"gpt-5.1-codex-mini", {400 * K, 128 * K, {0.25, 2, 0.025, 0.25, 0, 1, 1}}},
    {"gpt-5", {400 * K, 128 * K, {1.25, 10, 0.125, 1.25, 0, 1, 1}}},
    {"gpt-4.1-mini", {1047576, 32768, {0.4, 1.6, 0.1, 0.4, 0, 1, 1}}},
    {"gpt-4.1-nano", {1047576, 32768, {0.1, 0.4, 0.025, 0.1, 0, 1, 1}}},
    {"gpt-4.1", {1047576, 32768, {2, 8, 0.5, 2, 0, 1, 1}}},
    {"gpt-4o-mini", {128 * K, 16384, {0.15, 0.6, 0.075, 0.15, 0, 1, 1}}},
    {"gpt-4o", {128 * K, 16384, {2.5, 10, 1.25, 2.5, 0, 1, 1}}},
    {"o4-mini", {200 * K, 100 * K, {1.1, 4.4, 0.275, 1.1, 0, 1, 1}}},
    {"o3-mini", {200 * K, 100 * K, {1.1, 4.4, 0.55, 1.1, 0, 1, 1}}},
    {"o3", {200 * K, 100 * K, {2, 8, 0.5, 2, 0, 1, 1}}},
    {NULL},
};

static const char *const OPENAI_PREFIXES[] = {"gpt-", "o1", "o3", "o4", "chatgpt-", "codex-", NULL};

const struct provider PROVIDER_OPENAI_RESPONSES = {
    .base_url = "https://api.openai.com/v1",
    .path = "/responses",
    .embed_path = "/embeddings",
    .key_header = "Authorization",
    .key_prefix = "Bearer ",
    .encode = responses_encode,
    .decoder = &RESPONSES_DECODER,
    .default_model = "gpt-6-sol",
    .model_prefixes = OPENAI_PREFIXES,
    .models = OPENAI_MODELS,
    .guess = {128 * K, 16384, {-1, -1, -1, -1, 0, 1, 1}},
    .cache_read_rate = 1,
    .cache_write_rate = 1,
    .only_own_server = true,
};
