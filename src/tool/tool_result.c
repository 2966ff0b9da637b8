/* What a call returns: the result as an object; untrusted bytes as text and JSON; names of files
 * and numbered lines; and the results of commands as JSON. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "encoding.h"
#include "exec_result.h"
#include "git.h"
#include "relpath.h"
#include "text.h"
#include "thread.h"
#include "tool_text.h"
#include "banned.h"

#define NAME_ROOM (4 * RELPATH_MAX + 16) /* quoting makes four bytes of one */

void tool_result_free(struct tool_result *r)
{
    json_decref(r->data);
    buf_free(&r->text);
    buf_free(&r->image);
    *r = TOOL_RESULT_INIT;
}

int tool_fail(struct tool_call *c, const char *fmt, ...)
{
    char text[4 * ERROR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    c->result->failed = true;
    c->result->text.len = 0;
    text_append(&c->result->text, text, strlen(text));
    return 0;
}

int tool_result_copy(const struct tool_result *from, struct tool_result *ret)
{
    struct tool_result copy = TOOL_RESULT_INIT;
    copy.failed = from->failed;
    copy.mime = from->mime;
    copy.data = from->data ? json_deep_copy(from->data) : NULL;
    if (from->text.len)
        buf_append(&copy.text, from->text.data, from->text.len);
    if (from->image.len)
        buf_append(&copy.image, from->image.data, from->image.len);
    if (copy.text.failed || copy.image.failed || (from->data && !copy.data)) {
        tool_result_free(&copy);
        return -ENOMEM;
    }
    *ret = copy;
    return 0;
}

json_t *tool_result_json(const struct tool_result *r)
{
    _cleanup_buf_ struct buf text = BUF_INIT(2 * RESULT_IMAGE_MAX);
    json_t *image = NULL;
    if (r->mime) {
        base64_append(&text, r->image.data, r->image.len);
        image =
            json_pack("{s:s, s:s%}", "mime", r->mime, "base64", (const char *)text.data, text.len);
    }
    if (text.failed || (r->mime && !image))
        return NULL;
    return json_pack("{s:b, s:o, s:o, s:o*}", "failed", r->failed, "text",
                     text_json(r->text.data, r->text.len), "data",
                     r->data ? json_incref(r->data) : json_null(), "image", image);
}

int text_append(struct buf *b, const void *data, size_t n)
{
    const uint8_t *s = data;
    size_t from = 0, at = 0;
    while (at < n) {
        size_t len = utf8_character(s + at, n - at);
        if (len && s[at]) {
            at += len;
            continue;
        }
        buf_append(b, s + from, at - from);
        buf_append_str(b, len ? "\xe2\x90\x80" : "\xef\xbf\xbd");
        from = ++at;
    }
    buf_append(b, s + from, n - from);
    return b->failed ? -ENOMEM : 0;
}

json_t *text_json(const void *data, size_t n)
{
    _cleanup_buf_ struct buf clean = BUF_INIT(3 * n + 1);
    if (n == 0)
        return json_string("");
    if (utf8_valid(data, n))
        return json_stringn_nocheck(data, n);
    if (text_append(&clean, data, n) < 0)
        return NULL;
    return json_stringn_nocheck((const char *)clean.data, clean.len);
}

int data_set(json_t *object, const char *name, json_t *value)
{
    return json_object_set_new_nocheck(object, name, value) < 0 ? -ENOMEM : 0;
}

/* --- files --- */

const char *file_input_path(struct tool_call *c)
{
    const json_t *path = json_object_get(c->input, "path");
    const char *text = json_string_value(path);
    if (strlen(text) == json_string_length(path))
        return text;
    tool_fail(c, "input.path: holds a NUL character");
    return NULL;
}

void file_put_globs(struct buf *b, const json_t *glob)
{
    size_t i;
    json_t *one;
    if (json_is_string(glob))
        wire_put(b, WIRE_K_GLOB, json_string_value(glob), json_string_length(glob));
    json_array_foreach(glob, i, one)
        wire_put(b, WIRE_K_GLOB, json_string_value(one), json_string_length(one));
}

int file_hint(struct error *err, bool search)
{
    static const struct {
        int code;
        const char *text;
    } hints[] = {
        {EISDIR, "; list a folder with list_files"},
        {EXDEV, "; a relative path must stay in the workspace, an absolute one starts at the root "
                "of the box"},
        {ENOSPC, "; the box's disk is full: delete files, or create the box with a larger --disk"},
        {EROFS, "; this part of the box is read-only (for the workspace: --mode ro)"},
        {EACCES, "; change the mode with chmod if this should be allowed"},
    };
    size_t n = strlen(err->text);
    for (size_t i = 0; i < ARRAY_SIZE(hints); i++)
        if (hints[i].code == err->code)
            snprintf(err->text + n, sizeof err->text - n, "%s", hints[i].text);
    if (search && err->code == ENOENT)
        snprintf(err->text + n, sizeof err->text - n,
                 "; list_files without a path lists the workspace");
    return -err->code;
}

const char *file_name_prefix(const char *path)
{
    return path[0] == '/' && strncmp(path, "/workspace", 10) != 0 ? "/" : "";
}

static int file_name_quote(struct buf *b, const char *prefix, const void *name, size_t n)
{
    _cleanup_buf_ struct buf copy = BUF_INIT(RELPATH_MAX + 1);
    const char *text = buf_append(&copy, name, n) < 0 ? NULL : buf_cstr(&copy);
    if (!text)
        return -ENOMEM;
    cquote_append(b, prefix, text);
    return b->failed ? -ENOMEM : 0;
}

int file_name_set(json_t *o, const char *key, const char *prefix, const void *name, size_t n)
{
    if (utf8_valid(name, n))
        return data_set(o, key, json_pack("s+%", prefix, (const char *)name, n));
    _cleanup_buf_ struct buf quoted = BUF_INIT(NAME_ROOM), bytes = BUF_INIT(RELPATH_MAX + 16),
                             base64 = BUF_INIT(2 * RELPATH_MAX);
    char other[64];
    snprintf(other, sizeof other, "%s_base64", key);
    buf_append_str(&bytes, prefix);
    buf_append(&bytes, name, n);
    if (bytes.failed || base64_append(&base64, bytes.data, bytes.len) < 0 ||
        file_name_quote(&quoted, prefix, name, n) < 0)
        return -ENOMEM;
    int r = data_set(o, key, text_json(quoted.data, quoted.len));
    return r < 0 ? r : data_set(o, other, text_json(base64.data, base64.len));
}

int file_name_append(struct buf *b, const char *prefix, const void *name, size_t n)
{
    const uint8_t *s = name;
    for (size_t at = 0, len; at < n; at += len) {
        len = utf8_character(s + at, n - at);
        if (!len || utf8_is_control(s + at, len))
            return file_name_quote(b, prefix, name, n);
    }
    buf_append_str(b, prefix);
    return buf_append(b, name, n);
}

void numbered_append(struct buf *out, const uint8_t *text, size_t n, uint64_t first)
{
    while (n > 0) {
        const uint8_t *end = memchr(text, '\n', n);
        size_t line = end ? (size_t)(end - text) : n;
        size_t shown = end && line && text[line - 1] == '\r' ? line - 1 : line;
        buf_printf(out, "%6" PRIu64 "\t", first++);
        text_append(out, text, shown);
        buf_append(out, "\n", 1);
        line += end != NULL;
        text += line;
        n -= line;
    }
}

void numbered_append_diff(struct buf *out, const uint8_t *diff, size_t n)
{
    uint64_t line = 0;
    for (size_t at = 0, end; at < n; at = end) {
        const uint8_t *newline = memchr(diff + at, '\n', n - at);
        end = newline ? (size_t)(newline + 1 - diff) : n;
        if (diff[at] == '@') { /* @@ -1,2 +3,4 @@: the first line of the new side is 3 */
            const uint8_t *plus = memchr(diff + at, '+', end - at);
            line = 0;
            for (size_t i = plus ? (size_t)(plus - diff) + 1 : end;
                 i < end && diff[i] >= '0' && diff[i] <= '9' && line < UINT32_MAX; i++)
                line = 10 * line + (uint64_t)(diff[i] - '0');
            buf_append_str(out, at ? "   ...\n" : "");
        } else if (diff[at] == ' ' || diff[at] == '+') {
            numbered_append(out, diff + at + 1, end - at - 1, line++);
        }
    }
}

/* --- results of commands --- */

bool exec_result_is_cut(const struct box_capture *c)
{
    return c->total > c->head.len + c->tail.len;
}

int exec_result_kept_text(const struct box_capture *c, struct buf *out)
{
    size_t head = c->head.len, skip = 0;
    if (exec_result_is_cut(c)) {
        head -= utf8_cut_end(c->head.data, c->head.len);
        skip = utf8_cut_start(c->tail.data, c->tail.len);
    }
    size_t tail = c->tail.len - skip;
    if (head)
        buf_append(out, c->head.data, head);
    if (exec_result_is_cut(c))
        buf_printf(out, "\n[… %" PRIu64 " bytes left out …]\n", c->total - head - tail);
    if (tail)
        buf_append(out, c->tail.data + skip, tail);
    return out->failed ? -ENOMEM : 0;
}

/* A member with the bytes as a string, or NAME_base64 where they are not UTF-8. */
static int exec_result_set_bytes(json_t *object, const char *name, const void *data, size_t n)
{
    if (utf8_valid(data, n))
        return data_set(object, name, json_stringn_nocheck(data, n));
    char other[64];
    _cleanup_buf_ struct buf text = BUF_INIT(SIZE_MAX / 2);
    snprintf(other, sizeof other, "%s_base64", name);
    if (base64_append(&text, data, n) < 0)
        return -ENOMEM;
    return data_set(object, other, json_stringn_nocheck((const char *)text.data, text.len));
}

json_t *changes_json(const struct box_changes *changes)
{
    static const char *const kinds[] = {
        [WIRE_ADDED] = "added", [WIRE_MODIFIED] = "modified", [WIRE_DELETED] = "deleted"};
    json_t *list = json_array();
    for (size_t i = 0; list && i < changes->count; i++) {
        const struct box_change *c = &changes->items[i];
        struct git_path inside;
        if (git_path_split(c->path, &inside))
            continue; /* git's own files come back as commits */
        json_t *one = json_object();
        const char *kind = (size_t)c->kind < ARRAY_SIZE(kinds) ? kinds[c->kind] : NULL;
        if (exec_result_set_bytes(one, "path", c->path, strlen(c->path)) < 0 ||
            data_set(one, "kind", kind ? json_string(kind) : json_null()) < 0 ||
            json_array_append(list, one) < 0) {
            json_decref(list);
            list = NULL;
        }
        json_decref(one);
    }
    return list;
}

json_t *exec_result_json(const struct box_result *r, const struct box_changes *changes)
{
    const char *limit = box_limit_name(r->limit);
    bool timed_out = r->limit == WIRE_LIMIT_TIMEOUT || r->limit == WIRE_LIMIT_CPU;
    bool cut = exec_result_is_cut(&r->out) || exec_result_is_cut(&r->err);
    char name[32];
    signame_format(r->signal, name, sizeof name);
    json_t *o = json_object();
    int bad = !o;
    bad |= data_set(o, "exit_code", json_integer(r->exit_code));
    bad |= data_set(o, "signal", r->signal ? json_string(name) : json_null());
    bad |= data_set(o, "timed_out", json_boolean(timed_out));
    bad |= data_set(o, "killed_by", limit ? json_string(limit) : json_null());
    const struct box_capture *const streams[] = {&r->out, &r->err};
    for (size_t i = 0; i < ARRAY_SIZE(streams); i++) {
        _cleanup_buf_ struct buf text = BUF_INIT(SIZE_MAX / 2);
        bad |= exec_result_kept_text(streams[i], &text);
        bad |= exec_result_set_bytes(o, i ? "stderr" : "stdout", text.len ? (char *)text.data : "",
                                     text.len);
    }
    bad |= data_set(o, "stdout_bytes", json_integer((json_int_t)(r->out.total & INT64_MAX)));
    bad |= data_set(o, "stderr_bytes", json_integer((json_int_t)(r->err.total & INT64_MAX)));
    bad |= data_set(o, "truncated", json_boolean(cut));
    bad |= data_set(o, "duration_ms", json_integer(r->duration_ns / NS_PER_MS));
    bad |= data_set(o, "cpu_ms", json_integer(r->cpu_ns / NS_PER_MS));
    bad |= data_set(o, "max_rss", json_integer((json_int_t)(r->max_rss & INT64_MAX)));
    bad |= changes ? data_set(o, "changes", changes_json(changes)) : 0;
    if (!bad)
        return o;
    json_decref(o);
    return NULL;
}

bool missing_on_host(const char *name, char *path, size_t size)
{
    const char *at = getenv("PATH");
    while (at && *at) {
        size_t n = strcspn(at, ":");
        struct stat st;
        int len = snprintf(path, size, "%.*s/%s", (int)n, at, name);
        if (at[0] == '/' && len > 0 && (size_t)len < size && access(path, X_OK) == 0 &&
            stat(path, &st) == 0 && S_ISREG(st.st_mode))
            return true;
        at += n + (at[n] == ':');
    }
    return false;
}

bool missing_is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && path[n] == '/';
}

