/*
 * Replaces text in a file with one request to the guest (src/guest/edit), which finds the text,
 * writes the file, and names the nearest text if there is nothing to find.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "tool_text.h"
#include "banned.h"

#define EDITS_MAX 100
#define DIFF_MAX  (64u << 10)
#define WHY_MAX   (64u << 10)

/* What could not be done: the guest's words, and the same as data. */
static int edit_refused(struct tool_call *c, const char *path, const struct wire_frame *result)
{
    static const char *const reasons[] = {"unknown", "not_found", "not_unique", "changed",
                                          "being_written"};
    uint64_t reason = wire_find_u64(result, WIRE_K_REASON, 0),
             edit = wire_find_u64(result, WIRE_K_FAILED_EDIT, 0),
             count = wire_find_u64(result, WIRE_K_LINES, 0);
    struct wire_field why = {0}, f;
    json_t *lines = reason == WIRE_NOT_UNIQUE ? json_array() : NULL, *nearest = NULL;
    wire_find(result, WIRE_K_TEXT, &why);
    c->result->failed = true;
    text_append(&c->result->text, why.data, why.size < WHY_MAX ? why.size : WHY_MAX);
    for (size_t at = 0; lines && wire_next(result, &at, &f);)
        if (f.key == WIRE_K_LINE)
            json_array_append_new(lines, json_integer((json_int_t)wire_u64(&f, 0)));
    if (reason == WIRE_NOT_FOUND && count)
        nearest =
            json_pack("{s:I, s:I}", "first_line", (json_int_t)wire_find_u64(result, WIRE_K_LINE, 0),
                      "lines", (json_int_t)count);
    c->result->data =
        json_pack("{s:s, s:s, s:o*, s:o*, s:o*}", "path", path, "reason",
                  reasons[reason < ARRAY_SIZE(reasons) ? reason : 0], "edit",
                  edit ? json_integer((json_int_t)edit) : NULL, "lines", lines, "nearest", nearest);
    return 0;
}

static int edit_done(struct tool_call *c, const char *path, const struct wire_frame *result,
                     const struct buf *diff)
{
    struct buf *text = &c->result->text;
    uint64_t count = wire_find_u64(result, WIRE_K_COUNT, 0),
             line = wire_find_u64(result, WIRE_K_LINE, 0);
    bool cut = wire_find_u64(result, WIRE_K_TOO_MANY, 0),
         endings = wire_find_u64(result, WIRE_K_ENDINGS, 0);
    buf_printf(
        text, "Edited %s: %" PRIu64 " replacement%s.%s\n", path, count, count == 1 ? "" : "s",
        line ? " It reads now:" : " The edits cancel each other out: the file is as it was.");
    numbered_append_diff(text, diff->data, diff->len);
    if (cut)
        buf_append_str(text, "[the rest of the changes is not shown]\n");
    if (endings)
        buf_append_str(text, "[line endings were taken as the file has them]\n");
    c->result->data = json_pack(
        "{s:s, s:I, s:I, s:b, s:b, s:o*, s:o}", "path", path, "replacements", (json_int_t)count,
        "size", (json_int_t)wire_find_u64(result, WIRE_K_SIZE, 0), "line_endings_adapted", endings,
        "diff_truncated", cut, "first_line", line ? json_integer((json_int_t)line) : NULL, "diff",
        text_json(diff->data, diff->len));
    return 0;
}

