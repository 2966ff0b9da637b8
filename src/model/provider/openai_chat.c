/*
 * OpenAI Chat Completions, and all the servers that are compatible with it.
 *
 * In a request, texts are plain strings, since that is what every compatible server reads; a list
 * of parts only where there is an image. A result is a message of its own (role `tool`), which
 * cannot hold images: those follow in a user's message behind all results of the turn, before
 * anything else that the user says. Thinking is sent back only with calls, under its original name:
 * some servers require it there.
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
 *   - leave the id out (hutch makes one in the end), or repeat id and name with every piece;
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

/* Keys of blocks: a call's is its index (CHAT_CALL + index), or where it has none, CHAT_LAST. */
enum { CHAT_TEXT = -4, CHAT_THINKING, CHAT_FUNCTION, CHAT_LAST, CHAT_CALL };

static const char *const CHAT_OWN[] = {"model", "messages", "stream", NULL};
static const char *const CHAT_THINKING_MEMBERS[] = {"reasoning_details", "reasoning_content",
                                                    "reasoning", NULL};

/* OpenAI's own servers take some members by a new name only, others by the old one. */
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

static json_t *chat_text(const struct buf *text, const char *otherwise)
{
    return text->failed ? NULL
           : text->len  ? encode_text((const char *)text->data, text->len)
                        : json_string(otherwise);
}

static json_t *chat_image(const json_t *block)
{
    return json_pack("{s:s, s:{s:o}}", "type", "image_url", "image_url", "url",
                     encode_image_url(block));
}

/* The content of a user's message with images: those of results first, then the user's. */
static json_t *chat_parts(struct encoding *e, const json_t *content)
{
    const json_t *block, *one;
    json_t *parts = json_array();
    size_t i, k;
    json_array_foreach(content, i, block)
    {
        const json_t *inner = json_object_get(block, "content");
        if (!block_is(block, "tool_result") || !blocks_have(inner, "image"))
            continue;
        _cleanup_json_ json_t *id = encode_result_id(e, block);
        encode_append(e, parts,
                      json_pack("{s:s, s:s++}", "type", "text", "text", "Of the result of ",
                                id ? json_string_value(id) : "", ":"));
        json_array_foreach(inner, k, one)
        {
            if (block_is(one, "image"))
                encode_append(e, parts, chat_image(one));
        }
    }
    json_array_foreach(content, i, block)
    {
        if (block_is(block, "image"))
            encode_append(e, parts, chat_image(block));
        else if (block_is(block, "text") && !block_is_blank(block))
            encode_append(
                e, parts,
                json_pack("{s:s, s:O}", "type", "text", "text", json_object_get(block, "text")));
    }
    return parts;
}

static void chat_put_user(struct encoding *e, const json_t *content, json_t *messages)
{
    const json_t *block;
    bool results = false, images = blocks_have(content, "image");
    size_t i;
    json_array_foreach(content, i, block)
    {
        const json_t *inner = json_object_get(block, "content");
        if (!block_is(block, "tool_result"))
            continue;
        _cleanup_buf_ struct buf text = encode_joined(inner, "\n", true);
        bool image = blocks_have(inner, "image");
        encode_append(e, messages,
                      json_pack("{s:s, s:o, s:o}", "role", "tool", "tool_call_id",
                                encode_result_id(e, block), "content",
                                chat_text(&text, image ? IMAGE_BELOW : NO_OUTPUT)));
        results = true;
        images |= image;
    }
    _cleanup_buf_ struct buf text = encode_joined(content, "\n\n", true);
    if (results && !images && text.len == 0)
        return;
    encode_append(e, messages,
                  json_pack("{s:s, s:o}", "role", "user", "content",
                            images ? chat_parts(e, content) : chat_text(&text, NOTHING_SAID)));
}

