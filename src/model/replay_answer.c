#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "decoder.h"
#include "replay_answer.h"
#include "banned.h"

#define ID_BYTES_MAX   256u
#define NAME_BYTES_MAX 256u

/* Of a call, beside what every call has (model.h). */
static const char *const CALL_MORE[] = {"bad_input", "raw", "from"};

static bool is_text(const json_t *value, size_t max)
{
    return json_is_string(value) && json_string_length(value) <= max;
}

static int append(json_t *content, json_t *block, struct error *err)
{
    return json_array_append_new(content, block) < 0 ? error_set(err, ENOMEM, "no memory") : 0;
}

/* A tool_use, from {"name", "input", "id"} and whatever else belongs to it. */
static int add_call(json_t *content, const json_t *call, size_t number, struct error *err)
{
    const json_t *name = json_object_get(call, "name"), *id = json_object_get(call, "id");
    const json_t *input = json_object_get(call, "input");
    size_t i = json_array_size(content) + 1;
    if (!is_text(name, NAME_BYTES_MAX) || json_string_length(name) == 0)
        return error_set(err, EINVAL, "block %zu: a call needs a \"name\"", i);
    if (input && !json_is_object(input))
        return error_set(err, EINVAL, "block %zu: the \"input\" of a call must be an object", i);
    if (id && (!is_text(id, ID_BYTES_MAX) || json_string_length(id) == 0))
        return error_set(err, EINVAL, "block %zu: the \"id\" of a call must be a short string", i);
    json_t *block = json_pack("{s:s}", "type", "tool_use");
    json_object_set_new(block, "id",
                        id ? json_copy((json_t *)id) : json_sprintf("call_%zu_%zu", number, i));
    json_object_set_new(block, "name", json_copy((json_t *)name));
    json_object_set_new(block, "input", input ? json_deep_copy(input) : json_object());
    for (size_t k = 0; k < ARRAY_SIZE(CALL_MORE); k++) {
        const json_t *more = json_object_get(call, CALL_MORE[k]);
        if (more)
            json_object_set_new(block, CALL_MORE[k], json_deep_copy(more));
    }
    return append(content, block, err);
}

/* A text, a thought, or what only its provider understands: as it was recorded, once it is checked.
 */
static int add_said(json_t *content, const json_t *block, const char *type, struct error *err)
{
    const json_t *text = json_object_get(block, "text"), *from = json_object_get(block, "from");
    size_t i = json_array_size(content) + 1;
    bool other = strcmp(type, "other") == 0;
    if (from && !json_is_string(from))
        return error_set(err, EINVAL, "block %zu: \"from\" must be a string", i);
    if (!other && !json_is_string(text))
        return error_set(err, EINVAL, "block %zu: \"text\" must be a string", i);
    json_t *copy = json_pack("{s:s}", "type", type);
    json_object_update_missing_new(copy, json_deep_copy(block));
    return append(content, copy, err);
}

static int add_block(json_t *content, const json_t *block, size_t number, struct error *err)
{
    static const char *const SAID[] = {"text", "thinking", "other"};
    const char *type = json_string_value(json_object_get(block, "type"));
    if (json_array_size(content) >= DECODER_BLOCKS_MAX)
        return error_set(err, EINVAL, "more than %u blocks", DECODER_BLOCKS_MAX);
    if (type && strcmp(type, "tool_use") == 0)
        return add_call(content, block, number, err);
    for (size_t i = 0; type && i < ARRAY_SIZE(SAID); i++)
        if (strcmp(type, SAID[i]) == 0)
            return add_said(content, block, type, err);
    return error_set(err, EINVAL, "block %zu: its \"type\" must be text, thinking or tool_use",
                     json_array_size(content) + 1);
}

/* No words at all are no block. */
static int add_words(json_t *content, const char *type, const json_t *words, struct error *err)
{
    if (json_is_string(words) && json_string_length(words) == 0)
        return 0;
    json_t *block = json_pack("{s:O}", "text", words);
    int r = add_said(content, block, type, err);
    json_decref(block);
    return r;
}

