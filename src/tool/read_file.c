/*
 * Reads a file: lines of a text, an image, or a range of bytes.
 *
 * Each is one request to the guest: LINES detects what the file is and finds the lines, READ gives
 * bytes. This file numbers the lines and adds notes about what else a reader has to know. All of it
 * came from the box.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "filekind.h"
#include "text.h"
#include "tool_text.h"
#include "banned.h"

#define LINES_DEFAULT 2000
#define TEXT_MAX      (64u << 10) /* bytes of content in one result */
#define HEX_MAX       (8u << 10)  /* bytes in a hex dump; five times as much text */
#define IMAGE_MAX     (5u << 20)

/* 16 bytes a line with their offsets. */
static void hexdump_append(struct buf *out, const uint8_t *data, size_t n, uint64_t offset)
{
    for (size_t at = 0; at < n; at += 16) {
        char shown[17] = "";
        buf_printf(out, "%08" PRIx64 " ", offset + at);
        for (size_t i = 0; i < 16; i++) {
            if (at + i >= n) {
                buf_append_str(out, i == 8 ? "    " : "   ");
                continue;
            }
            uint8_t byte = data[at + i];
            buf_printf(out, "%s%02x", i == 8 ? "  " : " ", byte);
            shown[i] = byte >= 0x20 && byte < 0x7f ? (char)byte : '.';
        }
        buf_printf(out, "  |%s|\n", shown);
    }
}

static int read_bytes(struct tool_call *c, const char *path, struct error *err)
{
    _cleanup_ask_ struct ask a;
    _cleanup_buf_ struct buf content = BUF_INIT(TEXT_MAX + 8);
    struct wire_frame result;
    struct buf *out = &c->result->text;
    uint64_t offset = (uint64_t)input_int(c, "byte_offset", 0);
    int64_t limit = input_int(c, "byte_limit", TEXT_MAX);
    ask_begin(&a, c, WIRE_READ);
    ask_path(&a, path);
    wire_put_u64(&a.out, WIRE_K_OFFSET, offset);
    wire_put_u64(&a.out, WIRE_K_LIMIT_BYTES, (uint64_t)(limit < TEXT_MAX ? limit : TEXT_MAX));
    if (ask_collect(&a, &content, &result, err) < 0)
        return file_hint(err, false);

    /* A character that is cut off at either end of the range does not make it binary. */
    size_t skip = utf8_cut_start(content.data, content.len);
    size_t cut = utf8_cut_end(content.data + skip, content.len - skip);
    bool text = utf8_valid(content.data + skip, content.len - skip - cut);
    for (size_t i = 0; text && i < content.len; i++)
        text = content.data[i] >= 0x20 ||
               (content.data[i] && strchr("\t\n\r\f\b\033", content.data[i]));
    size_t n = text || content.len < HEX_MAX ? content.len : HEX_MAX;
    uint64_t next = offset + n, size = wire_find_u64(&result, WIRE_K_SIZE, 0);
    if (text)
        text_append(out, content.data, n);
    else
        hexdump_append(out, content.data, n, offset);
    c->result->data =
        json_pack("{s:s, s:I, s:I, s:o, s:b, s:b, s:o*}", "path", path, "size", (json_int_t)size,
                  "first_byte", (json_int_t)offset, "content", text_json(out->data, out->len),
                  "binary", !text, "truncated", next < size, "next_offset",
                  next < size ? json_integer((json_int_t)next) : NULL);
    buf_end_line(out);
    if (n == 0)
        buf_printf(out, "[no bytes from %" PRIu64 " on: the file has %" PRIu64 "]\n", offset, size);
    else if (next < size)
        buf_printf(out,
                   "[bytes %" PRIu64 " to %" PRIu64 " of %" PRIu64
                   "; continue with byte_offset %" PRIu64 "]\n",
                   offset, next - 1, size, next);
    return 0;
}

/* An image is passed on if it is small enough; of anything else that is no text, only what it seems
 * to be. */
static int read_file_binary(struct tool_call *c, const char *path, const struct wire_frame *f,
                            const struct buf *content)
{
    _cleanup_buf_ struct buf seems = BUF_INIT(512);
    struct wire_field field = {0};
    uint64_t size = wire_find_u64(f, WIRE_K_SIZE, 0);
    const char *kind = "image";
    if (wire_find_u64(f, WIRE_K_CONTENT, 0) == FILEKIND_IMAGE) {
        if (filekind_of(content->data, content->len, &kind) != FILEKIND_IMAGE)
            return tool_fail(c,
                             "%s: is an image of %" PRIu64 " bytes; images over %u MiB are not"
                             " shown",
                             path, size, IMAGE_MAX >> 20);
        c->result->mime = kind;
        if (buf_append(&c->result->image, content->data, content->len) < 0)
            return -ENOMEM;
        size = content->len;
        buf_printf(&c->result->text, "[%s: an image (%s, %" PRIu64 " bytes)]\n", path, kind, size);
    } else {
        wire_find(f, WIRE_K_SEEMS, &field);
        text_append(&seems, field.data, field.size < 100 ? field.size : 100);
        kind = buf_cstr(&seems);
        if (!kind)
            return -ENOMEM;
        buf_printf(&c->result->text,
                   "[%s: is not shown as text: it seems to be %s, %" PRIu64
                   " bytes. byte_offset and byte_limit give a hex dump of a range; bash has tools"
                   " for what is in it]\n",
                   path, kind, size);
    }
    c->result->data = json_pack("{s:s, s:I, s:b, s:s}", "path", path, "size", (json_int_t)size,
                                "binary", 1, "kind", kind);
    return 0;
}

