/* Messages of the history, and results of tools as blocks of them. history.h describes the form. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "agent_session.h"
#include "encoding.h"
#include "text.h"
#include "banned.h"

int agent_append(struct agent *a, json_t *message, struct error *err)
{
    if (!message)
        return error_set(err, ENOMEM, "out of memory");
    int r = history_append(a->history, message, err);
    json_decref(message);
    return r;
}

json_t *message_of_results(json_t *blocks)
{
    return json_pack("{s:s, s:o}", "role", "user", "content", blocks);
}

json_t *message_of_hutch(const char *kind, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    json_t *message = json_vpack_ex(NULL, 0, fmt, args);
    va_end(args);
    if (!message || json_object_set_new(message, "role", json_string("hutch")) < 0 ||
        json_object_set_new(message, "kind", json_string(kind)) < 0) {
        json_decref(message);
        return NULL;
    }
    return message;
}

int agent_record_box(struct agent *a, struct error *err)
{
    if (a->box_recorded)
        return 0;
    json_t *folder = a->folder_known
                         ? json_pack("[I, I]", (json_int_t)a->folder.dev, (json_int_t)a->folder.ino)
                         : NULL;
    int r = agent_append(
        a, message_of_hutch("box", "{s:s, s:o*}", "box", workbox_id(a->box), "folder", folder),
        err);
    a->box_recorded = r == 0;
    return r;
}

int agent_record_answer(struct agent *a, const struct model_reply *reply, const char *stop,
                        double cost, struct error *err)
{
    const struct model_usage *u = &reply->usage;
    json_t *usage = u->known
                        ? json_pack("{s:I, s:I, s:I, s:I, s:I}", "input", (json_int_t)u->input,
                                    "output", (json_int_t)u->output, "cache_read",
                                    (json_int_t)u->cache_read, "cache_write",
                                    (json_int_t)u->cache_write, "thinking", (json_int_t)u->thinking)
                        : NULL;
    json_t *m = json_pack("{s:s, s:O, s:s, s:s, s:o*, s:o*}", "role", "assistant", "content",
                          reply->content, "model", a->model_name, "stop", stop, "usage", usage,
                          "cost", cost >= 0 ? json_real(cost) : NULL);
    return agent_append(a, m, err);
}

static json_t *block_of_result(const char *id, json_t *content, bool failed)
{
    return json_pack("{s:s, s:s, s:o, s:b}", "type", "tool_result", "tool_use_id", id, "content",
                     content, "is_error", failed);
}

/* Both ends of a text that is too long, whole characters. Providers refuse an empty text. */
static json_t *bounded_text(const struct buf *text)
{
    if (text->len == 0)
        return json_string("(no output)");
    if (text->len <= RESULT_BLOCK_TEXT)
        return json_stringn((const char *)text->data, text->len);
    _cleanup_buf_ struct buf b = BUF_INIT(RESULT_BLOCK_TEXT + 256);
    size_t head = RESULT_BLOCK_TEXT / 3 * 2, tail = text->len - RESULT_BLOCK_TEXT / 3;
    head -= utf8_cut_end(text->data, head);
    tail += utf8_cut_start(text->data + tail, text->len - tail);
    buf_append(&b, text->data, head);
    buf_printf(&b, "\n[%zu bytes left out here; ask for less at a time to see them]\n",
               tail - head);
    buf_append(&b, text->data + tail, text->len - tail);
    return json_stringn((const char *)b.data, b.len);
}

json_t *result_block(const char *id, const struct tool_result *r)
{
    json_t *content = json_array();
    bool image = r->mime && r->image.len;
    if (r->text.len || !image)
        json_array_append_new(
            content, json_pack("{s:s, s:o}", "type", "text", "text", bounded_text(&r->text)));
    if (image && r->image.len > RESULT_BLOCK_IMAGE) {
        json_array_append_new(content,
                              text_block("[the image is too large to be shown; make it smaller]"));
    } else if (image) {
        _cleanup_buf_ struct buf b = BUF_INIT(RESULT_BLOCK_IMAGE / 3 * 4 + 16);
        if (base64_append(&b, r->image.data, r->image.len) == 0)
            json_array_append_new(content, json_pack("{s:s, s:s, s:s%}", "type", "image", "mime",
                                                     r->mime, "data", b.data, b.len));
    }
    return block_of_result(id, content, r->failed);
}

json_t *result_block_failed(const char *id, const char *text)
{
    return block_of_result(id, json_pack("[o]", text_block(text)), true);
}

json_t *results_for_open_calls(const json_t *content, const char *text)
{
    size_t i;
    json_t *block, *results = json_array();
    json_array_foreach(content, i, block)
    {
        const char *id = json_get_string(block, "id");
        if (id && block_is(block, "tool_use"))
            json_array_append_new(results, result_block_failed(id, text));
    }
    if (json_array_size(results) > 0)
        return results;
    json_decref(results);
    return NULL;
}
