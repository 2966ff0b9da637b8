/*
 * The view as a conversation that providers accept: user and assistant in turns, the user first;
 * every call answered right behind it, by what the history has or by a note that it was
 * interrupted; no answer to anything that was not asked.
 *
 * Messages are shown without what a provider would refuse (empty texts, blocks of no known kind);
 * what is too long is cut in its middle, with a note about how to get it back. A stub is the same
 * with very little left. The history has it all; it may have been edited by hand, so nothing here
 * relies on its shape.
 *
 * Where older messages are left out, the view begins with the person's own words, verbatim, and the
 * summary. Summaries lose words, rules above all ("never touch the migrations"), so words are not
 * left to them: the first and the latest are there in full, and of the others the newest as far as
 * the budget goes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "conversation.h"
#include "text.h"
#include "banned.h"

#define STUB_OUTPUT 1200 /* output as short as this stays whole */
#define STUB_PART   400  /* what a stub keeps of either end */
#define STUB_INPUT  2000 /* strings in the input of a call */
#define DEPTH_MAX   16
#define INTERRUPTED                                                                                \
    "interrupted: hutch stopped before this call returned. It may have run in part: check before " \
    "you repeat it."

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

/* A text block with at most `max` bytes of a text; NULL if there is none. */
static json_t *form_text(const json_t *text, size_t max, const char *note)
{
    size_t n = json_string_length(text);
    json_t *cut = n ? form_cut(json_string_value(text), n, max * 2 / 3, max / 3, note) : NULL;
    return cut ? json_pack("{s:s, s:o}", "type", "text", "text", cut) : NULL;
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
        bool cut = f->stub && json_string_length(text) > STUB_OUTPUT;
        json_t *shown = block_is(part, "image")
                            ? form_image(part, f)
                            : form_text(text, cut ? 2 * STUB_PART : f->output, note);
        if (shown)
            json_array_append_new(content, shown);
    }
    return json_pack("{s:s, s:s, s:o, s:b}", "type", "tool_result", "tool_use_id", id, "content",
                     content, "is_error", json_get_bool(block, "is_error"));
}

/* A copy with its long strings cut. */
static json_t *form_cut_strings(const json_t *value, size_t max, const char *note, int depth)
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
        json_array_append_new(made, form_cut_strings(one, max, note, depth + 1));
    json_object_foreach((json_t *)value, name, one)
        json_object_set_new(made, name, form_cut_strings(one, max, note, depth + 1));
    return made;
}

/* NULL: it is not shown. */
static json_t *form_block(const json_t *block, bool assistant, const struct form *f)
{
    char note[160];
    if (block_is(block, "text")) {
        const json_t *text = json_object_get(block, "text");
        const char *s = json_string_value(text);
        if (!s || strspn(s, " \t\r\n") == json_string_length(text))
            return NULL;
        snprintf(note, sizeof note,
                 "of this text left out; memory {\"message\": %zu} gets them back", f->index);
        return form_text(text, assistant ? f->said : f->words, note);
    }
    if (assistant && block_is(block, "tool_use")) {
        const json_t *input = json_object_get(block, "input");
        const json_t *bad = json_object_get(block, "bad_input");
        size_t max = f->stub && f->output > STUB_INPUT ? STUB_INPUT : f->output;
        if (!json_get_string_or(block, "id", "")[0] || !json_get_string_or(block, "name", "")[0] ||
            !json_is_object(input))
            return NULL;
        snprintf(note, sizeof note,
                 "of this input left out by hutch; memory {\"message\": %zu} gets them back",
                 f->index);
        json_t *copy = json_copy((json_t *)block);
        json_object_set_new(copy, "input", form_cut_strings(input, max, note, 0));
        if (bad)
            json_object_set_new(copy, "bad_input", form_cut_strings(bad, max, note, 0));
        return copy;
    }
    if (assistant && (block_is(block, "thinking") || block_is(block, "other")))
        return f->thoughts && json_get_string(block, "from") ? json_incref((json_t *)block) : NULL;
    if (!assistant && block_is(block, "tool_result"))
        return form_result(block, f);
    return !assistant && block_is(block, "image") ? form_image(block, f) : NULL;
}

static size_t form_limit(size_t value, size_t max)
{
    return value < 2048 ? 2048 : value > max ? max : value;
}

/* Limits are in bytes, of which a token has about three: what the person says is cut only where it
 * would fill the window alone. */
