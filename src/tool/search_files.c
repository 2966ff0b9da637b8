/* The lines of files that match a pattern, grouped by file. The guest does the work
 * (src/guest/search); this file makes data and text of the entries that it sends. */
#include <errno.h>
#include <string.h>

#include "tool_text.h"
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

/* A file, or a match in the last one. */
static int search_take_entry(void *data, const struct wire_frame *f)
{
    struct search_answer *a = data;
    struct wire_field path;
    a->bytes += f->size;
    if (a->bytes > ANSWER_MAX || f->type != WIRE_ENTRY)
        return -EPROTO;
    bool is_file = wire_find(f, WIRE_K_PATH, &path);
    if (is_file) {
        a->path_bytes += path.size;
        a->cut |= a->path_bytes > PATHS_MAX;
        a->matches = NULL;
    }
    if (a->cut)
        return 0;
    if (!is_file) {
        struct wire_field field;
        uint64_t size = wire_find_u64(f, WIRE_K_SIZE, 0);
        json_t *match = json_object(), *before = json_array(), *after = json_array();
        int bad =
            data_set(match, "line", json_integer((json_int_t)wire_find_u64(f, WIRE_K_LINE, 0)));
        bad |=
            data_set(match, "column", json_integer((json_int_t)wire_find_u64(f, WIRE_K_COLUMN, 0)));
        for (size_t at = 0; wire_next(f, &at, &field);) {
            json_t *list = field.key == WIRE_K_BEFORE  ? before
                           : field.key == WIRE_K_AFTER ? after
                                                       : NULL;
            if (list)
                bad |= json_array_append_new(list, text_json(field.data, field.size));
            if (field.key == WIRE_K_TEXT)
                bad |= data_set(match, "text", text_json(field.data, field.size));
            if (field.key == WIRE_K_TEXT && field.size < size)
                bad |= data_set(match, "cut",
                                json_pack("{s:I, s:I}", "from",
                                          (json_int_t)wire_find_u64(f, WIRE_K_OFFSET, 0), "of",
                                          (json_int_t)size));
        }
        bad |= data_set(match, "before", before);
        bad |= data_set(match, "after", after);
        return !a->matches                                           ? (json_decref(match), -EPROTO)
               : json_array_append_new(a->matches, match) < 0 || bad ? -ENOMEM
                                                                     : 0;
    }
    json_t *file = json_object();
    int bad = file_name_set(file, "path", a->prefix, path.data, path.size);
    bad |= data_set(file, "count", json_integer((json_int_t)wire_find_u64(f, WIRE_K_COUNT, 0)));
    a->matches = json_array();
    bad |= data_set(file, "matches", a->matches);
    return json_array_append_new(a->files, file) < 0 || bad ? -ENOMEM : 0;
}

/* A line of the file may hold what would end ours. */
static void search_put_text(struct buf *b, const char *s)
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

/* Context lines, the first with this number; those in between `above` and `end` that were not
 * written yet. Returns the last line written. */
static json_int_t search_put_context(struct buf *b, const json_t *lines, json_int_t number,
                                     json_int_t above, json_int_t end)
{
    size_t i;
    json_t *line;
    json_array_foreach(lines, i, line)
    {
        json_int_t at = number + (json_int_t)i;
        if (at <= above || at >= end)
            continue;
        buf_printf(b, "%" JSON_INTEGER_FORMAT "-", at);
        search_put_text(b, json_string_value(line));
        buf_append_str(b, "\n");
        above = at;
    }
    return above;
}

