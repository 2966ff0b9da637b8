/* See schema.h for what is checked. schema_apply() checks one schema against one value and calls
 * itself for members, items and the schemas of allOf, anyOf and $ref. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <errno.h>
#include <pcre2.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "json.h"
#include "schema.h"
#include "banned.h"

#define SCHEMA_DEPTH_MAX 64
#define SCHEMA_STEPS_MAX 200000
#define SCHEMA_PATH_MAX  256

#define FOREIGN_BYTES_MAX (256u << 10)
#define FOREIGN_DEPTH_MAX 48
#define MATCH_LIMIT       100000
#define MATCH_HEAP_KIB    1024

struct check {
    const json_t *root;
    struct error *err; /* NULL while only the result matters (anyOf) */
    unsigned steps;
    unsigned depth;
    size_t path_len;
    char path[SCHEMA_PATH_MAX]; /* of the value being checked */
};

static int schema_apply(struct check *c, const json_t *schema, const json_t *value);

static int schema_refuse(struct check *c, const char *fmt, ...) PRINTF(2, 3);
static int schema_refuse(struct check *c, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return c->err ? error_set(c->err, EINVAL, "%s: %s", c->path, text) : -EINVAL;
}

/* Extends the path by a member or an item; schema_leave restores the length that it returns. */
static size_t schema_enter(struct check *c, const char *member, size_t index)
{
    size_t before = c->path_len, room = sizeof c->path - before;
    int n = member ? snprintf(c->path + before, room, ".%.100s", member)
                   : snprintf(c->path + before, room, "[%zu]", index);
    if (n > 0)
        c->path_len += (size_t)n < room ? (size_t)n : room - 1;
    return before;
}

static int schema_leave(struct check *c, size_t path_len, int r)
{
    c->path_len = path_len;
    c->path[path_len] = 0;
    return r;
}

/* The target of a $ref within the document, a JSON pointer; NULL if there is none. */
static const json_t *schema_resolve(const struct check *c, const char *ref)
{
    const json_t *at = c->root;
    if (!ref || ref[0] != '#' || (ref[1] && ref[1] != '/'))
        return NULL;
    for (ref++; *ref && at;) {
        char name[128];
        size_t n = 0;
        for (ref++; *ref && *ref != '/'; ref++) {
            char ch = *ref;
            if (ch == '~' && (ref[1] == '0' || ref[1] == '1'))
                ch = *++ref == '0' ? '~' : '/';
            if (n + 1 < sizeof name)
                name[n++] = ch;
        }
        name[n] = 0;
        at = json_is_array(at) ? json_array_get(at, strtoul(name, NULL, 10))
                               : json_object_get(at, name);
    }
    return at;
}

static const char *type_name(const json_t *v)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "object",   [JSON_ARRAY] = "array", [JSON_STRING] = "string",
        [JSON_INTEGER] = "integer", [JSON_REAL] = "number", [JSON_TRUE] = "boolean",
        [JSON_FALSE] = "boolean",   [JSON_NULL] = "null"};
    return names[json_typeof(v)];
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

/* Appends to a list for a message; what does not fit is left out. */
static void list_add(char *list, size_t size, const char *between, const char *item, int max)
{
    size_t len = strlen(list);
    int n = snprintf(list + len, size - len, "%s%.*s", len ? between : "", max, item);
    if (n < 0 || (size_t)n >= size - len)
        list[len] = 0;
}

/* `types` is one type, or a list of them. */
static int check_type(struct check *c, const json_t *types, const json_t *value)
{
    char list[128] = "";
    size_t n = json_is_array(types) ? json_array_size(types) : 1;
    for (size_t i = 0; i < n; i++) {
        const char *name =
            json_string_value(json_is_array(types) ? json_array_get(types, i) : types);
        if (name && has_type(value, name))
            return 0;
        list_add(list, sizeof list, " or ", name ? name : "?", 20);
    }
    return schema_refuse(c, "must be of type %s, is %s", list, type_name(value));
}

