/*
 * OpenAI Chat Completions, and all the servers that are compatible with it.
 *
 * In a request, texts are plain strings, since that is what every compatible server reads; a list
 * of parts only where there is an image. A result is a message of its own (role `tool`), which
 * cannot hold images: those follow in a user's message behind all results of the turn, before
 * anything else that the user says. Thinking goes back only with calls, under the name it came by:
 * some servers insist on it there.
 *
 * An answer is chunks with a `delta` of the one message, ended by [DONE]. The text, the thinking
 * and each call are blocks, in the order in which they began; a text continues where it was left,
 * whatever came between. A whole answer has the same form with `message` for `delta`.
 *
 * A call comes as pieces under its index: id and name first, then its arguments bit by bit.
 * Compatible servers were seen to
 *
 *   - reuse index 0 for every call, or leave the index out: a new id with a name, or another name,
 *     begins another call; where only the same name comes again, it does if the arguments so far
 * are a whole object;
 *   - leave the id out (one is made up in the end), or repeat id and name with every piece;
 *   - send the whole call at once, or its arguments as an object and not as text.
 */
#include <errno.h>
#include <string.h>

#include "decode.h"
#include "encode.h"
#include "provider.h"
#include "banned.h"

#define ID_MAX_OPENAI 40
#define ID_MAX        256
#define IMAGE_BELOW   "(the image follows)"

static const char *const CALL_MEMBERS[] = {"extra_content", NULL};
static const char *const THINKING_MEMBERS[] = {"reasoning_details", "reasoning_content",
                                               "reasoning", NULL};
static const char *const OWN[] = {"model", "messages", "stream", NULL};

/* OpenAI's own servers know what they are asked for by its new name, others by its old one. */
static bool chat_is_openai(const struct model_spec *spec)
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

static json_t *chat_tools_of(const json_t *tools)
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

static int chat_put_start(struct encoding *e)
{
    json_t *extra = e->spec->extra;
    bool limited =
        json_object_get(extra, "max_tokens") || json_object_get(extra, "max_completion_tokens");
    json_t *head = json_pack("{s:s, s:b, s:{s:b}}", "model", e->spec->name, "stream", 1,
                             "stream_options", "include_usage", 1);
    if (e->q->max_tokens && !limited)
        json_object_set_new(head, chat_is_openai(e->spec) ? "max_completion_tokens" : "max_tokens",
                            json_integer((json_int_t)e->q->max_tokens));
    if (json_array_size(e->q->tools) > 0)
        json_object_set_new(head, "tools", chat_tools_of(e->q->tools));
    return body_head(e, head, OWN);
}

static void chat_append_text(struct buf *to, const json_t *block, const char *between)
{
    const json_t *text = json_object_get(block, "text");
    if (body_blank(block))
        return;
    if (to->len)
        buf_append_str(to, between);
    buf_append(to, json_string_value(text), json_string_length(text));
}

/* All texts of a list as one. */
static struct buf chat_joined(const json_t *blocks, const char *between)
{
    struct buf text = BUF_INIT(ENCODER_BYTES_MAX);
    const json_t *block;
    size_t i;
    json_array_foreach(blocks, i, block)
    {
        if (block_is(block, "text"))
            chat_append_text(&text, block, between);
    }
    return text;
}

static bool chat_has(const json_t *blocks, const char *type)
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

static void chat_put_result(struct encoding *e, const json_t *block)
{
    const json_t *content = json_object_get(block, "content");
    _cleanup_buf_ struct buf text = chat_joined(content, "\n");
    if (text.len == 0)
        buf_append_str(&text, chat_has(content, "image") ? IMAGE_BELOW : NO_OUTPUT);
    body_put(e, "{\"role\":\"tool\",\"tool_call_id\":");
    body_result_id(e, block);
    body_put(e, ",\"content\":");
    body_buf(e, &text);
    body_put(e, "}");
}

static void chat_put_image(struct encoding *e, const json_t *block)
{
    _cleanup_buf_ struct buf url = BUF_INIT(ENCODER_BYTES_MAX);
    buf_printf(&url, "data:%s;base64,", json_string_value(json_object_get(block, "mime")));
    buf_append_str(&url, json_string_value(json_object_get(block, "data")));
    body_put(e, "{\"type\":\"image_url\",\"image_url\":{\"url\":");
    body_buf(e, &url);
    body_put(e, "}}");
}

