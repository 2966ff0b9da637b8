/*
 * The view as a conversation that providers accept: user and assistant in turns, the user first;
 * every call answered right behind it, by what the history has or by a note that it was
 * interrupted; no answer to anything that was not asked.
 *
 * Where older messages are left out, it begins with the person's own words, verbatim, and the
 * summary. Summaries lose words, rules above all ("never touch the migrations"), so words are not
 * left to them: the first and the latest are there in full, and of the others the newest as far as
 * the budget goes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "conversation.h"
#include "view.h"
#include "banned.h"

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

/* Appends the person's words of the messages at[0..n): the first and the last, then backwards from
 * the last as far as the budget goes. */
static void words_append(struct context *c, const size_t *at, size_t n, json_t **texts,
                         struct buf *b)
{
    size_t most = (size_t)(c->span / 8 * 3) >> c->squeeze, gap = 0;
    uint64_t budget = (c->span / 8) >> c->squeeze, used = 0;
    if (n > 0)
        texts[0] = words_read(c, at[0], most);
    for (size_t i = n; i-- > 1;) {
        texts[i] = words_read(c, at[i], i == n - 1 ? most : most / 4);
        size_t length = json_string_length(texts[i]);
        used += tokens_of_text(length ? json_string_value(texts[i]) : "", length);
        if (used <= budget || i == n - 1)
            continue;
        json_decref(texts[i]);
        texts[i] = NULL;
        break;
    }
    buf_append_str(b, "[hutch] This conversation is longer than what fits here: its beginning is "
                      "left out. What the person said in it stands below word for word, and still "
                      "holds; then comes a summary of what was done. `memory` finds everything "
                      "else.\n");
    for (size_t i = 0; i < n; i++) {
        if (!texts[i]) {
            gap++;
            continue;
        }
        if (gap > 0)
            buf_printf(b, "\n(%zu more messages of the person here: memory has them.)\n", gap);
        gap = 0;
        buf_printf(b, "\n<person turn=\"%u\">\n%s\n</person>\n", history_entry(c->h, at[i])->turn,
                   json_string_value(texts[i]));
    }
}

int context_make_head(struct context *c, struct error *err)
{
    _cleanup_buf_ struct buf b = BUF_INIT(HISTORY_MESSAGE_MAX);
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
    words_append(c, at, n, texts, &b);
    for (size_t i = 0; i < n; i++)
        json_decref(texts[i]);
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

#define INTERRUPTED                                                                                \
    "interrupted: hutch stopped before this call returned. It may have run in part: check before " \
    "you repeat it."

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

/* The block that answers this call, among those of the items [first, end). */
static json_t *items_find_result(const struct context *c, size_t first, size_t end, const char *id)
{
    for (size_t i = first; i < end; i++) {
        size_t k;
        json_t *block;
        json_array_foreach(json_object_get(c->items[i].message, "content"), k, block)
        {
            const char *its = json_get_string(block, "tool_use_id");
            if (block_is(block, "tool_result") && its && strcmp(its, id) == 0)
                return block;
        }
    }
    return NULL;
}

/* Every call that waits gets its answer. */
static void emitter_answer_calls(struct emitter *e, const struct context *c, size_t first,
                                 size_t end)
{
    size_t i;
    json_t *id;
    json_array_foreach(e->pending, i, id)
    {
        json_t *found = items_find_result(c, first, end, json_string_value(id));
        json_array_append_new(emitter_content(e, "user"),
                              found ? json_incref(found)
                                    : json_pack("{s:s, s:O, s:[{s:s, s:s}], s:b}", "type",
                                                "tool_result", "tool_use_id", id, "content", "type",
                                                "text", "text", INTERRUPTED, "is_error", 1));
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
