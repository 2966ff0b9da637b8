/*
 * A call comes as pieces under its index: id and name first, then its arguments bit by bit. Servers
 * that speak the protocol in their own way were seen to
 *
 *   - reuse index 0 for every call, or leave the index out: a new id with a name, or another name,
 * begins another call; where only the same name comes again, it does if the arguments so far are a
 * whole object;
 *   - leave the id out (one is made up in the end), or repeat id and name with every piece;
 *   - send the whole call at once, or its arguments as an object and not as text.
 */
#include <string.h>

#include "chat_calls.h"
#include "banned.h"

static bool says(const json_t *value)
{
    return json_string_length(value) > 0;
}

static bool is(const struct buf *b, const json_t *value)
{
    return b->len == json_string_length(value) &&
           memcmp(b->data, json_string_value(value), b->len) == 0;
}

/* Does this piece begin another call than the one that has its index? */
static bool is_another(const struct block *b, const json_t *id, const json_t *name)
{
    bool other_id = says(id) && b->id.len > 0 && !is(&b->id, id);
    bool same_id = says(id) && b->id.len > 0 && !other_id;
    if (!says(name) || b->name.len == 0 || same_id)
        return false;
    return other_id || !is(&b->name, name) || assembly_input_whole(b);
}

static struct block *last_call(const struct assembly *a)
{
    for (size_t i = a->n; i > 0; i--)
        if (a->blocks[i - 1]->kind == BLOCK_CALL)
            return a->blocks[i - 1];
    return NULL;
}

static int take_function(struct assembly *a, struct block *b, const json_t *id,
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
static int take_extra(struct assembly *a, struct block *b, json_t *call)
{
    json_t *content = json_object_get(call, "extra_content");
    if (!json_is_object(content))
        return 0;
    _cleanup_json_ json_t *extra = json_pack("{s:{s:O}}", "raw", "extra_content", content);
    return assembly_keep(a, &b->extra, extra);
}

static int take_call(struct assembly *a, json_t *call)
{
    const json_t *index = json_object_get(call, "index"), *id = json_object_get(call, "id");
    const json_t *function = json_object_get(call, "function");
    bool known = json_is_integer(index) && json_integer_value(index) >= 0 &&
                 json_integer_value(index) < DECODER_BLOCKS_MAX;
    int64_t key = known ? CHAT_CALL + json_integer_value(index) : CHAT_LAST;
    struct block *b = known ? assembly_find(a, key, 0) : last_call(a);
    int r = 0;
    if (!b || is_another(b, id, json_object_get(function, "name")))
        r = assembly_add(a, BLOCK_CALL, key, 0, &b);
    if (r == 0)
        r = take_function(a, b, id, function);
    return r < 0 ? r : take_extra(a, b, call);
}

int chat_calls_take(struct assembly *a, json_t *calls)
{
    json_t *call;
    size_t i;
    int r = 0;
    json_array_foreach(calls, i, call)
    {
        if (r == 0 && json_is_object(call))
            r = take_call(a, call);
    }
    return r;
}

int chat_function_take(struct assembly *a, json_t *function)
{
    struct block *b = assembly_find(a, CHAT_FUNCTION, 0);
    if (!json_is_object(function))
        return 0;
    int r = b ? 0 : assembly_add(a, BLOCK_CALL, CHAT_FUNCTION, 0, &b);
    return r < 0 ? r : take_function(a, b, NULL, function);
}
