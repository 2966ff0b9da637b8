/*
 * Applies a diff to the workspace, all or nothing. The guest does it (src/guest/patch); this file
 * makes data and text of its answers: what was done to each file, or which hunks do not apply and
 * what the file has instead.
 */
#include <errno.h>
#include <string.h>

#include "ask.h"
#include "banned.h"

#define ENTRIES_MAX 20000u /* the guest sends at most 10,000 */
#define FILES_SHOWN 200u   /* in the text; the data has all */

static json_t *patch_text(const struct wire_frame *f, uint16_t key)
{
    struct wire_field field;
    return wire_find(f, key, &field) ? text_json(field.data, field.size) : json_string("");
}

/* All fields of a key that repeats. */
static json_t *patch_lines(const struct wire_frame *f, uint16_t key)
{
    json_t *lines = json_array();
    struct wire_field field;
    for (size_t at = 0; lines && wire_next(f, &at, &field);)
        if (field.key == key)
            json_array_append_new(lines, text_json(field.data, field.size));
    return lines;
}

static json_int_t patch_number(const struct wire_frame *f, uint16_t key)
{
    return (json_int_t)wire_find_u64(f, key, 0);
}

static json_t *patch_number_or_null(const struct wire_frame *f, uint16_t key)
{
    return patch_number(f, key) ? json_integer(patch_number(f, key)) : NULL;
}

/* What was done to one file. */
static json_t *patch_file_json(const struct wire_frame *f)
{
    static const char *const KINDS[] = {
        [WIRE_PATCH_ADDED] = "added",     [WIRE_PATCH_MODIFIED] = "modified",
        [WIRE_PATCH_DELETED] = "deleted", [WIRE_PATCH_RENAMED] = "renamed",
        [WIRE_PATCH_COPIED] = "copied",   [WIRE_PATCH_MODE] = "mode",
    };
    struct wire_field from;
    uint64_t kind = wire_find_u64(f, WIRE_K_KIND, 0);
    return json_pack(
        "{s:o, s:s, s:o*, s:I, s:I, s:I, s:o*, s:o*}", "path", patch_text(f, WIRE_K_PATH), "kind",
        kind > 0 && kind < ARRAY_SIZE(KINDS) ? KINDS[kind] : "modified", "from",
        wire_find(f, WIRE_K_FROM, &from) ? patch_text(f, WIRE_K_FROM) : NULL, "hunks",
        patch_number(f, WIRE_K_HUNKS), "added", patch_number(f, WIRE_K_ADDED), "removed",
        patch_number(f, WIRE_K_REMOVED), "offset", patch_number_or_null(f, WIRE_K_SHIFT), "fuzz",
        patch_number_or_null(f, WIRE_K_FUZZ));
}

/* What does not apply: a file, or one of its hunks. */
static json_t *patch_reject_json(const struct wire_frame *f)
{
    json_t *o = json_pack("{s:o, s:o}", "path", patch_text(f, WIRE_K_PATH), "reason",
                          patch_text(f, WIRE_K_TEXT));
    _cleanup_json_ json_t *hunk = json_pack(
        "{s:I, s:o, s:o*, s:o, s:o}", "hunk", patch_number(f, WIRE_K_HUNK), "header",
        patch_text(f, WIRE_K_HEADER), "line", patch_number_or_null(f, WIRE_K_LINE), "expected",
        patch_lines(f, WIRE_K_EXPECTED), "found", patch_lines(f, WIRE_K_FOUND));
    if (patch_number(f, WIRE_K_HUNK))
        json_object_update(o, hunk);
    return o;
}

static void patch_put_file(struct buf *b, const json_t *o)
{
    long long offset = (long long)json_get_integer(o, "offset"),
              fuzz = (long long)json_get_integer(o, "fuzz"),
              added = (long long)json_get_integer(o, "added"),
              removed = (long long)json_get_integer(o, "removed");
    buf_printf(b, "%s %s", json_get_string_or(o, "kind", ""), json_get_string_or(o, "path", ""));
    if (json_object_get(o, "from"))
        buf_printf(b, " from %s", json_get_string_or(o, "from", ""));
    if (added || removed)
        buf_printf(b, " (+%lld -%lld)", added, removed);
    if (offset)
        buf_printf(b, ", %lld line%s %s than the diff says", offset < 0 ? -offset : offset,
                   offset == 1 || offset == -1 ? "" : "s", offset < 0 ? "above" : "below");
    if (fuzz)
        buf_printf(b, ", %lld line%s of context did not match (fuzz)", fuzz, fuzz == 1 ? "" : "s");
    buf_append_str(b, "\n");
}