/* {"thinking", "text", "calls"}, each of them optional. */
static int add_short(json_t *content, const json_t *said, size_t number, struct error *err)
{
    const json_t *thinking = json_object_get(said, "thinking"),
                 *text = json_object_get(said, "text");
    const json_t *calls = json_object_get(said, "calls");
    json_t *call;
    size_t i;
    int r = 0;
    if (!thinking && !text && !calls)
        return error_set(err, EINVAL, "it needs \"text\", \"calls\", \"thinking\" or \"content\"");
    if (calls && (!json_is_array(calls) || json_array_size(calls) > DECODER_BLOCKS_MAX))
        return error_set(err, EINVAL, "\"calls\" must be an array of at most %u calls",
                         DECODER_BLOCKS_MAX);
    if (thinking)
        r = add_words(content, "thinking", thinking, err);
    if (r == 0 && text)
        r = add_words(content, "text", text, err);
    json_array_foreach(calls, i, call)
    {
        if (r == 0)
            r = add_call(content, call, number, err);
    }
    return r;
}

static int add_all(json_t *content, const json_t *said, size_t number, struct error *err)
{
    const json_t *blocks = json_object_get(said, "content");
    json_t *block;
    size_t i;
    if (json_is_string(said))
        return add_words(content, "text", said, err);
    if (!json_is_object(said))
        return error_set(err, EINVAL, "it must be an object or a string");
    if (!blocks)
        return add_short(content, said, number, err);
    if (!json_is_array(blocks))
        return error_set(err, EINVAL, "\"content\" must be an array of blocks");
    json_array_foreach(blocks, i, block)
    {
        int r = add_block(content, block, number, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static bool has_call(const json_t *content)
{
    json_t *block;
    size_t i;
    json_array_foreach(content, i, block)
    {
        if (strcmp(json_string_value(json_object_get(block, "type")), "tool_use") == 0)
            return true;
    }
    return false;
}

static int read_stop(const json_t *said, const json_t *content, enum model_stop *ret,
                     struct error *err)
{
    const json_t *stop = json_object_get(said, "stop");
    *ret = has_call(content) ? MODEL_TOOL_USE : MODEL_END_TURN;
    if (!stop)
        return 0;
    for (int i = MODEL_END_TURN; json_is_string(stop) && i <= MODEL_WINDOW_EXCEEDED; i++)
        if (strcmp(json_string_value(stop), model_stop_name((enum model_stop)i)) == 0) {
            *ret = (enum model_stop)i;
            return 0;
        }
    return error_set(err, EINVAL, "\"stop\" is none of end_turn, tool_use, max_tokens, …");
}

static uint64_t count_of(const json_t *usage, const char *name)
{
    json_int_t n = json_integer_value(json_object_get(usage, name));
    return n > 0 ? (uint64_t)n : 0;
}

static void read_usage(const json_t *usage, struct model_usage *ret)
{
    *ret = (struct model_usage){.known = json_is_object(usage),
                                .input = count_of(usage, "input"),
                                .output = count_of(usage, "output"),
                                .cache_read = count_of(usage, "cache_read"),
                                .cache_write = count_of(usage, "cache_write"),
                                .thinking = count_of(usage, "thinking")};
}

int replay_answer(const json_t *said, size_t number, struct model_reply *ret, struct error *err)
{
    struct model_reply reply = {.content = json_array()};
    const char *model = json_string_value(json_object_get(said, "model"));
    int r = reply.content ? add_all(reply.content, said, number, err)
                          : error_set(err, ENOMEM, "no memory");
    if (r == 0)
        r = read_stop(said, reply.content, &reply.stop, err);
    if (r < 0) {
        model_reply_free(&reply);
        return r;
    }
    read_usage(json_object_get(said, "usage"), &reply.usage);
    if (model && strlen(model) < sizeof reply.model)
        snprintf(reply.model, sizeof reply.model, "%s", model);
    *ret = reply;
    return 0;
}
