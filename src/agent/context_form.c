/*
 * Messages as the view shows them: what a provider would refuse is left out (empty texts, blocks of
 * no known kind), and what is too long is cut in its middle, with a word about how to get it back.
 * A stub is the same with very little left. The history has it all; it may have been edited by
 * hand, so nothing about its shape is believed.
 */
#include <string.h>

#include "context_private.h"
#include "utf8.h"
#include "banned.h"

#define STUB_OUTPUT 1200 /* output as short as this stays whole */
#define STUB_PART   400  /* what a stub keeps of either end */
#define STUB_INPUT  2000 /* strings in the input of a call */
#define DEPTH_MAX   16

static const char *type_of(const json_t *block)
{
    const char *type = json_string_value(json_object_get(block, "type"));
    return type ? type : "";
}

/* The first `n` bytes, less what would cut a character, or a line if one ends in their second half.
 */
static size_t head_of(const char *text, size_t n)
{
    n -= utf8_cut_end((const uint8_t *)text, n);
    const char *line = memrchr(text, '\n', n);
    return line && (size_t)(line + 1 - text) > n / 2 ? (size_t)(line + 1 - text) : n;
}

static size_t tail_of(const char *text, size_t size, size_t n)
{
    const char *at = text + size - n;
    size_t cut = utf8_cut_start((const uint8_t *)at, n);
    at += cut;
    n -= cut;
    const char *line = memchr(at, '\n', n);
    return line && (size_t)(text + size - line - 1) > n / 2 ? (size_t)(text + size - line - 1) : n;
}

json_t *form_cut(const char *text, size_t n, size_t head, size_t tail, const char *note)
{
    if (n <= head + tail)
        return json_stringn(text, n);
    head = head > 0 ? head_of(text, head) : 0;
    tail = tail > 0 ? tail_of(text, n, tail) : 0;
    _cleanup_buf_ struct buf b = BUF_INIT(head + tail + strlen(note) + 100);
    buf_append(&b, text, head);
    buf_printf(&b, "%s[%zu bytes %s]%s", head > 0 && text[head - 1] != '\n' ? "\n" : "",
               n - head - tail, note, tail > 0 ? "\n" : "");
    buf_append(&b, text + n - tail, tail);
    return b.failed ? NULL : json_stringn((const char *)b.data, b.len);
}

static json_t *text_block(json_t *text)
{
    return text ? json_pack("{s:s, s:o}", "type", "text", "text", text) : NULL;
}

static json_t *form_text(const json_t *block, size_t max, const struct form *f)
{
    char note[160];
    const json_t *text = json_object_get(block, "text");
    size_t n = json_string_length(text);
    const char *s = json_string_value(text);
    if (!s || strspn(s, " \t\r\n") == n)
        return NULL;
    snprintf(note, sizeof note, "of this text left out; memory {\"message\": %zu} gets them back",
             f->index);
    return text_block(form_cut(s, n, max * 2 / 3, max / 3, note));
}

/* An image of a result becomes a word about it in a stub. */
static json_t *form_image(const json_t *block, const struct form *f)
{
    const char *mime = json_string_value(json_object_get(block, "mime"));
    if (!mime || !json_is_string(json_object_get(block, "data")))
        return NULL;
    return f->stub ? text_block(json_string("[an image was here]")) : json_incref((json_t *)block);
}

/* An id that can stand in a sentence: it came from a model. */
static bool is_plain(const char *id)
{
    size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:|");
    return n > 0 && n <= 128 && !id[n];
}

static json_t *form_output(const json_t *part, const char *call, const struct form *f)
{
    char note[320];
    const json_t *text = json_object_get(part, "text");
    const char *s = json_string_value(text);
    size_t n = json_string_length(text);
    if (strcmp(type_of(part), "image") == 0)
        return form_image(part, f);
    if (!s || n == 0)
        return NULL;
    if (is_plain(call))
        snprintf(
            note, sizeof note,
            "of this output left out; memory {\"message\": %zu, \"call\": \"%s\"} gets them back",
            f->index, call);
    else
        snprintf(note, sizeof note,
                 "of this output left out; memory {\"message\": %zu} gets them back", f->index);
    if (f->stub && n > STUB_OUTPUT)
        return text_block(form_cut(s, n, STUB_PART, STUB_PART, note));
    return text_block(form_cut(s, n, f->output * 2 / 3, f->output / 3, note));
}

