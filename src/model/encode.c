/* What the encoders of all providers share, and the rules of a conversation. The rules are checked
 * before anything is sent: a provider's own refusal would say less, and come later. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "decode.h"
#include "encode.h"
#include "encoding.h"
#include "provider.h"
#include "banned.h"

#define NAME_MAX_BYTES 64
#define PLAIN          "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

void encode_append(struct encoding *e, json_t *array, json_t *value)
{
    if (json_array_append_new(array, value) < 0)
        e->failed = true;
}

void encode_set(struct encoding *e, json_t *object, const char *name, json_t *value)
{
    if (json_object_set_new(object, name, value) < 0)
        e->failed = true;
}

json_t *encode_text(const char *text, size_t n)
{
    json_t *value = json_stringn(text, n);
    if (value)
        return value;
    _cleanup_buf_ struct buf whole = BUF_INIT(3 * n + 16);
    struct utf8_pieces b = {.n = 0};
    for (size_t i = 0; i < n; i++)
        utf8_pieces_byte(&b, (uint8_t)text[i], &whole);
    utf8_pieces_end(&b, &whole);
    return whole.failed ? NULL : json_stringn((char *)whole.data, whole.len);
}

/* A model may have called a name that no tool can have, which the provider would refuse. */
json_t *encode_name(const json_t *block)
{
    char name[NAME_MAX_BYTES + 1];
    const char *s = json_get_string(block, "name");
    size_t n = 0;
    for (; n < NAME_MAX_BYTES && s[n]; n++)
        name[n] = strchr(PLAIN, s[n]) ? s[n] : '_';
    return n ? json_stringn(name, n) : json_string("unknown");
}

json_t *encode_input(const json_t *block)
{
    json_t *bad = json_object_get(block, "bad_input");
    if (json_is_string(bad))
        return json_pack("{s:O}", "INVALID_JSON", bad);
    return json_incref(json_object_get(block, "input"));
}

json_t *encode_arguments(const json_t *block)
{
    _cleanup_json_ json_t *input = encode_input(block);
    _cleanup_free_ char *text = json_dumps(input, JSON_COMPACT);
    return text ? encode_text(text, strlen(text)) : NULL;
}

json_t *encode_image_url(const json_t *block)
{
    return json_pack("s+++", "data:", json_get_string(block, "mime"), ";base64,",
                     json_get_string(block, "data"));
}

struct buf encode_joined(const json_t *blocks, const char *between, bool skip_blank)
{
    struct buf all = BUF_INIT(ENCODER_BYTES_MAX);
    const json_t *block;
    size_t i;
    json_array_foreach(blocks, i, block)
    {
        const json_t *text = json_object_get(block, "text");
        if (!block_is(block, "text") || (skip_blank && block_is_blank(block)))
            continue;
        if (all.len)
            buf_append_str(&all, between);
        buf_append(&all, json_string_value(text), json_string_length(text));
    }
    return all;
}

void encode_begin_calls(struct encoding *e)
{
    if (!e->ids.taken)
        e->ids.taken = json_object();
    json_decref(e->ids.now);
    e->ids.now = json_object();
}

/* The n'th use of an id in a conversation gets a name of its own from the second on. */
json_t *encode_call_id(struct encoding *e, const json_t *block)
{
    struct call_ids *w = &e->ids;
    char made[32];
    const char *id = json_get_string(block, "id");
    size_t n = strlen(id);
    json_int_t nth = w->once ? json_integer_value(json_object_get(w->taken, id)) : 0;
    bool fits = n > 0 && n <= w->max && (!w->plain || strspn(id, PLAIN) == n);
    if (nth > 0 || !fits) {
        uint64_t hash = digest(DIGEST_BEGIN, id, n);
        hash = nth ? digest(hash, &nth, sizeof nth) : hash;
        snprintf(made, sizeof made, "call_%016" PRIx64, hash);
    }
    json_t *out = json_string(nth > 0 || !fits ? made : id);
    if (w->once)
        encode_set(e, w->taken, id, json_integer(nth + 1));
    encode_set(e, w->now, id, json_incref(out));
    return out;
}

