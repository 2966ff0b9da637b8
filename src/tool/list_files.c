/* The names beneath a folder, flat or as a tree. The guest does the work (src/guest/search); this
 * file makes data and text of the entries that it sends. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "tool_text.h"
#include "banned.h"

#define LIMIT_DEFAULT 500
#define ANSWER_MAX    (64u << 20)  /* bytes of all frames, whatever the guest says */
#define TEXT_MAX      (512u << 10) /* bytes of lines; the rest is only in the data */

struct list_entry {
    struct wire_field path; /* not empty */
    char type;              /* f, d, l, or another */
    mode_t mode;            /* 0: not known */
    uint64_t size;
    bool has_target;
    struct wire_field target;
};

struct listing {
    const char *prefix; /* of every name */
    bool tree, sizes;
    json_t *entries;
    size_t bytes; /* of frames */
    struct buf *out;
    struct buf last;    /* the path of the last line of a tree */
    uint64_t unwritten; /* entries without a line */
};

/* In a tree the folders on the way have lines of their own, which a glob may have left out. Writes
 * those that the last line did not have; returns where the entry's own name begins, and its
 * depth. */
static size_t list_put_folders(struct listing *t, const struct wire_field *path, size_t *ret_depth)
{
    const uint8_t *last = t->last.data, *slash;
    size_t at = 0, depth = 0;
    for (size_t i = 0; i < path->size && i <= t->last.len; i++) {
        bool ends = i == t->last.len;
        if (path->data[i] == '/' && (ends || last[i] == '/'))
            at = i + 1, depth++;
        if (ends || last[i] != path->data[i])
            break;
    }
    for (; (slash = memchr(path->data + at, '/', path->size - at)); depth++) {
        size_t n = (size_t)(slash - (path->data + at));
        buf_printf(t->out, "%*s", (int)(2 * depth + (t->sizes ? 7 : 0)), "");
        file_name_append(t->out, "", path->data + at, n);
        buf_append_str(t->out, "/\n");
        at += n + 1;
    }
    t->last.len = 0;
    buf_append(&t->last, path->data, path->size);
    *ret_depth = depth;
    return at;
}

static void list_put_entry(struct listing *t, const struct list_entry *e)
{
    static const char units[] = "BKMGTP";
    struct buf *b = t->out;
    size_t at = 0, depth = 0;
    /* Quoting makes four bytes of one. */
    if (t->unwritten > 0 || b->len + 4 * (e->path.size + e->target.size) > TEXT_MAX) {
        t->unwritten++;
        return;
    }
    if (t->tree)
        at = list_put_folders(t, &e->path, &depth);
    double size = (double)e->size;
    size_t unit = 0;
    for (; size >= 1023.5 && unit + 2 < sizeof units; unit++)
        size /= 1024;
    if (t->sizes && !S_ISREG(e->mode))
        buf_append_str(b, "       ");
    else if (t->sizes && unit == 0)
        buf_printf(b, "%5" PRIu64 "B ", e->size);
    else if (t->sizes)
        buf_printf(b, "%5.*f%c ", size < 9.95 ? 1 : 0, size, units[unit]);
    buf_printf(b, "%*s", (int)(2 * depth), "");
    file_name_append(b, t->tree ? "" : t->prefix, e->path.data + at, e->path.size - at);
    if (e->type == 'l') {
        buf_append_str(b, e->has_target ? "@ -> " : "@");
        if (e->has_target)
            file_name_append(b, "", e->target.data, e->target.size);
    } else if (e->type != 'f' || e->mode & 0111) {
        buf_append_str(b, e->type == 'd' ? "/" : e->type == 'f' ? "*" : "=");
    }
    buf_append_str(b, "\n");
}

static int list_take_entry(void *data, const struct wire_frame *f)
{
    struct listing *t = data;
    struct list_entry e = {0};
    t->bytes += f->size;
    if (f->type != WIRE_ENTRY || t->bytes > ANSWER_MAX || !wire_find(f, WIRE_K_PATH, &e.path) ||
        e.path.size == 0)
        return -EPROTO;
    e.type = (char)wire_find_u64(f, WIRE_K_KIND, 'o');
    e.mode = (mode_t)wire_find_u64(f, WIRE_K_MODE, 0);
    e.size = wire_find_u64(f, WIRE_K_SIZE, 0);
    e.has_target = wire_find(f, WIRE_K_TARGET, &e.target);
    json_t *o = json_object();
    int bad = file_name_set(o, "path", t->prefix, e.path.data, e.path.size);
    bad |= data_set(o, "type",
                    json_string(e.type == 'f'   ? "file"
                                : e.type == 'd' ? "folder"
                                : e.type == 'l' ? "link"
                                                : "other"));
    if (S_ISREG(e.mode)) {
        bad |= data_set(o, "size", json_integer((json_int_t)e.size));
        bad |= data_set(o, "executable", json_boolean(e.mode & 0111));
    }
    if (e.has_target)
        bad |= file_name_set(o, "target", "", e.target.data, e.target.size);
    if (json_array_append_new(t->entries, o) < 0 || bad)
        return -ENOMEM;
    list_put_entry(t, &e);
    return 0;
}

