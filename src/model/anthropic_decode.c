/* The Messages API: every block is begun, grows and ends under its index; `ping` and whatever
 * nobody knows may come anywhere. Blocks of kinds that hutch has no part in (those of the
 * provider's own tools) are kept as they are, and go back so. */
#include <errno.h>
#include <string.h>

#include "decoder_private.h"
#include "banned.h"

/* Figures are cumulative: the last one that was said counts. Input comes in three parts. */
static void take_usage(struct decoder *d, const json_t *usage)
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

static int message_start(struct decoder *d, json_t *event)
{
    const json_t *message = json_object_get(event, "message");
    d->answered = true;
    decode_head(d, message);
    take_usage(d, json_object_get(message, "usage"));
    return 0;
}

static int start_text(struct decoder *d, struct block *b, json_t *given)
{
    json_t *citations = json_object_get(given, "citations");
    int r = assembly_text(&d->a, b, json_object_get(given, "text"));
    if (r == 0 && json_array_size(citations) > 0) {
        _cleanup_json_ json_t *extra = json_pack("{s:O}", "citations", citations);
        r = assembly_keep(&d->a, &b->extra, extra);
    }
    return r;
}

static int start_thinking(struct decoder *d, struct block *b, json_t *given)
{
    int r = assembly_keep(&d->a, &b->raw, given);
    b->raw_text = strcmp(decode_type(given), "thinking") == 0 ? "thinking" : NULL;
    return r < 0 ? r : assembly_text(&d->a, b, json_object_get(given, "thinking"));
}

static int start_call(struct decoder *d, struct block *b, json_t *given)
{
    json_t *input = json_object_get(given, "input");
    int r = assembly_call(&d->a, b, json_object_get(given, "id"), json_object_get(given, "name"));
    return r < 0 || json_object_size(input) == 0 ? r : assembly_keep(&d->a, &b->given, input);
}

static int start_other(struct decoder *d, struct block *b, json_t *given)
{
    return assembly_keep(&d->a, &b->raw, given);
}

static const struct start {
    const char *type;
    enum block_kind kind;
    int (*take)(struct decoder *d, struct block *b, json_t *given);
} STARTS[] = {
    {"text", BLOCK_TEXT, start_text},
    {"thinking", BLOCK_THINKING, start_thinking},
    {"redacted_thinking", BLOCK_THINKING, start_thinking},
    {"tool_use", BLOCK_CALL, start_call},
};
static const struct start START_OTHER = {NULL, BLOCK_OTHER, start_other};

static int64_t index_of(const json_t *event)
{
    return json_integer_value(json_object_get(event, "index"));
}

static int add_block(struct decoder *d, int64_t key, json_t *given, struct block **ret)
{
    const struct start *how = &START_OTHER;
    for (size_t i = 0; i < ARRAY_SIZE(STARTS); i++)
        if (strcmp(STARTS[i].type, decode_type(given)) == 0)
            how = &STARTS[i];
    int r = assembly_add(&d->a, how->kind, key, 0, ret);
    return r < 0 ? r : how->take(d, *ret, given);
}

/* An index that begins twice is a second block: what the first one has got stays. */
static int content_block_start(struct decoder *d, json_t *event)
{
    json_t *given = json_object_get(event, "content_block");
    struct block *b = assembly_find(&d->a, index_of(event), 0);
    d->answered = true;
    if (!json_is_object(given))
        return 0;
    int r = b ? assembly_end(&d->a, b) : 0;
    return r < 0 ? r : add_block(d, index_of(event), given, &b);
}

static int add_citation(struct decoder *d, struct block *b, json_t *citation)
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
static int change_other(struct decoder *d, struct block *b, json_t *delta)
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

static int change(struct decoder *d, struct block *b, json_t *delta)
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
        return add_citation(d, b, json_object_get(delta, "citation"));
    if (strcmp(type, "signature_delta") == 0 && b->kind == BLOCK_THINKING &&
        json_is_string(signature)) {
        json_t *kept = NULL;
        int r = assembly_keep(&d->a, &kept, signature);
        return r < 0 ? r : json_object_set_new(b->raw, "signature", kept) < 0 ? -ENOMEM : 0;
    }
    return b->kind == BLOCK_OTHER ? change_other(d, b, delta) : 0;
}

static int content_block_delta(struct decoder *d, json_t *event)
{
    struct block *b = assembly_find(&d->a, index_of(event), 0);
    return b && !b->whole ? change(d, b, json_object_get(event, "delta")) : 0;
}

static int content_block_stop(struct decoder *d, json_t *event)
{
    struct block *b = assembly_find(&d->a, index_of(event), 0);
    return b ? assembly_end(&d->a, b) : 0;
}

static void take_stop(struct decoder *d, const json_t *from)
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

static int message_delta(struct decoder *d, json_t *event)
{
    take_stop(d, json_object_get(event, "delta"));
    take_usage(d, json_object_get(event, "usage"));
    return 0;
}

static int message_stop(struct decoder *d, json_t *event)
{
    return d->answered;
}

static int take_error(struct decoder *d, json_t *event)
{
    json_t *what = json_object_get(event, "error");
    return decode_trouble(d, what ? what : event);
}

static const struct decode_handler HANDLERS[] = {
    {"message_start", message_start},
    {"content_block_start", content_block_start},
    {"content_block_delta", content_block_delta},
    {"content_block_stop", content_block_stop},
    {"message_delta", message_delta},
    {"message_stop", message_stop},
    {"error", take_error},
    {0},
};

static int take(struct decoder *d, const char *type, json_t *event)
{
    const struct decode_handler *h = decode_handler_of(HANDLERS, type, event);
    return h ? h->take(d, event) : 0;
}

static int take_whole(struct decoder *d, json_t *answer)
{
    const json_t *content = json_object_get(answer, "content");
    json_t *given;
    size_t i;
    if (json_object_get(answer, "error") || strcmp(decode_type(answer), "error") == 0)
        return take_error(d, answer);
    if (!json_is_array(content))
        return -EBADMSG;
    decode_head(d, answer);
    take_usage(d, json_object_get(answer, "usage"));
    take_stop(d, answer);
    json_array_foreach(content, i, given)
    {
        struct block *b;
        int r = json_is_object(given) ? add_block(d, (int64_t)i, given, &b) : 0;
        if (r == 0 && json_is_object(given))
            r = assembly_end(&d->a, b);
        if (r < 0)
            return r;
    }
    return 1;
}

const struct decode_protocol ANTHROPIC_DECODE = {.take = take, .take_whole = take_whole};