json_t *encode_result_id(const struct encoding *e, const json_t *block)
{
    return json_incref(json_object_get(e->ids.now, json_get_string(block, "tool_use_id")));
}

void encode_extra(struct encoding *e, json_t *head, const char *const *own)
{
    const char *name;
    json_t *value;
    json_object_foreach(e->spec->extra, name, value)
    {
        json_t *had = json_object_get(head, name);
        const char *const *o = own;
        while (*o && strcmp(*o, name) != 0)
            o++;
        if (*o)
            continue;
        if (json_is_null(value))
            json_object_del(head, name);
        else if (!json_is_array(had) || !json_is_array(value))
            encode_set(e, head, name, json_incref(value));
        else if (json_array_extend(had, value) < 0)
            e->failed = true;
    }
}

bool blocks_have(const json_t *blocks, const char *type)
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

/* White space is Unicode's, as in Python's strip(), by which providers seem to decide. */
size_t text_trimmed(const char *text, size_t n)
{
    while (n > 0) {
        size_t from = n - 1;
        while (from > 0 && (text[from] & 0xc0) == 0x80)
            from--;
        const uint8_t *c = (const uint8_t *)text + from;
        size_t size = n - from;
        uint32_t code = size == 1 ? c[0] : size == 2 ? (c[0] & 0x1fu) << 6 | (c[1] & 0x3fu) : 0;
        if (size == 3)
            code = (c[0] & 0x0fu) << 12 | (c[1] & 0x3fu) << 6 | (c[2] & 0x3fu);
        bool is_space = (code >= 0x09 && code <= 0x0d) || (code >= 0x1c && code <= 0x20) ||
                        code == 0x85 || code == 0xa0 || code == 0x1680 ||
                        (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 ||
                        code == 0x202f || code == 0x205f || code == 0x3000;
        if (!is_space)
            break;
        n = from;
    }
    return n;
}

bool block_is_blank(const json_t *block)
{
    const json_t *text = json_object_get(block, "text");
    return text_trimmed(json_string_value(text), json_string_length(text)) == 0;
}

bool block_is_from(const struct encoding *e, const json_t *block)
{
    const json_t *from = json_object_get(block, "from");
    return json_string_length(from) == e->from.len &&
           memcmp(json_string_value(from), e->from.data, e->from.len) == 0;
}

bool block_goes_back(const struct encoding *e, const json_t *block)
{
    return json_is_object(json_object_get(block, "raw")) && block_is_from(e, block);
}

static const struct block_rule {
    const char *type;
    bool user, assistant;   /* whose it may be */
    const char *strings[2]; /* members that it needs */
    const char *problem;
} BLOCK_RULES[] = {
    {"text", true, true, {"text"}, "a text needs 'text'"},
    {"image", true, false, {"mime", "data"}, "an image needs 'mime' and 'data'"},
    {"thinking", false, true, {"from"}, "a thinking block needs 'from'"},
    {"other", false, true, {"from"}, "an other block needs 'from'"},
    {"tool_use",
     false,
     true,
     {"id", "name"},
     "a tool_use needs 'id', 'name' and an object as 'input'"},
    {"tool_result",
     true,
     false,
     {"tool_use_id"},
     "a tool_result needs 'tool_use_id' and a list as 'content'"},
};

/* The problem of a block; NULL: none. */
static const char *block_problem(const json_t *block, bool user)
{
    const char *type = json_get_string(block, "type");
    const struct block_rule *rule = NULL;
    const json_t *content = json_object_get(block, "content"), *one;
    size_t i;
    for (i = 0; type && i < ARRAY_SIZE(BLOCK_RULES); i++)
        if (strcmp(BLOCK_RULES[i].type, type) == 0)
            rule = &BLOCK_RULES[i];
    if (!rule)
        return "its type is not known";
    if (!(user ? rule->user : rule->assistant))
        return user ? "not a user's" : "not an assistant's";
    for (i = 0; i < ARRAY_SIZE(rule->strings) && rule->strings[i]; i++)
        if (!json_is_string(json_object_get(block, rule->strings[i])))
            return rule->problem;
    if (strcmp(type, "tool_use") == 0 && !json_is_object(json_object_get(block, "input")))
        return rule->problem;
    if (strcmp(type, "tool_result") != 0)
        return NULL;
    if (!json_is_array(content))
        return rule->problem;
    json_array_foreach(content, i, one)
    {
        const char *inner = json_get_string_or(one, "type", "");
        if (strcmp(inner, "text") != 0 && strcmp(inner, "image") != 0)
            return "a result holds texts and images";
        const char *problem = block_problem(one, true);
        if (problem)
            return problem;
    }
    return NULL;
}

/* Checks one message. A call opens an id, a result closes it: `open` holds those of the last
 * assistant's message. */
static const char *message_problem(const json_t *message, bool user, json_t *open,
                                   size_t *ret_block)
{
    const char *role = json_get_string_or(message, "role", "");
    const json_t *content = json_object_get(message, "content"), *block;
    *ret_block = 0;
    if (strcmp(role, user ? "user" : "assistant") != 0)
        return user ? "it is the user's turn" : "it is the assistant's turn";
    if (!json_is_array(content))
        return "there is no list 'content'";
    size_t i;
    json_array_foreach(content, i, block)
    {
        *ret_block = i;
        const char *id = json_get_string(block, "id"), *of = json_get_string(block, "tool_use_id");
        const char *problem = block_problem(block, user);
        if (problem)
            return problem;
        if (strcmp(json_get_string(block, "type"), "tool_use") == 0) {
            if (json_object_get(open, id))
                return "its id is that of another call";
            json_object_set_new(open, id, json_true());
        } else if (strcmp(json_get_string(block, "type"), "tool_result") == 0 &&
                   json_object_del(open, of) < 0) {
            return "the message before has no such call, or it was answered already";
        }
    }
    *ret_block = i;
    return user && json_object_size(open) > 0 ? "a call of the message before has no result" : NULL;
}

int conversation_check(const json_t *messages, struct error *err)
{
    _cleanup_json_ json_t *open = json_object();
    const json_t *message;
    const char *problem = NULL;
    size_t i, block = 0;
    if (json_array_size(messages) == 0)
        return error_set(err, EINVAL, "the conversation has no message");
    json_array_foreach(messages, i, message)
    {
        problem = message_problem(message, i % 2 == 0, open, &block);
        if (problem)
            break;
    }
    if (!problem && json_object_size(open) > 0) {
        problem = "a call has no result";
        i--;
    }
    return problem ? error_set(err, EINVAL, "invalid conversation: message %zu, block %zu: %s",
                               i + 1, block + 1, problem)
                   : 0;
}

int encode_request(const struct model_spec *spec, const struct model_request *q, struct buf *ret,
                   struct error *err)
{
    size_t before = ret->len;
    if (!spec->api->encode)
        return error_set(err, EINVAL, "%s is not reached by HTTP", spec->provider);
    int r = conversation_check(q->messages, err);
    if (r < 0)
        return r;
    struct encoding e = {.spec = spec, .q = q, .from = BUF_INIT(8192)};
    buf_printf(&e.from, "%s/%s", spec->provider, spec->name);
    _cleanup_json_ json_t *body = spec->api->encode(&e);
    bool failed = e.failed || e.from.failed || !body;
    buf_free(&e.from);
    json_decref(e.ids.taken);
    json_decref(e.ids.now);
    if (!failed && json_append(ret, body, JSON_COMPACT) == 0)
        return 0;
    ret->len = before;
    if (failed)
        return error_set(err, ENOMEM, "out of memory");
    return error_set(err, EMSGSIZE, "the request is longer than %zu MiB, or memory is out",
                     ret->max >> 20);
}
