/*
 * Showing a conversation again: its messages become the events that they once were. Of a long one
 * the last part is shown; nothing is read that is not.
 */
#include <errno.h>
#include <string.h>

#include "desk_private.h"
#include "banned.h"

#define TURNS_SHOWN    20
#define MESSAGES_SHOWN 400

/* Where the last turns begin. */
static size_t first_shown(const struct history *h)
{
    size_t n = history_count(h), turns = 0, i = n;
    while (i > 0 && n - i < MESSAGES_SHOWN) {
        const struct history_entry *e = history_entry(h, --i);
        turns += e->counts && e->begins_turn;
        if (turns == TURNS_SHOWN)
            break;
    }
    return i;
}

static bool is_type(const json_t *block, const char *type)
{
    const char *t = json_string_value(json_object_get(block, "type"));
    return t && strcmp(t, type) == 0;
}

static const char *string_of(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static void show_text(struct desk *d, enum agent_event_kind kind, const char *text)
{
    if (text && *text)
        desk_tell(d, &(struct agent_event){.kind = kind, .text = text, .n = strlen(text)});
}

static void show_answer(struct desk *d, const json_t *content)
{
    const json_t *block;
    size_t i;
    json_array_foreach(content, i, block)
    {
        if (is_type(block, "text"))
            show_text(d, AGENT_TEXT, string_of(block, "text"));
        else if (is_type(block, "thinking"))
            show_text(d, AGENT_THINKING, string_of(block, "text"));
    }
    desk_tell(d, &(struct agent_event){.kind = AGENT_SAID});
    json_array_foreach(content, i, block) if (is_type(block, "tool_use"))
        desk_tell(d, &(struct agent_event){.kind = AGENT_CALL,
                                           .id = string_of(block, "id"),
                                           .name = string_of(block, "name"),
                                           .input = json_object_get(block, "input")});
}

static void show_result(struct desk *d, const json_t *block)
{
    _cleanup_result_ struct tool_result result = TOOL_RESULT_INIT;
    const json_t *part;
    size_t i;
    json_array_foreach(json_object_get(block, "content"), i, part)
    {
        const char *text = string_of(part, "text");
        if (text)
            text_append(&result.text, text, strlen(text));
    }
    result.failed = json_is_true(json_object_get(block, "is_error"));
    desk_tell(d, &(struct agent_event){.kind = AGENT_RESULT,
                                       .id = string_of(block, "tool_use_id"),
                                       .result = &result});
}

static void show_user(struct desk *d, const json_t *content, bool begins_turn)
{
    const json_t *block;
    const char *words = NULL, *text;
    size_t i;
    json_array_foreach(content, i, block)
    {
        if (is_type(block, "tool_result"))
            show_result(d, block);
        else if (begins_turn && (text = string_of(block, "text")))
            words = text; /* the last: what else the agent was told stands before it */
    }
    if (words)
        d->sink.person(d->sink.data, words);
}

static int show_message(struct desk *d, struct history *h, size_t i, struct error *err)
{
    const struct history_entry *e = history_entry(h, i);
    json_t *message;
    if (!e->counts || e->role == HISTORY_HUTCH)
        return 0;
    bool begins_turn = e->begins_turn, user = e->role == HISTORY_USER;
    int r = history_read(h, i, &message, err);
    if (r < 0)
        return r;
    const json_t *content = json_object_get(message, "content");
    if (user)
        show_user(d, content, begins_turn);
    else
        show_answer(d, content);
    json_decref(message);
    return 0;
}

int desk_recall(struct desk *d, struct error *err)
{
    struct history *h = agent_history(d->agent);
    size_t n = history_count(h);
    for (size_t i = first_shown(h); i < n; i++) {
        int r = show_message(d, h, i, err);
        if (r < 0)
            return r;
    }
    desk_tell(d, &(struct agent_event){.kind = AGENT_DONE});
    return 0;
}
