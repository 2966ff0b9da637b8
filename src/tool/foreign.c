#include <errno.h>
#include <string.h>

#include "foreign.h"
#include "schema.h"
#include "banned.h"

static bool is_deeper(const json_t *value, unsigned depth)
{
    const char *name;
    size_t i;
    json_t *one;
    if (depth == 0)
        return true;
    json_array_foreach(value, i, one)
    {
        if (is_deeper(one, depth - 1))
            return true;
    }
    json_object_foreach((json_t *)value, name, one)
    {
        if (is_deeper(one, depth - 1))
            return true;
    }
    return false;
}

int foreign_schema(const json_t *schema, const char *what, char **ret, struct error *err)
{
    const json_t *type = json_object_get(schema, "type");
    if (!json_is_object(schema))
        return error_set(err, EINVAL, "%s: must be a JSON Schema, an object", what);
    if (!json_is_string(type) || strcmp(json_string_value(type), "object") != 0)
        return error_set(err, EINVAL, "%s.type: must be \"object\"", what);
    if (is_deeper(schema, FOREIGN_SCHEMA_DEPTH))
        return error_set(err, EINVAL, "%s: is nested more than %d deep", what,
                         FOREIGN_SCHEMA_DEPTH);
    char *text = json_dumps(schema, JSON_COMPACT);
    if (!text)
        return error_set(err, ENOMEM, "no memory");
    if (strlen(text) > FOREIGN_SCHEMA_MAX) {
        free(text);
        return error_set(err, EINVAL, "%s: is longer than %u bytes", what, FOREIGN_SCHEMA_MAX);
    }
    *ret = text;
    return 0;
}

int foreign_check(const char *schema, const json_t *value, const char *what, struct error *err)
{
    json_t *parsed = json_loads(schema, JSON_ALLOW_NUL, NULL);
    int r = parsed ? schema_check(parsed, value, what, err) : error_set(err, ENOMEM, "no memory");
    json_decref(parsed);
    return r;
}