static json_t *form_result(const json_t *block, const struct form *f)
{
    const char *id = json_string_value(json_object_get(block, "tool_use_id"));
    size_t i;
    json_t *part, *content = json_array();
    if (!id || !content) {
        json_decref(content);
        return NULL;
    }
    json_array_foreach(json_object_get(block, "content"), i, part)
    {
        json_t *shown = form_output(part, id, f);
        if (shown)
            json_array_append_new(content, shown);
    }
    return json_pack("{s:s, s:s, s:o, s:b}", "type", "tool_result", "tool_use_id", id, "content",
                     content, "is_error", json_is_true(json_object_get(block, "is_error")));
}

static bool has_long(const json_t *value, size_t max, int depth)
{
    size_t i;
    const char *name;
    json_t *one;
    if (json_is_string(value))
        return json_string_length(value) > max;
    if (depth >= DEPTH_MAX)
        return false;
    json_array_foreach(value, i, one)
    {
        if (has_long(one, max, depth + 1))
            return true;
    }
    json_object_foreach((json_t *)value, name, one)
    {
        if (has_long(one, max, depth + 1))
            return true;
    }
    return false;
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
    const char *id = json_string_value(json_object_get(block, "id"));
    const char *name = json_string_value(json_object_get(block, "name"));
    const json_t *input = json_object_get(block, "input");
    size_t max = f->stub && f->output > STUB_INPUT ? STUB_INPUT : f->output;
    if (!id || !id[0] || !name || !name[0] || !json_is_object(input))
        return NULL;
    bool bad = json_string_length(json_object_get(block, "bad_input")) > max;
    if (!bad && !has_long(input, max, 0))
        return json_incref((json_t *)block);
    snprintf(note, sizeof note,
             "of this input left out by hutch; memory {\"message\": %zu} gets them back", f->index);
    json_t *copy = json_copy((json_t *)block);
    json_object_set_new(copy, "input", cut_strings(input, max, note, 0));
    if (bad)
        json_object_set_new(copy, "bad_input",
                            cut_strings(json_object_get(block, "bad_input"), max, note, 0));
    return copy;
}

static json_t *form_block(const json_t *block, bool assistant, const struct form *f)
{
    const char *type = type_of(block);
    if (strcmp(type, "text") == 0)
        return form_text(block, assistant ? f->said : f->words, f);
    if (assistant && strcmp(type, "tool_use") == 0)
        return form_call(block, f);
    if (assistant && (strcmp(type, "thinking") == 0 || strcmp(type, "other") == 0))
        return !f->thoughts || !json_is_string(json_object_get(block, "from"))
                   ? NULL
                   : json_incref((json_t *)block);
    if (!assistant && strcmp(type, "tool_result") == 0)
        return form_result(block, f);
    if (!assistant && strcmp(type, "image") == 0)
        return form_image(block, f);
    return NULL;
}

json_t *form_message(const json_t *message, const struct form *f)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    bool assistant = role && strcmp(role, "assistant") == 0;
    size_t i;
    json_t *block, *content = json_array();
    json_array_foreach(json_object_get(message, "content"), i, block)
    {
        json_t *shown = form_block(block, assistant, f);
        if (shown)
            json_array_append_new(content, shown);
    }
    return json_pack("{s:s, s:o}", "role", assistant ? "assistant" : "user", "content", content);
}

static size_t clamp(size_t value, size_t min, size_t max)
{
    return value < min ? min : value > max ? max : value;
}

/* In bytes, of which a token has three or so in text that is dear: what the person says is cut only
 * where it would fill the window alone. */
void form_of(const struct context *c, size_t index, struct form *ret)
{
    size_t span = (size_t)c->span;
    *ret = (struct form){.index = index,
                         .words = clamp(span * 3, 2048, 8u << 20) >> c->squeeze,
                         .said = clamp(span, 2048, 8u << 20) >> c->squeeze,
                         .output = clamp(span * 3 / 10, 2048, 256u << 10) >> c->squeeze,
                         .stub = index < c->stubs,
                         .thoughts = index >= c->thoughts};
}
