/*
 * Chat Completions. Texts are plain strings, since that is what every compatible server reads; a
 * list of parts only where there is an image. A result is a message of its own (role `tool`), which
 * cannot hold images: those follow in a user's message behind all results of the turn, before
 * anything else that the user says.
 *
 * What was thought goes back only with calls, under the name it came by: there some servers insist
 * on it.
 */
#include <errno.h>
#include <string.h>

#include "encoder_private.h"
#include "banned.h"

#define ID_MAX_OPENAI 40
#define ID_MAX        256
#define IMAGE_BELOW   "(the image follows)"

static const char *const CALL_MEMBERS[] = {"extra_content", NULL};
static const char *const THINKING_MEMBERS[] = {"reasoning_details", "reasoning_content",
                                               "reasoning", NULL};
static const char *const OWN[] = {"model", "messages", "stream", NULL};

/* OpenAI's own servers know what they are asked for by its new name, others by its old one. */
static bool is_openai(const struct model_spec *spec)
{
    static const char *const HOSTS[] = {"openai.com", "openai.azure.com"};
    const char *url = spec->base_url;
    if (!url)
        return true;
    const char *host = strstr(url, "://");
    host = host ? host + 3 : url;
    size_t n = strcspn(host, "/:?#");
    for (size_t i = 0; i < ARRAY_SIZE(HOSTS); i++) {
        size_t size = strlen(HOSTS[i]);
        if (n >= size && strncasecmp(host + n - size, HOSTS[i], size) == 0 &&
            (n == size || host[n - size - 1] == '.'))
            return true;
    }
    return false;
}

static json_t *tools_of(const json_t *tools)
{
    json_t *list = json_array(), *tool;
    size_t i;
    json_array_foreach(tools, i, tool)
    {
        json_t *schema = json_object_get(tool, "input_schema");
        json_t *made = json_pack("{s:s, s:{s:O, s:O*, s:o}}", "type", "function", "function",
                                 "name", json_object_get(tool, "name"), "description",
                                 json_object_get(tool, "description"), "parameters",
                                 schema ? json_incref(schema)
                                        : json_pack("{s:s, s:{}}", "type", "object", "properties"));
        if (json_array_append_new(list, made) < 0)
            break;
    }
    return list;
}

static int put_start(struct encoding *e)
{
    json_t *extra = e->spec->extra;
    bool limited =
        json_object_get(extra, "max_tokens") || json_object_get(extra, "max_completion_tokens");
    json_t *head = json_pack("{s:s, s:b, s:{s:b}}", "model", e->spec->name, "stream", 1,
                             "stream_options", "include_usage", 1);
    if (e->q->max_tokens && !limited)
        json_object_set_new(head, is_openai(e->spec) ? "max_completion_tokens" : "max_tokens",
                            json_integer((json_int_t)e->q->max_tokens));
    if (json_array_size(e->q->tools) > 0)
        json_object_set_new(head, "tools", tools_of(e->q->tools));
    return body_head(e, head, OWN);
}

static void append_text(struct buf *to, const json_t *block, const char *between)
{
    const json_t *text = json_object_get(block, "text");
    if (body_blank(block))
        return;
    if (to->len)
        buf_append_str(to, between);
    buf_append(to, json_string_value(text), json_string_length(text));
}

/* All texts of a list as one. */
static struct buf joined(const json_t *blocks, const char *between)
{
    struct buf text = BUF_INIT(ENCODER_BYTES_MAX);
    const json_t *block;
    size_t i;
    json_array_foreach(blocks, i, block)
    {
        if (block_is(block, "text"))
            append_text(&text, block, between);
    }
    return text;
}

static bool has(const json_t *blocks, const char *type)
{
    const json_t *block;
    size_t i;
    json_array_foreach(blocks, i, block)
    {
        if (block_is(block, type))
            return true;
    }
    return false;
}

static void put_result(struct encoding *e, const json_t *block)
{
    const json_t *content = json_object_get(block, "content");
    _cleanup_buf_ struct buf text = joined(content, "\n");
    if (text.len == 0)
        buf_append_str(&text, has(content, "image") ? IMAGE_BELOW : NO_OUTPUT);
    body_put(e, "{\"role\":\"tool\",\"tool_call_id\":");
    body_result_id(e, block);
    body_put(e, ",\"content\":");
    body_buf(e, &text);
    body_put(e, "}");
}

static void put_image(struct encoding *e, const json_t *block)
{
    _cleanup_buf_ struct buf url = BUF_INIT(ENCODER_BYTES_MAX);
    buf_printf(&url, "data:%s;base64,", json_string_value(json_object_get(block, "mime")));
    buf_append_str(&url, json_string_value(json_object_get(block, "data")));
    body_put(e, "{\"type\":\"image_url\",\"image_url\":{\"url\":");
    body_buf(e, &url);
    body_put(e, "}}");
}

static void put_part(struct encoding *e, const json_t *block, bool *first)
{
    bool text = block_is(block, "text");
    if ((text && body_blank(block)) || (!text && !block_is(block, "image")))
        return;
    body_put(e, *first ? "" : ",");
    *first = false;
    if (!text) {
        put_image(e, block);
        return;
    }
    body_put(e, "{\"type\":\"text\",\"text\":");
    body_value(e, json_object_get(block, "text"));
    body_put(e, "}");
}

