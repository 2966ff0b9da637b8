/* A tool's result as a block of the conversation: within what a model can take, however much a tool
 * says. */
#include <string.h>

#include "agent_private.h"
#include "base64.h"
#include "banned.h"

/* Moves back to where a character begins. */
static size_t whole_before(const uint8_t *text, size_t at)
{
    while (at > 0 && (text[at] & 0xc0) == 0x80)
        at--;
    return at;
}

static json_t *bounded_text(const struct buf *text)
{
    if (text->len == 0)
        return json_string("(no output)"); /* providers refuse an empty text */
    if (text->len <= RESULT_BLOCK_TEXT)
        return json_stringn((const char *)text->data, text->len);
    _cleanup_buf_ struct buf b = BUF_INIT(RESULT_BLOCK_TEXT + 256);
    size_t head = whole_before(text->data, RESULT_BLOCK_TEXT / 3 * 2);
    size_t tail = whole_before(text->data, text->len - RESULT_BLOCK_TEXT / 3);
    buf_append(&b, text->data, head);
    buf_printf(&b, "\n[%zu bytes left out here; ask for less at a time to see them]\n",
               tail - head);
    buf_append(&b, text->data + tail, text->len - tail);
    return json_stringn((const char *)b.data, b.len);
}

static json_t *image_block(const struct tool_result *r)
{
    _cleanup_buf_ struct buf b = BUF_INIT(RESULT_BLOCK_IMAGE / 3 * 4 + 16);
    if (r->image.len > RESULT_BLOCK_IMAGE)
        return text_block("[the image is too large to be shown; make it smaller]");
    if (base64_append(&b, r->image.data, r->image.len) < 0)
        return NULL;
    return json_pack("{s:s, s:s, s:s%}", "type", "image", "mime", r->mime, "data", b.data, b.len);
}

static json_t *block(const char *id, json_t *content, bool failed)
{
    return json_pack("{s:s, s:s, s:o, s:b}", "type", "tool_result", "tool_use_id", id, "content",
                     content, "is_error", failed);
}

json_t *result_block(const char *id, const struct tool_result *r)
{
    json_t *content = json_array();
    bool image = r->mime && r->image.len;
    if (r->text.len || !image)
        json_array_append_new(
            content, json_pack("{s:s, s:o}", "type", "text", "text", bounded_text(&r->text)));
    if (image)
        json_array_append_new(content, image_block(r));
    return block(id, content, r->failed);
}

json_t *result_block_text(const char *id, const char *text)
{
    return block(id, json_pack("[o]", text_block(text)), true);
}
