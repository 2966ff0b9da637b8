/* What the encoders of all providers share: ids of calls that every provider accepts, and writing
 * the body. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cleanup.h"
#include "digest.h"
#include "encode.h"
#include "lenient_json.h"
#include "provider.h"
#include "banned.h"

#define PLAIN "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

static void call_ids_free(struct call_ids *w)
{
    json_decref(w->taken);
    json_decref(w->now);
}

int call_ids_turn(struct call_ids *w)
{
    if (!w->taken)
        w->taken = json_object();
    json_decref(w->now);
    w->now = json_object();
    return w->taken && w->now ? 0 : -ENOMEM;
}

static bool call_ids_fit(const struct call_ids *w, const char *id)
{
    size_t n = strlen(id);
    return n > 0 && n <= w->max && (!w->plain || strspn(id, PLAIN) == n);
}

/* The n'th use of an id in a conversation gets a name of its own from the second on. */
static void call_ids_make(const struct call_ids *w, const char *id, json_int_t nth,
                          char ret[static 32])
{
    uint64_t hash = digest(DIGEST_BEGIN, id, strlen(id));
    hash = nth ? digest(hash, &nth, sizeof nth) : hash;
    snprintf(ret, 32, "call_%016" PRIx64, hash);
}

static const char *call_ids_add(struct call_ids *w, const char *id)
{
    char name[32];
    json_int_t nth = w->once ? json_integer_value(json_object_get(w->taken, id)) : 0;
    bool as_it_is = nth == 0 && call_ids_fit(w, id);
    if (!as_it_is)
        call_ids_make(w, id, nth, name);
    if (w->once && json_object_set_new(w->taken, id, json_integer(nth + 1)) < 0)
        return NULL;
    if (json_object_set_new(w->now, id, json_string(as_it_is ? id : name)) < 0)
        return NULL;
    return call_ids_find(w, id);
}

const char *call_ids_find(const struct call_ids *w, const char *id)
{
    return json_string_value(json_object_get(w->now, id));
}

#define NAME_MAX_BYTES 64

void body_put(struct encoding *e, const char *json)
{
    buf_append_str(e->out, json);
}

void body_value(struct encoding *e, const json_t *value)
{
    if (!value || json_append(e->out, value, JSON_COMPACT | JSON_ENCODE_ANY) < 0)
        e->out->failed = true;
}

void body_text(struct encoding *e, const char *text, size_t n)
{
    _cleanup_json_ json_t *value = json_stringn(text, n);
    if (!value) {
        _cleanup_buf_ struct buf whole = BUF_INIT(3 * n + 16);
        struct utf8_pieces b = {.n = 0};
        for (size_t i = 0; i < n; i++)
            utf8_pieces_byte(&b, (uint8_t)text[i], &whole);
        utf8_pieces_end(&b, &whole);
        value = json_stringn((char *)whole.data, whole.len);
    }
    body_value(e, value);
}

void body_buf(struct encoding *e, const struct buf *text)
{
    if (text->failed)
        e->out->failed = true;
    else
        body_text(e, text->len ? (const char *)text->data : "", text->len);
}

static void body_id(struct encoding *e, const char *id)
{
    if (id)
        body_text(e, id, strlen(id));
    else
        e->out->failed = true;
}

void body_call_id(struct encoding *e, const json_t *block)
{
    body_id(e, call_ids_add(&e->ids, json_string_value(json_object_get(block, "id"))));
}

void body_result_id(struct encoding *e, const json_t *block)
{
    body_id(e, call_ids_find(&e->ids, json_string_value(json_object_get(block, "tool_use_id"))));
}

/* A model may have called what cannot be a tool's name, and the provider would refuse to hear of it
 * again. */
void body_name(struct encoding *e, const json_t *block)
{
    char name[NAME_MAX_BYTES + 1];
    const char *s = json_string_value(json_object_get(block, "name"));
    size_t n = 0;
    for (; n < NAME_MAX_BYTES && s[n]; n++) {
        bool plain = (s[n] >= 'a' && s[n] <= 'z') || (s[n] >= 'A' && s[n] <= 'Z') ||
                     (s[n] >= '0' && s[n] <= '9') || s[n] == '_' || s[n] == '-';
        name[n] = plain ? s[n] : '_';
    }
    if (n == 0)
        body_text(e, "unknown", strlen("unknown"));
    else
        body_text(e, name, n);
}

