/*
 * Messages as the view shows them: what a provider would refuse is left out (empty texts, blocks of
 * no known kind), and what is too long is cut in its middle, with a note about how to get it back.
 * A stub is the same with very little left. The history has it all; it may have been edited by
 * hand, so nothing here relies on its shape.
 */
#include <errno.h>
#include <string.h>

#include "conversation.h"
#include "view.h"
#include "text.h"
#include "banned.h"

#define STUB_OUTPUT 1200 /* output as short as this stays whole */
#define STUB_PART   400  /* what a stub keeps of either end */
#define STUB_INPUT  2000 /* strings in the input of a call */
#define DEPTH_MAX   16

/* What of a message is shown. */
struct form {
    size_t index;  /* of the message */
    size_t words;  /* the most bytes of a text of the person */
    size_t said;   /* of the model */
    size_t output; /* of one text of a result, or of a string of a call's input */
    bool stub;
    bool thoughts; /* are shown */
};

/* Cuts at the end of a line if one ends in the kept part's half towards the gap, else at a
 * character. */
json_t *form_cut(const char *text, size_t n, size_t head, size_t tail, const char *note)
{
    if (n <= head + tail)
        return json_stringn(text, n);
    if (head > 0) {
        head -= utf8_cut_end((const uint8_t *)text, head);
        const char *line = memrchr(text, '\n', head);
        if (line && (size_t)(line + 1 - text) > head / 2)
            head = (size_t)(line + 1 - text);
    }
    if (tail > 0) {
        tail -= utf8_cut_start((const uint8_t *)text + n - tail, tail);
        const char *line = memchr(text + n - tail, '\n', tail);
        if (line && (size_t)(text + n - line - 1) > tail / 2)
            tail = (size_t)(text + n - line - 1);
    }
    _cleanup_buf_ struct buf b = BUF_INIT(head + tail + strlen(note) + 100);
    buf_append(&b, text, head);
    buf_printf(&b, "%s[%zu bytes %s]%s", head > 0 && text[head - 1] != '\n' ? "\n" : "",
               n - head - tail, note, tail > 0 ? "\n" : "");
    buf_append(&b, text + n - tail, tail);
    return b.failed ? NULL : json_stringn((const char *)b.data, b.len);
}

/* Takes the text over; NULL stays NULL. */
static json_t *cut_block(json_t *text)
{
    return text ? json_pack("{s:s, s:o}", "type", "text", "text", text) : NULL;
}

/* An image becomes a word about it in a stub. */
static json_t *form_image(const json_t *block, const struct form *f)
{
    if (!json_get_string(block, "mime") || !json_get_string(block, "data"))
        return NULL;
    return f->stub ? text_block("[an image was here]") : json_incref((json_t *)block);
}

static json_t *form_result(const json_t *block, const struct form *f)
{
    char note[320], of_call[160] = "";
    const char *id = json_get_string(block, "tool_use_id");
    size_t i;
    json_t *part, *content = id ? json_array() : NULL;
    if (!content)
        return NULL;
    /* An id can stand in a sentence only if it is plain: it came from a model. */
    size_t plain =
        strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:|");
    if (plain > 0 && plain <= 128 && !id[plain])
        snprintf(of_call, sizeof of_call, ", \"call\": \"%s\"", id);
    snprintf(note, sizeof note,
             "of this output left out; memory {\"message\": %zu%s} gets them back", f->index,
             of_call);
    json_array_foreach(json_object_get(block, "content"), i, part)
    {
        const json_t *text = json_object_get(part, "text");
        size_t n = json_string_length(text), max = f->output;
        json_t *shown = NULL;
        if (block_is(part, "image"))
            shown = form_image(part, f);
        else if (n > 0 && f->stub && n > STUB_OUTPUT)
            shown = cut_block(form_cut(json_string_value(text), n, STUB_PART, STUB_PART, note));
        else if (n > 0)
            shown = cut_block(form_cut(json_string_value(text), n, max * 2 / 3, max / 3, note));
        if (shown)
            json_array_append_new(content, shown);
    }
    return json_pack("{s:s, s:s, s:o, s:b}", "type", "tool_result", "tool_use_id", id, "content",
                     content, "is_error", json_get_bool(block, "is_error"));
}