static void patch_put_lines(struct buf *b, const char *title, const json_t *lines, long long number)
{
    size_t i;
    json_t *line;
    if (json_array_size(lines) > 0)
        buf_printf(b, "  %s\n", title);
    json_array_foreach(lines, i, line)
    {
        if (number > 0)
            buf_printf(b, "  %6lld|%s\n", number + (long long)i, json_string_value(line));
        else
            buf_printf(b, "        |%s\n", json_string_value(line));
    }
}

static void patch_put_reject(struct buf *b, const json_t *o)
{
    long long line = (long long)json_get_integer(o, "line"),
              hunk = (long long)json_get_integer(o, "hunk");
    buf_printf(b, "%s", json_get_string_or(o, "path", ""));
    if (hunk)
        buf_printf(b, ", hunk %lld (%s)", hunk, json_get_string_or(o, "header", ""));
    buf_printf(b, ": %s\n", json_get_string_or(o, "reason", ""));
    patch_put_lines(b, "the hunk expects:", json_object_get(o, "expected"), 0);
    if (line)
        patch_put_lines(b, "the nearest place in the file has:", json_object_get(o, "found"), line);
}

static int apply_diff_run(struct tool_call *c, struct error *err)
{
    const json_t *diff = json_object_get(c->input, "diff");
    int64_t strip = input_int(c, "strip", -1), fuzz = input_int(c, "fuzz", -1);
    bool check = input_bool(c, "check", false);
    _cleanup_ask_ struct ask a;
    ask_begin(&a, c, WIRE_PATCH);
    ask_path(&a, ".");
    if (strip >= 0)
        wire_put_u64(&a.out, WIRE_K_STRIP, (uint64_t)strip);
    if (fuzz >= 0)
        wire_put_u64(&a.out, WIRE_K_FUZZ, (uint64_t)fuzz);
    wire_put_u64(&a.out, WIRE_K_REVERSE, input_bool(c, "reverse", false));
    wire_put_u64(&a.out, WIRE_K_CHECK, check);
    wire_put_u64(&a.out, WIRE_K_SPACE, input_bool(c, "ignore_whitespace", false));
    int r = ask_send(&a, err);
    if (r >= 0)
        r = ask_data(&a, json_string_value(diff), json_string_length(diff), true, err);

    /* Entries go to either list, by whether they have a reason. */
    _cleanup_json_ json_t *files = json_array(), *rejected = json_array();
    struct wire_frame f;
    struct wire_field reason;
    size_t n = 0, i;
    while (r >= 0 && (r = ask_next(&a, &f, err)) > 0) {
        bool reject = wire_find(&f, WIRE_K_TEXT, &reason);
        if (++n > ENTRIES_MAX)
            return error_set(err, EPROTO, "the box sent too many answers");
        json_array_append_new(reject ? rejected : files,
                              reject ? patch_reject_json(&f) : patch_file_json(&f));
    }
    if (r < 0)
        return r;

    struct buf *b = &c->result->text;
    json_t *one;
    c->result->failed = wire_find_u64(&f, WIRE_K_CODE, 0) || json_array_size(rejected) > 0;
    if (c->result->failed) {
        uint64_t all = wire_find_u64(&f, WIRE_K_COUNT, 0);
        n = json_array_size(rejected);
        buf_append_str(b, "The diff does not apply; nothing was changed.\n");
        json_array_foreach(rejected, i, one) patch_put_reject(b, one);
        if (all > n)
            buf_printf(b, "and %llu more\n", (unsigned long long)(all - n));
        c->result->data = json_pack("{s:O}", "rejected", rejected);
        return 0;
    }
    _cleanup_json_ json_t *notes = patch_lines(&f, WIRE_K_NOTE);
    n = json_array_size(files);
    buf_printf(b,
               check ? "The diff would apply; nothing was changed. %zu file%s:\n"
                     : "Applied. %zu file%s:\n",
               n, n == 1 ? "" : "s");
    for (i = 0; i < n && i < FILES_SHOWN; i++)
        patch_put_file(b, json_array_get(files, i));
    if (n > FILES_SHOWN)
        buf_printf(b, "and %zu more\n", n - FILES_SHOWN);
    json_array_foreach(notes, i, one) buf_printf(b, "note: %s\n", json_string_value(one));
    c->result->data = json_pack("{s:O, s:O}", "files", files, "notes", notes);
    return 0;
}