void body_members(struct encoding *e, json_t *object)
{
    const char *name;
    json_t *value;
    bool first = true;
    json_object_foreach(object, name, value)
    {
        if (!first)
            body_put(e, ",");
        body_text(e, name, strlen(name));
        body_put(e, ":");
        body_value(e, value);
        first = false;
    }
}

static int body_merge_extra(json_t *head, json_t *extra, const char *const *own)
{
    const char *name;
    json_t *value;
    int bad = 0;
    json_object_foreach(extra, name, value)
    {
        json_t *had = json_object_get(head, name);
        const char *const *o = own;
        while (*o && strcmp(*o, name) != 0)
            o++;
        if (*o)
            continue;
        if (json_is_null(value))
            json_object_del(head, name);
        else if (json_is_array(had) && json_is_array(value))
            bad |= json_array_extend(had, value);
        else
            bad |= json_object_set(head, name, value);
    }
    return bad ? -ENOMEM : 0;
}

int body_head(struct encoding *e, json_t *head, const char *const *own)
{
    if (!head)
        return -ENOMEM;
    int r = e->spec->extra ? body_merge_extra(head, e->spec->extra, own) : 0;
    if (r == 0)
        body_members(e, head);
    json_decref(head);
    return r;
}

/* White space as Unicode has it, and Python's strip(), which is what providers seem to ask. */
static bool is_space(const uint8_t *c, size_t n)
{
    uint32_t code = n == 1 ? c[0] : n == 2 ? (c[0] & 0x1fu) << 6 | (c[1] & 0x3fu) : 0;
    if (n == 3)
        code = (c[0] & 0x0fu) << 12 | (c[1] & 0x3fu) << 6 | (c[2] & 0x3fu);
    return (code >= 0x09 && code <= 0x0d) || (code >= 0x1c && code <= 0x20) || code == 0x85 ||
           code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 ||
           code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

size_t body_trimmed(const char *text, size_t n)
{
    while (n > 0) {
        size_t from = n - 1;
        while (from > 0 && (text[from] & 0xc0) == 0x80)
            from--;
        if (!is_space((const uint8_t *)text + from, n - from))
            break;
        n = from;
    }
    return n;
}

bool body_blank(const json_t *block)
{
    const json_t *text = json_object_get(block, "text");
    return body_trimmed(json_string_value(text), json_string_length(text)) == 0;
}

bool body_is_from(const struct encoding *e, const json_t *block)
{
    const json_t *from = json_object_get(block, "from");
    return json_string_length(from) == e->from.len &&
           memcmp(json_string_value(from), e->from.data, e->from.len) == 0;
}

bool body_returns(const struct encoding *e, const json_t *block)
{
    return json_is_object(json_object_get(block, "raw")) && body_is_from(e, block);
}

json_t *body_input(const json_t *block)
{
    json_t *bad = json_object_get(block, "bad_input");
    if (json_is_string(bad))
        return json_pack("{s:O}", "INVALID_JSON", bad);
    return json_incref(json_object_get(block, "input"));
}

void body_arguments(struct encoding *e, const json_t *block)
{
    _cleanup_json_ json_t *input = body_input(block);
    _cleanup_free_ char *arguments = json_dumps(input, JSON_COMPACT);
    if (!arguments) {
        e->out->failed = true;
        return;
    }
    body_put(e, ",\"arguments\":");
    body_text(e, arguments, strlen(arguments));
}

int encode_request(const struct model_spec *spec, const struct model_request *q, struct buf *ret,
                   struct error *err)
{
    size_t before = ret->len;
    int r = conversation_check(q->messages, err);
    if (r < 0)
        return r;
    struct encoding e = {.spec = spec, .q = q, .out = ret, .from = BUF_INIT(4096)};
    r = buf_printf(&e.from, "%s/%s", spec->provider, spec->name);
    if (r == 0)
        r = spec->api->encode ? spec->api->encode(&e) : -EINVAL;
    buf_free(&e.from);
    call_ids_free(&e.ids);
    if (r == 0 && !ret->failed)
        return 0;
    ret->len = before;
    if (r < 0)
        return error_errno(err, -r, "cannot encode the request");
    return error_set(err, EMSGSIZE, "the request is longer than %zu MiB, or memory is out",
                     ret->max >> 20);
}