static void chat_put_part(struct encoding *e, const json_t *block, bool *first)
{
    bool text = block_is(block, "text");
    if ((text && body_blank(block)) || (!text && !block_is(block, "image")))
        return;
    body_put(e, *first ? "" : ",");
    *first = false;
    if (!text) {
        chat_put_image(e, block);
        return;
    }
    body_put(e, "{\"type\":\"text\",\"text\":");
    body_value(e, json_object_get(block, "text"));
    body_put(e, "}");
}

static void chat_put_result_images(struct encoding *e, const json_t *result, bool *first)
{
    const json_t *content = json_object_get(result, "content"), *one;
    const char *id =
        call_ids_find(&e->ids, json_string_value(json_object_get(result, "tool_use_id")));
    _cleanup_buf_ struct buf says = BUF_INIT(1024);
    size_t i;
    if (!chat_has(content, "image"))
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
            chat_put_part(e, one, first);
    }
}

static void chat_put_parts(struct encoding *e, const json_t *content)
{
    const json_t *block;
    bool first = true;
    size_t i;
    body_put(e, "[");
    json_array_foreach(content, i, block)
    {
        if (block_is(block, "tool_result"))
            chat_put_result_images(e, block, &first);
    }
    json_array_foreach(content, i, block)
    {
        chat_put_part(e, block, &first);
    }
    body_put(e, "]");
}

static bool chat_has_images(const json_t *content)
{
    const json_t *block;
    size_t i;
    json_array_foreach(content, i, block)
    {
        if (block_is(block, "image") || chat_has(json_object_get(block, "content"), "image"))
            return true;
    }
    return false;
}

static void chat_put_user(struct encoding *e, const json_t *content)
{
    const json_t *block;
    const char *between = "";
    size_t i;
    json_array_foreach(content, i, block)
    {
        if (!block_is(block, "tool_result"))
            continue;
        body_put(e, between);
        chat_put_result(e, block);
        between = ",";
    }
    _cleanup_buf_ struct buf text = chat_joined(content, "\n\n");
    bool images = chat_has_images(content);
    if (!images && text.len == 0) {
        if (*between)
            return; /* the results were all */
        buf_append_str(&text, NOTHING_SAID);
    }
    body_put(e, between);
    body_put(e, "{\"role\":\"user\",\"content\":");
    if (images)
        chat_put_parts(e, content);
    else
        body_buf(e, &text);
    body_put(e, "}");
}

/* Members that go back to whom they came from, the first of them that is there; false: none. */
static bool chat_put_returned(struct encoding *e, const json_t *block, const char *const *members)
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

static void chat_put_call(struct encoding *e, const json_t *block)
{
    body_put(e, "{\"id\":");
    body_call_id(e, block);
    body_put(e, ",\"type\":\"function\",\"function\":{\"name\":");
    body_name(e, block);
    body_arguments(e, block);
    body_put(e, "}");
    chat_put_returned(e, block, CALL_MEMBERS);
    body_put(e, "}");
}

static void chat_put_calls(struct encoding *e, const json_t *content)
{
    const json_t *block;
    bool first = true;
    size_t i;
    json_array_foreach(content, i, block)
    {
        if (block_is(block, "thinking") && chat_put_returned(e, block, THINKING_MEMBERS))
            break;
    }
    body_put(e, ",\"tool_calls\":[");
    json_array_foreach(content, i, block)
    {
        if (!block_is(block, "tool_use"))
            continue;
        body_put(e, first ? "" : ",");
        chat_put_call(e, block);
        first = false;
    }
    body_put(e, "]");
}

static int chat_put_assistant(struct encoding *e, const json_t *content)
{
    _cleanup_buf_ struct buf text = chat_joined(content, "");
    bool calls = chat_has(content, "tool_use");
    if (call_ids_turn(&e->ids) < 0)
        return -ENOMEM;
    body_put(e, "{\"role\":\"assistant\",\"content\":");
    if (text.len == 0)
        body_put(e, calls ? "null" : "\"" NOTHING_SAID "\"");
    else
        body_buf(e, &text);
    if (calls)
        chat_put_calls(e, content);
    body_put(e, "}");
    return 0;
}

