/*
 * Replaces text in a file with one request to the guest (src/guest/edit), which finds the text,
 * writes the file, and names the nearest text if there is nothing to find.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "file_text.h"
#include "banned.h"

#define EDITS_MAX 100
#define DIFF_MAX  (64u << 10)
#define WHY_MAX   (64u << 10)

struct edits {
    const json_t *list[EDITS_MAX + 1]; /* objects with old, new and all */
    size_t count;
};

/* The edit of the input itself, then those of its list. */
static void edits_find(const struct tool_call *c, struct edits *e)
{
    size_t i;
    json_t *one;
    if (json_object_get(c->input, "old"))
        e->list[e->count++] = c->input;
    json_array_foreach(json_object_get(c->input, "edits"), i, one) e->list[e->count++] = one;
}

static void edits_put_sizes(struct ask *a, const struct edits *e)
{
    for (size_t i = 0; i < e->count; i++) {
        wire_put_u64(&a->out, WIRE_K_OLD_SIZE,
                     json_string_length(json_object_get(e->list[i], "old")));
        wire_put_u64(&a->out, WIRE_K_NEW_SIZE,
                     json_string_length(json_object_get(e->list[i], "new")));
        if (json_get_bool(e->list[i], "all"))
            wire_put_u64(&a->out, WIRE_K_ALL, 1);
    }
}

static int edits_send(struct ask *a, const struct edits *e, struct error *err)
{
    static const char *const names[] = {"old", "new"};
    int r = 0;
    for (size_t i = 0; r >= 0 && i < 2 * e->count; i++) {
        const json_t *text = json_object_get(e->list[i / 2], names[i % 2]);
        r = ask_data(a, json_string_value(text), json_string_length(text), i + 1 == 2 * e->count,
                     err);
    }
    return r;
}

static json_t *edit_lines(const struct wire_frame *result)
{
    json_t *lines = json_array();
    struct wire_field f;
    for (size_t at = 0; lines && wire_next(result, &at, &f);) {
        if (f.key == WIRE_K_LINE)
            json_array_append_new(lines, json_integer((json_int_t)wire_u64(&f, 0)));
    }
    return lines;
}

/* What could not be done: the guest's words, and the same as data. */
static int edit_refused(struct tool_call *c, const char *path, const struct wire_frame *result)
{
    static const char *const reasons[] = {"unknown", "not_found", "not_unique", "changed",
                                          "being_written"};
    uint64_t reason = wire_find_u64(result, WIRE_K_REASON, 0),
             edit = wire_find_u64(result, WIRE_K_FAILED_EDIT, 0);
    struct wire_field why = {0};
    int bad = 0;
    wire_find(result, WIRE_K_TEXT, &why);
    c->result->failed = true;
    text_append(&c->result->text, why.data, why.size < WHY_MAX ? why.size : WHY_MAX);
    json_t *o = json_pack("{s:s, s:s}", "path", path, "reason",
                          reasons[reason < ARRAY_SIZE(reasons) ? reason : 0]);
    if (edit)
        bad |= data_set(o, "edit", json_integer((json_int_t)edit));
    if (reason == WIRE_NOT_UNIQUE)
        bad |= data_set(o, "lines", edit_lines(result));
    uint64_t count = wire_find_u64(result, WIRE_K_LINES, 0);
    if (reason == WIRE_NOT_FOUND && count)
        bad |= data_set(o, "nearest",
                        json_pack("{s:I, s:I}", "first_line",
                                  (json_int_t)wire_find_u64(result, WIRE_K_LINE, 0), "lines",
                                  (json_int_t)count));
    c->result->data = o;
    return !o || bad ? -ENOMEM : 0;
}

static int edit_done(struct tool_call *c, const char *path, const struct wire_frame *result,
                     const struct buf *diff)
{
    struct buf *text = &c->result->text;
    uint64_t count = wire_find_u64(result, WIRE_K_COUNT, 0),
             line = wire_find_u64(result, WIRE_K_LINE, 0);
    bool cut = wire_find_u64(result, WIRE_K_TOO_MANY, 0),
         endings = wire_find_u64(result, WIRE_K_ENDINGS, 0);
    int bad = 0;
    buf_printf(
        text, "Edited %s: %" PRIu64 " replacement%s.%s\n", path, count, count == 1 ? "" : "s",
        line ? " It reads now:" : " The edits cancel each other out: the file is as it was.");
    numbered_append_diff(text, diff->data, diff->len);
    if (cut)
        buf_append_str(text, "[the rest of the changes is not shown]\n");
    if (endings)
        buf_append_str(text, "[line endings were taken as the file has them]\n");
    json_t *o =
        json_pack("{s:s, s:I, s:I, s:b, s:b}", "path", path, "replacements", (json_int_t)count,
                  "size", (json_int_t)wire_find_u64(result, WIRE_K_SIZE, 0), "line_endings_adapted",
                  endings, "diff_truncated", cut);
    if (line)
        bad |= data_set(o, "first_line", json_integer((json_int_t)line));
    bad |= data_set(o, "diff", text_json(diff->data, diff->len));
    c->result->data = o;
    return !o || bad ? -ENOMEM : 0;
}