static void put_result_images(struct encoding *e, const json_t *result, bool *first)
{
    const json_t *content = json_object_get(result, "content"), *one;
    const char *id =
        wire_id_result(&e->ids, json_string_value(json_object_get(result, "tool_use_id")));
    _cleanup_buf_ struct buf says = BUF_INIT(1024);
    size_t i;
    if (!has(content, "image"))
        return;
    buf_printf(&says, "Of the result of %s:", id ? id : "");
    body_put(e, *first ? "" : ",");
    *first = false;
    body_put(e, "{\"type\":\"text\",\"text\":");
    body_buf(e, &says);
    body_put(e, "}");
    json_array_foreach(content, i, one)
    {
        if (block_is(one, "image"))
            put_part(e, one, first);
    }
}

static void put_parts(struct encoding *e, const json_t *content)
{
    const json_t *block;
    bool first = true;
    size_t i;
    body_put(e, "[");
    json_array_foreach(content, i, block)
    {
        if (block_is(block, "tool_result"))
            put_result_images(e, block, &first);
    }
    json_array_foreach(content, i, block)
    {
        put_part(e, block, &first);
    }
    body_put(e, "]");
}

static bool has_images(const json_t *content)
{
    const json_t *block;
    size_t i;
    json_array_foreach(content, i, block)
    {
        if (block_is(block, "image") || has(json_object_get(block, "content"), "image"))
            return true;
    }
    return false;
}

static void put_user(struct encoding *e, const json_t *content)
{
    const json_t *block;
    const char *between = "";
    size_t i;
    json_array_foreach(content, i, block)
    {
        if (!block_is(block, "tool_result"))
            continue;
        body_put(e, between);
        put_result(e, block);
        between = ",";
    }
    _cleanup_buf_ struct buf text = joined(content, "\n\n");
    bool images = has_images(content);
    if (!images && text.len == 0) {
        if (*between)
            return; /* the results were all */
        buf_append_str(&text, NOTHING_SAID);
    }
    body_put(e, between);
    body_put(e, "{\"role\":\"user\",\"content\":");
    if (images)
        put_parts(e, content);
    else
        body_buf(e, &text);
    body_put(e, "}");
}

/* Members that go back to whom they came from, the first of them that is there; false: none. */
static bool put_returned(struct encoding *e, const json_t *block, const char *const *members)
{
    for (; *members && body_returns(e, block); members++) {
        const json_t *value = json_object_get(json_object_get(block, "raw"), *members);
        if (!value)
            continue;
        body_put(e, ",\"");
        body_put(e, *members);
        body_put(e, "\":");
        body_value(e, value);
        return true;
    }
    return false;
}

static void put_call(struct encoding *e, const json_t *block)
{
    body_put(e, "{\"id\":");
    body_call_id(e, block);
    body_put(e, ",\"type\":\"function\",\"function\":{\"name\":");
    body_name(e, block);
    body_arguments(e, block);
    body_put(e, "}");
    put_returned(e, block, CALL_MEMBERS);
    body_put(e, "}");
}

static void put_calls(struct encoding *e, const json_t *content)
{
    const json_t *block;
    bool first = true;
    size_t i;
    json_array_foreach(content, i, block)
    {
        if (block_is(block, "thinking") && put_returned(e, block, THINKING_MEMBERS))
            break;
    }
    body_put(e, ",\"tool_calls\":[");
    json_array_foreach(content, i, block)
    {
        if (!block_is(block, "tool_use"))
            continue;
        body_put(e, first ? "" : ",");
        put_call(e, block);
        first = false;
    }
    body_put(e, "]");
}

static int put_assistant(struct encoding *e, const json_t *content)
{
    _cleanup_buf_ struct buf text = joined(content, "");
    bool calls = has(content, "tool_use");
    if (wire_ids_turn(&e->ids) < 0)
        return -ENOMEM;
    body_put(e, "{\"role\":\"assistant\",\"content\":");
    if (text.len == 0)
        body_put(e, calls ? "null" : "\"" NOTHING_SAID "\"");
    else
        body_buf(e, &text);
    if (calls)
        put_calls(e, content);
    body_put(e, "}");
    return 0;
}

int encode_chat(struct encoding *e)
{
    const json_t *messages = e->q->messages, *message;
    const char *system = e->q->system;
    size_t i;
    e->ids = (struct wire_ids){.max = is_openai(e->spec) ? ID_MAX_OPENAI : ID_MAX};
    body_put(e, "{");
    int r = put_start(e);
    body_put(e, ",\"messages\":[");
    if (system && *system) {
        body_put(e, "{\"role\":\"system\",\"content\":");
        body_text(e, system, strlen(system));
        body_put(e, "},");
    }
    json_array_foreach(messages, i, message)
    {
        body_put(e, i ? "," : "");
        if (message_is_user(message))
            put_user(e, json_object_get(message, "content"));
        else if (r == 0)
            r = put_assistant(e, json_object_get(message, "content"));
    }
    body_put(e, "]}");
    return r;
}
