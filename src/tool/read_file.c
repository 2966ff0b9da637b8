/*
 * Reads a file: lines of a text, an image, or a range of bytes.
 *
 * One request to the guest each: LINES finds out what the file is and finds the lines, READ gives
 * bytes. Here they get their form: numbers before the lines, and a last line that says what there
 * is beside.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "read_file.h"
#include "banned.h"

#define LINES_DEFAULT 2000
#define TEXT_MAX      (64u << 10) /* bytes of content in one result */
#define IMAGE_MAX     (5u << 20)

static int collect(struct ask *a, struct buf *content, struct wire_frame *ret, struct error *err)
{
    int r = ask_send(a, err);
    while (r >= 0 && (r = ask_next(a, ret, err)) > 0) {
        struct wire_field data;
        if (ret->type == WIRE_DATA && wire_find(ret, WIRE_K_DATA, &data) &&
            buf_append(content, data.data, data.size) < 0)
            return error_set(err, EPROTO, "the box sent more than was asked for");
    }
    return r < 0 ? file_hint(err) : 0;
}

static int run_bytes(struct tool_call *c, const char *path, struct error *err)
{
    _cleanup_ask_ struct ask a;
    _cleanup_buf_ struct buf content = BUF_INIT(TEXT_MAX + 8);
    struct wire_frame result;
    struct read_bytes b = {.path = path, .offset = (uint64_t)input_int(c, "byte_offset", 0)};
    int64_t limit = input_int(c, "byte_limit", TEXT_MAX);
    ask_begin(&a, c, WIRE_READ);
    ask_path(&a, path);
    wire_put_u64(&a.out, WIRE_K_OFFSET, b.offset);
    wire_put_u64(&a.out, WIRE_K_LIMIT_BYTES, (uint64_t)(limit < TEXT_MAX ? limit : TEXT_MAX));
    int r = collect(&a, &content, &result, err);
    if (r < 0)
        return r;
    b.data = content.data;
    b.n = content.len;
    b.size = wire_find_u64(&result, WIRE_K_SIZE, 0);
    return read_show_bytes(c->result, &b);
}

static int show_image(struct tool_call *c, const char *path, struct buf *content, uint64_t size)
{
    const char *mime = "image";
    if (filekind_of(content->data, content->len, &mime) != FILEKIND_IMAGE)
        return tool_fail(
            c, "%s: is an image of %" PRIu64 " bytes; those of more than %u MiB are not shown",
            path, size, IMAGE_MAX >> 20);
    c->result->mime = mime;
    if (buf_append(&c->result->image, content->data, content->len) < 0)
        return -ENOMEM;
    buf_printf(&c->result->text, "[%s: an image (%s, %zu bytes)]\n", path, mime, content->len);
    c->result->data = json_pack("{s:s, s:I, s:b, s:s}", "path", path, "size",
                                (json_int_t)content->len, "binary", 1, "kind", mime);
    return c->result->data ? 0 : -ENOMEM;
}

static int run_lines(struct tool_call *c, const char *path, struct error *err)
{
    _cleanup_ask_ struct ask a;
    _cleanup_buf_ struct buf content = BUF_INIT(IMAGE_MAX + TEXT_MAX);
    struct wire_frame result;
    ask_begin(&a, c, WIRE_LINES);
    ask_path(&a, path);
    wire_put_u64(&a.out, WIRE_K_LINE, (uint64_t)input_int(c, "offset", 1));
    wire_put_u64(&a.out, WIRE_K_COUNT, (uint64_t)input_int(c, "limit", LINES_DEFAULT));
    wire_put_u64(&a.out, WIRE_K_LIMIT_BYTES, TEXT_MAX);
    wire_put_u64(&a.out, WIRE_K_IMAGE_MAX, IMAGE_MAX);
    int r = collect(&a, &content, &result, err);
    if (r < 0)
        return r;
    if (wire_find_u64(&result, WIRE_K_CONTENT, 0) == FILEKIND_IMAGE)
        return show_image(c, path, &content, wire_find_u64(&result, WIRE_K_SIZE, 0));
    struct read_lines l = {.path = path, .data = content.data, .n = content.len, .result = &result};
    l.numbers = input_bool(c, "line_numbers", true);
    return read_show_lines(c->result, &l);
}

static bool given(const struct tool_call *c, const char *name)
{
    return json_object_get(c->input, name) != NULL;
}