/* 1 and 1.0 are the same number. */
static bool values_equal(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b) && json_typeof(a) != json_typeof(b))
        return json_number_value(a) == json_number_value(b);
    return json_equal(a, b);
}

static int check_enum(struct check *c, const json_t *allowed, const json_t *value)
{
    char list[256] = "";
    size_t i;
    json_t *one;
    json_array_foreach(allowed, i, one)
    {
        if (values_equal(one, value))
            return 0;
        _cleanup_free_ char *text = json_dumps(one, JSON_ENCODE_ANY | JSON_COMPACT);
        list_add(list, sizeof list, ", ", text ? text : "?", 60);
    }
    return schema_refuse(c, "must be one of %s", list);
}

/* The one alternative whose `type` is that of the value: what it says is more useful than that none
 * fits. NULL: there are several, or one that names no type. */
static const json_t *check_any_meant(struct check *c, const json_t *schemas, const json_t *value)
{
    const json_t *meant = NULL;
    size_t i;
    json_t *one;
    if (json_array_size(schemas) == 1)
        return json_array_get(schemas, 0);
    json_array_foreach(schemas, i, one)
    {
        const char *ref = json_get_string(one, "$ref");
        const json_t *types = json_object_get(ref ? schema_resolve(c, ref) : one, "type");
        bool fits = !types || check_type(c, types, value) == 0;
        if (fits && (meant || !types))
            return NULL;
        meant = fits ? one : meant;
    }
    return meant;
}

static int check_any(struct check *c, const json_t *schemas, const json_t *value)
{
    struct error *err = c->err;
    size_t i;
    json_t *one;
    c->err = NULL;
    const json_t *meant = check_any_meant(c, schemas, value);
    if (meant) {
        c->err = err;
        return schema_apply(c, meant, value);
    }
    int r = -EINVAL;
    json_array_foreach(schemas, i, one)
    {
        r = schema_apply(c, one, value);
        if (r != -EINVAL)
            break;
    }
    c->err = err;
    return r == -EINVAL ? schema_refuse(c, "is none of the forms that are allowed") : r;
}

static int check_size(struct check *c, const json_t *schema, const char *min, const char *max,
                      size_t size, const char *things)
{
    const json_t *least = json_object_get(schema, min), *most = json_object_get(schema, max);
    if (json_is_integer(least) && (json_int_t)size < json_integer_value(least))
        return schema_refuse(c, "has %zu %s, needs at least %" JSON_INTEGER_FORMAT, size, things,
                             json_integer_value(least));
    if (json_is_integer(most) && (json_int_t)size > json_integer_value(most))
        return schema_refuse(c, "has %zu %s, may have at most %" JSON_INTEGER_FORMAT, size, things,
                             json_integer_value(most));
    return 0;
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
        return schema_leave(c, before, schema_refuse(c, "is missing"));
    }
    return 0;
}

static int check_object(struct check *c, const json_t *schema, const json_t *value)
{
    const json_t *properties = json_object_get(schema, "properties"),
                 *names = json_object_get(schema, "propertyNames"), *others = NULL;
    const char *name;
    json_t *member, *ignored;
    if (!json_object_get(schema, "patternProperties"))
        others = json_object_get(schema, "additionalProperties");
    int r = check_required(c, json_object_get(schema, "required"), value);
    if (r == 0)
        r = check_size(c, schema, "minProperties", "maxProperties", json_object_size(value),
                       "members");
    json_object_foreach((json_t *)value, name, member)
    {
        if (r < 0)
            return r;
        const json_t *own = json_object_get(properties, name);
        _cleanup_json_ json_t *text = names ? json_string(name) : NULL;
        size_t before = schema_enter(c, name, 0);
        if (text)
            r = schema_apply(c, names, text);
        if (r == 0 && !own && json_is_false(others)) {
            char known[256] = "";
            json_object_foreach((json_t *)properties, name, ignored)
            {
                list_add(known, sizeof known, ", ", name, 40);
            }
            r = schema_refuse(c, "is not known here; known are: %s", known);
            return schema_leave(c, before, r);
        }
        if (r == 0 && (own || others))
            r = schema_apply(c, own ? own : others, member);
        schema_leave(c, before, r);
    }
    json_object_foreach(json_object_get(schema, "dependentRequired"), name, member)
    {
        if (r == 0 && json_object_get(value, name))
            r = check_required(c, member, value);
    }
    return r;
}