int form_show(const struct context *c, size_t index, json_t **ret, struct error *err)
{
    size_t span = (size_t)c->span, i;
    const struct form f = {.index = index,
                           .words = form_limit(span * 3, 8u << 20) >> c->squeeze,
                           .said = form_limit(span, 8u << 20) >> c->squeeze,
                           .output = form_limit(span * 3 / 10, 256u << 10) >> c->squeeze,
                           .stub = index < c->stubs,
                           .thoughts = index >= c->thoughts};
    _cleanup_json_ json_t *message = NULL;
    int r = history_read(c->h, index, &message, err);
    if (r < 0)
        return r;
    json_t *block, *content = json_array();
    bool assistant = strcmp(json_get_string_or(message, "role", ""), "assistant") == 0;
    json_array_foreach(json_object_get(message, "content"), i, block)
    {
        json_t *shown = form_block(block, assistant, &f);
        if (shown)
            json_array_append_new(content, shown);
    }
    json_t *made =
        json_pack("{s:s, s:o}", "role", assistant ? "assistant" : "user", "content", content);
    if (!made)
        return error_set(err, ENOMEM, "out of memory");
    *ret = made;
    return 0;
}

/* The person's words of message i, at most max bytes: a new string, NULL if there are none. */
static json_t *words_read(struct context *c, size_t i, size_t max)
{
    char note[100];
    size_t k;
    json_t *block;
    _cleanup_json_ json_t *message = NULL;
    _cleanup_buf_ struct buf b = BUF_INIT(HISTORY_MESSAGE_MAX);
    if (history_read(c->h, i, &message, NULL) < 0)
        return NULL;
    json_array_foreach(json_object_get(message, "content"), k, block)
    {
        const char *text = json_get_string(block, "text");
        if (text)
            buf_printf(&b, "%s%s", b.len ? "\n" : "", text);
    }
    snprintf(note, sizeof note, "left out; memory {\"message\": %zu} gets them back", i);
    return b.len > 0 && !b.failed
               ? form_cut((const char *)b.data, b.len, max * 2 / 3, max / 3, note)
               : NULL;
}

/* The person's words before `start`: the first and the last, then backwards from the last as far as
 * the budget goes; and the summary. */
int context_make_head(struct context *c, struct error *err)
{
    _cleanup_buf_ struct buf b = BUF_INIT(HISTORY_MESSAGE_MAX);
    size_t words_max = (size_t)(c->span / 8 * 3) >> c->squeeze, gap = 0;
    uint64_t budget = (c->span / 8) >> c->squeeze, used = 0;
    /* The places of the person's words before `start`, oldest first. */
    _cleanup_free_ size_t *at = calloc(c->start + 1, sizeof *at);
    _cleanup_free_ json_t **texts = calloc(c->start + 1, sizeof *texts);
    size_t n = 0, most = (size_t)context_summary_budget(c) * 6 >> c->squeeze;
    if (!at || !texts)
        return error_set(err, ENOMEM, "out of memory");
    for (size_t i = 0; i < c->start; i++) {
        const struct history_entry *e = history_entry(c->h, i);
        if (e->counts && e->begins_turn)
            at[n++] = i;
    }
    if (n > 0)
        texts[0] = words_read(c, at[0], words_max);
    for (size_t i = n; i-- > 1;) {
        texts[i] = words_read(c, at[i], i == n - 1 ? words_max : words_max / 4);
        size_t length = json_string_length(texts[i]);
        used += tokens_of_text(length ? json_string_value(texts[i]) : "", length);
        if (used <= budget || i == n - 1)
            continue;
        json_decref(texts[i]);
        texts[i] = NULL;
        break;
    }
    buf_append_str(&b, "[hutch] The beginning of this conversation is left out because it does not "
                       "fit. What the person said in it follows word for word and still applies; "
                       "then comes a summary of the work. `memory` finds everything else.\n");
    for (size_t i = 0; i < n; i++) {
        if (!texts[i]) {
            gap++;
            continue;
        }
        if (gap > 0)
            buf_printf(&b, "\n(%zu messages of the person are left out here: memory has them.)\n",
                       gap);
        gap = 0;
        buf_printf(&b, "\n<person turn=\"%u\">\n%s\n</person>\n", history_entry(c->h, at[i])->turn,
                   json_string_value(texts[i]));
        json_decref(texts[i]);
    }
    _cleanup_json_ json_t *cut =
        form_cut(c->summary, strlen(c->summary), most, 0, "of the summary left out");
    _cleanup_buf_ struct buf summary = BUF_INIT(json_string_length(cut) + 100);
    if (cut)
        buf_printf(&summary, "<summary>\n%s\n</summary>", json_string_value(cut));
    json_t *head = !b.failed && summary.len > 0 && !summary.failed
                       ? json_pack("{s:s, s:[{s:s, s:s%}, {s:s, s:s%}]}", "role", "user", "content",
                                   "type", "text", "text", b.data, b.len, "type", "text", "text",
                                   summary.data, summary.len)
                       : NULL;
    if (!head)
        return error_set(err, ENOMEM, "out of memory");
    json_decref(c->head);
    c->head = head;
    c->head_tokens = tokens_of_message(head);
    return 0;
}

