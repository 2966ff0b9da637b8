/* The lines of files that match a pattern, grouped by file. The guest does the work
 * (src/guest/search); this file makes data and text of the entries that it sends. */
#include <errno.h>
#include <string.h>

#include "file_text.h"
#include "banned.h"

#define MATCHES_DEFAULT 200
#define FILES_DEFAULT   100
#define BYTES_MAX       (192u << 10) /* of all matches; it may triple when it is made UTF-8 */
#define ANSWER_MAX      (8u << 20)   /* of all frames, whatever the guest says */
#define PATHS_MAX       (192u << 10)

struct search_answer {
    const char *prefix; /* of every path */
    json_t *files;
    json_t *matches; /* of the last file */
    size_t bytes;    /* of frames */
    size_t path_bytes;
    bool cut; /* paths that did not fit were left out */
};

static int search_take_file(struct search_answer *a, const struct wire_field *path, uint64_t count)
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

static int search_take_match(struct search_answer *a, const struct wire_frame *f)
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

static int search_take_entry(void *data, const struct wire_frame *f)
{
    struct search_answer *a = data;
    struct wire_field path;
    a->bytes += f->size;
    if (a->bytes > ANSWER_MAX || f->type != WIRE_ENTRY)
        return -EPROTO;
    if (wire_find(f, WIRE_K_PATH, &path))
        return search_take_file(a, &path, wire_find_u64(f, WIRE_K_COUNT, 0));
    return search_take_match(a, f);
}

static json_t *search_data(const struct search_answer *a, const struct wire_frame *f)
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

/* While the lines of one file are written: matches may share context lines. */
struct search_lines {
    struct buf *b;
    json_int_t last;     /* the last line written; 0: none */
    const json_t *after; /* context lines behind it that are not written yet */
};

/* A line of the file may hold what would end ours. */
static void search_put_line_text(struct buf *b, const char *s)
{
    for (size_t n; *s; s += n) {
        n = strcspn(s, "\r\n\v\f");
        buf_append(b, s, n);
        if (s[n]) {
            buf_append_str(b, " ");
            n++;
        }
    }
}

static void search_put_line(struct search_lines *l, json_int_t number, char mark, const char *text)
{
    buf_printf(l->b, "%" JSON_INTEGER_FORMAT "%c", number, mark);
    search_put_line_text(l->b, text);
    buf_append_str(l->b, "\n");
    l->last = number;
}

/* The context lines behind the last match, up to the line `end`. */
static void search_put_after(struct search_lines *l, json_int_t end)
{
    size_t i;
    json_t *line;
    json_int_t number = l->last;
    json_array_foreach(l->after, i, line) if (++number < end)
        search_put_line(l, number, '-', json_string_value(line));
    l->after = NULL;
}

static void search_put_before(struct search_lines *l, const json_t *before, json_int_t match)
{
    size_t i, n = json_array_size(before);
    json_t *line;
    if (l->last > 0 && n > 0 && match - (json_int_t)n > l->last + 1)
        buf_append_str(l->b, "--\n");
    json_array_foreach(before, i, line)
    {
        json_int_t number = match - (json_int_t)(n - i);
        if (number > l->last)
            search_put_line(l, number, '-', json_string_value(line));
    }
}

static void search_put_match(struct search_lines *l, const json_t *match)
{
    json_int_t number = json_get_integer(match, "line");
    const json_t *cut = json_object_get(match, "cut");
    search_put_after(l, number);
    search_put_before(l, json_object_get(match, "before"), number);
    buf_printf(l->b, "%" JSON_INTEGER_FORMAT ":", number);
    if (cut)
        buf_append_str(l->b, json_get_integer(cut, "from") > 0 ? "… " : "");
    search_put_line_text(l->b, json_get_string_or(match, "text", ""));
    if (cut)
        buf_printf(l->b, " … [part of a line of %" JSON_INTEGER_FORMAT " bytes]",
                   json_get_integer(cut, "of"));
    buf_append_str(l->b, "\n");
    l->last = number;
    l->after = json_object_get(match, "after");
}

static void search_put_file(struct buf *b, const json_t *file)
{
    struct search_lines l = {.b = b};
    const char *path = json_get_string_or(file, "path", "");
    const json_t *matches = json_object_get(file, "matches");
    json_int_t count = json_get_integer(file, "count"),
               shown = (json_int_t)json_array_size(matches);
    file_name_append(b, "", path, strlen(path));
    if (shown < count)
        buf_printf(b, " (%" JSON_INTEGER_FORMAT " matching line%s, %" JSON_INTEGER_FORMAT " shown)",
                   count, count == 1 ? "" : "s", shown);
    buf_append_str(b, "\n");
    size_t i;
    json_t *match;
    json_array_foreach(matches, i, match) search_put_match(&l, match);
    search_put_after(&l, l.last + 1000);
    if (shown > 0)
        buf_append_str(b, "\n");
}

