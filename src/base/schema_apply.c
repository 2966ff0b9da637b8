/* One schema against one value: objects, arrays, and the way down. */
#include <errno.h>
#include <string.h>

#include "schema_private.h"
#include "banned.h"

static int check_size(struct check *c, const json_t *schema, const char *min, const char *max,
                      size_t size, const char *things)
{
    const json_t *least = json_object_get(schema, min), *most = json_object_get(schema, max);
    if (json_is_integer(least) && (json_int_t)size < json_integer_value(least))
        return schema_say(c, "has %zu %s, needs at least %" JSON_INTEGER_FORMAT, size, things,
                          json_integer_value(least));
    if (json_is_integer(most) && (json_int_t)size > json_integer_value(most))
        return schema_say(c, "has %zu %s, may have at most %" JSON_INTEGER_FORMAT, size, things,
                          json_integer_value(most));
    return 0;
}

static int check_member(struct check *c, const json_t *schema, const char *name,
                        const json_t *value)
{
    size_t before = schema_enter(c, name, 0);
    int r = schema_apply(c, schema, value);
    schema_leave(c, before);
    return r;
}

static int check_required(struct check *c, const json_t *names, const json_t *value)
{
    size_t i;
    json_t *name;
    json_array_foreach(names, i, name)
    {
        if (!json_is_string(name) || json_object_get(value, json_string_value(name)))
            continue;
        size_t before = schema_enter(c, json_string_value(name), 0);
        int r = schema_say(c, "is missing");
        schema_leave(c, before);
        return r;
    }
    return 0;
}

/* The patterns that fit the member's name. Positive if there was one. */
static int check_patterns(struct check *c, const json_t *patterns, const char *name,
                          const json_t *value)
{
    const char *pattern;
    json_t *schema;
    int fits = 0;
    json_object_foreach((json_t *)patterns, pattern, schema)
    {
        if (schema_matches(pattern, name, strlen(name)) != 1)
            continue;
        int r = check_member(c, schema, name, value);
        if (r < 0)
            return r;
        fits = 1;
    }
    return fits;
}

static int refuse_member(struct check *c, const json_t *properties, const char *name)
{
    char known[256] = "";
    size_t len = 0;
    const char *each;
    json_t *ignored;
    json_object_foreach((json_t *)properties, each, ignored)
    {
        int n = snprintf(known + len, sizeof known - len, "%s%.40s", len ? ", " : "", each);
        len += n > 0 && (size_t)n < sizeof known - len ? (size_t)n : 0;
    }
    size_t before = schema_enter(c, name, 0);
    int r = schema_say(c, "is not known here; known are: %s", known);
    schema_leave(c, before);
    return r;
}

static int check_one_member(struct check *c, const json_t *schema, const char *name,
                            const json_t *value)
{
    const json_t *properties = json_object_get(schema, "properties");
    const json_t *other = json_object_get(schema, "additionalProperties");
    const json_t *own = json_object_get(properties, name);
    const json_t *names = json_object_get(schema, "propertyNames");
    json_t *text = names ? json_string(name) : NULL;
    int r = text ? check_member(c, names, name, text) : 0;
    json_decref(text);
    if (r == 0 && own)
        r = check_member(c, own, name, value);
    int fits =
        r < 0 ? r : check_patterns(c, json_object_get(schema, "patternProperties"), name, value);
    if (fits != 0 || own || !other)
        return fits < 0 ? fits : 0;
    return json_is_false(other) ? refuse_member(c, properties, name)
                                : check_member(c, other, name, value);
}

static int check_object(struct check *c, const json_t *schema, const json_t *value)
{
    const char *name;
    json_t *member;
    int r = check_required(c, json_object_get(schema, "required"), value);
    if (r == 0)
        r = check_size(c, schema, "minProperties", "maxProperties", json_object_size(value),
                       "members");
    json_object_foreach((json_t *)value, name, member)
    {
        if (r < 0)
            return r;
        r = check_one_member(c, schema, name, member);
    }
    json_object_foreach(json_object_get(schema, "dependentRequired"), name,
                        member) if (r == 0 && json_object_get(value, name)) r =
        check_required(c, member, value);
    return r;
}

static int check_unique(struct check *c, const json_t *value)
{
    size_t n = json_array_size(value);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++) {
            if (++c->steps > SCHEMA_STEPS_MAX)
                return -ELOOP;
            if (json_equal(json_array_get(value, i), json_array_get(value, j)))
                return schema_say(c, "has the same item at %zu and %zu", j, i);
        }
    return 0;
}

static int check_contains(struct check *c, const json_t *schema, const json_t *value)
{
    struct error *err = c->err;
    size_t i;
    json_t *item;
    int r = -EINVAL;
    c->err = NULL;
    json_array_foreach(value, i, item)
    {
        r = schema_apply(c, schema, item);
        if (r == 0 || r == -ELOOP)
            break;
    }
    c->err = err;
    return r == -EINVAL ? schema_say(c, "has no item of the kind that must be there") : r;
}

/* `prefixItems` (or, in older drafts, a list in `items`) for the first ones, then `items` for the
 * rest. */
static const json_t *item_schema(const json_t *schema, size_t i)
{
    const json_t *first = json_object_get(schema, "prefixItems"),
                 *items = json_object_get(schema, "items");
    if (!first && json_is_array(items)) {
        first = items;
        items = json_object_get(schema, "additionalItems");
    }
    return i < json_array_size(first) ? json_array_get(first, i) : items;
}

static int check_array(struct check *c, const json_t *schema, const json_t *value)
{
    const json_t *contains = json_object_get(schema, "contains");
    size_t i;
    json_t *item;
    int r = check_size(c, schema, "minItems", "maxItems", json_array_size(value), "items");
    json_array_foreach(value, i, item)
    {
        const json_t *of = r == 0 ? item_schema(schema, i) : NULL;
        if (!of)
            break;
        size_t before = schema_enter(c, NULL, i);
        r = schema_apply(c, of, item);
        schema_leave(c, before);
    }
    if (r == 0 && json_is_true(json_object_get(schema, "uniqueItems")))
        r = check_unique(c, value);
    return r == 0 && contains ? check_contains(c, contains, value) : r;
}

static int check_value(struct check *c, const json_t *schema, const json_t *value)
{
    int r = schema_check_combined(c, schema, value);
    if (r < 0)
        return r;
    if (json_is_object(value))
        return check_object(c, schema, value);
    if (json_is_array(value))
        return check_array(c, schema, value);
    if (json_is_string(value))
        return schema_check_string(c, schema, value);
    return json_is_number(value) ? schema_check_number(c, schema, value) : 0;
}

int schema_apply(struct check *c, const json_t *schema, const json_t *value)
{
    if (json_is_boolean(schema))
        return json_is_true(schema) ? 0 : schema_say(c, "is not allowed");
    if (!json_is_object(schema))
        return schema_say(c, "has a schema that is no object");
    if (++c->steps > SCHEMA_STEPS_MAX || c->depth == SCHEMA_DEPTH_MAX)
        return -ELOOP;
    c->depth++;
    int r = check_value(c, schema, value);
    c->depth--;
    return r;
}