/* The name in the first `+++ b/NAME` line, and how many more files there are. */
static int apply_diff_view_call(const json_t *input, struct buf *b)
{
    const char *first = NULL;
    size_t files = 0, length = 0;
    for (const char *at = json_get_string(input, "diff"); at; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, "+++ ", 4) != 0)
            continue;
        if (files++ == 0) {
            first = strncmp(at + 4, "b/", 2) == 0 ? at + 6 : at + 4;
            length = strcspn(first, "\t\r\n");
        }
    }
    int r = first ? buf_append(b, first, length) : 0;
    return r == 0 && files > 1 ? buf_printf(b, " and %zu more", files - 1) : r;
}

static int apply_diff_view_result(const json_t *data, struct buf *b)
{
    const json_t *file;
    size_t i;
    json_int_t added = 0, removed = 0;
    json_array_foreach(json_object_get(data, "files"), i, file)
    {
        added += json_get_integer(file, "added");
        removed += json_get_integer(file, "removed");
    }
    return buf_printf(b, "+%" JSON_INTEGER_FORMAT " -%" JSON_INTEGER_FORMAT, added, removed);
}

/* A diff is applied as a whole or not at all. */
static bool apply_diff_unchanged(const json_t *input, const struct tool_result *r)
{
    return r->failed || json_get_bool(input, "check");
}

/* clang-format off */
const struct tool TOOL_APPLY_DIFF = {
    .name = "apply_diff",
    .title = "Apply a diff",
    .summary = "Applies a unified diff or git diff to the workspace, all or nothing: several"
               " files, new and deleted files, renames, modes, binary patches. Hunks are found"
               " also where lines have moved; the line counts in @@ lines need not be right. If a"
               " hunk does not apply, nothing is changed and the answer shows the nearest place in"
               " the file and what differs there.",
    .input = SCHEMA({
        "type": "object", "additionalProperties": false, "required": ["diff"], "properties": {
        "diff": {"type": "string", "minLength": 1, "maxLength": 16777216,
            "description": "Unified or git diff; paths are relative to the workspace."},
        "strip": {"type": "integer", "minimum": 0, "maximum": 64,
            "description": "Path components to strip, as patch -p (default: detected per file)."},
        "fuzz": {"type": "integer", "minimum": 0, "maximum": 3, "default": 2,
            "description": "Lines of context at both ends of a hunk that need not match."},
        "reverse": {"type": "boolean", "default": false, "description": "Undo the diff instead."},
        "check": {
            "type": "boolean", "default": false, "description": "Only say whether it would apply."},
        "ignore_whitespace": {"type": "boolean", "default": false,
            "description": "Ignore blanks at line ends, CRLF or LF, and the last newline."}}}),
    .output = SCHEMA({"type": "object", "properties": {
        "files": {"type": "array", "description": "What was done, if it applied.", "items": {
                "type": "object", "required": ["path", "kind", "hunks", "added", "removed"],
                "properties": {
                    "path": {"type": "string"},
                    "kind": {"enum": ["added", "modified", "deleted", "renamed", "copied", "mode"]},
                    "from": {"type": "string",
                        "description": "Where a renamed or copied file comes from."},
                    "hunks": {"type": "integer"},
                    "added": {"type": "integer", "description": "Lines."},
                    "removed": {"type": "integer", "description": "Lines."},
                    "offset": {"type": "integer",
                        "description": "How far a hunk was from where the diff said, at most."},
                    "fuzz": {"type": "integer",
                        "description": "Lines of context that did not match, at most."}}}},
        "notes": {"type": "array", "items": {"type": "string"}},
        "rejected": {
            "type": "array", "description": "What does not apply, and then nothing was changed.",
            "items": {
                "type": "object", "required": ["path", "reason"], "properties": {
                    "path": {"type": "string"},
                    "reason": {"type": "string"},
                    "hunk": {"type": "integer", "description": "Its number in its file, from 1."},
                    "header": {"type": "string", "description": "Its @@ line."},
                    "line": {"type": "integer",
                        "description": "Where in the file the nearest place differs first."},
                    "expected": {"type": "array", "items": {"type": "string"}},
                    "found": {"type": "array", "items": {"type": "string"}}}}}}}),
    .flags = TOOL_CHANGES,
    .run = apply_diff_run,
    .view = &(const struct tool_view){
        .call = apply_diff_view_call, .result = apply_diff_view_result, .input_body = "diff",
        .body = TOOL_BODY_DIFF, .head = 14,
    },
    .unchanged = apply_diff_unchanged,
};
/* clang-format on */