static int chat_encode(struct encoding *e)
{
    const json_t *messages = e->q->messages, *message;
    const char *system = e->q->system;
    size_t i;
    e->ids = (struct call_ids){.max = chat_is_openai(e->spec) ? ID_MAX_OPENAI : ID_MAX};
    body_put(e, "{");
    int r = chat_put_start(e);
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
            chat_put_user(e, json_object_get(message, "content"));
        else if (r == 0)
            r = chat_put_assistant(e, json_object_get(message, "content"));
    }
    body_put(e, "]}");
    return r;
}

/* Keys of blocks: a call's is its index (CHAT_CALL + index), or where it has none, CHAT_LAST. */
enum { CHAT_TEXT = -4, CHAT_THINKING, CHAT_FUNCTION, CHAT_LAST, CHAT_CALL };

static bool chat_is_filled(const json_t *value)
{
    return json_string_length(value) > 0;
}

static bool chat_buf_is(const struct buf *b, const json_t *value)
{
    return b->len == json_string_length(value) &&
           memcmp(b->data, json_string_value(value), b->len) == 0;
}

/* Does this piece begin another call than the one that has its index? */
static bool chat_is_another(const struct block *b, const json_t *id, const json_t *name)
{
    bool other_id = chat_is_filled(id) && b->id.len > 0 && !chat_buf_is(&b->id, id);
    bool same_id = chat_is_filled(id) && b->id.len > 0 && !other_id;
    if (!chat_is_filled(name) || b->name.len == 0 || same_id)
        return false;
    return other_id || !chat_buf_is(&b->name, name) || assembly_input_whole(b);
}

static struct block *chat_last_call(const struct assembly *a)
{
    for (size_t i = a->n; i > 0; i--)
        if (a->blocks[i - 1]->kind == BLOCK_CALL)
            return a->blocks[i - 1];
    return NULL;
}

static int chat_take_function(struct assembly *a, struct block *b, const json_t *id,
                              const json_t *function)
{
    const json_t *arguments = json_object_get(function, "arguments");
    int r = assembly_call(a, b, id, json_object_get(function, "name"));
    if (r < 0)
        return r;
    return json_is_object(arguments) ? assembly_input_is(a, b, arguments)
                                     : assembly_input(a, b, arguments);
}

/* What else belongs to a call, and must go back with it. */
static int chat_take_extra(struct assembly *a, struct block *b, json_t *call)
{
    json_t *content = json_object_get(call, "extra_content");
    if (!json_is_object(content))
        return 0;
    _cleanup_json_ json_t *extra = json_pack("{s:{s:O}}", "raw", "extra_content", content);
    return assembly_keep(a, &b->extra, extra);
}

static int chat_take_call(struct assembly *a, json_t *call)
{
    const json_t *index = json_object_get(call, "index"), *id = json_object_get(call, "id");
    const json_t *function = json_object_get(call, "function");
    bool known = json_is_integer(index) && json_integer_value(index) >= 0 &&
                 json_integer_value(index) < DECODER_BLOCKS_MAX;
    int64_t key = known ? CHAT_CALL + json_integer_value(index) : CHAT_LAST;
    struct block *b = known ? assembly_find(a, key, 0) : chat_last_call(a);
    int r = 0;
    if (!b || chat_is_another(b, id, json_object_get(function, "name")))
        r = assembly_add(a, BLOCK_CALL, key, 0, &b);
    if (r == 0)
        r = chat_take_function(a, b, id, function);
    return r < 0 ? r : chat_take_extra(a, b, call);
}

static int chat_take_calls(struct assembly *a, json_t *calls)
{
    json_t *call;
    size_t i;
    int r = 0;
    json_array_foreach(calls, i, call)
    {
        if (r == 0 && json_is_object(call))
            r = chat_take_call(a, call);
    }
    return r;
}

static int chat_take_old_call(struct assembly *a, json_t *function)
{
    struct block *b = assembly_find(a, CHAT_FUNCTION, 0);
    if (!json_is_object(function))
        return 0;
    int r = b ? 0 : assembly_add(a, BLOCK_CALL, CHAT_FUNCTION, 0, &b);
    return r < 0 ? r : chat_take_function(a, b, NULL, function);
}

