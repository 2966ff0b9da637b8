/* The lines of files that match a pattern, grouped by file. The guest does the work
 * (src/guest/search). */
#include <errno.h>
#include <string.h>

#include "ask.h"
#include "file_name.h"
#include "input.h"
#include "search_text.h"
#include "banned.h"

#define MATCHES_DEFAULT 200
#define FILES_DEFAULT   100
#define BYTES_MAX       (192u << 10) /* of all that is told; it may triple when it is made UTF-8 */
#define ANSWER_MAX      (8u << 20)   /* of all frames, whatever the guest says */
#define PATHS_MAX       (192u << 10)

struct answer {
    const char *prefix; /* of every path */
    json_t *files;
    json_t *matches; /* of the last file */
    size_t bytes;    /* of frames */
    size_t path_bytes;
    bool cut; /* paths that did not fit were left out */
};

static void put_text(struct buf *b, uint16_t key, const json_t *text)
{
    wire_put(b, key, json_string_value(text), json_string_length(text));
}

void search_put_globs(struct buf *b, const json_t *glob)
{
    size_t i;
    json_t *one;
    if (json_is_string(glob))
        put_text(b, WIRE_K_GLOB, glob);
    json_array_foreach(glob, i, one) put_text(b, WIRE_K_GLOB, one);
}

int search_hint(struct error *err)
{
    size_t n = strlen(err->text);
    if (err->code == ENOENT)
        snprintf(err->text + n, sizeof err->text - n,
                 "; list_files without a path shows what there is");
    return -err->code;
}

const char *search_prefix(const char *path)
{
    return path[0] == '/' && strncmp(path, "/workspace", 10) != 0 ? "/" : "";
}

static void compose(struct ask *a, struct tool_call *c, const char *path)
{
    struct buf *b = &a->out;
    ask_begin(a, c, WIRE_SEARCH);
    ask_path(a, path);
    put_text(b, WIRE_K_PATTERN, json_object_get(c->input, "pattern"));
    search_put_globs(b, json_object_get(c->input, "glob"));
    wire_put_u64(b, WIRE_K_LITERAL, input_bool(c, "literal", false));
    wire_put_u64(b, WIRE_K_IGNORE_CASE, input_bool(c, "ignore_case", false));
    wire_put_u64(b, WIRE_K_CONTEXT, (uint64_t)input_int(c, "context", 0));
    wire_put_u64(b, WIRE_K_MAX_MATCHES, (uint64_t)input_int(c, "max_matches", MATCHES_DEFAULT));
    wire_put_u64(b, WIRE_K_MAX_FILES, (uint64_t)input_int(c, "max_files", FILES_DEFAULT));
    wire_put_u64(b, WIRE_K_LIMIT_BYTES, BYTES_MAX);
    wire_put_u64(b, WIRE_K_HIDDEN, input_bool(c, "hidden", true));
    wire_put_u64(b, WIRE_K_IGNORED, input_bool(c, "ignored", false));
}

static int take_file(struct answer *a, const struct wire_field *path, uint64_t count)
{
    a->path_bytes += path->size;
    a->cut |= a->path_bytes > PATHS_MAX;
    a->matches = NULL;
    if (a->cut)
        return 0;
    json_t *file = json_object();
    int bad = file_name_set(file, "path", a->prefix, path->data, path->size);
    bad |= data_set(file, "count", json_integer((json_int_t)count));
    a->matches = json_array();
    bad |= data_set(file, "matches", a->matches);
    return json_array_append_new(a->files, file) < 0 || bad ? -ENOMEM : 0;
}