static void search_put_file(struct buf *b, const json_t *file)
{
    const char *path = json_get_string_or(file, "path", "");
    const json_t *matches = json_object_get(file, "matches"), *after = NULL;
    json_int_t count = json_get_integer(file, "count"), last = 0;
    json_int_t shown = (json_int_t)json_array_size(matches);
    size_t i;
    json_t *match;
    file_name_append(b, "", path, strlen(path));
    if (shown < count)
        buf_printf(b, " (%" JSON_INTEGER_FORMAT " matching line%s, %" JSON_INTEGER_FORMAT " shown)",
                   count, count == 1 ? "" : "s", shown);
    buf_append_str(b, "\n");

    /* Matches may share context lines: each is written once. */
    json_array_foreach(matches, i, match)
    {
        json_int_t number = json_get_integer(match, "line");
        const json_t *cut = json_object_get(match, "cut"),
                     *before = json_object_get(match, "before");
        json_int_t first = number - (json_int_t)json_array_size(before);
        last = search_put_context(b, after, last + 1, last, number);
        if (last > 0 && first < number && first > last + 1)
            buf_append_str(b, "--\n");
        search_put_context(b, before, first, last, number);
        buf_printf(b, "%" JSON_INTEGER_FORMAT ":%s", number,
                   json_get_integer(cut, "from") > 0 ? "… " : "");
        search_put_text(b, json_get_string_or(match, "text", ""));
        if (cut)
            buf_printf(b, " … [part of a line of %" JSON_INTEGER_FORMAT " bytes]",
                       json_get_integer(cut, "of"));
        buf_append_str(b, "\n");
        last = number;
        after = json_object_get(match, "after");
    }
    search_put_context(b, after, last + 1, last, last + 1000);
    if (shown > 0)
        buf_append_str(b, "\n");
}

static void search_put_count(struct buf *b, const json_t *data, const char *name, const char *one,
                             const char *many)
{
    json_int_t n = json_get_integer(data, name);
    buf_printf(b, "%" JSON_INTEGER_FORMAT " %s", n, n == 1 ? one : many);
}

static void search_put_result(struct buf *b, const json_t *data)
{
    static const struct {
        const char *name, *one, *many;
    } notes[] = {
        {"binary_skipped", "binary file skipped", "binary files skipped"},
        {"unreadable", "file or folder could not be read", "files and folders could not be read"},
        {"partly_searched", "file is too large or has too long lines and was searched in part",
         "files are too large or have too long lines and were searched in part"},
    };
    size_t i;
    json_t *file;
    json_array_foreach(json_object_get(data, "files"), i, file) search_put_file(b, file);
    if (json_get_integer(data, "matches") == 0) {
        buf_append_str(b, "No matches");
    } else {
        search_put_count(b, data, "matches", "matching line in ", "matching lines in ");
        search_put_count(b, data, "files_matched", "file", "files");
    }
    buf_append_str(b, " (");
    search_put_count(b, data, "files_searched", "file searched", "files searched");
    for (i = 0; i < ARRAY_SIZE(notes); i++)
        if (json_get_integer(data, notes[i].name) > 0) {
            buf_append_str(b, "; ");
            search_put_count(b, data, notes[i].name, notes[i].one, notes[i].many);
        }
    buf_append_str(b, ")");
    if (json_get_bool(data, "truncated"))
        buf_append_str(b, ". Not all are shown: narrow the pattern, path or glob, or raise "
                          "max_matches or max_files");
    buf_append_str(b, ".\n");
}

