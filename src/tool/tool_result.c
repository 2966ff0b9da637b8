#include <errno.h>
#include <string.h>

#include "encoding.h"
#include "text.h"
#include "tool_result.h"
#include "banned.h"

void tool_result_free(struct tool_result *r)
{
    json_decref(r->data);
    buf_free(&r->text);
    buf_free(&r->image);
    *r = TOOL_RESULT_INIT;
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