/* A copy with its long strings cut. */
static json_t *cut_strings(const json_t *value, size_t max, const char *note, int depth)
{
    size_t i;
    const char *name;
    json_t *one, *made;
    if (json_is_string(value))
        return form_cut(json_string_value(value), json_string_length(value), max * 2 / 3, max / 3,
                        note);
    if (depth >= DEPTH_MAX || (!json_is_array(value) && !json_is_object(value)))
        return json_incref((json_t *)value);
    made = json_is_array(value) ? json_array() : json_object();
    json_array_foreach(value, i, one)
        json_array_append_new(made, cut_strings(one, max, note, depth + 1));
    json_object_foreach((json_t *)value, name, one)
        json_object_set_new(made, name, cut_strings(one, max, note, depth + 1));
    return made;
}

static json_t *form_call(const json_t *block, const struct form *f)
{
    char note[160];
    const json_t *input = json_object_get(block, "input"),
                 *bad = json_object_get(block, "bad_input");
    size_t max = f->stub && f->output > STUB_INPUT ? STUB_INPUT : f->output;
    if (!json_get_string_or(block, "id", "")[0] || !json_get_string_or(block, "name", "")[0] ||
        !json_is_object(input))
        return NULL;
    snprintf(note, sizeof note,
             "of this input left out by hutch; memory {\"message\": %zu} gets them back", f->index);
    json_t *copy = json_copy((json_t *)block);
    json_object_set_new(copy, "input", cut_strings(input, max, note, 0));
    if (bad)
        json_object_set_new(copy, "bad_input", cut_strings(bad, max, note, 0));
    return copy;
}

/* NULL: it is not shown. */
static json_t *form_block(const json_t *block, bool assistant, const struct form *f)
{
    if (block_is(block, "text")) {
        char note[160];
        const json_t *text = json_object_get(block, "text");
        const char *s = json_string_value(text);
        size_t n = json_string_length(text), max = assistant ? f->said : f->words;
        if (!s || strspn(s, " \t\r\n") == n)
            return NULL;
        snprintf(note, sizeof note,
                 "of this text left out; memory {\"message\": %zu} gets them back", f->index);
        return cut_block(form_cut(s, n, max * 2 / 3, max / 3, note));
    }
    if (assistant && block_is(block, "tool_use"))
        return form_call(block, f);
    if (assistant && (block_is(block, "thinking") || block_is(block, "other")))
        return f->thoughts && json_get_string(block, "from") ? json_incref((json_t *)block) : NULL;
    if (!assistant && block_is(block, "tool_result"))
        return form_result(block, f);
    if (!assistant && block_is(block, "image"))
        return form_image(block, f);
    return NULL;
}

static size_t clamp(size_t value, size_t min, size_t max)
{
    return value < min ? min : value > max ? max : value;
}

/* Limits are in bytes, of which a token has about three: what the person says is cut only where it
 * would fill the window alone. */
int form_show(const struct context *c, size_t index, json_t **ret, struct error *err)
{
    size_t span = (size_t)c->span, i;
    const struct form f = {.index = index,
                           .words = clamp(span * 3, 2048, 8u << 20) >> c->squeeze,
                           .said = clamp(span, 2048, 8u << 20) >> c->squeeze,
                           .output = clamp(span * 3 / 10, 2048, 256u << 10) >> c->squeeze,
                           .stub = index < c->stubs,
                           .thoughts = index >= c->thoughts};
    json_t *message = NULL, *block, *content = json_array();
    int r = history_read(c->h, index, &message, err);
    if (r < 0) {
        json_decref(content);
        return r;
    }
    bool assistant = strcmp(json_get_string_or(message, "role", ""), "assistant") == 0;
    json_array_foreach(json_object_get(message, "content"), i, block)
    {
        json_t *shown = form_block(block, assistant, &f);
        if (shown)
            json_array_append_new(content, shown);
    }
    json_decref(message);
    json_t *made =
        json_pack("{s:s, s:o}", "role", assistant ? "assistant" : "user", "content", content);
    if (!made)
        return error_set(err, ENOMEM, "out of memory");
    *ret = made;
    return 0;
}