static int search_files_run(struct tool_call *c, struct error *err)
{
    static const struct {
        const char *name;
        uint16_t key;
    } counts[] = {{"matches", WIRE_K_COUNT},           {"files_matched", WIRE_K_FILES_MATCHED},
                  {"files_searched", WIRE_K_SEARCHED}, {"binary_skipped", WIRE_K_BINARY},
                  {"unreadable", WIRE_K_UNREADABLE},   {"partly_searched", WIRE_K_PARTLY}};
    const char *path = json_get_string_or(c->input, "path", ".");
    const json_t *pattern = json_object_get(c->input, "pattern");
    _cleanup_json_ json_t *files = json_array();
    struct search_answer found = {.prefix = file_name_prefix(path), .files = files};
    _cleanup_ask_ struct ask a;
    struct wire_frame f;
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
    if (ask_each(&a, search_take_entry, &found, &f, err) < 0)
        return file_hint(err, true);

    json_t *data = c->result->data = json_object();
    int bad = data_set(data, "files", json_incref(files));
    for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
        bad |= data_set(data, counts[i].name,
                        json_integer((json_int_t)wire_find_u64(&f, counts[i].key, 0)));
    bool cut = found.cut || wire_find_u64(&f, WIRE_K_TOO_MANY, 0);
    bad |= data_set(data, "truncated", json_boolean(cut));
    search_put_result(&c->result->text, data);
    return bad ? error_set(err, ENOMEM, "no memory") : 0;
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
    .summary = "Searches the text of files for a regular expression (PCRE2), line by line, in all"
               " files beneath a folder. Returns the matching lines grouped by file, with line"
               " numbers and exact counts. What .gitignore names, .git and binary files are left"
               " out. Prefer it to grep and rg in the shell: it is as fast, and its output is"
               " bounded.",
    .input = SCHEMA({
        "type": "object", "additionalProperties": false, "required": ["pattern"], "properties": {
        "pattern": {"type": "string", "minLength": 1, "maxLength": 8192,
            "description": "Regular expression; matches within a line, ^ and $ are its ends."},
        "path": {"type": "string", "minLength": 1, "maxLength": 4096,
            "description": "Folder or file to search (default: the workspace)."},
        "glob": {
            "description": "Names or paths, as *.py, src/**/*.{ts,tsx}; ! excludes; last wins.",
            "anyOf": [{"type": "string", "minLength": 1, "maxLength": 2048},
                {"type": "array", "maxItems": 64,
                    "items": {"type": "string", "minLength": 1, "maxLength": 2048}}]},
        "literal": {"type": "boolean", "description": "Match the pattern as plain text."},
        "ignore_case": {
            "type": "boolean", "description": "Ignore the case of letters (default false)."},
        "context": {"type": "integer", "minimum": 0, "maximum": 20,
            "description": "Lines to show before and after each match (default 0)."},
        "max_matches": {"type": "integer", "minimum": 1, "maximum": 10000,
            "description": "Matching lines to return (default 200); all are counted."},
        "max_files": {"type": "integer", "minimum": 1, "maximum": 10000,
            "description": "Files to return (default 100)."},
        "hidden": {"type": "boolean",
            "description": "Search files whose names begin with a dot (default true)."},
        "ignored": {"type": "boolean",
            "description": "Also search what .gitignore and .ignore name (default false)."}}}),
    .output = SCHEMA({"type": "object",
        "required": ["files", "matches", "files_matched", "files_searched", "binary_skipped",
            "unreadable", "partly_searched", "truncated"], "properties": {
        "files": {"type": "array", "description": "Sorted by path.", "items": {
                "type": "object", "required": ["path", "count", "matches"], "properties": {
                    "path": {"type": "string"},
                    "path_base64": {"type": "string",
                        "description": "Its bytes, if not UTF-8; path is then quoted."},
                    "count": {"type": "integer",
                        "description": "Matching lines in this file, also those not returned."},
                    "matches": {"type": "array", "items": {
                            "type": "object",
                            "required": ["line", "column", "text", "before", "after"],
                            "properties": {
                                "line": {"type": "integer"},
                                "column": {"type": "integer",
                                    "description": "Of the first match, in bytes from 1."},
                                "text": {"type": "string"},
                                "cut": {"type": "object",
                                    "description": "Part of a long line: first byte, line length.",
                                    "properties": {
                                        "from": {"type": "integer"},
                                        "of": {"type": "integer"}}},
                                "before": {"type": "array", "items": {"type": "string"}},
                                "after": {"type": "array", "items": {"type": "string"}}}}}}}},
        "matches": {"type": "integer", "description": "All matching lines."},
        "files_matched": {"type": "integer"},
        "files_searched": {"type": "integer"},
        "binary_skipped": {"type": "integer", "description": "Files that were left at a NUL byte."},
        "unreadable": {
            "type": "integer", "description": "Files and folders that could not be read."},
        "partly_searched": {"type": "integer",
            "description": "Files over 1 GB (start only) or with lines over 8 MB (in pieces)."},
        "truncated": {
            "type": "boolean", "description": "Not all matches and files are in the list."}}}),
    .flags = TOOL_READS | TOOL_CACHED,
    .run = search_files_run,
    .view = &(const struct tool_view){
        .call = search_files_view_call, .result = search_files_view_result,
    },
};
/* clang-format on */
