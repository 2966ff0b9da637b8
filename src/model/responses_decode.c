/*
 * The Responses API: a list of items, each known by its output_index, which begin, grow and end; at
 * the end the whole response. The item that ends an item is trusted over its pieces, the response's
 * list over items that never ended; pieces count where nothing better comes.
 *
 * A message is a text per part; a block's key is the item's index and its part.
 */
#include <errno.h>
#include <string.h>

#include "decoder_private.h"
#include "banned.h"

static bool is_type(const json_t *value, const char *type)
{
    return strcmp(decode_type(value), type) == 0;
}

/* The item that an event is about; where it does not say, the last one. */
static int64_t item_of(struct decoder *d, const json_t *event)
{
    const json_t *index = json_object_get(event, "output_index");
    if (json_is_integer(index))
        d->last_key = json_integer_value(index);
    return d->last_key;
}

static int64_t part_of(const json_t *event, const char *name)
{
    return json_integer_value(json_object_get(event, name));
}

static int block_of(struct decoder *d, int64_t key, int64_t part, enum block_kind kind,
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

static int text_delta(struct decoder *d, json_t *event)
{
    struct block *b;
    int r = block_of(d, item_of(d, event), part_of(event, "content_index"), BLOCK_TEXT, &b);
    return r < 0 ? r : assembly_text(&d->a, b, json_object_get(event, "delta"));
}

static int refusal_delta(struct decoder *d, json_t *event)
{
    d->refused = true;
    return text_delta(d, event);
}

/* A summary comes in parts: paragraphs. */
static int thinking_delta(struct decoder *d, json_t *event)
{
    struct block *b;
    int r = block_of(d, item_of(d, event), 0, BLOCK_THINKING, &b);
    return r < 0 ? r : assembly_text(&d->a, b, json_object_get(event, "delta"));
}

static int thinking_part(struct decoder *d, json_t *event)
{
    struct block *b = assembly_find(&d->a, item_of(d, event), 0);
    if (!b || b->kind != BLOCK_THINKING || b->text.len == 0)
        return 0;
    _cleanup_json_ json_t *gap = json_string("\n\n");
    return assembly_text(&d->a, b, gap);
}

static int arguments_delta(struct decoder *d, json_t *event)
{
    struct block *b;
    int r = block_of(d, item_of(d, event), 0, BLOCK_CALL, &b);
    return r < 0 ? r : assembly_input(&d->a, b, json_object_get(event, "delta"));
}

static int arguments_done(struct decoder *d, json_t *event)
{
    struct block *b;
    int r = block_of(d, item_of(d, event), 0, BLOCK_CALL, &b);
    return r < 0 ? r : assembly_input_is(&d->a, b, json_object_get(event, "arguments"));
}

static int add_call(struct decoder *d, int64_t key, json_t *item)
{
    struct block *b;
    const json_t *id = json_object_get(item, "call_id");
    int r = block_of(d, key, 0, BLOCK_CALL, &b);
    if (r == 0)
        r = assembly_call(&d->a, b, json_string_length(id) ? id : json_object_get(item, "id"),
                          json_object_get(item, "name"));
    return r < 0 ? r : assembly_input_is(&d->a, b, json_object_get(item, "arguments"));
}

static int item_added(struct decoder *d, json_t *event)
{
    json_t *item = json_object_get(event, "item");
    int64_t key = item_of(d, event);
    struct block *b;
    d->answered = true;
    if (is_type(item, "function_call"))
        return add_call(d, key, item);
    return is_type(item, "reasoning") ? block_of(d, key, 0, BLOCK_THINKING, &b) : 0;
}

static int message_part(struct decoder *d, int64_t key, int64_t i, json_t *part,
                        const json_t *phase)
{
    struct block *b;
    bool refusal = is_type(part, "refusal");
    d->refused |= refusal;
    int r = block_of(d, key, i, BLOCK_TEXT, &b);
    if (r == 0)
        r = assembly_text_is(&d->a, b, json_object_get(part, refusal ? "refusal" : "text"));
    if (r == 0 && json_is_string(phase)) {
        _cleanup_json_ json_t *extra = json_pack("{s:O}", "phase", phase);
        r = assembly_keep(&d->a, &b->extra, extra);
    }
    return r < 0 ? r : assembly_end(&d->a, b);
}

/* Parts that only the pieces knew are none; but an item without any has only been shortened. */
static int message_done(struct decoder *d, int64_t key, json_t *item)
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
        if (r == 0 && (is_type(part, "output_text") || is_type(part, "refusal")))
            r = message_part(d, key, (int64_t)i, part, phase);
    }
    return r;
}

/* The texts of a list, as paragraphs. NULL: there are none. */
static json_t *paragraphs(const json_t *list)
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