static int run(struct tool_call *c, struct error *err)
{
    const char *path = file_input_path(c);
    bool bytes = given(c, "byte_offset") || given(c, "byte_limit");
    if (!path)
        return 0;
    if (bytes && (given(c, "offset") || given(c, "limit")))
        return tool_fail(
            c,
            "input: offset and limit count lines, byte_offset and byte_limit bytes: give one pair");
    int r = bytes ? run_bytes(c, path, err) : run_lines(c, path, err);
    return r == -ENOMEM && !err->code ? error_set(err, ENOMEM, "no memory") : r;
}

static int read_file_view_call(const json_t *input, struct buf *b)
{
    const char *path = json_get_string(input, "path");
    json_int_t offset = json_get_integer(input, "offset"), limit = json_get_integer(input, "limit");
    if (!path)
        return 0;
    if (offset > 0 && limit > 0 && limit < 1000000000)
        return buf_printf(b, "%s %" JSON_INTEGER_FORMAT "-%" JSON_INTEGER_FORMAT, path, offset,
                          offset + limit - 1);
    if (offset != 0)
        return buf_printf(b, "%s from %" JSON_INTEGER_FORMAT, path, offset);
    return buf_append_str(b, path);
}

static int read_file_view_result(const json_t *data, struct buf *b)
{
    json_int_t first = json_get_integer(data, "first_line"),
               last = json_get_integer(data, "last_line");
    if (first <= 0 || last < first)
        return 0;
    return buf_printf(b, "%" JSON_INTEGER_FORMAT " line%s", last - first + 1,
                      first == last ? "" : "s");
}

/* clang-format off */
const struct tool TOOL_READ_FILE = {
    .name = "read_file",
    .title = "Read a file",
    .summary = "Reads a file: text by lines, each with its number before it, from offset on, at most 2000 lines or 64 KiB"
               " at once. The result says how to get the rest. Lines of more than 2000 characters are cut with a mark."
               " PNG, JPEG, GIF and WebP images are shown as images. A range of bytes of any file is read with"
               " byte_offset and byte_limit; of a binary file it is a hex dump.",
    .input = SCHEMA({
        "type": "object",
        "additionalProperties": false,
        "required": ["path"],
        "properties": {
            "path": {"type": "string", "minLength": 1, "maxLength": 4095,
                     "description": "Relative to the workspace, or absolute in the box."},
            "offset": {"type": "integer", "minimum": -1000000000000, "maximum": 1000000000000,
                       "description": "The first line to read, counted from 1; a negative number counts from the end: -10 reads the last ten. Default: 1."},
            "limit": {"type": "integer", "minimum": 1, "maximum": 1000000, "description": "How many lines. Default: 2000."},
            "byte_offset": {"type": "integer", "minimum": 0, "maximum": 4611686018427387903,
                            "description": "Read bytes instead of lines, from this one on, counted from 0."},
            "byte_limit": {"type": "integer", "minimum": 1, "maximum": 1000000000, "description": "How many bytes. Default: 65536."},
            "line_numbers": {"type": "boolean", "description": "Whether lines have their numbers before them. Default: true."}
        }
    }),
    .output = SCHEMA({
        "type": "object",
        "required": ["path", "size"],
        "properties": {
            "path": {"type": "string"},
            "size": {"type": "integer", "description": "Of the file, in bytes."},
            "lines": {"type": "integer", "description": "How many the file has; absent if it is too large to count them."},
            "first_line": {"type": "integer"},
            "last_line": {"type": "integer", "description": "Of those in content."},
            "first_byte": {"type": "integer"},
            "content": {"type": "string", "description": "The text, without numbers; of a range of a binary file its hex dump."},
            "truncated": {"type": "boolean", "description": "There is more behind what content holds."},
            "next_offset": {"type": "integer", "description": "The offset (or byte_offset) that goes on from here, if truncated."},
            "long_lines": {"type": "integer", "description": "How many lines were cut because they are too long."},
            "encoding": {"enum": ["utf-8", "utf-8-bom", "utf-16le", "utf-16be", "unknown"],
                         "description": "unknown: some bytes are not UTF-8; in content U+FFFD stands for them."},
            "line_endings": {"enum": ["lf", "crlf", "mixed", "none"]},
            "final_newline": {"type": "boolean", "description": "Whether the last line ends with a newline, if it was read."},
            "binary": {"type": "boolean"},
            "kind": {"type": "string", "description": "What a binary file seems to be; of an image its MIME type."}
        }
    }),
    .flags = TOOL_READS | TOOL_CACHED,
    .run = run,
    .view = &(const struct tool_view){
        .call = read_file_view_call, .result = read_file_view_result, .data_body = "content",
    },
};
/* clang-format on */