static int edit_file_ask(struct tool_call *c, const char *path, const struct edits *e,
                         struct error *err)
{
    _cleanup_ask_ struct ask a;
    _cleanup_buf_ struct buf diff = BUF_INIT(DIFF_MAX);
    struct wire_frame f;
    struct wire_field data;
    ask_begin(&a, c, WIRE_EDIT);
    ask_path(&a, path);
    edits_put_sizes(&a, e);
    int r = ask_send(&a, err);
    if (r >= 0)
        r = edits_send(&a, e, err);
    while (r >= 0 && (r = ask_next(&a, &f, err)) > 0)
        if (f.type == WIRE_DATA && wire_find(&f, WIRE_K_DATA, &data) &&
            buf_append(&diff, data.data, data.size) < 0)
            return error_set(err, EPROTO, "the box sent more than was asked for");
    if (r < 0)
        return file_hint(err);
    r = wire_find_u64(&f, WIRE_K_CODE, 0) ? edit_refused(c, path, &f)
                                          : edit_done(c, path, &f, &diff);
    return r < 0 ? error_set(err, ENOMEM, "no memory") : 0;
}

static int edit_file_run(struct tool_call *c, struct error *err)
{
    const char *path = file_input_path(c);
    struct edits e = {0};
    if (!path)
        return 0;
    bool old = json_object_get(c->input, "old"), new = json_object_get(c->input, "new");
    if (old != new)
        return tool_fail(c, "input: old and new go together");
    edits_find(c, &e);
    if (e.count == 0)
        return tool_fail(c, "input: give old and new, or edits");
    return edit_file_ask(c, path, &e, err);
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
    .summary = "Replaces text in a file: `old`, exactly as it stands there (without line numbers), by `new`. `old` must be"
               " there once, unless `all` is set. Several edits of one file go into `edits`: they are made in order, all or"
               " none. The result shows the changed lines; when `old` is not found, what is nearest and what differs.",
    .input = SCHEMA({
        "type": "object",
        "additionalProperties": false,
        "required": ["path"],
        "properties": {
            "path": {"type": "string", "minLength": 1, "maxLength": 4095,
                     "description": "Relative to the workspace, or absolute in the box."},
            "old": {"type": "string", "description": "The text to replace, with its blanks and line breaks."},
            "new": {"type": "string", "description": "What comes in its place; empty: nothing."},
            "all": {"type": "boolean", "description": "Replace every place, not the only one. Default: false."},
            "edits": {
                "type": "array",
                "description": "Several edits, each made in what the ones before it left.",
                "minItems": 1,
                "maxItems": 99,
                "items": {
                    "type": "object",
                    "additionalProperties": false,
                    "required": ["old", "new"],
                    "properties": {
                        "old": {"type": "string"},
                        "new": {"type": "string"},
                        "all": {"type": "boolean"}
                    }
                }
            }
        }
    }),
    .output = SCHEMA({
        "type": "object",
        "required": ["path"],
        "properties": {
            "path": {"type": "string"},
            "replacements": {"type": "integer", "description": "Places that were replaced."},
            "first_line": {"type": "integer", "description": "Of the first change."},
            "size": {"type": "integer", "description": "Of the file, in bytes, now."},
            "diff": {"type": "string", "description": "The hunks of a unified diff of what changed."},
            "diff_truncated": {"type": "boolean"},
            "line_endings_adapted": {"type": "boolean", "description": "Line ends of old or new were taken as the file has them."},
            "reason": {"enum": ["not_found", "not_unique", "changed", "being_written", "unknown"], "description": "Of a refusal."},
            "edit": {"type": "integer", "description": "Which edit could not be made, counted from 1."},
            "lines": {"type": "array", "items": {"type": "integer"}, "description": "Where old is, if it is not unique."},
            "nearest": {"type": "object", "description": "Where the nearest text is: first_line and lines."}
        }
    }),
    .flags = TOOL_CHANGES,
    .run = edit_file_run,
    .view = &(const struct tool_view){
        .result = edit_file_view_result, .data_body = "diff", .body = TOOL_BODY_DIFF, .head = 14,
    },
    .unchanged = edit_file_unchanged,
};
/* clang-format on */
