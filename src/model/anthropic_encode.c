/*
 * The Messages API. What it refuses, and is seen to here:
 *
 *   - a text of nothing but white space, and an empty message;
 *   - an assistant's message that ends in white space (when it is the last one, to be gone on with;
 * done for all of them, so that a message is the same bytes in every request), or in a block that
 * thinks;
 *   - a result behind anything else of a user's message;
 *   - more than four cache marks. They are at the ends of the tools, of the system prompt, and of
 * the last two messages of the user: the first three of them the next request has again, byte for
 * byte.
 */
#include <errno.h>
#include <string.h>

#include "encoder_private.h"
#include "banned.h"

#define MARK               ",\"cache_control\":{\"type\":\"ephemeral\"}"
#define MAX_TOKENS_DEFAULT 8192
#define ID_MAX             64

static const char *const OWN[] = {"model", "messages", "system", "stream", NULL};

static json_t *tool_of(const json_t *tool, bool last)
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
static json_t *tools_of(const json_t *tools)
{
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(tools); i++)
        if (json_array_append_new(
                list, tool_of(json_array_get(tools, i), i + 1 == json_array_size(tools))))
            break;
    return list;
}

static int put_start(struct encoding *e)
{
    uint64_t most = e->q->max_tokens ? e->q->max_tokens : MAX_TOKENS_DEFAULT;
    json_t *head = json_pack("{s:s, s:I, s:b}", "model", e->spec->name, "max_tokens",
                             (json_int_t)most, "stream", 1);
    if (json_array_size(e->q->tools) > 0)
        json_object_set_new(head, "tools", tools_of(e->q->tools));
    int r = body_head(e, head, OWN);
    const char *system = e->q->system;
    if (r == 0 && system && body_trimmed(system, strlen(system)) > 0) {
        body_put(e, ",\"system\":[{\"type\":\"text\",\"text\":");
        body_text(e, system, strlen(system));
        body_put(e, MARK "}]");
    }
    return r;
}

static void put_image(struct encoding *e, const json_t *block)
{
    body_put(e, "{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":");
    body_value(e, json_object_get(block, "mime"));
    body_put(e, ",\"data\":");
    body_value(e, json_object_get(block, "data"));
    body_put(e, "}");
}

/* What the same model said through another protocol is not for this one. */
static bool goes_back(const struct encoding *e, const json_t *block)
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
static json_t *chosen(const struct encoding *e, const json_t *message)
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
        if (!block_is(block, "tool_result") && goes_back(e, block))
            json_array_append(list, block);
    }
    size_t n = json_array_size(list);
    while (n > 0 && block_is(json_array_get(list, n - 1), "thinking"))
        json_array_remove(list, --n);
    return list;
}

static void put_result(struct encoding *e, const json_t *block)
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
            put_image(e, one);
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
static void put_citations(struct encoding *e, const json_t *block)
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

static void put_words(struct encoding *e, const json_t *block, bool trimmed)
{
    const json_t *text = json_object_get(block, "text");
    const char *s = json_string_value(text);
    size_t n = trimmed ? body_trimmed(s, json_string_length(text)) : json_string_length(text);
    body_put(e, "{\"type\":\"text\",\"text\":");
    body_text(e, s, n);
    put_citations(e, block);
}

static void put_use(struct encoding *e, const json_t *block)
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
static void put_block(struct encoding *e, const json_t *block, bool trimmed)
{
    if (block_is(block, "text")) {
        put_words(e, block, trimmed);
    } else if (block_is(block, "image")) {
        put_image(e, block);
    } else if (block_is(block, "tool_use")) {
        put_use(e, block);
    } else if (block_is(block, "tool_result")) {
        put_result(e, block);
    } else {
        body_put(e, "{");
        body_members(e, json_object_get(block, "raw"));
    }
}

static int put_message(struct encoding *e, const json_t *message, bool marked)
{
    bool user = message_is_user(message);
    _cleanup_json_ json_t *blocks = chosen(e, message);
    if (!blocks || (!user && wire_ids_turn(&e->ids) < 0))
        return -ENOMEM;
    size_t n = json_array_size(blocks);
    body_put(e,
             user ? "{\"role\":\"user\",\"content\":[" : "{\"role\":\"assistant\",\"content\":[");
    for (size_t i = 0; i < n; i++) {
        body_put(e, i ? "," : "");
        put_block(e, json_array_get(blocks, i), !user && i + 1 == n);
        body_put(e, marked && i + 1 == n ? MARK "}" : "}");
    }
    if (n == 0)
        body_put(e, "{\"type\":\"text\",\"text\":\"" NOTHING_SAID "\"}");
    body_put(e, "]}");
    return 0;
}

int encode_anthropic(struct encoding *e)
{
    const json_t *messages = e->q->messages;
    size_t n = json_array_size(messages),
           last = n - 1 - (n - 1) % 2; /* the user's are the even ones */
    e->ids = (struct wire_ids){.max = ID_MAX, .plain = true, .once = true};
    body_put(e, "{");
    int r = put_start(e);
    body_put(e, ",\"messages\":[");
    for (size_t i = 0; i < n && r == 0; i++) {
        body_put(e, i ? "," : "");
        r = put_message(e, json_array_get(messages, i), i == last || i + 2 == last);
    }
    body_put(e, "]}");
    return r;
}