struct emitter {
    json_t *out;
    json_t *pending; /* ids of calls that wait for their results, in order; an array */
};

/* Where blocks of this role go: the last message, if it is of the same. */
static json_t *emitter_content(struct emitter *e, const char *role)
{
    size_t n = json_array_size(e->out);
    const char *last = n > 0 ? json_get_string(json_array_get(e->out, n - 1), "role") : NULL;
    if (!last || strcmp(last, role) != 0) {
        json_array_append_new(e->out, json_pack("{s:s, s:[]}", "role", role, "content"));
        n++;
    }
    return json_object_get(json_array_get(e->out, n - 1), "content");
}

/* Every call that waits gets its answer, from the items [first, end). */
static void emitter_answer_calls(struct emitter *e, const struct context *c, size_t first,
                                 size_t end)
{
    size_t i, k;
    json_t *id, *block;
    json_array_foreach(e->pending, i, id)
    {
        json_t *found = NULL;
        for (size_t n = first; n < end; n++)
            json_array_foreach(json_object_get(c->items[n].message, "content"), k,
                               block) if (!found && block_is(block, "tool_result") &&
                                          json_equal(json_object_get(block, "tool_use_id"), id))
                found = json_incref(block);
        if (!found)
            found =
                json_pack("{s:s, s:O, s:[{s:s, s:s}], s:b}", "type", "tool_result", "tool_use_id",
                          id, "content", "type", "text", "text", INTERRUPTED, "is_error", 1);
        json_array_append_new(emitter_content(e, "user"), found);
    }
    json_array_clear(e->pending);
}

/* Messages of the user that follow each other are one: answers first, then all else. */
static void emitter_put_user(struct emitter *e, const struct context *c, size_t first, size_t end)
{
    emitter_answer_calls(e, c, first, end);
    for (size_t i = first; i < end; i++) {
        size_t k;
        json_t *block;
        json_array_foreach(json_object_get(c->items[i].message, "content"), k, block)
        {
            if (!block_is(block, "tool_result"))
                json_array_append(emitter_content(e, "user"), block);
        }
        for (k = 0; k < c->n_status; k++)
            if (c->status[k].index == c->items[i].index)
                json_array_append(emitter_content(e, "user"), c->status[k].block);
    }
}

static void emitter_put_assistant(struct emitter *e, const struct context *c, size_t i)
{
    size_t k, n;
    json_t *block, *id;
    emitter_answer_calls(e, c, i, i); /* nothing did */
    if (json_array_size(e->out) == 0)
        json_array_append_new(emitter_content(e, "user"),
                              text_block("(The conversation begins here.)"));
    json_array_foreach(json_object_get(c->items[i].message, "content"), k, block)
    {
        if (block_is(block, "tool_use")) {
            bool again = false; /* an id stands for one call */
            json_array_foreach(e->pending, n, id) again |=
                json_equal(id, json_object_get(block, "id"));
            if (again)
                continue;
            json_array_append(e->pending, json_object_get(block, "id"));
        }
        json_array_append(emitter_content(e, "assistant"), block);
    }
}

json_t *context_emit(struct context *c)
{
    struct emitter e = {.out = json_array(), .pending = json_array()};
    size_t i, end;
    json_t *message;
    if (c->head)
        json_array_extend(emitter_content(&e, "user"), json_object_get(c->head, "content"));
    for (i = 0; i < c->count; i = end) {
        end = i + 1;
        if (c->items[i].role == HISTORY_ASSISTANT) {
            emitter_put_assistant(&e, c, i);
            continue;
        }
        while (end < c->count && c->items[end].role == HISTORY_USER)
            end++;
        emitter_put_user(&e, c, i, end);
    }
    emitter_answer_calls(&e, c, 0, 0);
    json_decref(e.pending);
    /* An answer cannot end with thinking, as one that was interrupted may. */
    json_array_foreach(e.out, i, message)
    {
        json_t *content = json_object_get(message, "content");
        size_t n = json_array_size(content);
        for (; n > 0; n--) {
            const json_t *last = json_array_get(content, n - 1);
            if (!block_is(last, "thinking") && !block_is(last, "other"))
                break;
            json_array_remove(content, n - 1);
        }
        if (n == 0)
            json_array_append_new(content, text_block("(no answer)"));
    }
    return e.out;
}
