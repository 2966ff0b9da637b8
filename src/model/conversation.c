/* The rules of a conversation (model.h), looked at before anything is sent: a provider's own
 * refusal would say less, and come later. */
#include <errno.h>
#include <string.h>

#include "encoder.h"
#include "loose.h"
#include "banned.h"

struct place {
    size_t message, block;
    struct error *err;
};

static int refuse(const struct place *p, const char *what)
{
    return error_set(p->err, EINVAL, "the conversation is not in order: message %zu, block %zu: %s",
                     p->message + 1, p->block + 1, what);
}

static bool has_string(const json_t *block, const char *name)
{
    return json_is_string(json_object_get(block, name));
}

static const char *check_image(const json_t *block)
{
    return has_string(block, "mime") && has_string(block, "data")
               ? NULL
               : "an image needs 'mime' and 'data'";
}

static const char *check_text(const json_t *block)
{
    return has_string(block, "text") ? NULL : "a text needs 'text'";
}

static const char *check_use(const json_t *block)
{
    bool good = has_string(block, "id") && has_string(block, "name") &&
                json_is_object(json_object_get(block, "input"));
    return good ? NULL : "a tool_use needs 'id', 'name' and an object as 'input'";
}

static const char *check_result(const json_t *block)
{
    const json_t *content = json_object_get(block, "content"), *one;
    size_t i;
    if (!has_string(block, "tool_use_id") || !json_is_array(content))
        return "a tool_result needs 'tool_use_id' and a list as 'content'";
    json_array_foreach(content, i, one)
    {
        const char *type = json_string_value(json_object_get(one, "type"));
        bool text = type && strcmp(type, "text") == 0, image = type && strcmp(type, "image") == 0;
        const char *wrong = text    ? check_text(one)
                            : image ? check_image(one)
                                    : "a result holds texts and images";
        if (wrong)
            return wrong;
    }
    return NULL;
}

static const char *check_kept(const json_t *block)
{
    return has_string(block, "from") ? NULL : "a block to return needs 'from'";
}

static const struct kind {
    const char *type;
    bool user, assistant;
    const char *(*check)(const json_t *block);
} KINDS[] = {
    {"text", true, true, check_text},      {"image", true, false, check_image},
    {"thinking", false, true, check_kept}, {"other", false, true, check_kept},
    {"tool_use", false, true, check_use},  {"tool_result", true, false, check_result},
};

static int check_block(const struct place *p, const json_t *block, bool user)
{
    const char *type = json_string_value(json_object_get(block, "type"));
    for (size_t i = 0; type && i < ARRAY_SIZE(KINDS); i++) {
        if (strcmp(KINDS[i].type, type) != 0)
            continue;
        if (!(user ? KINDS[i].user : KINDS[i].assistant))
            return refuse(p, user ? "not a user's" : "not an assistant's");
        const char *wrong = KINDS[i].check(block);
        return wrong ? refuse(p, wrong) : 0;
    }
    return refuse(p, "its type is not known");
}

/* A call opens an id, a result closes it: `open` holds those of the last assistant's message. */
static int check_pair(const struct place *p, const json_t *block, json_t *open)
{
    const char *type = json_string_value(json_object_get(block, "type"));
    const char *id = json_string_value(json_object_get(block, "id"));
    const char *of = json_string_value(json_object_get(block, "tool_use_id"));
    if (strcmp(type, "tool_use") == 0) {
        if (json_object_get(open, id))
            return refuse(p, "its id is that of another call");
        return json_object_set_new(open, id, json_true()) < 0 ? -ENOMEM : 0;
    }
    if (strcmp(type, "tool_result") == 0 && json_object_del(open, of) < 0)
        return refuse(p, "the message before has no such call, or it was answered already");
    return 0;
}

static int check_message(struct place *p, const json_t *message, json_t *open)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    const json_t *content = json_object_get(message, "content"), *block;
    bool user = p->message % 2 == 0;
    p->block = 0;
    if (!role || strcmp(role, user ? "user" : "assistant") != 0)
        return refuse(p, user ? "it is the user's turn" : "it is the assistant's turn");
    if (!json_is_array(content))
        return refuse(p, "there is no list 'content'");
    json_array_foreach(content, p->block, block)
    {
        int r = check_block(p, block, user);
        if (r == 0)
            r = check_pair(p, block, open);
        if (r < 0)
            return r;
    }
    return user && json_object_size(open) > 0
               ? refuse(p, "a call of the message before has no result")
               : 0;
}

int conversation_check(const json_t *messages, struct error *err)
{
    _cleanup_json_ json_t *open = json_object();
    struct place p = {.err = err};
    const json_t *message;
    if (json_array_size(messages) == 0)
        return error_set(err, EINVAL, "the conversation has no message");
    json_array_foreach(messages, p.message, message)
    {
        int r = open ? check_message(&p, message, open) : -ENOMEM;
        if (r == -ENOMEM)
            return error_set(err, ENOMEM, "no memory for the conversation");
        if (r < 0)
            return r;
    }
    p.message--;
    return json_object_size(open) > 0 ? refuse(&p, "a call has no result") : 0;
}