static void search_put_count(struct buf *b, json_int_t n, const char *one, const char *many)
{
    buf_printf(b, "%" JSON_INTEGER_FORMAT " %s", n, n == 1 ? one : many);
}

/* What may be missing from the picture. */
static void search_put_notes(struct buf *b, const json_t *data)
{
    static const struct {
        const char *name, *one, *many;
    } notes[] = {
        {"binary_skipped", "binary file skipped", "binary files skipped"},
        {"unreadable", "file or folder could not be read", "files and folders could not be read"},
        {"partly_searched", "file is too large or has too long lines and was searched in part",
         "files are too large or have too long lines and were searched in part"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(notes); i++)
        if (json_get_integer(data, notes[i].name) > 0) {
            buf_append_str(b, "; ");
            search_put_count(b, json_get_integer(data, notes[i].name), notes[i].one, notes[i].many);
        }
}

static void search_put_text(struct buf *b, const json_t *data)
{
    const json_t *files = json_object_get(data, "files");
    size_t i;
    json_t *file;
    json_array_foreach(files, i, file) search_put_file(b, file);
    if (json_get_integer(data, "matches") == 0)
        buf_append_str(b, "No matches");
    else {
        search_put_count(b, json_get_integer(data, "matches"), "matching line in ",
                         "matching lines in ");
        search_put_count(b, json_get_integer(data, "files_matched"), "file", "files");
    }
    buf_append_str(b, " (");
    search_put_count(b, json_get_integer(data, "files_searched"), "file searched",
                     "files searched");
    search_put_notes(b, data);
    buf_append_str(b, ")");
    if (json_get_bool(data, "truncated"))
        buf_append_str(b, ". Not all are shown: narrow the pattern, path or glob, or raise "
                          "max_matches or max_files");
    buf_append_str(b, ".\n");
}

static int search_files_ask(struct tool_call *c, const char *path, struct search_answer *found,
                            struct error *err)
{
    _cleanup_ask_ struct ask a;
    struct wire_frame f;
    const json_t *pattern = json_object_get(c->input, "pattern");
    ask_begin(&a, c, WIRE_SEARCH);
    ask_path(&a, path);
    wire_put(&a.out, WIRE_K_PATTERN, json_string_value(pattern), json_string_length(pattern));
    file_put_globs(&a.out, json_object_get(c->input, "glob"));
    wire_put_u64(&a.out, WIRE_K_LITERAL, input_bool(c, "literal", false));
    wire_put_u64(&a.out, WIRE_K_IGNORE_CASE, input_bool(c, "ignore_case", false));
    wire_put_u64(&a.out, WIRE_K_CONTEXT, (uint64_t)input_int(c, "context", 0));
    wire_put_u64(&a.out, WIRE_K_MAX_MATCHES,
                 (uint64_t)input_int(c, "max_matches", MATCHES_DEFAULT));
    wire_put_u64(&a.out, WIRE_K_MAX_FILES, (uint64_t)input_int(c, "max_files", FILES_DEFAULT));
    wire_put_u64(&a.out, WIRE_K_LIMIT_BYTES, BYTES_MAX);
    wire_put_u64(&a.out, WIRE_K_HIDDEN, input_bool(c, "hidden", true));
    wire_put_u64(&a.out, WIRE_K_IGNORED, input_bool(c, "ignored", false));
    int r = ask_each(&a, search_take_entry, found, &f, err);
    if (r < 0)
        return file_search_hint(err);
    c->result->data = search_data(found, &f);
    if (!c->result->data)
        return error_set(err, ENOMEM, "no memory");
    search_put_text(&c->result->text, c->result->data);
    return 0;
}

static int search_files_run(struct tool_call *c, struct error *err)
{
    const char *path = json_get_string_or(c->input, "path", ".");
    struct search_answer a = {.prefix = file_name_prefix(path), .files = json_array()};
    int r = search_files_ask(c, path, &a, err);
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
    .run = search_files_run,
    .view = &(const struct tool_view){
        .call = search_files_view_call, .result = search_files_view_result,
    },
};
/* clang-format on */