static json_t *chat_assistant(struct encoding *e, const json_t *content)
{
    const json_t *block;
    bool has_calls = blocks_have(content, "tool_use"), has_thinking = false;
    size_t i;
    _cleanup_buf_ struct buf text = encode_joined(content, "", true);
    json_t *message =
        json_pack("{s:s, s:o}", "role", "assistant", "content",
                  text.len == 0 && has_calls ? json_null() : chat_text(&text, NOTHING_SAID));
    encode_begin_calls(e);
    if (!has_calls)
        return message;
    json_t *calls = json_array();
    json_array_foreach(content, i, block)
    {
        json_t *raw = json_object_get(block, "raw");
        if (block_is(block, "tool_use")) {
            json_t *extra =
                block_goes_back(e, block) ? json_object_get(raw, "extra_content") : NULL;
            encode_append(e, calls,
                          json_pack("{s:o, s:s, s:{s:o, s:o}, s:O*}", "id",
                                    encode_call_id(e, block), "type", "function", "function",
                                    "name", encode_name(block), "arguments",
                                    encode_arguments(block), "extra_content", extra));
        }
        if (has_thinking || !block_is(block, "thinking") || !block_goes_back(e, block))
            continue;
        for (const char *const *m = CHAT_THINKING_MEMBERS; *m && !has_thinking; m++) {
            json_t *value = json_object_get(raw, *m);
            if (value)
                encode_set(e, message, *m, json_incref(value));
            has_thinking = value != NULL;
        }
    }
    encode_set(e, message, "tool_calls", calls);
    return message;
}

json_t *chat_encode(struct encoding *e)
{
    const struct model_request *q = e->q;
    const json_t *extra = e->spec->extra;
    bool is_openai = chat_is_openai(e->spec);
    json_t *tool, *message, *tools = json_array(), *messages = json_array();
    size_t i;
    e->ids = (struct call_ids){.max = is_openai ? ID_MAX_OPENAI : ID_MAX};
    json_t *body = json_pack("{s:s, s:b, s:{s:b}}", "model", e->spec->name, "stream", 1,
                             "stream_options", "include_usage", 1);
    if (q->max_tokens && !json_object_get(extra, "max_tokens") &&
        !json_object_get(extra, "max_completion_tokens"))
        encode_set(e, body, is_openai ? "max_completion_tokens" : "max_tokens",
                   json_integer((json_int_t)q->max_tokens));
    json_array_foreach(q->tools, i, tool)
    {
        json_t *schema = json_object_get(tool, "input_schema");
        encode_append(e, tools,
                      json_pack("{s:s, s:{s:O, s:O*, s:o}}", "type", "function", "function", "name",
                                json_object_get(tool, "name"), "description",
                                json_object_get(tool, "description"), "parameters",
                                schema ? json_incref(schema)
                                       : json_pack("{s:s, s:{}}", "type", "object", "properties")));
    }
    if (json_array_size(tools) > 0)
        encode_set(e, body, "tools", json_incref(tools));
    json_decref(tools);
    encode_extra(e, body, CHAT_OWN);

    if (q->system && *q->system)
        encode_append(e, messages,
                      json_pack("{s:s, s:o}", "role", "system", "content",
                                encode_text(q->system, strlen(q->system))));
    json_array_foreach(q->messages, i, message)
    {
        const json_t *content = json_object_get(message, "content");
        if (i % 2 == 0)
            chat_put_user(e, content, messages);
        else
            encode_append(e, messages, chat_assistant(e, content));
    }
    encode_set(e, body, "messages", messages);
    return body;
}

/* In the last chunk, or in each: cumulative. */
static void chat_take_usage(struct decoder *d, const json_t *usage)
{
    struct model_usage *u = &d->usage;
    const json_t *prompt = json_object_get(usage, "prompt_tokens_details");
    const json_t *completion = json_object_get(usage, "completion_tokens_details");
    if (!json_is_object(usage))
        return;
    u->known = true;
    u->input = decode_count(usage, "prompt_tokens", u->input);
    u->output = decode_count(usage, "completion_tokens", u->output);
    u->cache_read = decode_count(usage, "prompt_cache_hit_tokens", u->cache_read);
    u->cache_read = decode_count(prompt, "cached_tokens", u->cache_read);
    u->cache_write = decode_count(prompt, "cache_write_tokens", u->cache_write);
    u->thinking = decode_count(completion, "reasoning_tokens", u->thinking);
}

static bool chat_is_filled(const json_t *value)
{
    return json_string_length(value) > 0;
}

static bool buf_is(const struct buf *b, const json_t *value)
{
    return b->len == json_string_length(value) &&
           memcmp(b->data, json_string_value(value), b->len) == 0;
}