static int list_files_run(struct tool_call *c, struct error *err)
{
    const char *path = json_get_string_or(c->input, "path", ".");
    _cleanup_json_ json_t *entries = json_array();
    struct buf *out = &c->result->text;
    struct listing t = {.prefix = file_name_prefix(path),
                        .tree = input_bool(c, "tree", false),
                        .sizes = input_bool(c, "sizes", false),
                        .entries = entries,
                        .out = out,
                        .last = BUF_INIT(WIRE_BODY_MAX)};
    _cleanup_ask_ struct ask a;
    struct wire_frame f;
    ask_begin(&a, c, WIRE_TREE);
    ask_path(&a, path);
    file_put_globs(&a.out, json_object_get(c->input, "glob"));
    wire_put_u64(&a.out, WIRE_K_LIMIT_ENTRIES, (uint64_t)input_int(c, "limit", LIMIT_DEFAULT));
    wire_put_u64(&a.out, WIRE_K_DEPTH, (uint64_t)input_int(c, "depth", 0));
    wire_put_u64(&a.out, WIRE_K_SIZES, t.sizes);
    wire_put_u64(&a.out, WIRE_K_HIDDEN, input_bool(c, "hidden", true));
    wire_put_u64(&a.out, WIRE_K_IGNORED, input_bool(c, "ignored", false));
    int r = ask_each(&a, list_take_entry, &t, &f, err);
    buf_free(&t.last);
    if (r < 0)
        return file_hint(err, true);

    uint64_t count = wire_find_u64(&f, WIRE_K_COUNT, 0), rest = wire_find_u64(&f, WIRE_K_REST, 0);
    uint64_t unreadable = wire_find_u64(&f, WIRE_K_UNREADABLE, 0), hidden = rest + t.unwritten;
    buf_printf(out, "%s%" PRIu64 " entr%s", out->len ? "\n" : "", count, count == 1 ? "y" : "ies");
    if (hidden > 0)
        buf_printf(out,
                   ", of which the %" PRIu64 " nearest are shown; %" PRIu64
                   " more are not: name a folder, a glob or a depth, or raise the limit",
                   count - hidden, hidden);
    if (unreadable > 0)
        buf_printf(out, "; %" PRIu64 " folder%s could not be read", unreadable,
                   unreadable == 1 ? "" : "s");
    buf_append_str(out, ".\n");
    c->result->data =
        json_pack("{s:O, s:I, s:I, s:I}", "entries", entries, "count", (json_int_t)count, "rest",
                  (json_int_t)rest, "unreadable", (json_int_t)unreadable);
    return 0;
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
    .summary = "Lists the files and folders beneath a folder, sorted. What .gitignore names and"
               " .git are left out. If there are more than the limit, those nearest to the folder"
               " are returned and the rest is counted.",
    .input = SCHEMA({"type": "object", "additionalProperties": false, "properties": {
        "path": {"type": "string", "minLength": 1, "maxLength": 4096,
            "description": "The folder (default: the workspace)."},
        "glob": {
            "description": "Names or paths, as *.py, src/**/*.{ts,tsx}; ! excludes; last wins.",
            "anyOf": [{"type": "string", "minLength": 1, "maxLength": 2048},
                {"type": "array", "maxItems": 64,
                    "items": {"type": "string", "minLength": 1, "maxLength": 2048}}]},
        "tree": {"type": "boolean",
            "description": "Show it as an indented tree instead of one path per line."},
        "depth": {"type": "integer", "minimum": 1, "maximum": 10000,
            "description": "Levels to list; 1: only the folder's own entries (default: all)."},
        "sizes": {"type": "boolean",
            "description": "Show the size of files, and mark executable ones with *."},
        "hidden": {
            "type": "boolean", "description": "List names that begin with a dot (default true)."},
        "ignored": {"type": "boolean",
            "description": "Also list what .gitignore and .ignore name (default false)."},
        "limit": {"type": "integer", "minimum": 1, "maximum": 100000,
            "description": "Entries to return (default 500); all are counted."}}}),
    .output = SCHEMA({
        "type": "object", "required": ["entries", "count", "rest", "unreadable"], "properties": {
        "entries": {"type": "array", "items": {
                "type": "object", "required": ["path", "type"], "properties": {
                    "path": {"type": "string"},
                    "path_base64": {"type": "string",
                        "description": "Its bytes, if not UTF-8; path is then quoted."},
                    "type": {"enum": ["file", "folder", "link", "other"]},
                    "size": {"type": "integer",
                        "description": "Bytes of a file, if sizes were asked for."},
                    "executable": {
                        "type": "boolean", "description": "Of a file, if sizes were asked for."},
                    "target": {"type": "string", "description": "Where a link points to."},
                    "target_base64": {"type": "string"}}}},
        "count": {"type": "integer", "description": "All entries that there are."},
        "rest": {"type": "integer", "description": "Those that are not in the list."},
        "unreadable": {"type": "integer", "description": "Folders that could not be read."}}}),
    .flags = TOOL_READS | TOOL_CACHED,
    .run = list_files_run,
    .view = &(const struct tool_view){
        .call = list_files_view_call, .result = list_files_view_result,
    },
};
/* clang-format on */
