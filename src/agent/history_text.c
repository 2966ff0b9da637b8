/* A message as text, for titles, for searching and for whoever reads one again. */
#include <errno.h>
#include <string.h>

#include "buf.h"
#include "history.h"
#include "banned.h"

static void put_string(struct buf *b, const json_t *s)
{
    if (!json_is_string(s) || json_string_length(s) == 0)
        return;
    if (b->len > 0 && b->data[b->len - 1] != '\n')
        buf_append(b, "\n", 1);
    buf_append(b, json_string_value(s), json_string_length(s));
}

static int put_json(const char *text, size_t n, void *data)
{
    return buf_append(data, text, n) < 0 ? -1 : 0;
}

static void put_block(struct buf *b, const json_t *block, bool inner);

static void put_blocks(struct buf *b, const json_t *content, bool inner)
{
    size_t i;
    json_t *block;
    put_string(b, content); /* a person may have written it so */
    json_array_foreach(content, i, block) put_block(b, block, inner);
}

static void put_call(struct buf *b, const json_t *block)
{
    const json_t *input = json_object_get(block, "input");
    put_string(b, json_object_get(block, "name"));
    if (input && json_object_size(input) > 0) {
        buf_append(b, " ", 1);
        json_dump_callback(input, put_json, b, JSON_COMPACT | JSON_ENCODE_ANY);
    }
    put_string(b, json_object_get(block, "bad_input"));
}

static void put_block(struct buf *b, const json_t *block, bool inner)
{
    const char *type = json_string_value(json_object_get(block, "type"));
    if (!type)
        return;
    if (strcmp(type, "text") == 0 || strcmp(type, "thinking") == 0)
        put_string(b, json_object_get(block, "text"));
    else if (strcmp(type, "tool_use") == 0)
        put_call(b, block);
    else if (strcmp(type, "tool_result") == 0 && !inner)
        put_blocks(b, json_object_get(block, "content"), true);
}

/* What of hutch's own messages is in words: summaries, notes, the plan. */
static void put_own(struct buf *b, const json_t *message)
{
    size_t i;
    json_t *item;
    put_string(b, json_object_get(message, "text"));
    json_array_foreach(json_object_get(message, "items"), i, item)
        put_string(b, json_object_get(item, "text"));
}

int history_text(const json_t *message, struct buf *ret)
{
    if (json_object_get(message, "type")) {
        put_block(ret, message, false);
    } else {
        put_blocks(ret, json_object_get(message, "content"), false);
        put_own(ret, message);
    }
    return ret->failed ? -ENOBUFS : 0;
}
