/*
 * OpenAI: the Responses API.
 *
 * A request is a flat list of items. The provider stores nothing; so reasoning comes encrypted and
 * goes back with every request, before the item that it led to. Reasoning without such an item, or
 * without anything that the provider could read again, would be refused and is left out.
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

static const char *const OWN[] = {"model", "input", "instructions", "stream", NULL};

static json_t *responses_tools_of(const json_t *tools)
{
    json_t *list = json_array(), *tool;
    size_t i;
    json_array_foreach(tools, i, tool)
    {
        json_t *schema = json_object_get(tool, "input_schema");
        json_t *made = json_pack(
            "{s:s, s:O, s:O*, s:o, s:b}", "type", "function", "name", json_object_get(tool, "name"),
            "description", json_object_get(tool, "description"), "parameters",
            schema ? json_incref(schema) : json_pack("{s:s, s:{}}", "type", "object", "properties"),
            "strict", 0);
        if (json_array_append_new(list, made) < 0)
            break;
    }
    return list;
}

static int responses_put_start(struct encoding *e)
{
    const char *system = e->q->system;
    json_t *head = json_pack("{s:s, s:b, s:b, s:[s]}", "model", e->spec->name, "stream", 1, "store",
                             0, "include", "reasoning.encrypted_content");
    if (e->q->max_tokens)
        json_object_set_new(head, "max_output_tokens", json_integer((json_int_t)e->q->max_tokens));
    if (json_array_size(e->q->tools) > 0)
        json_object_set_new(head, "tools", responses_tools_of(e->q->tools));
    int r = body_head(e, head, OWN);
    if (system && *system) {
        body_put(e, ",\"instructions\":");
        body_text(e, system, strlen(system));
    }
    return r;
}

/* Items are in one list for all messages: a comma before each but the first. */
static void responses_begin_item(struct encoding *e, bool *first)
{
    body_put(e, *first ? "" : ",");
    *first = false;
}

static void responses_put_text(struct encoding *e, const json_t *block)
{
    body_put(e, "{\"type\":\"input_text\",\"text\":");
    body_value(e, json_object_get(block, "text"));
    body_put(e, "}");
}

static void responses_put_image(struct encoding *e, const json_t *block)
{
    _cleanup_buf_ struct buf url = BUF_INIT(ENCODER_BYTES_MAX);
    buf_printf(&url, "data:%s;base64,", json_string_value(json_object_get(block, "mime")));
    buf_append_str(&url, json_string_value(json_object_get(block, "data")));
    body_put(e, "{\"type\":\"input_image\",\"detail\":\"auto\",\"image_url\":");
    body_buf(e, &url);
    body_put(e, "}");
}

/* Texts and images. */
static void responses_put_parts(struct encoding *e, const json_t *blocks)
{
    const json_t *block;
    bool first = true;
    size_t i;
    body_put(e, "[");
    json_array_foreach(blocks, i, block)
    {
        bool text = block_is(block, "text");
        if ((!text && !block_is(block, "image")) || (text && body_blank(block)))
            continue;
        responses_begin_item(e, &first);
        if (text)
            responses_put_text(e, block);
        else
            responses_put_image(e, block);
    }
    body_put(e, "]");
}

static bool responses_has_parts(const json_t *blocks, bool images_only)
{
    const json_t *block;
    size_t i;
    json_array_foreach(blocks, i, block)
    {
        if (block_is(block, "image") ||
            (!images_only && block_is(block, "text") && !body_blank(block)))
            return true;
    }
    return false;
}

/* A plain string where there is no image. */
static void responses_put_output(struct encoding *e, const json_t *content)
{
    _cleanup_buf_ struct buf text = BUF_INIT(ENCODER_BYTES_MAX);
    const json_t *block;
    size_t i;
    if (responses_has_parts(content, true)) {
        responses_put_parts(e, content);
        return;
    }
    json_array_foreach(content, i, block)
    {
        const json_t *one = json_object_get(block, "text");
        if (text.len)
            buf_append_str(&text, "\n");
        buf_append(&text, json_string_value(one), json_string_length(one));
    }
    if (text.len == 0)
        buf_append_str(&text, NO_OUTPUT);
    body_buf(e, &text);
}

