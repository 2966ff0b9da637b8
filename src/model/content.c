/* From the blocks of an answer to its content, in the form of model.h. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "assembly.h"
#include "digest.h"
#include "banned.h"

static json_t *string_of(const struct buf *b)
{
    return json_stringn(b->len ? (const char *)b->data : "", b->len);
}

static bool is_blank(const struct buf *b)
{
    for (size_t i = 0; i < b->len; i++)
        if (!strchr(" \t\r\n", b->data[i]) || !b->data[i])
            return false;
    return true;
}

/* A JSON text as an object: a new reference, or NULL. Some servers wrap it in a string once more.
 */
static json_t *object_of(const char *text, size_t n, bool again)
{
    struct loose l;
    if (loose_parse(text, n, &l) < 0)
        return NULL;
    json_t *value = loose_settle(l.value, l.mended);
    json_decref(l.value);
    if (json_is_object(value))
        return value;
    json_t *inner = NULL;
    if (json_is_null(value))
        inner = json_object();
    else if (json_is_string(value) && again)
        inner = object_of(json_string_value(value), json_string_length(value), false);
    json_decref(value);
    return inner;
}

bool assembly_input_whole(const struct block *b)
{
    _cleanup_json_ json_t *object =
        b->input.len ? object_of((const char *)b->input.data, b->input.len, false) : NULL;
    return object || (b->given && b->input.len == 0);
}

/* The input that a call is to have; NULL: it is no object. Nothing means an empty one. */
static json_t *input_of(const struct block *b)
{
    if (!is_blank(&b->input))
        return object_of((const char *)b->input.data, b->input.len, true);
    return json_is_object(b->given) ? json_incref(b->given) : json_object();
}

static json_t *text_block(const struct block *b)
{
    return json_pack("{s:s, s:o}", "type", "text", "text", string_of(&b->text));
}

/* What was cut off in the middle is kept for people only. */
static json_t *thinking_block(const struct assembly *a, struct block *b)
{
    if (b->raw_text && b->raw)
        json_object_set_new(b->raw, b->raw_text, string_of(&b->text));
    return json_pack("{s:s, s:s, s:o, s:O*}", "type", "thinking", "from", a->from, "text",
                     string_of(&b->text), "raw", b->whole ? b->raw : NULL);
}

/* An id for a call that came without one, or with one that is taken: the same for the same answer,
 * another in another answer. */
static json_t *made_up_id(const struct assembly *a, const struct block *b, const json_t *taken)
{
    char id[32];
    uint64_t hash = digest(a->salt, b->name.data, b->name.len);
    hash = digest(hash, b->input.data, b->input.len);
    do {
        hash = digest(hash, "", 1);
        snprintf(id, sizeof id, "call_%016" PRIx64, hash);
    } while (json_object_get(taken, id));
    return json_string(id);
}

static json_t *call_block(const struct assembly *a, const struct block *b, json_t *taken)
{
    json_t *input = input_of(b);
    json_t *bad = input ? NULL : string_of(&b->input);
    json_t *id = string_of(&b->id);
    if (b->id.len == 0 || json_object_get(taken, json_string_value(id))) {
        json_decref(id);
        id = made_up_id(a, b, taken);
    }
    if (id)
        json_object_set_new(taken, json_string_value(id), json_true());
    if (!input)
        input = json_object();
    return json_pack("{s:s, s:o, s:o, s:o, s:o*}", "type", "tool_use", "id", id, "name",
                     string_of(&b->name), "input", input, "bad_input", bad);
}

static json_t *other_block(const struct assembly *a, struct block *b)
{
    if (b->input.len) {
        json_t *input = input_of(b);
        json_object_set_new(b->raw, "input", input ? input : json_object());
    }
    return json_pack("{s:s, s:s, s:O}", "type", "other", "from", a->from, "raw", b->raw);
}

/* Is there something to say? A call of which neither id nor name nor input came is none. */
static bool is_kept(const struct block *b, bool cut)
{
    switch (b->kind) {
    case BLOCK_TEXT:
        return b->text.len > 0;
    case BLOCK_THINKING:
        return b->text.len > 0 || (b->raw && b->whole);
    case BLOCK_CALL:
        return !cut && (b->id.len || b->name.len || b->input.len || b->given);
    case BLOCK_OTHER:
        return !cut && json_is_object(b->raw);
    }
    return false;
}

static json_t *block_json(const struct assembly *a, struct block *b, json_t *taken)
{
    json_t *made = b->kind == BLOCK_TEXT       ? text_block(b)
                   : b->kind == BLOCK_THINKING ? thinking_block(a, b)
                   : b->kind == BLOCK_CALL     ? call_block(a, b, taken)
                                               : other_block(a, b);
    if (made && b->extra) {
        json_object_set_new(made, "from", json_string(a->from));
        json_object_update(made, b->extra);
    }
    return made;
}

int assembly_content(struct assembly *a, bool cut, json_t **ret)
{
    _cleanup_json_ json_t *content = json_array(), *taken = json_object();
    for (size_t i = 0; i < a->n; i++) {
        struct block *b = a->blocks[i];
        if (!cut) {
            int r = assembly_end(a, b);
            if (r < 0)
                return r;
        }
        if (is_kept(b, cut) && json_array_append_new(content, block_json(a, b, taken)) < 0)
            return -ENOMEM;
    }
    if (!content || !taken)
        return -ENOMEM;
    *ret = TAKE_PTR(content);
    return 0;
}