static int take_match(struct answer *a, const struct wire_frame *f)
{
    struct wire_field field;
    if (a->cut)
        return 0;
    if (!a->matches)
        return -EPROTO;
    uint64_t size = wire_find_u64(f, WIRE_K_SIZE, 0), offset = wire_find_u64(f, WIRE_K_OFFSET, 0);
    json_t *match = json_object(), *before = json_array(), *after = json_array();
    int bad = data_set(match, "line", json_integer((json_int_t)wire_find_u64(f, WIRE_K_LINE, 0)));
    bad |= data_set(match, "column", json_integer((json_int_t)wire_find_u64(f, WIRE_K_COLUMN, 0)));
    for (size_t at = 0; wire_next(f, &at, &field);) {
        json_t *list = field.key == WIRE_K_BEFORE  ? before
                       : field.key == WIRE_K_AFTER ? after
                                                   : NULL;
        if (field.key == WIRE_K_TEXT) {
            bad |= data_set(match, "text", text_json(field.data, field.size));
            if (field.size < size)
                bad |= data_set(
                    match, "cut",
                    json_pack("{s:I, s:I}", "from", (json_int_t)offset, "of", (json_int_t)size));
        } else if (list) {
            bad |= json_array_append_new(list, text_json(field.data, field.size));
        }
    }
    bad |= data_set(match, "before", before);
    bad |= data_set(match, "after", after);
    return json_array_append_new(a->matches, match) < 0 || bad ? -ENOMEM : 0;
}

static int take_entry(void *data, const struct wire_frame *f)
{
    struct answer *a = data;
    struct wire_field path;
    a->bytes += f->size;
    if (a->bytes > ANSWER_MAX || f->type != WIRE_ENTRY)
        return -EPROTO;
    if (wire_find(f, WIRE_K_PATH, &path))
        return take_file(a, &path, wire_find_u64(f, WIRE_K_COUNT, 0));
    return take_match(a, f);
}

static json_t *take_result(const struct answer *a, const struct wire_frame *f)
{
    static const struct {
        const char *name;
        uint16_t key;
    } counts[] = {{"matches", WIRE_K_COUNT},           {"files_matched", WIRE_K_FILES_MATCHED},
                  {"files_searched", WIRE_K_SEARCHED}, {"binary_skipped", WIRE_K_BINARY},
                  {"unreadable", WIRE_K_UNREADABLE},   {"partly_searched", WIRE_K_PARTLY}};
    json_t *data = json_object();
    data_set(data, "files", json_incref(a->files));
    for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
        data_set(data, counts[i].name,
                 json_integer((json_int_t)wire_find_u64(f, counts[i].key, 0)));
    data_set(data, "truncated", json_boolean(a->cut || wire_find_u64(f, WIRE_K_TOO_MANY, 0)));
    return data;
}

static int answer(struct tool_call *c, struct ask *ask, struct answer *a, struct error *err)
{
    struct wire_frame f;
    int r = ask_each(ask, take_entry, a, &f, err);
    if (r < 0)
        return search_hint(err);
    c->result->data = take_result(a, &f);
    if (!c->result->data)
        return error_set(err, ENOMEM, "no memory");
    search_text(&c->result->text, c->result->data);
    return 0;
}

static int run(struct tool_call *c, struct error *err)
{
    const char *path = json_string_value(json_object_get(c->input, "path"));
    path = path ? path : ".";
    struct answer a = {.prefix = search_prefix(path), .files = json_array()};
    _cleanup_ask_ struct ask ask;
    compose(&ask, c, path);
    int r = answer(c, &ask, &a, err);
    json_decref(a.files);
    return r;
}

static int search_files_view_call(const json_t *input, struct buf *b)
{
    const char *glob = json_get_string(input, "glob"), *path = json_get_string(input, "path");
    int r = buf_printf(b, "/%s/", json_get_string_or(input, "pattern", ""));
    if (r == 0 && glob)
        r = buf_printf(b, " %s", glob);
    return r == 0 && path ? buf_printf(b, " in %s", path) : r;
}

static int search_files_view_result(const json_t *data, struct buf *b)
{
    json_int_t n = json_get_integer(data, "matches"),
               files = json_get_integer(data, "files_matched");
    if (n == 0)
        return buf_append_str(b, "no match");
    return buf_printf(b, "%" JSON_INTEGER_FORMAT " match%s in %" JSON_INTEGER_FORMAT " file%s", n,
                      n == 1 ? "" : "es", files, files == 1 ? "" : "s");
}

