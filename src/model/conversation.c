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

struct block_position {
    size_t message, block;
    struct error *err;
};

static int conversation_refuse(const struct block_position *p, const char *what)
{
    return error_set(p->err, EINVAL, "invalid conversation: message %zu, block %zu: %s",
                     p->message + 1, p->block + 1, what);
}

static bool has_string(const json_t *block, const char *name)
{
    return json_is_string(json_object_get(block, name));
}

static const char *block_check_image(const json_t *block)
{
    return has_string(block, "mime") && has_string(block, "data")
               ? NULL
               : "an image needs 'mime' and 'data'";
}

static const char *block_check_text(const json_t *block)
{
    return has_string(block, "text") ? NULL : "a text needs 'text'";
}

static const char *block_check_use(const json_t *block)
{
    bool good = has_string(block, "id") && has_string(block, "name") &&
                json_is_object(json_object_get(block, "input"));
    return good ? NULL : "a tool_use needs 'id', 'name' and an object as 'input'";
}

static const char *block_check_result(const json_t *block)
{
    const json_t *content = json_object_get(block, "content"), *one;
    size_t i;
    if (!has_string(block, "tool_use_id") || !json_is_array(content))
        return "a tool_result needs 'tool_use_id' and a list as 'content'";
    json_array_foreach(content, i, one)
    {
        const char *type = json_string_value(json_object_get(one, "type"));
        bool text = type && strcmp(type, "text") == 0, image = type && strcmp(type, "image") == 0;
        const char *wrong = text    ? block_check_text(one)
                            : image ? block_check_image(one)
                                    : "a result holds texts and images";
        if (wrong)
            return wrong;
    }
    return NULL;
}

static const char *block_check_kept(const json_t *block)
{
    return has_string(block, "from") ? NULL : "a block to return needs 'from'";
}

static const struct block_kind_rule {
    const char *type;
    bool user, assistant;
    const char *(*check)(const json_t *block);
} BLOCK_KINDS[] = {
    {"text", true, true, block_check_text},      {"image", true, false, block_check_image},
    {"thinking", false, true, block_check_kept}, {"other", false, true, block_check_kept},
    {"tool_use", false, true, block_check_use},  {"tool_result", true, false, block_check_result},
};

static int block_check(const struct block_position *p, const json_t *block, bool user)
{
    const char *type = json_string_value(json_object_get(block, "type"));
    for (size_t i = 0; type && i < ARRAY_SIZE(BLOCK_KINDS); i++) {
        if (strcmp(BLOCK_KINDS[i].type, type) != 0)
            continue;
        if (!(user ? BLOCK_KINDS[i].user : BLOCK_KINDS[i].assistant))
            return conversation_refuse(p, user ? "not a user's" : "not an assistant's");
        const char *wrong = BLOCK_KINDS[i].check(block);
        return wrong ? conversation_refuse(p, wrong) : 0;
    }
    return conversation_refuse(p, "its type is not known");
}

/* A call opens an id, a result closes it: `open` holds those of the last assistant's message. */
static int conversation_check_pair(const struct block_position *p, const json_t *block,
                                   json_t *open)
{
    const char *type = json_string_value(json_object_get(block, "type"));
    const char *id = json_string_value(json_object_get(block, "id"));
    const char *of = json_string_value(json_object_get(block, "tool_use_id"));
    if (strcmp(type, "tool_use") == 0) {
        if (json_object_get(open, id))
            return conversation_refuse(p, "its id is that of another call");
        return json_object_set_new(open, id, json_true()) < 0 ? -ENOMEM : 0;
    }
    if (strcmp(type, "tool_result") == 0 && json_object_del(open, of) < 0)
        return conversation_refuse(
            p, "the message before has no such call, or it was answered already");
    return 0;
}

static int conversation_check_message(struct block_position *p, const json_t *message, json_t *open)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    const json_t *content = json_object_get(message, "content"), *block;
    bool user = p->message % 2 == 0;
    p->block = 0;
    if (!role || strcmp(role, user ? "user" : "assistant") != 0)
        return conversation_refuse(p,
                                   user ? "it is the user's turn" : "it is the assistant's turn");
    if (!json_is_array(content))
        return conversation_refuse(p, "there is no list 'content'");
    json_array_foreach(content, p->block, block)
    {
        int r = block_check(p, block, user);
        if (r == 0)
            r = conversation_check_pair(p, block, open);
        if (r < 0)
            return r;
    }
    return user && json_object_size(open) > 0
               ? conversation_refuse(p, "a call of the message before has no result")
               : 0;
}

int conversation_check(const json_t *messages, struct error *err)
{
    _cleanup_json_ json_t *open = json_object();
    struct block_position p = {.err = err};
    const json_t *message;
    if (json_array_size(messages) == 0)
        return error_set(err, EINVAL, "the conversation has no message");
    json_array_foreach(messages, p.message, message)
    {
        int r = open ? conversation_check_message(&p, message, open) : -ENOMEM;
        if (r == -ENOMEM)
            return error_set(err, ENOMEM, "out of memory");
        if (r < 0)
            return r;
    }
    p.message--;
    return json_object_size(open) > 0 ? conversation_refuse(&p, "a call has no result") : 0;
}
