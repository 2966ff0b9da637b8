/*
 * The view as a conversation that providers take: user and assistant in turns, the user first;
 * every call answered right behind it, by what the history has or by a word that it was
 * interrupted; nothing answered that was not asked.
 */
#include <string.h>

#include "context_private.h"
#include "banned.h"

#define INTERRUPTED                                                                                \
    "interrupted: hutch ended or was stopped before the result of this call came. What it did "    \
    "until then "                                                                                  \
    "may have"                                                                                     \
    " happened: look before you do it again."

struct emitter {
    json_t *out;
    json_t *pending; /* ids of calls that wait for their results, in order; an array */
};

static const char *string_of(const json_t *block, const char *name)
{
    const char *s = json_string_value(json_object_get(block, name));
    return s ? s : "";
}

static bool is_type(const json_t *block, const char *type)
{
    return strcmp(string_of(block, "type"), type) == 0;
}

static const char *last_role(const struct emitter *e)
{
    size_t n = json_array_size(e->out);
    return n > 0 ? string_of(json_array_get(e->out, n - 1), "role") : "";
}

/* Where blocks of this role go: the last message, if it is of the same. */
static json_t *content_for(struct emitter *e, const char *role)
{
    size_t n = json_array_size(e->out);
    if (strcmp(last_role(e), role) != 0) {
        json_array_append_new(e->out, json_pack("{s:s, s:[]}", "role", role, "content"));
        n++;
    }
    return json_object_get(json_array_get(e->out, n - 1), "content");
}

static bool has_string(const json_t *list, const char *text)
{
    size_t i;
    json_t *one;
    json_array_foreach(list, i, one)
    {
        if (strcmp(json_string_value(one), text) == 0)
            return true;
    }
    return false;
}

/* The block that answers this call, among those of the items [first, end). */
static json_t *find_result(const struct context *c, size_t first, size_t end, const char *id)
{
    for (size_t i = first; i < end; i++) {
        size_t k;
        json_t *block;
        json_array_foreach(json_object_get(c->items[i].message, "content"), k, block)
        {
            if (is_type(block, "tool_result") && strcmp(string_of(block, "tool_use_id"), id) == 0)
                return block;
        }
    }
    return NULL;
}

/* Every call that waits gets its answer. */
static void answer(struct emitter *e, const struct context *c, size_t first, size_t end)
{
    size_t i;
    json_t *id;
    json_array_foreach(e->pending, i, id)
    {
        json_t *found = find_result(c, first, end, json_string_value(id));
        json_array_append_new(content_for(e, "user"),
                              found ? json_incref(found)
                                    : json_pack("{s:s, s:O, s:[{s:s, s:s}], s:b}", "type",
                                                "tool_result", "tool_use_id", id, "content", "type",
                                                "text", "text", INTERRUPTED, "is_error", 1));
    }
    json_array_clear(e->pending);
}

static void put_now(struct emitter *e, const struct context *c, size_t index)
{
    for (size_t i = 0; i < c->now_count; i++)
        if (c->nows[i].index == index)
            json_array_append(content_for(e, "user"), c->nows[i].block);
}

/* Messages of the user that follow each other are one: answers first, then all else. */
static void put_user(struct emitter *e, const struct context *c, size_t first, size_t end)
{
    answer(e, c, first, end);
    for (size_t i = first; i < end; i++) {
        size_t k;
        json_t *block;
        json_array_foreach(json_object_get(c->items[i].message, "content"), k, block)
        {
            if (!is_type(block, "tool_result"))
                json_array_append(content_for(e, "user"), block);
        }
        put_now(e, c, c->items[i].index);
    }
}

static void put_assistant(struct emitter *e, const struct context *c, size_t i)
{
    size_t k;
    json_t *block;
    answer(e, c, i, i); /* nobody did */
    if (json_array_size(e->out) == 0)
        json_array_append_new(
            content_for(e, "user"),
            json_pack("{s:s, s:s}", "type", "text", "text", "(The conversation begins here.)"));
    json_array_foreach(json_object_get(c->items[i].message, "content"), k, block)
    {
        if (is_type(block, "tool_use")) {
            if (has_string(e->pending, string_of(block, "id")))
                continue; /* an id stands for one call */
            json_array_append(e->pending, json_object_get(block, "id"));
        }
        json_array_append(content_for(e, "assistant"), block);
    }
}

static bool is_kept(const json_t *block)
{
    return is_type(block, "thinking") || is_type(block, "other");
}

/* An answer cannot end with a thought: one that was cut there has nothing else to say. */
static void end_answers(struct emitter *e)
{
    size_t i;
    json_t *message;
    json_array_foreach(e->out, i, message)
    {
        json_t *content = json_object_get(message, "content");
        size_t n = json_array_size(content);
        for (; n > 0 && is_kept(json_array_get(content, n - 1)); n--)
            json_array_remove(content, n - 1);
        if (n == 0)
            json_array_append_new(content,
                                  json_pack("{s:s, s:s}", "type", "text", "text", "(no answer)"));
    }
}

json_t *context_emit(struct context *c)
{
    struct emitter e = {.out = json_array(), .pending = json_array()};
    if (c->head)
        json_array_extend(content_for(&e, "user"), json_object_get(c->head, "content"));
    for (size_t i = 0; i < c->count;) {
        size_t end = i + 1;
        if (c->items[i].role == HISTORY_ASSISTANT) {
            put_assistant(&e, c, i);
        } else {
            while (end < c->count && c->items[end].role == HISTORY_USER)
                end++;
            put_user(&e, c, i, end);
        }
        i = end;
    }
    answer(&e, c, 0, 0);
    end_answers(&e);
    json_decref(e.pending);
    return e.out;
}