/* clang-format off */
const struct tool TOOL_SEARCH_FILES = {
    .name = "search_files",
    .title = "Search files",
    .summary = "Searches the text of files for a regular expression (PCRE2), line by line, in all files beneath a folder."
               " Returns the matching lines grouped by file, with line numbers and exact counts. What .gitignore names, .git and"
               " binary files are left out. Prefer it to grep and rg in the shell: it is as fast, and its output is bounded.",
    .input = SCHEMA({
        "type": "object",
        "additionalProperties": false,
        "required": ["pattern"],
        "properties": {
            "pattern": {"type": "string", "minLength": 1, "maxLength": 8192,
                        "description": "Regular expression; a match lies within one line, ^ and $ are its ends."},
            "path": {"type": "string", "minLength": 1, "maxLength": 4096,
                     "description": "Folder or file to search (default: the workspace)."},
            "glob": {"description": "Only files whose name or path matches, such as *.py, src/**/*.{ts,tsx}; with ! in front: not those. A list: the last that matches counts.",
                     "anyOf": [{"type": "string", "minLength": 1, "maxLength": 2048},
                               {"type": "array", "maxItems": 64, "items": {"type": "string", "minLength": 1, "maxLength": 2048}}]},
            "literal": {"type": "boolean", "description": "Take the pattern as text: no character has a meaning."},
            "ignore_case": {"type": "boolean", "description": "Let capital and small letters match each other (default false)."},
            "context": {"type": "integer", "minimum": 0, "maximum": 20, "description": "Lines to show before and after each match (default 0)."},
            "max_matches": {"type": "integer", "minimum": 1, "maximum": 10000, "description": "Matching lines to return (default 200); all are counted."},
            "max_files": {"type": "integer", "minimum": 1, "maximum": 10000, "description": "Files to return (default 100)."},
            "hidden": {"type": "boolean", "description": "Search files whose names begin with a dot (default true)."},
            "ignored": {"type": "boolean", "description": "Search also what .gitignore and .ignore files name (default false)."}
        }
    }),
    .output = SCHEMA({
        "type": "object",
        "required": ["files", "matches", "files_matched", "files_searched", "binary_skipped", "unreadable", "partly_searched", "truncated"],
        "properties": {
            "files": {"type": "array", "description": "Sorted by path.", "items": {
                "type": "object",
                "required": ["path", "count", "matches"],
                "properties": {
                    "path": {"type": "string"},
                    "path_base64": {"type": "string", "description": "If the path is not UTF-8: its bytes; path is then quoted as in C."},
                    "count": {"type": "integer", "description": "Matching lines in this file, also those not returned."},
                    "matches": {"type": "array", "items": {
                        "type": "object",
                        "required": ["line", "column", "text", "before", "after"],
                        "properties": {
                            "line": {"type": "integer"},
                            "column": {"type": "integer", "description": "Of the first match in the line: in bytes, from 1."},
                            "text": {"type": "string"},
                            "cut": {"type": "object", "description": "If text is only a part of a long line: the byte it begins at, and the line's length.",
                                    "properties": {"from": {"type": "integer"}, "of": {"type": "integer"}}},
                            "before": {"type": "array", "items": {"type": "string"}},
                            "after": {"type": "array", "items": {"type": "string"}}
                        }
                    }}
                }
            }},
            "matches": {"type": "integer", "description": "All matching lines."},
            "files_matched": {"type": "integer"},
            "files_searched": {"type": "integer"},
            "binary_skipped": {"type": "integer", "description": "Files that were left at a NUL byte."},
            "unreadable": {"type": "integer", "description": "Files and folders that could not be read."},
            "partly_searched": {"type": "integer", "description": "Files over 1 GB, of which only the beginning was searched, and files with lines over 8 MB, which were searched in pieces."},
            "truncated": {"type": "boolean", "description": "Not all matches and files are in the list."}
        }
    }),
    .flags = TOOL_READS | TOOL_CACHED,
    .run = run,
    .view = &(const struct tool_view){
        .call = search_files_view_call, .result = search_files_view_result,
    },
};
/* clang-format on */