/* The text as data, and what a reader has to know besides it as notes. */
static int read_file_describe(struct tool_call *c, const char *path, const struct wire_frame *f,
                              const struct buf *content, const char *encoding)
{
    struct buf *text = &c->result->text;
    uint64_t count = wire_find_u64(f, WIRE_K_COUNT, 0), first = wire_find_u64(f, WIRE_K_LINE, 0);
    uint64_t lines = wire_find_u64(f, WIRE_K_LINES, 0), next = first + count;
    uint64_t endings = wire_find_u64(f, WIRE_K_ENDINGS, 0);
    uint64_t many = wire_find_u64(f, WIRE_K_TOO_MANY, 0); /* 1: more follow; 2: not counted */
    bool lf = endings & WIRE_ENDS_LF, crlf = endings & WIRE_ENDS_CRLF;
    bool last = count && !many, newline = !(endings & WIRE_ENDS_NOT);
    if (strcmp(encoding, "unknown") == 0)
        buf_append_str(text, "[some bytes are not UTF-8 and are shown as \xef\xbf\xbd: do not "
                             "write this text back]\n");
    if (strncmp(encoding, "utf-16", 6) == 0)
        buf_printf(text,
                   "[the file is %s; edit_file cannot edit it, write_file would make it UTF-8]\n",
                   encoding);
    if (strcmp(encoding, "utf-8-bom") == 0)
        buf_append_str(text, "[the file begins with a byte order mark]\n");
    if (crlf)
        buf_printf(text, "[%s end with CRLF; edit_file keeps that]\n", lf ? "some lines" : "lines");
    if (last && !newline)
        buf_append_str(text, "[no newline at the end of the file]\n");
    if (many)
        buf_printf(text,
                   "[lines %" PRIu64 " to %" PRIu64 " of %s%" PRIu64
                   "; continue with offset %" PRIu64 "]\n",
                   first, next - 1, many == 2 ? "more than " : "", lines, next);
    c->result->data =
        json_pack("{s:s, s:I, s:o*, s:o*, s:o*, s:o, s:b, s:o*, s:I, s:s, s:s, s:o*, s:b}", "path",
                  path, "size", (json_int_t)wire_find_u64(f, WIRE_K_SIZE, 0), "lines",
                  many == 2 ? NULL : json_integer((json_int_t)lines), "first_line",
                  count ? json_integer((json_int_t)first) : NULL, "last_line",
                  count ? json_integer((json_int_t)(next - 1)) : NULL, "content",
                  text_json(content->data, content->len), "truncated", many > 0, "next_offset",
                  many ? json_integer((json_int_t)next) : NULL, "long_lines",
                  (json_int_t)wire_find_u64(f, WIRE_K_CUT, 0), "encoding", encoding, "line_endings",
                  lf && crlf ? "mixed"
                  : crlf     ? "crlf"
                  : lf       ? "lf"
                             : "none",
                  "final_newline", last ? json_boolean(newline) : NULL, "binary", 0);
    return 0;
}