void missing_folder(const char *path, char *folder, size_t size)
{
    const char *home = getenv("HOME");
    snprintf(folder, size, "%s", path);
    *strrchr(folder, '/') = 0;
    char *slash = strrchr(folder, '/');
    if (!slash || slash == folder || strcmp(slash, "/bin") != 0)
        return;
    *slash = 0;
    if ((home && strcmp(folder, home) == 0) || strcmp(folder, "/usr") == 0)
        *slash = '/';
}

bool missing_describe(const struct box_capture *output, char *text, size_t size)
{
    static const char *const shown[] = {"/usr", "/bin", "/sbin", "/lib", "/lib64"};
    static const char mark[] = ": command not found\n";
    char name[64], path[PATH_MAX], folder[PATH_MAX];
    const struct buf *b = output->tail.len ? &output->tail : &output->head;
    size_t n = strlen(mark);
    if (b->len < n || memcmp(b->data + b->len - n, mark, n) != 0)
        return false;

    /* The box says this line ("bash: line 1: NAME: command not found"): only what looks like the
     * name of a program is looked for. */
    size_t end = b->len - n, begin = end;
    while (begin > 0 && end - begin < sizeof name &&
           (isalnum(b->data[begin - 1]) ||
            strchr("._+-", b->data[begin - 1] ? b->data[begin - 1] : 1)))
        begin--;
    if (begin == end || end - begin >= sizeof name)
        return false;
    snprintf(name, sizeof name, "%.*s", (int)(end - begin), (const char *)b->data + begin);
    if (!missing_on_host(name, path, sizeof path))
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(shown); i++)
        if (missing_is_below(path, shown[i]))
            return false;
    missing_folder(path, folder, sizeof folder);
    snprintf(text, size,
             "'%s' is not in the box but is at %.300s on the host; a person can show it with --ro"
             " %.300s when the box is made",
             name, path, folder);
    return true;
}