static int check_array(struct check *c, const json_t *schema, const json_t *value)
{
    const json_t *of = json_object_get(schema, "items");
    size_t i;
    json_t *item;
    int r = check_size(c, schema, "minItems", "maxItems", json_array_size(value), "items");
    /* A list of schemas (of older drafts) and items behind a prefix are not checked. */
    if (!of || json_is_array(of) || json_object_get(schema, "prefixItems"))
        return r;
    json_array_foreach(value, i, item)
    {
        if (r < 0)
            return r;
        size_t before = schema_enter(c, NULL, i);
        r = schema_leave(c, before, schema_apply(c, of, item));
    }
    return r;
}

/* An invalid pattern, or one that takes too long, matches nothing. */
static bool pattern_matches(const char *pattern, const char *text, size_t n)
{
    int code;
    PCRE2_SIZE at;
    uint32_t options =
        PCRE2_UTF | PCRE2_NO_UTF_CHECK | PCRE2_NEVER_BACKSLASH_C | PCRE2_DOLLAR_ENDONLY;
    pcre2_code *re =
        pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, options, &code, &at, NULL);
    pcre2_match_data *data = re ? pcre2_match_data_create(1, NULL) : NULL;
    pcre2_match_context *context = pcre2_match_context_create(NULL);
    bool matches = false;
    if (data && context) {
        pcre2_set_match_limit(context, MATCH_LIMIT);
        pcre2_set_heap_limit(context, MATCH_HEAP_KIB);
        matches = pcre2_match(re, (PCRE2_SPTR)text, n, 0, PCRE2_NO_UTF_CHECK, data, context) >= 0;
    }
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
    pcre2_code_free(re);
    return matches;
}

static int check_string(struct check *c, const json_t *schema, const json_t *value)
{
    const json_t *min = json_object_get(schema, "minLength"),
                 *max = json_object_get(schema, "maxLength");
    const char *pattern = json_get_string(schema, "pattern"), *text = json_string_value(value);
    size_t n = json_string_length(value);
    json_int_t length = 0;
    for (size_t i = 0; (min || max) && i < n; i++)
        length += ((unsigned char)text[i] & 0xc0) != 0x80;
    if (min && length < json_integer_value(min))
        return length ? schema_refuse(c, "is shorter than %" JSON_INTEGER_FORMAT " characters",
                                      json_integer_value(min))
                      : schema_refuse(c, "must not be empty");
    if (json_is_number(max) && length > json_integer_value(max))
        return schema_refuse(c, "is longer than %" JSON_INTEGER_FORMAT " characters",
                             json_integer_value(max));
    if (pattern && !pattern_matches(pattern, text, n))
        return schema_refuse(c, "does not match the pattern %.200s", pattern);
    return 0;
}

static int check_number(struct check *c, const json_t *schema, const json_t *value)
{
    static const struct {
        const char *name;
        int sign;
        bool exclusive;
        const char *words;
    } bounds[] = {{"maximum", 1, false, "at most"},
                  {"minimum", -1, false, "at least"},
                  {"exclusiveMaximum", 1, true, "less than"},
                  {"exclusiveMinimum", -1, true, "more than"}};
    double v = json_number_value(value);
    for (size_t i = 0; i < ARRAY_SIZE(bounds); i++) {
        const json_t *bound = json_object_get(schema, bounds[i].name);
        double over = json_is_number(bound) ? bounds[i].sign * (v - json_number_value(bound)) : -1;
        if (over > 0 || (over == 0 && bounds[i].exclusive))
            return schema_refuse(c, "must be %s %g, is %g", bounds[i].words,
                                 json_number_value(bound), v);
    }
    return 0;
}