static int read_lines(struct tool_call *c, const char *path, struct error *err)
{
    _cleanup_ask_ struct ask a;
    _cleanup_buf_ struct buf content = BUF_INIT(IMAGE_MAX + TEXT_MAX);
    struct wire_frame result;
    struct wire_field field;
    struct buf *out = &c->result->text;
    ask_begin(&a, c, WIRE_LINES);
    ask_path(&a, path);
    wire_put_u64(&a.out, WIRE_K_LINE, (uint64_t)input_int(c, "offset", 1));
    wire_put_u64(&a.out, WIRE_K_COUNT, (uint64_t)input_int(c, "limit", LINES_DEFAULT));
    wire_put_u64(&a.out, WIRE_K_LIMIT_BYTES, TEXT_MAX);
    wire_put_u64(&a.out, WIRE_K_IMAGE_MAX, IMAGE_MAX);
    if (ask_collect(&a, &content, &result, err) < 0)
        return file_hint(err, false);

    /* A text has its counts, also if it is empty; a file without them was not read. */
    uint64_t kind = wire_find_u64(&result, WIRE_K_CONTENT, FILEKIND_TEXT);
    uint64_t first = wire_find_u64(&result, WIRE_K_LINE, 0);
    if (kind == FILEKIND_IMAGE || !wire_find(&result, WIRE_K_COUNT, &field))
        return read_file_binary(c, path, &result, &content);
    bool mark = first == 1 && content.len >= 3 && memcmp(content.data, "\xef\xbb\xbf", 3) == 0;
    const char *encoding = kind == FILEKIND_UTF16LE                 ? "utf-16le"
                           : kind == FILEKIND_UTF16BE               ? "utf-16be"
                           : !utf8_valid(content.data, content.len) ? "unknown"
                           : mark                                   ? "utf-8-bom"
                                                                    : "utf-8";
    size_t skip = strcmp(encoding, "utf-8-bom") == 0 ? 3 : 0;
    if (content.len == 0)
        buf_append_str(out, "[the file is empty]\n");
    else if (input_bool(c, "line_numbers", true))
        numbered_append(out, content.data + skip, content.len - skip, first);
    else
        text_append(out, content.data + skip, content.len - skip);
    buf_end_line(out);
    return read_file_describe(c, path, &result, &content, encoding);
}

static int read_file_run(struct tool_call *c, struct error *err)
{
    const char *path = file_input_path(c);
    bool bytes =
        json_object_get(c->input, "byte_offset") || json_object_get(c->input, "byte_limit");
    bool lines = json_object_get(c->input, "offset") || json_object_get(c->input, "limit");
    if (!path)
        return 0;
    if (bytes && lines)
        return tool_fail(
            c,
            "input: offset and limit count lines, byte_offset and byte_limit bytes: give one pair");
    int r = bytes ? read_bytes(c, path, err) : read_lines(c, path, err);
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
    .summary = "Reads a file: text by lines with line numbers, from offset on, at most 2000 lines"
               " or 64 KiB at once; the result says how to continue. Lines of more than 2000"
               " characters are truncated. PNG, JPEG, GIF and WebP images are returned as images."
               " byte_offset and byte_limit read a range of bytes of any file, as a hex dump if"
               " it is binary.",
    .input = SCHEMA({
        "type": "object", "additionalProperties": false, "required": ["path"], "properties": {
        "path": {"type": "string", "minLength": 1, "maxLength": 4095,
            "description": "Relative to the workspace, or absolute in the box."},
        "offset": {"type": "integer", "minimum": -1000000000000, "maximum": 1000000000000,
            "description": "First line, from 1 (default); negative: from the end, -10: last ten."},
        "limit": {"type": "integer", "minimum": 1, "maximum": 1000000,
            "description": "How many lines. Default: 2000."},
        "byte_offset": {"type": "integer", "minimum": 0, "maximum": 4611686018427387903,
            "description": "Read bytes instead of lines; the first one, counted from 0."},
        "byte_limit": {"type": "integer", "minimum": 1, "maximum": 1000000000,
            "description": "How many bytes. Default: 65536."},
        "line_numbers": {"type": "boolean",
            "description": "Whether lines have their numbers before them. Default: true."}}}),
    .output = SCHEMA({"type": "object", "required": ["path", "size"], "properties": {
        "path": {"type": "string"},
        "size": {"type": "integer", "description": "Of the file, in bytes."},
        "lines": {"type": "integer",
            "description": "How many the file has; absent if it is too large to count them."},
        "first_line": {"type": "integer"},
        "last_line": {"type": "integer", "description": "Of those in content."},
        "first_byte": {"type": "integer"},
        "content": {"type": "string",
            "description": "The text without numbers; for bytes of a binary file a hex dump."},
        "truncated": {"type": "boolean", "description": "The file continues after content."},
        "next_offset": {"type": "integer",
            "description": "The offset (or byte_offset) to continue with, if truncated."},
        "long_lines": {
            "type": "integer", "description": "How many lines were cut because they are too long."},
        "encoding": {"enum": ["utf-8", "utf-8-bom", "utf-16le", "utf-16be", "unknown"],
            "description": "unknown: not all is UTF-8; U+FFFD replaces the bad bytes."},
        "line_endings": {"enum": ["lf", "crlf", "mixed", "none"]},
        "final_newline": {"type": "boolean",
            "description": "Whether the last line ends with a newline, if it was read."},
        "binary": {"type": "boolean"},
        "kind": {"type": "string",
            "description": "What a binary file seems to be; of an image its MIME type."}}}),
    .flags = TOOL_READS | TOOL_CACHED,
    .run = read_file_run,
    .view = &(const struct tool_view){
        .call = read_file_view_call, .result = read_file_view_result, .data_body = "content",
    },
};
/* clang-format on */
