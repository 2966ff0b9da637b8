/* The rules of a conversation are checked before anything is sent: a provider's own refusal would
 * say less, and come later. */
#include <errno.h>
#include <string.h>

#include "conversation.h"
#include "json.h"
#include "banned.h"

const char *model_stop_name(enum model_stop stop)
{
    static const char *const NAMES[] = {
        [MODEL_END_TURN] = "end_turn",
        [MODEL_TOOL_USE] = "tool_use",
        [MODEL_MAX_TOKENS] = "max_tokens",
        [MODEL_STOP_SEQUENCE] = "stop_sequence",
        [MODEL_PAUSE_TURN] = "pause_turn",
        [MODEL_REFUSAL] = "refusal",
        [MODEL_WINDOW_EXCEEDED] = "model_context_window_exceeded",
    };
    return NAMES[stop];
}

void model_usage_add(struct model_usage *sum, const struct model_usage *one)
{
    sum->known |= one->known;
    sum->input += one->input;
    sum->output += one->output;
    sum->cache_read += one->cache_read;
    sum->cache_write += one->cache_write;
    sum->thinking += one->thinking;
}

void model_reply_free(struct model_reply *r)
{
    json_decref(r->content);
    *r = (struct model_reply){};
}

static const struct block_rule {
    const char *type;
    bool user, assistant;   /* whose it may be */
    const char *strings[2]; /* members that it needs */
    const char *problem;
} BLOCK_RULES[] = {
    {"text", true, true, {"text"}, "a text needs 'text'"},
    {"image", true, false, {"mime", "data"}, "an image needs 'mime' and 'data'"},
    {"thinking", false, true, {"from"}, "a thinking block needs 'from'"},
    {"other", false, true, {"from"}, "an other block needs 'from'"},
    {"tool_use",
     false,
     true,
     {"id", "name"},
     "a tool_use needs 'id', 'name' and an object as 'input'"},
    {"tool_result",
     true,
     false,
     {"tool_use_id"},
     "a tool_result needs 'tool_use_id' and a list as 'content'"},
};

/* What is wrong with a block; NULL: nothing. */
static const char *block_problem(const json_t *block, bool user)
{
    const char *type = json_get_string(block, "type");
    const struct block_rule *rule = NULL;
    const json_t *content = json_object_get(block, "content"), *one;
    size_t i;
    for (i = 0; type && i < ARRAY_SIZE(BLOCK_RULES); i++)
        if (strcmp(BLOCK_RULES[i].type, type) == 0)
            rule = &BLOCK_RULES[i];
    if (!rule)
        return "its type is not known";
    if (!(user ? rule->user : rule->assistant))
        return user ? "not a user's" : "not an assistant's";
    for (i = 0; i < ARRAY_SIZE(rule->strings) && rule->strings[i]; i++)
        if (!json_is_string(json_object_get(block, rule->strings[i])))
            return rule->problem;
    if (strcmp(type, "tool_use") == 0 && !json_is_object(json_object_get(block, "input")))
        return rule->problem;
    if (strcmp(type, "tool_result") != 0)
        return NULL;
    if (!json_is_array(content))
        return rule->problem;
    json_array_foreach(content, i, one)
    {
        const char *inner = json_get_string_or(one, "type", "");
        if (strcmp(inner, "text") != 0 && strcmp(inner, "image") != 0)
            return "a result holds texts and images";
        const char *problem = block_problem(one, true);
        if (problem)
            return problem;
    }
    return NULL;
}

/* Checks one message. A call opens an id, a result closes it: `open` holds those of the last
 * assistant's message. */
static const char *message_problem(const json_t *message, bool user, json_t *open,
                                   size_t *ret_block)
{
    const char *role = json_get_string_or(message, "role", "");
    const json_t *content = json_object_get(message, "content"), *block;
    *ret_block = 0;
    if (strcmp(role, user ? "user" : "assistant") != 0)
        return user ? "it is the user's turn" : "it is the assistant's turn";
    if (!json_is_array(content))
        return "there is no list 'content'";
    size_t i;
    json_array_foreach(content, i, block)
    {
        *ret_block = i;
        const char *id = json_get_string(block, "id"), *of = json_get_string(block, "tool_use_id");
        const char *problem = block_problem(block, user);
        if (problem)
            return problem;
        if (strcmp(json_get_string(block, "type"), "tool_use") == 0) {
            if (json_object_get(open, id))
                return "its id is that of another call";
            json_object_set_new(open, id, json_true());
        } else if (strcmp(json_get_string(block, "type"), "tool_result") == 0 &&
                   json_object_del(open, of) < 0) {
            return "the message before has no such call, or it was answered already";
        }
    }
    *ret_block = i;
    return user && json_object_size(open) > 0 ? "a call of the message before has no result" : NULL;
}

int conversation_check(const json_t *messages, struct error *err)
{
    _cleanup_json_ json_t *open = json_object();
    const json_t *message;
    const char *problem = NULL;
    size_t i, block = 0;
    if (json_array_size(messages) == 0)
        return error_set(err, EINVAL, "the conversation has no message");
    json_array_foreach(messages, i, message)
    {
        problem = message_problem(message, i % 2 == 0, open, &block);
        if (problem)
            break;
    }
    if (!problem && json_object_size(open) > 0) {
        problem = "a call has no result";
        i--;
    }
    return problem ? error_set(err, EINVAL, "invalid conversation: message %zu, block %zu: %s",
                               i + 1, block + 1, problem)
                   : 0;
}
