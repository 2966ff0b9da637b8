/* Messages as text, for whoever summarises them: who said what, calls on one line, long output in
 * its ends.
 */
#include <string.h>

#include "context_private.h"
#include "banned.h"

#define TEXT_MAX   4000
#define INPUT_MAX  600
#define OUTPUT_MAX 900

static void put_cut(const char *text, size_t n, size_t max, struct buf *out)
{
    json_t *cut = form_cut(text, n, max * 2 / 3, max / 3, "left out");
    if (cut)
        buf_append(out, json_string_value(cut), json_string_length(cut));
    json_decref(cut);
}

static void put_string(const json_t *s, size_t max, struct buf *out)
{
    if (json_is_string(s))
        put_cut(json_string_value(s), json_string_length(s), max, out);
}

static void put_call(const json_t *block, struct buf *out)
{
    char *input = json_dumps(json_object_get(block, "input"), JSON_COMPACT | JSON_ENCODE_ANY);
    buf_append_str(out, "\n> ");
    put_string(json_object_get(block, "name"), 128, out);
    buf_append_str(out, " ");
    if (input)
        put_cut(input, strlen(input), INPUT_MAX, out);
    buf_append_str(out, "\n");
    free(input);
}

static void put_result(const json_t *block, struct buf *out)
{
    size_t i;
    json_t *part;
    buf_append_str(out, json_is_true(json_object_get(block, "is_error")) ? "\n< failed: " : "\n< ");
    json_array_foreach(json_object_get(block, "content"), i, part)
    {
        if (json_is_string(json_object_get(part, "text")))
            put_string(json_object_get(part, "text"), OUTPUT_MAX, out);
        else
            buf_append_str(out, "[an image]");
    }
    buf_append_str(out, "\n");
}

void context_render(const json_t *message, struct buf *out)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    size_t i;
    json_t *block;
    if (json_object_get(message, "turn"))
        buf_append_str(out, "\n## The person\n");
    else if (role && strcmp(role, "assistant") == 0)
        buf_append_str(out, "\n## The agent\n");
    json_array_foreach(json_object_get(message, "content"), i, block)
    {
        const char *type = json_string_value(json_object_get(block, "type"));
        if (!type)
            continue;
        if (strcmp(type, "text") == 0) {
            put_string(json_object_get(block, "text"), TEXT_MAX, out);
            buf_append_str(out, "\n");
        } else if (strcmp(type, "tool_use") == 0) {
            put_call(block, out);
        } else if (strcmp(type, "tool_result") == 0) {
            put_result(block, out);
        }
    }
}
