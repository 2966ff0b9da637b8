/* The searchable parts of a message: its blocks, each with its own text. */
#include <errno.h>
#include <string.h>

#include "memory_private.h"
#include "banned.h"

static const char *member(const json_t *o, const char *name)
{
    return json_string_value(json_object_get(o, name));
}

int memory_part(const json_t *message, size_t part, struct memory_part *ret, struct buf *text)
{
    const json_t *content = json_object_get(message, "content");
    const char *role = member(message, "role");
    const json_t *block = json_is_array(content) ? json_array_get(content, part) : NULL;
    *ret = (struct memory_part){.role = role ? role : ""};
    if (!block && (part > 0 || json_is_array(content)))
        return -ENOENT;
    const char *type = block ? member(block, "type") : NULL;
    if (type && strcmp(type, "tool_result") == 0) {
        ret->call = member(block, "tool_use_id");
        ret->role = "tool";
    } else if (type && strcmp(type, "tool_use") == 0) {
        ret->call = member(block, "id");
    }
    return history_text(block ? block : message, text);
}