static uint64_t chat_count_in(const json_t *usage, const char *group, const char *name,
                              uint64_t before)
{
    return decode_count(json_object_get(usage, group), name, before);
}

/* In the last chunk, or in each: cumulative. */
static void chat_take_usage(struct decoder *d, const json_t *usage)
{
    struct model_usage *u = &d->usage;
    if (!json_is_object(usage))
        return;
    u->known = true;
    u->input = decode_count(usage, "prompt_tokens", u->input);
    u->output = decode_count(usage, "completion_tokens", u->output);
    u->cache_read = decode_count(usage, "prompt_cache_hit_tokens", u->cache_read);
    u->cache_read = chat_count_in(usage, "prompt_tokens_details", "cached_tokens", u->cache_read);
    u->cache_write =
        chat_count_in(usage, "prompt_tokens_details", "cache_write_tokens", u->cache_write);
    u->thinking =
        chat_count_in(usage, "completion_tokens_details", "reasoning_tokens", u->thinking);
}

static int chat_block_of(struct decoder *d, int64_t key, enum block_kind kind, struct block **ret)
{
    struct block *b = assembly_find(&d->a, key, 0);
    if (!b)
        return assembly_add(&d->a, kind, key, 0, ret);
    *ret = b;
    return 0;
}

static bool chat_is_empty(const json_t *piece)
{
    return json_string_length(piece) == 0;
}

static int chat_add_text(struct decoder *d, const json_t *piece)
{
    struct block *b;
    if (chat_is_empty(piece))
        return 0;
    int r = chat_block_of(d, CHAT_TEXT, BLOCK_TEXT, &b);
    return r < 0 ? r : assembly_text(&d->a, b, piece);
}

/* `member` is what the server calls it: that is how it goes back, should it have to. */
static int chat_add_thinking(struct decoder *d, const json_t *piece, const char *member)
{
    struct block *b;
    if (chat_is_empty(piece))
        return 0;
    int r = chat_block_of(d, CHAT_THINKING, BLOCK_THINKING, &b);
    if (r < 0)
        return r;
    if (!b->raw) {
        b->raw = json_object();
        b->raw_text = member;
    }
    return b->raw ? assembly_text(&d->a, b, piece) : -ENOMEM;
}

/* A part of a content that is a list: text, or a list of its own of what was thought. */
static int chat_add_part(struct decoder *d, const json_t *part)
{
    const json_t *thinking = json_object_get(part, "thinking"), *one;
    size_t i;
    int r = chat_add_text(d, json_object_get(part, "text"));
    json_array_foreach(thinking, i, one)
    {
        if (r == 0)
            r = chat_add_thinking(d, json_object_get(one, "text"), "reasoning_content");
    }
    return r;
}

static int chat_add_parts(struct decoder *d, const json_t *parts)
{
    const json_t *part;
    size_t i;
    int r = 0;
    json_array_foreach(parts, i, part)
    {
        if (r == 0)
            r = chat_add_part(d, part);
    }
    return r;
}

/* The same under one of two names; where both come they say the same. */
static int chat_take_thinking(struct decoder *d, const json_t *delta)
{
    const json_t *reasoning = json_object_get(delta, "reasoning_content");
    if (!chat_is_empty(reasoning))
        return chat_add_thinking(d, reasoning, "reasoning_content");
    return chat_add_thinking(d, json_object_get(delta, "reasoning"), "reasoning");
}

/* `reasoning_details` of a gateway: signed parts, which go back as they came. Parts of one index
 * are one. */
static int chat_merge_detail(json_t *details, json_t *detail)
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

static int chat_take_details(struct decoder *d, json_t *details)
{
    _cleanup_json_ json_t *kept = NULL;
    struct block *b = NULL;
    json_t *one;
    size_t i;
    if (json_array_size(details) == 0)
        return 0;
    int r = assembly_keep(&d->a, &kept, details);
    if (r == 0)
        r = chat_block_of(d, CHAT_THINKING, BLOCK_THINKING, &b);
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
            r = chat_merge_detail(json_object_get(b->raw, "reasoning_details"), one);
    }
    return r;
}

