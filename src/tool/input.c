#include "input.h"
#include "banned.h"

int64_t input_int(const struct tool_call *c, const char *name, int64_t fallback)
{
    const json_t *value = json_object_get(c->input, name);
    if (json_is_integer(value))
        return json_integer_value(value);
    return value ? (int64_t)json_number_value(value) : fallback;
}

bool input_bool(const struct tool_call *c, const char *name, bool fallback)
{
    const json_t *value = json_object_get(c->input, name);
    return value ? json_is_true(value) : fallback;
}

const char *input_string(const struct tool_call *c, const char *name)
{
    return json_string_value(json_object_get(c->input, name));
}
