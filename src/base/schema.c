/* The frame of the validator: paths, messages, $ref, types, and the keywords that combine schemas.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "schema_private.h"
#include "banned.h"

int schema_say(struct check *c, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return c->err ? error_set(c->err, EINVAL, "%s: %s", c->path, text) : -EINVAL;
}

size_t schema_enter(struct check *c, const char *member, size_t index)
{
    size_t before = c->path_len, room = sizeof c->path - before;
    int n = member ? snprintf(c->path + before, room, ".%.100s", member)
                   : snprintf(c->path + before, room, "[%zu]", index);
    if (n > 0)
        c->path_len += (size_t)n < room ? (size_t)n : room - 1;
    return before;
}

void schema_leave(struct check *c, size_t path_len)
{
    c->path_len = path_len;
    c->path[path_len] = 0;
}

/* One step of a JSON pointer, with its escapes. Returns what follows it. */
static const char *pointer_step(const char *at, char *name, size_t size)
{
    size_t n = 0;
    for (at++; *at && *at != '/'; at++) {
        char ch = *at;
        if (ch == '~' && (at[1] == '0' || at[1] == '1'))
            ch = *++at == '0' ? '~' : '/';
        if (n + 1 < size)
            name[n++] = ch;
    }
    name[n] = 0;
    return at;
}

/* What a $ref within the document leads to; NULL if it leads nowhere. */
static const json_t *resolve(const struct check *c, const char *ref)
{
    const json_t *at = c->root;
    char name[128];
    if (ref[0] != '#' || (ref[1] && ref[1] != '/'))
        return NULL;
    for (const char *rest = ref + 1; *rest && at;) {
        rest = pointer_step(rest, name, sizeof name);
        at = json_is_array(at) ? json_array_get(at, strtoul(name, NULL, 10))
                               : json_object_get(at, name);
    }
    return at;
}

static const char *type_name(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return "object";
    case JSON_ARRAY:
        return "array";
    case JSON_STRING:
        return "string";
    case JSON_INTEGER:
        return "integer";
    case JSON_REAL:
        return "number";
    case JSON_NULL:
        return "null";
    default:
        return "boolean";
    }
}

static bool has_type(const json_t *v, const char *type)
{
    if (strcmp(type, "number") == 0)
        return json_is_number(v);
    if (strcmp(type, "integer") == 0 && json_is_real(v)) {
        double d = json_real_value(v);
        return d >= -9.0e15 && d <= 9.0e15 && d == (double)(long long)d;
    }
    return strcmp(type_name(v), type) == 0;
}

static int check_type(struct check *c, const json_t *types, const json_t *value)
{
    char list[128] = "";
    size_t i, len = 0;
    json_t *one;
    if (json_is_string(types))
        return has_type(value, json_string_value(types))
                   ? 0
                   : schema_say(c, "must be of type %.20s, is %s", json_string_value(types),
                                type_name(value));
    json_array_foreach(types, i, one)
    {
        const char *name = json_is_string(one) ? json_string_value(one) : "?";
        if (has_type(value, name))
            return 0;
        int n = snprintf(list + len, sizeof list - len, "%s%.20s", i ? " or " : "", name);
        len += n > 0 && (size_t)n < sizeof list - len ? (size_t)n : 0;
    }
    return schema_say(c, "must be of type %s, is %s", list, type_name(value));
}

/* 1 and 1.0 are the same number. */
static bool equals(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b) && json_typeof(a) != json_typeof(b))
        return json_number_value(a) == json_number_value(b);
    return json_equal(a, b);
}

static int check_enum(struct check *c, const json_t *allowed, const json_t *value)
{
    char list[256] = "";
    size_t i, len = 0;
    json_t *one;
    json_array_foreach(allowed, i, one)
    {
        if (equals(one, value))
            return 0;
        char *text = json_dumps(one, JSON_ENCODE_ANY | JSON_COMPACT);
        int n =
            snprintf(list + len, sizeof list - len, "%s%.60s", i ? ", " : "", text ? text : "?");
        free(text);
        len += n > 0 && (size_t)n < sizeof list - len ? (size_t)n : 0;
    }
    return schema_say(c, "must be one of %s", list);
}