static int edit_file_run(struct tool_call *c, struct error *err)
{
    const char *path = file_input_path(c);
    const json_t *edits[EDITS_MAX + 1]; /* objects with old, new and all */
    size_t count = 0, i;
    json_t *one;
    if (!path)
        return 0;
    if (!json_object_get(c->input, "old") != !json_object_get(c->input, "new"))
        return tool_fail(c, "input: old and new go together");
    if (json_object_get(c->input, "old"))
        edits[count++] = c->input;
    json_array_foreach(json_object_get(c->input, "edits"), i, one) edits[count++] = one;
    if (count == 0)
        return tool_fail(c, "input: give old and new, or edits");

    /* The request has the lengths of all texts, the data behind it the texts. */
    _cleanup_ask_ struct ask a;
    _cleanup_buf_ struct buf diff = BUF_INIT(DIFF_MAX);
    struct wire_frame f;
    ask_begin(&a, c, WIRE_EDIT);
    ask_path(&a, path);
    for (i = 0; i < count; i++) {
        wire_put_u64(&a.out, WIRE_K_OLD_SIZE, json_string_length(json_object_get(edits[i], "old")));
        wire_put_u64(&a.out, WIRE_K_NEW_SIZE, json_string_length(json_object_get(edits[i], "new")));
        if (json_get_bool(edits[i], "all"))
            wire_put_u64(&a.out, WIRE_K_ALL, 1);
    }
    int r = ask_send(&a, err);
    for (i = 0; r >= 0 && i < 2 * count; i++) {
        const json_t *text = json_object_get(edits[i / 2], i % 2 ? "new" : "old");
        r = ask_data(&a, json_string_value(text), json_string_length(text), i + 1 == 2 * count,
                     err);
    }
    if (r >= 0)
        r = ask_collect(&a, &diff, &f, err);
    if (r < 0)
        return file_hint(err, false);
    r = wire_find_u64(&f, WIRE_K_CODE, 0) ? edit_refused(c, path, &f)
                                          : edit_done(c, path, &f, &diff);
    return r < 0 ? error_set(err, ENOMEM, "no memory") : 0;
}

/* +N -M of a unified diff's hunks. */
static int edit_file_view_result(const json_t *data, struct buf *b)
{
    size_t added = 0, deleted = 0;
    for (const char *at = json_get_string(data, "diff"); at && *at; at = strchr(at, '\n')) {
        at += *at == '\n';
        added += *at == '+';
        deleted += *at == '-';
    }
    return buf_printf(b, "+%zu -%zu", added, deleted);
}

/* The edits are made all or none. */
static bool edit_file_unchanged(const json_t *input, const struct tool_result *r)
{
    return r->failed;
}

/* clang-format off */
const struct tool TOOL_EDIT_FILE = {
    .name = "edit_file",
    .title = "Edit a file",
    .summary = "Replaces text in a file: `old`, exactly as it is in the file (without line"
               " numbers), by `new`. `old` must occur once, unless `all` is set. Several edits of"
               " one file go into `edits`: they are applied in order, all or none. The result"
               " shows the changed lines; if `old` is not found, the nearest text and what"
               " differs.",
    .input = SCHEMA({
        "type": "object", "additionalProperties": false, "required": ["path"], "properties": {
        "path": {"type": "string", "minLength": 1, "maxLength": 4095,
            "description": "Relative to the workspace, or absolute in the box."},
        "old": {"type": "string",
            "description": "The text to replace, with its blanks and line breaks."},
        "new": {"type": "string", "description": "What comes in its place; empty: nothing."},
        "all": {"type": "boolean", "description": "Replace every occurrence. Default: false."},
        "edits": {"type": "array", "description": "Several edits, applied in order.", "minItems": 1,
            "maxItems": 99, "items": {
                "type": "object", "additionalProperties": false, "required": ["old", "new"],
                "properties": {
                    "old": {"type": "string"},
                    "new": {"type": "string"},
                    "all": {"type": "boolean"}}}}}}),
    .output = SCHEMA({"type": "object", "required": ["path"], "properties": {
        "path": {"type": "string"},
        "replacements": {"type": "integer", "description": "Occurrences that were replaced."},
        "first_line": {"type": "integer", "description": "Of the first change."},
        "size": {"type": "integer", "description": "Of the file, in bytes, now."},
        "diff": {"type": "string", "description": "The hunks of a unified diff of what changed."},
        "diff_truncated": {"type": "boolean"},
        "line_endings_adapted": {"type": "boolean",
            "description": "Line endings of old or new were adapted to the file's."},
        "reason": {"enum": ["not_found", "not_unique", "changed", "being_written", "unknown"],
            "description": "Of a refusal."},
        "edit": {"type": "integer", "description": "Which edit could not be made, counted from 1."},
        "lines": {"type": "array", "items": {"type": "integer"},
            "description": "Where old is, if it is not unique."},
        "nearest": {
            "type": "object", "description": "Where the nearest text is: first_line and lines."}}}),
    .flags = TOOL_CHANGES,
    .run = edit_file_run,
    .view = &(const struct tool_view){
        .result = edit_file_view_result, .data_body = "diff", .body = TOOL_BODY_DIFF, .head = 14,
    },
    .unchanged = edit_file_unchanged,
};
/* clang-format on */
