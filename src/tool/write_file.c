/* Writes a whole file, or appends to it. The guest does it in one step
 * (src/guest/file/file_write.c). */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "encoding.h"
#include "tool_text.h"
#include "banned.h"

#define CONTENT_MAX (64u << 20)

static int write_file_run(struct tool_call *c, struct error *err)
{
    _cleanup_buf_ struct buf decoded = BUF_INIT(CONTENT_MAX);
    const json_t *given = json_object_get(c->input, "content");
    const json_t *coded = json_object_get(c->input, "content_base64");
    const char *path = file_input_path(c), *content = json_string_value(given);
    size_t n = json_string_length(given);
    bool append = input_bool(c, "append", false);
    if (!path)
        return 0;
    if (!given == !coded)
        return tool_fail(c, "input: give either content or content_base64");
    if (coded) {
        if (base64_decode(&decoded, json_string_value(coded), json_string_length(coded)) < 0)
            return tool_fail(c, "input.content_base64: is not base64 (RFC 4648, with padding, no"
                                " line breaks)");
        content = (const char *)decoded.data;
        n = decoded.len;
    }

    _cleanup_ask_ struct ask a;
    struct wire_frame result;
    ask_begin(&a, c, WIRE_WRITE);
    ask_path(&a, path);
    if (append)
        wire_put_u64(&a.out, WIRE_K_APPEND, 1);
    if (input_bool(c, "executable", false))
        wire_put_u64(&a.out, WIRE_K_EXECUTABLE, 1);
    int r = ask_send(&a, err);
    if (r >= 0)
        r = ask_data(&a, content, n, true, err);
    if (r >= 0)
        r = ask_result(&a, &result, err);
    if (r < 0)
        return file_hint(err, false);

    size_t lines = n && content[n - 1] != '\n';
    for (size_t i = 0; i < n; i++)
        lines += content[i] == '\n';
    bool created = wire_find_u64(&result, WIRE_K_CREATED, 0) != 0;
    uint64_t size = wire_find_u64(&result, WIRE_K_SIZE, n);
    uint64_t mode = wire_find_u64(&result, WIRE_K_MODE, 0);
    struct buf *text = &c->result->text;
    buf_printf(text, "%s %s: %zu line%s, %zu byte%s",
               created  ? "Created"
               : append ? "Appended to"
                        : "Replaced",
               path, lines, lines == 1 ? "" : "s", n, n == 1 ? "" : "s");
    if (append && !created)
        buf_printf(text, "; it has %" PRIu64 " bytes now", size);
    buf_append_str(text, ".\n");
    c->result->data = json_pack("{s:s, s:s, s:I, s:I, s:I, s:b}", "path", path, "action",
                                created  ? "created"
                                : append ? "appended"
                                         : "replaced",
                                "bytes", (json_int_t)n, "lines", (json_int_t)lines, "size",
                                (json_int_t)size, "executable", (mode & 0111) != 0);
    return 0;
}

static int write_file_view_result(const json_t *data, struct buf *b)
{
    const char *action = json_get_string(data, "action");
    json_int_t lines = json_get_integer(data, "lines");
    return buf_printf(b, "%s%s%" JSON_INTEGER_FORMAT " line%s", action ? action : "",
                      action ? ", " : "", lines, lines == 1 ? "" : "s");
}

/* clang-format off */
const struct tool TOOL_WRITE_FILE = {
    .name = "write_file",
    .title = "Write a file",
    .summary = "Writes a whole file atomically. Creates missing folders; an existing file keeps"
               " its mode. To change a part of a file, use edit_file.",
    .input = SCHEMA({
        "type": "object", "additionalProperties": false, "required": ["path"], "properties": {
        "path": {"type": "string", "minLength": 1, "maxLength": 4095,
            "description": "Relative to the workspace, or absolute in the box."},
        "content": {"type": "string", "description": "The text of the file."},
        "content_base64": {
            "type": "string", "description": "Instead of content: bytes of any kind."},
        "append": {"type": "boolean",
            "description": "Append to the file instead of replacing it. Default: false."},
        "executable": {"type": "boolean",
            "description": "Make it executable. Default: unchanged; a new file is not."}}}),
    .output = SCHEMA({
        "type": "object", "required": ["path", "action", "bytes", "lines", "size", "executable"],
        "properties": {
        "path": {"type": "string"},
        "action": {"enum": ["created", "replaced", "appended"]},
        "bytes": {"type": "integer", "description": "How many were written."},
        "lines": {"type": "integer", "description": "How many lines these are."},
        "size": {"type": "integer", "description": "Of the file, in bytes, now."},
        "executable": {"type": "boolean"}}}),
    .flags = TOOL_CHANGES,
    .run = write_file_run,
    .view = &(const struct tool_view){
        .result = write_file_view_result, .input_body = "content",
    },
};
/* clang-format on */
