#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "file_name.h"
#include "list_text.h"
#include "relpath.h"
#include "tool_result.h"
#include "banned.h"

struct list_types list_types_new(void)
{
    return (struct list_types){json_string("file"), json_string("folder"), json_string("link"),
                               json_string("other")};
}

void list_types_free(struct list_types *t)
{
    json_decref(t->file);
    json_decref(t->folder);
    json_decref(t->link);
    json_decref(t->other);
}

static json_t *type_of(const struct list_entry *e, const struct list_types *t)
{
    return json_incref(e->type == 'f'   ? t->file
                       : e->type == 'd' ? t->folder
                       : e->type == 'l' ? t->link
                                        : t->other);
}

json_t *list_entry_json(const struct list_entry *e, const struct list_types *types)
{
    json_t *o = json_object();
    int bad = file_name_set(o, "path", e->prefix, e->path.data, e->path.size);
    bad |= data_set(o, "type", type_of(e, types));
    if (e->mode && S_ISREG(e->mode)) {
        bad |= data_set(o, "size", json_integer((json_int_t)e->size));
        bad |= data_set(o, "executable", json_boolean(e->mode & 0111));
    }
    if (e->has_target)
        bad |= file_name_set(o, "target", "", e->target.data, e->target.size);
    if (!bad)
        return o;
    json_decref(o);
    return NULL;
}

void list_text_begin(struct list_text *t, struct buf *out, bool tree, bool sizes)
{
    *t = (struct list_text){
        .out = out, .tree = tree, .sizes = sizes, .last = BUF_INIT(WIRE_BODY_MAX)};
}

void list_text_free(struct list_text *t)
{
    buf_free(&t->last);
}

static void put_size(struct buf *b, const struct list_entry *e)
{
    static const char units[] = "BKMGTP";
    double size = (double)e->size;
    size_t unit = 0;
    for (; size >= 1023.5 && unit + 2 < sizeof units; unit++)
        size /= 1024;
    if (!e->mode || !S_ISREG(e->mode))
        buf_append_str(b, "       ");
    else if (unit == 0)
        buf_printf(b, "%5" PRIu64 "B ", e->size);
    else
        buf_printf(b, "%5.*f%c ", size < 9.95 ? 1 : 0, size, units[unit]);
}

static void put_marks(struct buf *b, const struct list_entry *e)
{
    if (e->type == 'd')
        buf_append_str(b, "/");
    else if (e->type == 'l') {
        buf_append_str(b, e->has_target ? "@ -> " : "@");
        if (e->has_target)
            file_name_append(b, "", e->target.data, e->target.size);
    } else if (e->type == 'f' && e->mode & 0111)
        buf_append_str(b, "*");
    else if (e->type != 'f')
        buf_append_str(b, "=");
    buf_append_str(b, "\n");
}

static void indent(struct list_text *t, size_t depth, bool sizes)
{
    if (sizes)
        buf_append_str(t->out, "       ");
    for (size_t i = 0; i < depth; i++)
        buf_append_str(t->out, "  ");
}

/* How much of the path the last line had, up to a slash; as many levels are in *ret_depth. */
static size_t common(const struct list_text *t, const struct wire_field *path, size_t *ret_depth)
{
    const uint8_t *last = t->last.data;
    size_t at = 0, depth = 0;
    for (size_t i = 0; i < path->size && i <= t->last.len; i++) {
        bool ends = i == t->last.len;
        if (path->data[i] == '/' && (ends || last[i] == '/'))
            at = i + 1, depth++;
        if (ends || last[i] != path->data[i])
            break;
    }
    *ret_depth = depth;
    return at;
}

/* In a tree the folders on the way have lines of their own; a glob may have left them out. */
static void put_branch(struct list_text *t, const struct list_entry *e)
{
    size_t depth, at = common(t, &e->path, &depth);
    const uint8_t *slash;
    while ((slash = memchr(e->path.data + at, '/', e->path.size - at))) {
        size_t n = (size_t)(slash - (e->path.data + at));
        indent(t, depth++, t->sizes);
        file_name_append(t->out, "", e->path.data + at, n);
        buf_append_str(t->out, "/\n");
        at += n + 1;
    }
    if (t->sizes)
        put_size(t->out, e);
    indent(t, depth, false);
    file_name_append(t->out, "", e->path.data + at, e->path.size - at);
    put_marks(t->out, e);
    t->last.len = 0;
    buf_append(&t->last, e->path.data, e->path.size);
}

void list_text_add(struct list_text *t, const struct list_entry *e)
{
    /* A line is a name of at most RELPATH_MAX bytes, quoted, and a target: let it end before the
     * buffer does.
     */
    if (t->unwritten > 0 || t->out->len + 4 * (e->path.size + e->target.size) > LIST_TEXT_MAX) {
        t->unwritten++;
        return;
    }
    if (t->tree) {
        put_branch(t, e);
        return;
    }
    if (t->sizes)
        put_size(t->out, e);
    file_name_append(t->out, e->prefix, e->path.data, e->path.size);
    put_marks(t->out, e);
}

void list_text_end(struct list_text *t, uint64_t count, uint64_t rest, uint64_t unreadable)
{
    buf_printf(t->out, "%s%" PRIu64 " entr%s", t->out->len ? "\n" : "", count,
               count == 1 ? "y" : "ies");
    if (rest + t->unwritten > 0)
        buf_printf(t->out,
                   ", of which the %" PRIu64 " nearest are shown; %" PRIu64
                   " more are not: name a folder, a glob or a depth, or raise the limit",
                   count - rest - t->unwritten, rest + t->unwritten);
    if (unreadable > 0)
        buf_printf(t->out, "; %" PRIu64 " folder%s could not be read", unreadable,
                   unreadable == 1 ? "" : "s");
    buf_append_str(t->out, ".\n");
}