static int reasoning_done(struct decoder *d, int64_t key, json_t *item)
{
    struct block *b;
    int r = block_of(d, key, 0, BLOCK_THINKING, &b);
    if (r == 0)
        r = assembly_keep(&d->a, &b->raw, item);
    if (r < 0)
        return r;
    _cleanup_json_ json_t *summary = paragraphs(json_object_get(item, "summary"));
    _cleanup_json_ json_t *content = paragraphs(json_object_get(item, "content"));
    r = assembly_text_is(&d->a, b, summary ? summary : content);
    return r < 0 ? r : assembly_end(&d->a, b);
}

static int call_done(struct decoder *d, int64_t key, json_t *item)
{
    int r = add_call(d, key, item);
    return r < 0 ? r : assembly_end(&d->a, assembly_find(&d->a, key, 0));
}

static int other_done(struct decoder *d, int64_t key, json_t *item)
{
    struct block *b;
    int r = block_of(d, key, 0, BLOCK_OTHER, &b);
    if (r == 0)
        r = assembly_keep(&d->a, &b->raw, item);
    return r < 0 ? r : assembly_end(&d->a, b);
}

static int take_item(struct decoder *d, int64_t key, json_t *item)
{
    if (!json_is_object(item))
        return 0;
    d->answered = true;
    if (is_type(item, "message"))
        return message_done(d, key, item);
    if (is_type(item, "reasoning"))
        return reasoning_done(d, key, item);
    return is_type(item, "function_call") ? call_done(d, key, item) : other_done(d, key, item);
}

static int item_done(struct decoder *d, json_t *event)
{
    return take_item(d, item_of(d, event), json_object_get(event, "item"));
}

static int head(struct decoder *d, json_t *event)
{
    decode_head(d, json_object_get(event, "response"));
    return 0;
}

static void take_usage(struct decoder *d, const json_t *usage)
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
static int take_output(struct decoder *d, const json_t *output)
{
    json_t *item;
    size_t i;
    int r = 0;
    json_array_foreach(output, i, item)
    {
        const struct block *b = assembly_find(&d->a, (int64_t)i, 0);
        if (r == 0 && (!b || !b->whole))
            r = take_item(d, (int64_t)i, item);
    }
    return r;
}

static void take_reason(struct decoder *d, const json_t *response)
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

static bool is_error(const json_t *value)
{
    return json_is_object(value) || json_is_string(value);
}

static int failed(struct decoder *d, json_t *event)
{
    json_t *error = json_object_get(event, "error");
    if (!is_error(error))
        error = json_object_get(json_object_get(event, "response"), "error");
    return decode_trouble(d, is_error(error) ? error : event);
}

static int take_response(struct decoder *d, json_t *response)
{
    const char *status = json_string_value(json_object_get(response, "status"));
    if (status && strcmp(status, "failed") == 0)
        return failed(d, response);
    decode_head(d, response);
    take_usage(d, json_object_get(response, "usage"));
    int r = take_output(d, json_object_get(response, "output"));
    if (r < 0)
        return r;
    if (status && strcmp(status, "incomplete") == 0)
        take_reason(d, response);
    return 1;
}

static int completed(struct decoder *d, json_t *event)
{
    return take_response(d, json_object_get(event, "response"));
}

static int incomplete(struct decoder *d, json_t *event)
{
    int r = completed(d, event);
    if (r > 0)
        take_reason(d, json_object_get(event, "response"));
    return r;
}

static const struct decode_handler HANDLERS[] = {
    {"response.created", head},
    {"response.in_progress", head},
    {"response.output_item.added", item_added},
    {"response.output_item.done", item_done},
    {"response.output_text.delta", text_delta},
    {"response.refusal.delta", refusal_delta},
    {"response.reasoning_summary_text.delta", thinking_delta},
    {"response.reasoning_text.delta", thinking_delta},
    {"response.reasoning_summary_part.added", thinking_part},
    {"response.function_call_arguments.delta", arguments_delta},
    {"response.function_call_arguments.done", arguments_done},
    {"response.completed", completed},
    {"response.incomplete", incomplete},
    {"response.failed", failed},
    {"error", failed},
    {0},
};

static int take(struct decoder *d, const char *type, json_t *event)
{
    const struct decode_handler *h = decode_handler_of(HANDLERS, type, event);
    if (h)
        return h->take(d, event);
    return is_error(json_object_get(event, "error")) ? failed(d, event) : 0;
}

static int take_whole(struct decoder *d, json_t *answer)
{
    if (is_error(json_object_get(answer, "error")) || is_type(answer, "error"))
        return failed(d, answer);
    return json_is_array(json_object_get(answer, "output")) ? take_response(d, answer) : -EBADMSG;
}

static void finish(struct decoder *d)
{
    assembly_sort(&d->a, false);
}

const struct decode_protocol RESPONSES_DECODE = {
    .take = take, .take_whole = take_whole, .finish = finish};
