/* What the tools that work on files share: their input, names of files, numbered lines, and what to
 * do about a failure. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "encoding.h"
#include "file_text.h"
#include "relpath.h"
#include "text.h"
#include "banned.h"

#define NAME_ROOM (4 * RELPATH_MAX + 16) /* quoting makes four bytes of one */

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

int file_hint(struct error *err)
{
    static const struct {
        int code;
        const char *text;
    } hints[] = {
        {EISDIR, "; list_files shows what is in a folder"},
        {EXDEV, "; a relative path stays in the workspace, an absolute one is taken from the root "
                "of the box"},
        {ENOSPC, "; the box's disk is full: delete what is not needed, or make the box with a "
                 "larger --disk"},
        {EROFS, "; this part of the box is read-only (for the workspace: --mode ro)"},
        {EACCES, "; chmod in bash if this is meant to be allowed"},
    };
    size_t n = strlen(err->text);
    for (size_t i = 0; i < ARRAY_SIZE(hints); i++)
        if (hints[i].code == err->code)
            snprintf(err->text + n, sizeof err->text - n, "%s", hints[i].text);
    return -err->code;
}

int file_search_hint(struct error *err)
{
    size_t n = strlen(err->text);
    if (err->code == ENOENT)
        snprintf(err->text + n, sizeof err->text - n,
                 "; list_files without a path shows what there is");
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
