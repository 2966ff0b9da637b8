/* The names beneath a folder, flat or as a tree. The guest does the work (src/guest/search). */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "ask.h"
#include "file_name.h"
#include "input.h"
#include "list_text.h"
#include "search_text.h"
#include "banned.h"

#define LIMIT_DEFAULT 500
#define LIMIT_MAX     100000
#define ANSWER_MAX    (64u << 20) /* bytes of all frames, whatever the guest says */

struct answer {
    const char *prefix;
    json_t *entries;
    struct list_types types;
    struct list_text text;
    size_t bytes;
};

static void compose(struct ask *a, struct tool_call *c, const char *path)
{
    struct buf *b = &a->out;
    ask_begin(a, c, WIRE_TREE);
    ask_path(a, path);
    search_put_globs(b, json_object_get(c->input, "glob"));
    wire_put_u64(b, WIRE_K_LIMIT_ENTRIES, (uint64_t)input_int(c, "limit", LIMIT_DEFAULT));
    wire_put_u64(b, WIRE_K_DEPTH, (uint64_t)input_int(c, "depth", 0));
    wire_put_u64(b, WIRE_K_SIZES, input_bool(c, "sizes", false));
    wire_put_u64(b, WIRE_K_HIDDEN, input_bool(c, "hidden", true));
    wire_put_u64(b, WIRE_K_IGNORED, input_bool(c, "ignored", false));
}

static int take_entry(void *data, const struct wire_frame *f)
{
    struct answer *a = data;
    struct list_entry e = {.prefix = a->prefix};
    a->bytes += f->size;
    if (f->type != WIRE_ENTRY || a->bytes > ANSWER_MAX || !wire_find(f, WIRE_K_PATH, &e.path) ||
        e.path.size == 0)
        return -EPROTO;
    e.type = (char)wire_find_u64(f, WIRE_K_KIND, 'o');
    e.mode = (mode_t)wire_find_u64(f, WIRE_K_MODE, 0);
    e.size = wire_find_u64(f, WIRE_K_SIZE, 0);
    e.has_target = wire_find(f, WIRE_K_TARGET, &e.target);
    json_t *o = list_entry_json(&e, &a->types);
    if (json_array_append_new(a->entries, o) < 0)
        return -ENOMEM;
    list_text_add(&a->text, &e);
    return 0;
}

static int answer(struct tool_call *c, struct ask *ask, struct answer *a, struct error *err)
{
    struct wire_frame f;
    int r = ask_each(ask, take_entry, a, &f, err);
    if (r < 0)
        return search_hint(err);
    uint64_t count = wire_find_u64(&f, WIRE_K_COUNT, 0), rest = wire_find_u64(&f, WIRE_K_REST, 0);
    uint64_t unreadable = wire_find_u64(&f, WIRE_K_UNREADABLE, 0);
    list_text_end(&a->text, count, rest, unreadable);
    c->result->data =
        json_pack("{s:O, s:I, s:I, s:I}", "entries", a->entries, "count", (json_int_t)count, "rest",
                  (json_int_t)rest, "unreadable", (json_int_t)unreadable);
    return c->result->data ? 0 : error_set(err, ENOMEM, "no memory");
}

static int run(struct tool_call *c, struct error *err)
{
    const char *path = json_string_value(json_object_get(c->input, "path"));
    path = path ? path : ".";
    struct answer a = {
        .prefix = search_prefix(path), .entries = json_array(), .types = list_types_new()};
    list_text_begin(&a.text, &c->result->text, input_bool(c, "tree", false),
                    input_bool(c, "sizes", false));
    _cleanup_ask_ struct ask ask;
    compose(&ask, c, path);
    int r = answer(c, &ask, &a, err);
    list_text_free(&a.text);
    list_types_free(&a.types);
    json_decref(a.entries);
    return r;
}

static int list_files_view_call(const json_t *input, struct buf *b)
{
    const char *glob = json_get_string(input, "glob");
    const char *path = json_get_string_or(input, "path", glob ? NULL : ".");
    return buf_printf(b, "%s%s%s", path ? path : "", path && glob ? " " : "", glob ? glob : "");
}

static int list_files_view_result(const json_t *data, struct buf *b)
{
    json_int_t n = json_get_integer(data, "count");
    return buf_printf(b, "%" JSON_INTEGER_FORMAT " entr%s", n, n == 1 ? "y" : "ies");
}

/* clang-format off */
const struct tool TOOL_LIST_FILES = {
    .name = "list_files",
    .title = "List files",
    .summary = "Lists the files and folders beneath a folder, sorted. What .gitignore names and .git are left out. If there are more"
               " than the limit, those nearest to the folder are returned and the rest is counted.",
    .input = SCHEMA({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "path": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "The folder (default: the workspace)."},
            "glob": {"description": "Only names or paths that match, such as *.py, src/**/*.{ts,tsx}; with ! in front: not those. A list: the last that matches counts.",
                     "anyOf": [{"type": "string", "minLength": 1, "maxLength": 2048},
                               {"type": "array", "maxItems": 64, "items": {"type": "string", "minLength": 1, "maxLength": 2048}}]},
            "tree": {"type": "boolean", "description": "Show it as an indented tree instead of one path per line."},
            "depth": {"type": "integer", "minimum": 1, "maximum": 10000, "description": "How many levels to list: 1 is the folder's own entries (default: all)."},
            "sizes": {"type": "boolean", "description": "Tell the size of files, and mark those that can be executed with *."},
            "hidden": {"type": "boolean", "description": "List names that begin with a dot (default true)."},
            "ignored": {"type": "boolean", "description": "List also what .gitignore and .ignore files name (default false)."},
            "limit": {"type": "integer", "minimum": 1, "maximum": 100000, "description": "Entries to return (default 500); all are counted."}
        }
    }),
    .output = SCHEMA({
        "type": "object",
        "required": ["entries", "count", "rest", "unreadable"],
        "properties": {
            "entries": {"type": "array", "items": {
                "type": "object",
                "required": ["path", "type"],
                "properties": {
                    "path": {"type": "string"},
                    "path_base64": {"type": "string", "description": "If the path is not UTF-8: its bytes; path is then quoted as in C."},
                    "type": {"enum": ["file", "folder", "link", "other"]},
                    "size": {"type": "integer", "description": "Bytes of a file, if sizes were asked for."},
                    "executable": {"type": "boolean", "description": "Of a file, if sizes were asked for."},
                    "target": {"type": "string", "description": "Where a link points to."},
                    "target_base64": {"type": "string"}
                }
            }},
            "count": {"type": "integer", "description": "All entries that there are."},
            "rest": {"type": "integer", "description": "Those that are not in the list."},
            "unreadable": {"type": "integer", "description": "Folders that could not be read."}
        }
    }),
    .flags = TOOL_READS | TOOL_CACHED,
    .run = run,
    .view = &(const struct tool_view){
        .call = list_files_view_call, .result = list_files_view_result,
    },
};
/* clang-format on */