static int chat_take_refusal(struct decoder *d, const json_t *refusal)
{
    if (chat_is_empty(refusal))
        return 0;
    d->refused = true;
    return chat_add_text(d, refusal);
}

static int chat_take_delta(struct decoder *d, json_t *delta)
{
    const json_t *content = json_object_get(delta, "content");
    int r = chat_take_thinking(d, delta);
    if (r == 0)
        r = chat_take_details(d, json_object_get(delta, "reasoning_details"));
    if (r == 0)
        r = json_is_array(content) ? chat_add_parts(d, content) : chat_add_text(d, content);
    if (r == 0)
        r = chat_take_refusal(d, json_object_get(delta, "refusal"));
    if (r == 0)
        r = chat_take_calls(&d->a, json_object_get(delta, "tool_calls"));
    return r < 0 ? r : chat_take_old_call(&d->a, json_object_get(delta, "function_call"));
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
static int chat_take_reason(struct decoder *d, json_t *choice)
{
    const char *reason = json_string_value(json_object_get(choice, "finish_reason"));
    if (!reason || !*reason)
        return 0;
    if (strcmp(reason, "error") == 0 || strcmp(reason, "insufficient_system_resource") == 0) {
        _cleanup_json_ json_t *what = json_pack("{s:s, s:s+}", "type", "server_error", "message",
                                                "it gave up in the middle of the answer: ", reason);
        return decode_error(d, what);
    }
    d->stopped = true;
    d->stop = MODEL_END_TURN;
    for (size_t i = 0; i < ARRAY_SIZE(REASONS); i++)
        if (strcasecmp(REASONS[i].name, reason) == 0)
            d->stop = REASONS[i].stop;
    return 0;
}

static int chat_take_choice(struct decoder *d, json_t *choice)
{
    json_t *delta = json_object_get(choice, "delta");
    if (json_integer_value(json_object_get(choice, "index")) != 0)
        return 0; /* one answer was asked for */
    d->answered = true;
    if (!json_is_object(delta))
        delta = json_object_get(choice, "message");
    int r = json_is_object(delta) ? chat_take_delta(d, delta) : 0;
    return r < 0 ? r : chat_take_reason(d, choice);
}

/* The error that a chunk holds, in one of the forms seen; or NULL. */
static json_t *chat_error_in(json_t *chunk, const char *type)
{
    json_t *error = json_object_get(chunk, "error");
    const char *object = json_string_value(json_object_get(chunk, "object"));
    if (json_is_object(error) || json_is_string(error))
        return error;
    return (object && strcmp(object, "error") == 0) || strcmp(type, "error") == 0 ? chunk : NULL;
}

static int chat_decode_event(struct decoder *d, const char *type, json_t *chunk)
{
    json_t *error = chat_error_in(chunk, type), *choice;
    size_t i;
    int r = 0;
    if (error)
        return decode_error(d, error);
    decode_head(d, chunk);
    chat_take_usage(d, json_object_get(json_object_get(chunk, "x_groq"), "usage"));
    chat_take_usage(d, json_object_get(chunk, "usage"));
    json_array_foreach(json_object_get(chunk, "choices"), i, choice)
    {
        if (r == 0)
            r = chat_take_choice(d, choice);
    }
    return r;
}

static int chat_decode_whole(struct decoder *d, json_t *answer)
{
    int r = chat_decode_event(d, "message", answer);
    if (r < 0)
        return r;
    return d->answered ? 1 : -EBADMSG;
}

static void chat_finish(struct decoder *d)
{
    assembly_sort(&d->a, true);
}

static const struct decode_protocol CHAT_DECODER = {.take = chat_decode_event,
                                                    .take_whole = chat_decode_whole,
                                                    .finish = chat_finish,
                                                    .last = "[DONE]"};

const struct provider PROVIDER_OPENAI_CHAT = {
    .base_url = "https://api.openai.com/v1",
    .path = "/chat/completions",
    .embed_path = "/embeddings",
    .key_header = "Authorization",
    .key_prefix = "Bearer ",
    .encode = chat_encode,
    .decoder = &CHAT_DECODER,
    .guess = {128000, 16384, {-1, -1, -1, -1, 0, 1, 1}},
    .cache_read_rate = 1,
    .cache_write_rate = 1,
    .is_common = true,
};
