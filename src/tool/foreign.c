#include <errno.h>
#include <string.h>

#include "buf.h"
#include "foreign.h"
#include "schema.h"
#include "utf8.h"
#include "banned.h"

#define CUT_MARK "…"

/* The "tags" of Unicode, U+E0000 to U+E007F: letters that nobody sees and a model reads. */
static bool is_tag(const uint8_t *at, size_t n)
{
    return n == 4 && at[0] == 0xf3 && at[1] == 0xa0 && (at[2] == 0x80 || at[2] == 0x81);
}

static bool is_shown(const uint8_t *at, size_t n)
{
    if (n == 1 && (*at == '\n' || *at == '\t'))
        return true;
    return n > 0 && !utf8_is_control(at, n) && !is_tag(at, n);
}

char *foreign_text(const char *text, size_t n, size_t max)
{
    struct buf b = BUF_INIT(max + sizeof CUT_MARK + 1);
    const uint8_t *at = (const uint8_t *)text;
    for (size_t i = 0, len; i < n; i += len ? len : 1) {
        len = utf8_character(at + i, n - i);
        if (!is_shown(at + i, len))
            continue;
        if (b.len + len > max) {
            buf_append_str(&b, CUT_MARK);
            break;
        }
        buf_append(&b, at + i, len);
    }
    char *clean = buf_cstr(&b);
    if (!clean)
        buf_free(&b);
    return clean;
}

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
