#include <errno.h>

#include "json.h"
#include "banned.h"

const char *json_get_string(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

const char *json_get_string_or(const json_t *object, const char *key, const char *fallback)
{
    const char *s = json_get_string(object, key);
    return s ? s : fallback;
}

json_int_t json_get_integer(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

bool json_get_bool(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

static int json_append_piece(const char *data, size_t n, void *b)
{
    return buf_append(b, data, n);
}

int json_append(struct buf *b, const json_t *value, size_t flags)
{
    if (json_dump_callback(value, json_append_piece, b, flags) < 0)
        return b->failed ? -ENOBUFS : -ENOMEM;
    return 0;
}

size_t json_count_values(const char *text, size_t n, size_t max)
{
    bool in_string = false;
    size_t count = 1;
    for (size_t i = 0; i < n && count <= max; i++) {
        char c = text[i];
        if (in_string && c == '\\')
            i++;
        else if (c == '"')
            in_string = !in_string;
        else if (!in_string)
            count += c == '{' || c == '[' || c == ',';
    }
    return count;
}