/* How many of the schemas allow the value; silently. */
static int count_matches(struct check *c, const json_t *schemas, const json_t *value, unsigned *ret)
{
    struct error *err = c->err;
    size_t i;
    json_t *one;
    unsigned count = 0;
    int r = 0;
    c->err = NULL;
    json_array_foreach(schemas, i, one)
    {
        r = schema_apply(c, one, value);
        if (r == -ELOOP)
            break;
        count += r == 0;
    }
    c->err = err;
    *ret = count;
    return r == -ELOOP ? r : 0;
}

static int check_any(struct check *c, const json_t *schemas, const json_t *value, bool exactly_one)
{
    unsigned count = 0;
    int r = count_matches(c, schemas, value, &count);
    if (r < 0)
        return r;
    if (count == 0 && json_array_size(schemas) == 1)
        return schema_apply(c, json_array_get(schemas, 0), value);
    if (count == 0)
        return schema_say(c, "is none of the forms that are allowed");
    return exactly_one && count > 1
               ? schema_say(c, "fits more than one of the forms that exclude each other")
               : 0;
}

static int check_not(struct check *c, const json_t *schema, const json_t *value)
{
    struct error *err = c->err;
    c->err = NULL;
    int r = schema_apply(c, schema, value);
    c->err = err;
    if (r == -ELOOP)
        return r;
    return r == 0 ? schema_say(c, "is what must not be") : 0;
}

static int check_if(struct check *c, const json_t *schema, const json_t *condition,
                    const json_t *value)
{
    struct error *err = c->err;
    c->err = NULL;
    int r = schema_apply(c, condition, value);
    c->err = err;
    if (r == -ELOOP)
        return r;
    const json_t *then = json_object_get(schema, r == 0 ? "then" : "else");
    return then ? schema_apply(c, then, value) : 0;
}

static int check_all(struct check *c, const json_t *schemas, const json_t *value)
{
    size_t i;
    json_t *one;
    json_array_foreach(schemas, i, one)
    {
        int r = schema_apply(c, one, value);
        if (r < 0)
            return r;
    }
    return 0;
}

int schema_check_combined(struct check *c, const json_t *schema, const json_t *value)
{
    const json_t *k;
    int r = 0;
    if ((k = json_object_get(schema, "$ref"))) {
        const json_t *target = json_is_string(k) ? resolve(c, json_string_value(k)) : NULL;
        r = target ? schema_apply(c, target, value)
                   : schema_say(c, "has a schema with a $ref that leads nowhere");
    }
    if (r == 0 && (k = json_object_get(schema, "type")))
        r = check_type(c, k, value);
    if (r == 0 && (k = json_object_get(schema, "enum")))
        r = check_enum(c, k, value);
    if (r == 0 && (k = json_object_get(schema, "const")) && !equals(k, value))
        r = schema_say(c, "is not the one value that is allowed");
    if (r == 0 && (k = json_object_get(schema, "allOf")))
        r = check_all(c, k, value);
    if (r == 0 && (k = json_object_get(schema, "anyOf")))
        r = check_any(c, k, value, false);
    if (r == 0 && (k = json_object_get(schema, "oneOf")))
        r = check_any(c, k, value, true);
    if (r == 0 && (k = json_object_get(schema, "not")))
        r = check_not(c, k, value);
    if (r == 0 && (k = json_object_get(schema, "if")))
        r = check_if(c, schema, k, value);
    return r;
}

int schema_check(const json_t *schema, const json_t *value, const char *what, struct error *err)
{
    struct error own = {0};
    struct check c = {.root = schema, .err = err ? err : &own};
    int n = snprintf(c.path, sizeof c.path, "%s", what);
    c.path_len = n > 0 ? (size_t)n : 0;
    int r = schema_apply(&c, schema, value);
    return r == -ELOOP
               ? error_set(err, ELOOP, "%s: the schema is too deep or too much work to check", what)
               : r;
}