/* 0, -EINVAL (with the reason in c->err), or -ELOOP. */
static int schema_apply(struct check *c, const json_t *schema, const json_t *value)
{
    const json_t *k;
    json_t *one;
    size_t i;
    int r = 0;
    if (json_is_boolean(schema))
        return json_is_true(schema) ? 0 : schema_refuse(c, "is not allowed");
    if (!json_is_object(schema))
        return schema_refuse(c, "has a schema that is not an object");
    if (++c->steps > SCHEMA_STEPS_MAX || c->depth == SCHEMA_DEPTH_MAX)
        return -ELOOP;
    c->depth++;
    if ((k = json_object_get(schema, "$ref"))) {
        const json_t *target = schema_resolve(c, json_string_value(k));
        r = target ? schema_apply(c, target, value)
                   : schema_refuse(c, "has a schema with a $ref that leads nowhere");
    }
    if (r == 0 && (k = json_object_get(schema, "type")))
        r = check_type(c, k, value);
    if (r == 0 && (k = json_object_get(schema, "enum")))
        r = check_enum(c, k, value);
    if (r == 0 && (k = json_object_get(schema, "const")) && !values_equal(k, value))
        r = schema_refuse(c, "is not the one value that is allowed");
    json_array_foreach(json_object_get(schema, "allOf"), i, one)
    {
        r = r == 0 ? schema_apply(c, one, value) : r;
    }
    if (r == 0 && (k = json_object_get(schema, "anyOf")))
        r = check_any(c, k, value);
    if (r == 0 && (k = json_object_get(schema, "oneOf")))
        r = check_any(c, k, value);
    if (r == 0)
        r = json_is_object(value)   ? check_object(c, schema, value)
            : json_is_array(value)  ? check_array(c, schema, value)
            : json_is_string(value) ? check_string(c, schema, value)
            : json_is_number(value) ? check_number(c, schema, value)
                                    : 0;
    c->depth--;
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

static bool json_is_deeper(const json_t *value, unsigned depth)
{
    const char *name;
    size_t i;
    json_t *one;
    if (depth == 0)
        return true;
    json_array_foreach(value, i, one) if (json_is_deeper(one, depth - 1)) return true;
    json_object_foreach((json_t *)value, name, one) if (json_is_deeper(one, depth - 1)) return true;
    return false;
}

int schema_take_foreign(const json_t *schema, const char *what, char **ret, struct error *err)
{
    if (!json_is_object(schema))
        return error_set(err, EINVAL, "%s: must be a JSON Schema, an object", what);
    if (strcmp(json_get_string_or(schema, "type", ""), "object") != 0)
        return error_set(err, EINVAL, "%s.type: must be \"object\"", what);
    if (json_is_deeper(schema, FOREIGN_DEPTH_MAX))
        return error_set(err, EINVAL, "%s: is nested more than %d deep", what, FOREIGN_DEPTH_MAX);
    _cleanup_free_ char *text = json_dumps(schema, JSON_COMPACT);
    if (!text)
        return error_set(err, ENOMEM, "no memory");
    if (strlen(text) > FOREIGN_BYTES_MAX)
        return error_set(err, EINVAL, "%s: is longer than %u bytes", what, FOREIGN_BYTES_MAX);
    *ret = TAKE_PTR(text);
    return 0;
}

int schema_check_text(const char *schema, const json_t *value, const char *what, struct error *err)
{
    _cleanup_json_ json_t *parsed = json_loads(schema, JSON_ALLOW_NUL, NULL);
    return parsed ? schema_check(parsed, value, what, err) : error_set(err, ENOMEM, "no memory");
}
