/*
 * The Responses API: a flat list of items. Nothing is stored at the provider's; so what was thought
 * comes encrypted and goes back with every request, before the item that it led to: one without
 * such an item, or without anything that the provider could read again, is refused there and left
 * out here.
 */
#include <errno.h>
#include <string.h>

#include "encoder_private.h"
#include "banned.h"

#define ID_MAX 64

static const char *const OWN[] = {"model", "input", "instructions", "stream", NULL};

static json_t *tools_of(const json_t *tools)
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

static int put_start(struct encoding *e)
{
    const char *system = e->q->system;
    json_t *head = json_pack("{s:s, s:b, s:b, s:[s]}", "model", e->spec->name, "stream", 1, "store",
                             0, "include", "reasoning.encrypted_content");
    if (e->q->max_tokens)
        json_object_set_new(head, "max_output_tokens", json_integer((json_int_t)e->q->max_tokens));
    if (json_array_size(e->q->tools) > 0)
        json_object_set_new(head, "tools", tools_of(e->q->tools));
    int r = body_head(e, head, OWN);
    if (system && *system) {
        body_put(e, ",\"instructions\":");
        body_text(e, system, strlen(system));
    }
    return r;
}

/* Items are in one list for all messages: a comma before each but the first. */
static void begin_item(struct encoding *e, bool *first)
{
    body_put(e, *first ? "" : ",");
    *first = false;
}

static void put_text(struct encoding *e, const json_t *block)
{
    body_put(e, "{\"type\":\"input_text\",\"text\":");
    body_value(e, json_object_get(block, "text"));
    body_put(e, "}");
}

static void put_image(struct encoding *e, const json_t *block)
{
    _cleanup_buf_ struct buf url = BUF_INIT(ENCODER_BYTES_MAX);
    buf_printf(&url, "data:%s;base64,", json_string_value(json_object_get(block, "mime")));
    buf_append_str(&url, json_string_value(json_object_get(block, "data")));
    body_put(e, "{\"type\":\"input_image\",\"detail\":\"auto\",\"image_url\":");
    body_buf(e, &url);
    body_put(e, "}");
}

/* Texts and images. */
static void put_parts(struct encoding *e, const json_t *blocks)
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
        begin_item(e, &first);
        if (text)
            put_text(e, block);
        else
            put_image(e, block);
    }
    body_put(e, "]");
}

static bool has_parts(const json_t *blocks, bool images_only)
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
static void put_output(struct encoding *e, const json_t *content)
{
    _cleanup_buf_ struct buf text = BUF_INIT(ENCODER_BYTES_MAX);
    const json_t *block;
    size_t i;
    if (has_parts(content, true)) {
        put_parts(e, content);
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

static void put_result(struct encoding *e, const json_t *block)
{
    body_put(e, "{\"type\":\"function_call_output\",\"call_id\":");
    body_result_id(e, block);
    body_put(e, ",\"output\":");
    put_output(e, json_object_get(block, "content"));
    body_put(e, "}");
}

static void put_user(struct encoding *e, const json_t *content, bool *first)
{
    const json_t *block;
    bool results = false;
    size_t i;
    json_array_foreach(content, i, block)
    {
        if (!block_is(block, "tool_result"))
            continue;
        begin_item(e, first);
        put_result(e, block);
        results = true;
    }
    bool parts = has_parts(content, false);
    if (!parts && results)
        return;
    begin_item(e, first);
    body_put(e, "{\"type\":\"message\",\"role\":\"user\",\"content\":");
    if (parts)
        put_parts(e, content);
    else
        body_put(e, "[{\"type\":\"input_text\",\"text\":\"" NOTHING_SAID "\"}]");
    body_put(e, "}");
}

static void put_words(struct encoding *e, const json_t *block)
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

static void put_call(struct encoding *e, const json_t *block)
{
    body_put(e, "{\"type\":\"function_call\",\"call_id\":");
    body_call_id(e, block);
    body_put(e, ",\"name\":");
    body_name(e, block);
    body_arguments(e, block);
    body_put(e, "}");
}

/* As it came, but for members that are null: answers hold them, requests must not. */
static void put_raw(struct encoding *e, const json_t *block)
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

static bool can_be_read_again(const json_t *block)
{
    const json_t *raw = json_object_get(block, "raw");
    const char *type = json_string_value(json_object_get(raw, "type"));
    return type && strcmp(type, "reasoning") == 0 &&
           (json_string_length(json_object_get(raw, "encrypted_content")) > 0 ||
            json_array_size(json_object_get(raw, "content")) > 0);
}

static bool is_item(const struct encoding *e, const json_t *block)
{
    if (block_is(block, "text"))
        return !body_blank(block);
    if (block_is(block, "tool_use"))
        return true;
    return body_returns(e, block) && (block_is(block, "other") || can_be_read_again(block));
}

/* How many blocks of an assistant's message count: what was thought last, and led to nothing, does
 * not. */
static size_t items_end(const struct encoding *e, const json_t *content)
{
    size_t n = json_array_size(content);
    while (n > 0) {
        const json_t *block = json_array_get(content, n - 1);
        if (is_item(e, block) && !block_is(block, "thinking"))
            break;
        n--;
    }
    return n;
}

static int put_assistant(struct encoding *e, const json_t *content, bool *first)
{
    size_t n = items_end(e, content);
    if (wire_ids_turn(&e->ids) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const json_t *block = json_array_get(content, i);
        if (!is_item(e, block))
            continue;
        begin_item(e, first);
        if (block_is(block, "text"))
            put_words(e, block);
        else if (block_is(block, "tool_use"))
            put_call(e, block);
        else
            put_raw(e, block);
    }
    return 0;
}

int encode_responses(struct encoding *e)
{
    const json_t *messages = e->q->messages, *message;
    bool first = true;
    size_t i;
    e->ids = (struct wire_ids){.max = ID_MAX, .plain = true, .once = true};
    body_put(e, "{");
    int r = put_start(e);
    body_put(e, ",\"input\":[");
    json_array_foreach(messages, i, message)
    {
        if (message_is_user(message))
            put_user(e, json_object_get(message, "content"), &first);
        else if (r == 0)
            r = put_assistant(e, json_object_get(message, "content"), &first);
    }
    body_put(e, "]}");
    return r;
}