/* Does this piece begin another call than the one that has its index? */
static bool chat_is_another(const struct block *b, const json_t *id, const json_t *name)
{
    bool other_id = chat_is_filled(id) && b->id.len > 0 && !buf_is(&b->id, id);
    bool same_id = chat_is_filled(id) && b->id.len > 0 && !other_id;
    if (!chat_is_filled(name) || b->name.len == 0 || same_id)
        return false;
    return other_id || !buf_is(&b->name, name) || assembly_input_whole(b);
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

static int chat_take_call(struct assembly *a, json_t *call)
{
    const json_t *index = json_object_get(call, "index"), *id = json_object_get(call, "id");
    const json_t *function = json_object_get(call, "function");
    json_t *content = json_object_get(call, "extra_content");
    bool known = json_is_integer(index) && json_integer_value(index) >= 0 &&
                 json_integer_value(index) < DECODER_BLOCKS_MAX;
    int64_t key = known ? CHAT_CALL + json_integer_value(index) : CHAT_LAST;
    struct block *b = known ? assembly_find(a, key, 0) : NULL;
    for (size_t i = a->n; !known && !b && i > 0; i--) /* without an index: the last call */
        b = a->blocks[i - 1]->kind == BLOCK_CALL ? a->blocks[i - 1] : NULL;
    int r = 0;
    if (!b || chat_is_another(b, id, json_object_get(function, "name")))
        r = assembly_add(a, BLOCK_CALL, key, 0, &b);
    if (r == 0)
        r = chat_take_function(a, b, id, function);
    if (r < 0 || !json_is_object(content))
        return r;
    /* Other members of a call, which must be sent back with it. */
    _cleanup_json_ json_t *extra = json_pack("{s:{s:O}}", "raw", "extra_content", content);
    return assembly_keep(a, &b->extra, extra);
}

static int chat_block(struct decoder *d, int64_t key, enum block_kind kind, struct block **ret)
{
    struct block *b = assembly_find(&d->a, key, 0);
    if (!b)
        return assembly_add(&d->a, kind, key, 0, ret);
    *ret = b;
    return 0;
}

static int chat_add_text(struct decoder *d, const json_t *piece)
{
    struct block *b;
    if (!chat_is_filled(piece))
        return 0;
    int r = chat_block(d, CHAT_TEXT, BLOCK_TEXT, &b);
    return r < 0 ? r : assembly_text(&d->a, b, piece);
}

/* `member` is the server's name for it, under which it is sent back. */
static int chat_add_thinking(struct decoder *d, const json_t *piece, const char *member)
{
    struct block *b;
    if (!chat_is_filled(piece))
        return 0;
    int r = chat_block(d, CHAT_THINKING, BLOCK_THINKING, &b);
    if (r < 0)
        return r;
    if (!b->raw) {
        b->raw = json_object();
        b->raw_text = member;
    }
    return b->raw ? assembly_text(&d->a, b, piece) : -ENOMEM;
}

/* `reasoning_details` of a gateway: signed parts, which are sent back unchanged. Parts of one index
 * that follow each other are one. */
static int chat_take_details(struct decoder *d, json_t *details)
{
    static const char *const grows[] = {"text", "summary", "data"};
    _cleanup_json_ json_t *kept = NULL;
    struct block *b = NULL;
    json_t *one, *value;
    const char *name;
    size_t i;
    if (json_array_size(details) == 0)
        return 0;
    int r = assembly_keep(&d->a, &kept, details);
    if (r == 0)
        r = chat_block(d, CHAT_THINKING, BLOCK_THINKING, &b);
    if (r != 0)
        return r;
    if (!json_object_get(b->raw, "reasoning_details")) {
        json_decref(b->raw);
        b->raw = json_pack("{s:[]}", "reasoning_details");
        b->raw_text = NULL;
    }
    json_t *all = json_object_get(b->raw, "reasoning_details");
    json_array_foreach(kept, i, one)
    {
        json_t *last = json_array_get(all, json_array_size(all) - 1);
        const json_t *index = json_object_get(one, "index");
        if (!json_is_object(one))
            continue;
        if (!index || !json_equal(json_object_get(last, "index"), index) ||
            !json_equal(json_object_get(last, "type"), json_object_get(one, "type"))) {
            if (json_array_append(all, one) < 0)
                return -ENOMEM;
            continue;
        }
        for (size_t k = 0; k < ARRAY_SIZE(grows); k++) {
            const char *had = json_get_string(last, grows[k]),
                       *more = json_get_string(one, grows[k]);
            if (had && more)
                json_object_set_new(one, grows[k], json_pack("s+", had, more));
        }
        json_object_foreach(one, name, value)
        {
            if (!json_is_null(value) && json_object_set(last, name, value) < 0)
                return -ENOMEM;
        }
    }
    return 0;
}

static int chat_take_delta(struct decoder *d, json_t *delta)
{
    const json_t *content = json_object_get(delta, "content");
    const json_t *refusal = json_object_get(delta, "refusal");
    const json_t *reasoning = json_object_get(delta, "reasoning_content");
    const json_t *part, *one;
    json_t *call, *function = json_object_get(delta, "function_call");
    struct block *b;
    size_t i, k;
    /* The same under one of two names; where both come they say the same. */
    int r = chat_is_filled(reasoning)
                ? chat_add_thinking(d, reasoning, "reasoning_content")
                : chat_add_thinking(d, json_object_get(delta, "reasoning"), "reasoning");
    if (r == 0)
        r = chat_take_details(d, json_object_get(delta, "reasoning_details"));
    if (r == 0)
        r = chat_add_text(d, content);
    json_array_foreach(content, i, part) /* texts, or lists of their own of what was thought */
    {
        if (r == 0)
            r = chat_add_text(d, json_object_get(part, "text"));
        json_array_foreach(json_object_get(part, "thinking"), k, one)
        {
            if (r == 0)
                r = chat_add_thinking(d, json_object_get(one, "text"), "reasoning_content");
        }
    }
    if (r == 0 && chat_is_filled(refusal)) {
        d->refused = true;
        r = chat_add_text(d, refusal);
    }
    json_array_foreach(json_object_get(delta, "tool_calls"), i, call)
    {
        if (r == 0 && json_is_object(call))
            r = chat_take_call(&d->a, call);
    }
    if (r < 0 || !json_is_object(function))
        return r;
    /* `function_call`, as it was before there were several. */
    r = chat_block(d, CHAT_FUNCTION, BLOCK_CALL, &b);
    return r < 0 ? r : chat_take_function(&d->a, b, NULL, function);
}

static const struct chat_reason {
    const char *name;
    enum model_stop stop;
} CHAT_REASONS[] = {
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

static int chat_take_choice(struct decoder *d, json_t *choice)
{
    json_t *delta = json_object_get(choice, "delta");
    const char *reason = json_get_string(choice, "finish_reason");
    if (json_get_integer(choice, "index") != 0)
        return 0; /* one answer was asked for */
    d->answered = true;
    if (!json_is_object(delta))
        delta = json_object_get(choice, "message");
    int r = json_is_object(delta) ? chat_take_delta(d, delta) : 0;
    if (r < 0 || !reason || !*reason)
        return r;
    /* Some reasons are errors: the server has given up. */
    if (strcmp(reason, "error") == 0 || strcmp(reason, "insufficient_system_resource") == 0) {
        _cleanup_json_ json_t *what = json_pack("{s:s, s:s+}", "type", "server_error", "message",
                                                "it gave up in the middle of the answer: ", reason);
        return decode_error(d, what);
    }
    d->stopped = true;
    d->stop = MODEL_END_TURN;
    for (size_t i = 0; i < ARRAY_SIZE(CHAT_REASONS); i++)
        if (strcasecmp(CHAT_REASONS[i].name, reason) == 0)
            d->stop = CHAT_REASONS[i].stop;
    return 0;
}

static int chat_decode_event(struct decoder *d, const char *type, json_t *chunk)
{
    json_t *error = json_object_get(chunk, "error"), *choice;
    const char *object = json_get_string(chunk, "object");
    size_t i;
    int r = 0;
    if (json_is_object(error) || json_is_string(error))
        return decode_error(d, error);
    if ((object && strcmp(object, "error") == 0) || strcmp(type, "error") == 0)
        return decode_error(d, chunk);
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

const struct decode_protocol CHAT_DECODER = {.take = chat_decode_event,
                                             .take_whole = chat_decode_whole,
                                             .order = ORDER_CALLS_BY_KEY,
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