static void responses_put_result(struct encoding *e, const json_t *block)
{
    body_put(e, "{\"type\":\"function_call_output\",\"call_id\":");
    body_result_id(e, block);
    body_put(e, ",\"output\":");
    responses_put_output(e, json_object_get(block, "content"));
    body_put(e, "}");
}

static void responses_put_user(struct encoding *e, const json_t *content, bool *first)
{
    const json_t *block;
    bool results = false;
    size_t i;
    json_array_foreach(content, i, block)
    {
        if (!block_is(block, "tool_result"))
            continue;
        responses_begin_item(e, first);
        responses_put_result(e, block);
        results = true;
    }
    bool parts = responses_has_parts(content, false);
    if (!parts && results)
        return;
    responses_begin_item(e, first);
    body_put(e, "{\"type\":\"message\",\"role\":\"user\",\"content\":");
    if (parts)
        responses_put_parts(e, content);
    else
        body_put(e, "[{\"type\":\"input_text\",\"text\":\"" NOTHING_SAID "\"}]");
    body_put(e, "}");
}

static void responses_put_words(struct encoding *e, const json_t *block)
{
    const json_t *phase = json_object_get(block, "phase");
    body_put(e, "{\"type\":\"message\",\"role\":\"assistant\",\"content\":");
    body_value(e, json_object_get(block, "text"));
    if (json_is_string(phase) && body_is_from(e, block)) {
        body_put(e, ",\"phase\":");
        body_value(e, phase);
    }
    body_put(e, "}");
}

static void responses_put_call(struct encoding *e, const json_t *block)
{
    body_put(e, "{\"type\":\"function_call\",\"call_id\":");
    body_call_id(e, block);
    body_put(e, ",\"name\":");
    body_name(e, block);
    body_arguments(e, block);
    body_put(e, "}");
}

/* As it came, but for members that are null: answers hold them, requests must not. */
static void responses_put_raw(struct encoding *e, const json_t *block)
{
    _cleanup_json_ json_t *raw = json_copy(json_object_get(block, "raw"));
    const char *name;
    json_t *value;
    void *next;
    json_object_foreach_safe(raw, next, name, value)
    {
        if (json_is_null(value))
            json_object_del(raw, name);
    }
    body_value(e, raw);
}

static bool responses_can_be_read_again(const json_t *block)
{
    const json_t *raw = json_object_get(block, "raw");
    const char *type = json_string_value(json_object_get(raw, "type"));
    return type && strcmp(type, "reasoning") == 0 &&
           (json_string_length(json_object_get(raw, "encrypted_content")) > 0 ||
            json_array_size(json_object_get(raw, "content")) > 0);
}

static bool responses_is_item(const struct encoding *e, const json_t *block)
{
    if (block_is(block, "text"))
        return !body_blank(block);
    if (block_is(block, "tool_use"))
        return true;
    return body_returns(e, block) &&
           (block_is(block, "other") || responses_can_be_read_again(block));
}

/* How many blocks of an assistant's message count: what was thought last, and led to nothing, does
 * not. */
static size_t responses_items_end(const struct encoding *e, const json_t *content)
{
    size_t n = json_array_size(content);
    while (n > 0) {
        const json_t *block = json_array_get(content, n - 1);
        if (responses_is_item(e, block) && !block_is(block, "thinking"))
            break;
        n--;
    }
    return n;
}

static int responses_put_assistant(struct encoding *e, const json_t *content, bool *first)
{
    size_t n = responses_items_end(e, content);
    if (call_ids_turn(&e->ids) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const json_t *block = json_array_get(content, i);
        if (!responses_is_item(e, block))
            continue;
        responses_begin_item(e, first);
        if (block_is(block, "text"))
            responses_put_words(e, block);
        else if (block_is(block, "tool_use"))
            responses_put_call(e, block);
        else
            responses_put_raw(e, block);
    }
    return 0;
}

