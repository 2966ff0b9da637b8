#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "encoding.h"
#include "file_name.h"
#include "relpath.h"
#include "tool_result.h"
#include "utf8.h"
#include "banned.h"

#define NAME_ROOM (4 * RELPATH_MAX + 16) /* quoting makes four bytes of one */

/* As nearly all names are. */
static bool is_printable_ascii(const uint8_t *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] < 0x20 || s[i] > 0x7e)
            return false;
    return true;
}

static bool has_control(const uint8_t *s, size_t n)
{
    for (size_t at = 0, len; at < n; at += len) {
        len = utf8_character(s + at, n - at);
        if (!len || utf8_is_control(s + at, len))
            return true;
    }
    return false;
}

static int quote(struct buf *b, const char *prefix, const void *name, size_t n)
{
    _cleanup_buf_ struct buf copy = BUF_INIT(RELPATH_MAX + 1);
    const char *text = buf_append(&copy, name, n) < 0 ? NULL : buf_cstr(&copy);
    if (!text)
        return -ENOMEM;
    cquote_append(b, prefix, text);
    return b->failed ? -ENOMEM : 0;
}

static int set_quoted(json_t *o, const char *key, const char *prefix, const void *name, size_t n)
{
    _cleanup_buf_ struct buf quoted = BUF_INIT(NAME_ROOM), bytes = BUF_INIT(RELPATH_MAX + 16),
                             base64 = BUF_INIT(2 * RELPATH_MAX);
    char other[64];
    snprintf(other, sizeof other, "%s_base64", key);
    buf_append_str(&bytes, prefix);
    buf_append(&bytes, name, n);
    if (bytes.failed || base64_append(&base64, bytes.data, bytes.len) < 0 ||
        quote(&quoted, prefix, name, n) < 0)
        return -ENOMEM;
    int r = data_set(o, key, text_json(quoted.data, quoted.len));
    return r < 0 ? r : data_set(o, other, text_json(base64.data, base64.len));
}

int file_name_set(json_t *o, const char *key, const char *prefix, const void *name, size_t n)
{
    if (!is_printable_ascii(name, n) && !utf8_valid(name, n))
        return set_quoted(o, key, prefix, name, n);
    if (!*prefix)
        return data_set(o, key, json_stringn_nocheck(name, n));
    return data_set(o, key, json_pack("s+%", prefix, (const char *)name, n));
}

int file_name_append(struct buf *b, const char *prefix, const void *name, size_t n)
{
    if (!is_printable_ascii(name, n) && has_control(name, n))
        return quote(b, prefix, name, n);
    buf_append_str(b, prefix);
    return buf_append(b, name, n);
}