static int responses_encode(struct encoding *e)
{
    const json_t *messages = e->q->messages, *message;
    bool first = true;
    size_t i;
    e->ids = (struct call_ids){.max = ID_MAX, .plain = true, .once = true};
    body_put(e, "{");
    int r = responses_put_start(e);
    body_put(e, ",\"input\":[");
    json_array_foreach(messages, i, message)
    {
        if (message_is_user(message))
            responses_put_user(e, json_object_get(message, "content"), &first);
        else if (r == 0)
            r = responses_put_assistant(e, json_object_get(message, "content"), &first);
    }
    body_put(e, "]}");
    return r;
}

static bool responses_is_type(const json_t *value, const char *type)
{
    return strcmp(decode_type(value), type) == 0;
}

/* The item that an event is about; where it does not say, the last one. */
static int64_t responses_item_of(struct decoder *d, const json_t *event)
{
    const json_t *index = json_object_get(event, "output_index");
    if (json_is_integer(index))
        d->last_key = json_integer_value(index);
    return d->last_key;
}

static int64_t responses_part_of(const json_t *event, const char *name)
{
    return json_integer_value(json_object_get(event, name));
}

static int responses_block_of(struct decoder *d, int64_t key, int64_t part, enum block_kind kind,
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

static int responses_text_delta(struct decoder *d, json_t *event)
{
    struct block *b;
    int r = responses_block_of(d, responses_item_of(d, event),
                               responses_part_of(event, "content_index"), BLOCK_TEXT, &b);
    return r < 0 ? r : assembly_text(&d->a, b, json_object_get(event, "delta"));
}

static int responses_refusal_delta(struct decoder *d, json_t *event)
{
    d->refused = true;
    return responses_text_delta(d, event);
}

/* A summary comes in parts: paragraphs. */
static int responses_thinking_delta(struct decoder *d, json_t *event)
{
    struct block *b;
    int r = responses_block_of(d, responses_item_of(d, event), 0, BLOCK_THINKING, &b);
    return r < 0 ? r : assembly_text(&d->a, b, json_object_get(event, "delta"));
}

static int responses_thinking_part(struct decoder *d, json_t *event)
{
    struct block *b = assembly_find(&d->a, responses_item_of(d, event), 0);
    if (!b || b->kind != BLOCK_THINKING || b->text.len == 0)
        return 0;
    _cleanup_json_ json_t *gap = json_string("\n\n");
    return assembly_text(&d->a, b, gap);
}

static int responses_arguments_delta(struct decoder *d, json_t *event)
{
    struct block *b;
    int r = responses_block_of(d, responses_item_of(d, event), 0, BLOCK_CALL, &b);
    return r < 0 ? r : assembly_input(&d->a, b, json_object_get(event, "delta"));
}

static int responses_arguments_done(struct decoder *d, json_t *event)
{
    struct block *b;
    int r = responses_block_of(d, responses_item_of(d, event), 0, BLOCK_CALL, &b);
    return r < 0 ? r : assembly_input_is(&d->a, b, json_object_get(event, "arguments"));
}

static int responses_add_call(struct decoder *d, int64_t key, json_t *item)
{
    struct block *b;
    const json_t *id = json_object_get(item, "call_id");
    int r = responses_block_of(d, key, 0, BLOCK_CALL, &b);
    if (r == 0)
        r = assembly_call(&d->a, b, json_string_length(id) ? id : json_object_get(item, "id"),
                          json_object_get(item, "name"));
    return r < 0 ? r : assembly_input_is(&d->a, b, json_object_get(item, "arguments"));
}

static int responses_item_added(struct decoder *d, json_t *event)
{
    json_t *item = json_object_get(event, "item");
    int64_t key = responses_item_of(d, event);
    struct block *b;
    d->answered = true;
    if (responses_is_type(item, "function_call"))
        return responses_add_call(d, key, item);
    return responses_is_type(item, "reasoning") ? responses_block_of(d, key, 0, BLOCK_THINKING, &b)
                                                : 0;
}

static int responses_message_part(struct decoder *d, int64_t key, int64_t i, json_t *part,
                                  const json_t *phase)
{
    struct block *b;
    bool refusal = responses_is_type(part, "refusal");
    d->refused |= refusal;
    int r = responses_block_of(d, key, i, BLOCK_TEXT, &b);
    if (r == 0)
        r = assembly_text_is(&d->a, b, json_object_get(part, refusal ? "refusal" : "text"));
    if (r == 0 && json_is_string(phase)) {
        _cleanup_json_ json_t *extra = json_pack("{s:O}", "phase", phase);
        r = assembly_keep(&d->a, &b->extra, extra);
    }
    return r < 0 ? r : assembly_end(&d->a, b);
}

/* Parts that only the pieces knew are none; but an item without any has only been shortened. */
static int responses_message_done(struct decoder *d, int64_t key, json_t *item)
{
    const json_t *content = json_object_get(item, "content"),
                 *phase = json_object_get(item, "phase");
    json_t *part;
    size_t i;
    int r = 0;
    for (size_t j = 0; j < d->a.n && json_array_size(content) > 0; j++)
        if (d->a.blocks[j]->key == key && d->a.blocks[j]->part >= (int64_t)json_array_size(content))
            d->a.blocks[j]->text.len = 0;
    json_array_foreach(content, i, part)
    {
        if (r == 0 &&
            (responses_is_type(part, "output_text") || responses_is_type(part, "refusal")))
            r = responses_message_part(d, key, (int64_t)i, part, phase);
    }
    return r;
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

static int responses_reasoning_done(struct decoder *d, int64_t key, json_t *item)
{
    struct block *b;
    int r = responses_block_of(d, key, 0, BLOCK_THINKING, &b);
    if (r == 0)
        r = assembly_keep(&d->a, &b->raw, item);
    if (r < 0)
        return r;
    _cleanup_json_ json_t *summary = responses_paragraphs(json_object_get(item, "summary"));
    _cleanup_json_ json_t *content = responses_paragraphs(json_object_get(item, "content"));
    r = assembly_text_is(&d->a, b, summary ? summary : content);
    return r < 0 ? r : assembly_end(&d->a, b);
}

static int responses_call_done(struct decoder *d, int64_t key, json_t *item)
{
    int r = responses_add_call(d, key, item);
    return r < 0 ? r : assembly_end(&d->a, assembly_find(&d->a, key, 0));
}

static int responses_other_done(struct decoder *d, int64_t key, json_t *item)
{
    struct block *b;
    int r = responses_block_of(d, key, 0, BLOCK_OTHER, &b);
    if (r == 0)
        r = assembly_keep(&d->a, &b->raw, item);
    return r < 0 ? r : assembly_end(&d->a, b);
}

static int responses_take_item(struct decoder *d, int64_t key, json_t *item)
{
    if (!json_is_object(item))
        return 0;
    d->answered = true;
    if (responses_is_type(item, "message"))
        return responses_message_done(d, key, item);
    if (responses_is_type(item, "reasoning"))
        return responses_reasoning_done(d, key, item);
    return responses_is_type(item, "function_call") ? responses_call_done(d, key, item)
                                                    : responses_other_done(d, key, item);
}

static int responses_item_done(struct decoder *d, json_t *event)
{
    return responses_take_item(d, responses_item_of(d, event), json_object_get(event, "item"));
}

static int responses_head(struct decoder *d, json_t *event)
{
    decode_head(d, json_object_get(event, "response"));
    return 0;
}

static void responses_take_usage(struct decoder *d, const json_t *usage)
{
    struct model_usage *u = &d->usage;
    if (!json_is_object(usage))
        return;
    const json_t *in = json_object_get(usage, "input_tokens_details");
    const json_t *out = json_object_get(usage, "output_tokens_details");
    u->known = true;
    u->input = decode_count(usage, "input_tokens", u->input);
    u->output = decode_count(usage, "output_tokens", u->output);
    u->cache_read = decode_count(in, "cached_tokens", u->cache_read);
    u->cache_write = decode_count(in, "cache_write_tokens", u->cache_write);
    u->thinking = decode_count(out, "reasoning_tokens", u->thinking);
}

/* Items of the whole response that never ended by themselves. */
static int responses_take_output(struct decoder *d, const json_t *output)
{
    json_t *item;
    size_t i;
    int r = 0;
    json_array_foreach(output, i, item)
    {
        const struct block *b = assembly_find(&d->a, (int64_t)i, 0);
        if (r == 0 && (!b || !b->whole))
            r = responses_take_item(d, (int64_t)i, item);
    }
    return r;
}

static void responses_take_reason(struct decoder *d, const json_t *response)
{
    const json_t *details = json_object_get(response, "incomplete_details");
    const char *reason = json_string_value(json_object_get(details, "reason"));
    if (!reason)
        d->stop = MODEL_MAX_TOKENS;
    else if (strcmp(reason, "content_filter") == 0)
        d->stop = MODEL_REFUSAL;
    else
        d->stop = strstr(reason, "context") ? MODEL_WINDOW_EXCEEDED : MODEL_MAX_TOKENS;
}

static bool responses_is_error(const json_t *value)
{
    return json_is_object(value) || json_is_string(value);
}

static int responses_failed(struct decoder *d, json_t *event)
{
    json_t *error = json_object_get(event, "error");
    if (!responses_is_error(error))
        error = json_object_get(json_object_get(event, "response"), "error");
    return decode_error(d, responses_is_error(error) ? error : event);
}

static int responses_take_response(struct decoder *d, json_t *response)
{
    const char *status = json_string_value(json_object_get(response, "status"));
    if (status && strcmp(status, "failed") == 0)
        return responses_failed(d, response);
    decode_head(d, response);
    responses_take_usage(d, json_object_get(response, "usage"));
    int r = responses_take_output(d, json_object_get(response, "output"));
    if (r < 0)
        return r;
    if (status && strcmp(status, "incomplete") == 0)
        responses_take_reason(d, response);
    return 1;
}

static int responses_completed(struct decoder *d, json_t *event)
{
    return responses_take_response(d, json_object_get(event, "response"));
}

static int responses_incomplete(struct decoder *d, json_t *event)
{
    int r = responses_completed(d, event);
    if (r > 0)
        responses_take_reason(d, json_object_get(event, "response"));
    return r;
}

static const struct decode_handler HANDLERS[] = {
    {"response.created", responses_head},
    {"response.in_progress", responses_head},
    {"response.output_item.added", responses_item_added},
    {"response.output_item.done", responses_item_done},
    {"response.output_text.delta", responses_text_delta},
    {"response.refusal.delta", responses_refusal_delta},
    {"response.reasoning_summary_text.delta", responses_thinking_delta},
    {"response.reasoning_text.delta", responses_thinking_delta},
    {"response.reasoning_summary_part.added", responses_thinking_part},
    {"response.function_call_arguments.delta", responses_arguments_delta},
    {"response.function_call_arguments.done", responses_arguments_done},
    {"response.completed", responses_completed},
    {"response.incomplete", responses_incomplete},
    {"response.failed", responses_failed},
    {"error", responses_failed},
    {0},
};

static int responses_decode_event(struct decoder *d, const char *type, json_t *event)
{
    const struct decode_handler *h = decode_handler_of(HANDLERS, type, event);
    if (h)
        return h->take(d, event);
    return responses_is_error(json_object_get(event, "error")) ? responses_failed(d, event) : 0;
}

static int responses_decode_whole(struct decoder *d, json_t *answer)
{
    if (responses_is_error(json_object_get(answer, "error")) || responses_is_type(answer, "error"))
        return responses_failed(d, answer);
    return json_is_array(json_object_get(answer, "output")) ? responses_take_response(d, answer)
                                                            : -EBADMSG;
}

static void responses_finish(struct decoder *d)
{
    assembly_sort(&d->a, false);
}

static const struct decode_protocol RESPONSES_DECODER = {.take = responses_decode_event,
                                                         .take_whole = responses_decode_whole,
                                                         .finish = responses_finish};

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
