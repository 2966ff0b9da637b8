/*
 * The validator on arbitrary schemas and values, which are built from the bytes: JSON text would
 * mostly be none. It always ends, its answer is one of three, a refusal begins with the path, and
 * asking again gives the same.
 */
#include <errno.h>
#include <string.h>

#include "compose.h"
#include "schema.h"
#include "banned.h"

#define DEPTH 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char *const WORDS[] = {"type",
                                    "enum",
                                    "const",
                                    "properties",
                                    "required",
                                    "additionalProperties",
                                    "patternProperties",
                                    "propertyNames",
                                    "dependentRequired",
                                    "minProperties",
                                    "maxProperties",
                                    "items",
                                    "prefixItems",
                                    "additionalItems",
                                    "contains",
                                    "minItems",
                                    "maxItems",
                                    "uniqueItems",
                                    "minLength",
                                    "maxLength",
                                    "pattern",
                                    "minimum",
                                    "maximum",
                                    "exclusiveMinimum",
                                    "exclusiveMaximum",
                                    "multipleOf",
                                    "allOf",
                                    "anyOf",
                                    "oneOf",
                                    "not",
                                    "if",
                                    "then",
                                    "else",
                                    "$ref",
                                    "$defs",
                                    "#",
                                    "#/$defs/a",
                                    "#/properties/a~1/items/0",
                                    "string",
                                    "integer",
                                    "number",
                                    "object",
                                    "array",
                                    "null",
                                    "boolean",
                                    "a",
                                    "b",
                                    "ab",
                                    "",
                                    "^a+$",
                                    "(a|b)*c",
                                    "[",
                                    "\xc3\xa4"};

struct source {
    const uint8_t *at, *end;
};

static unsigned next(struct source *s)
{
    return s->at < s->end ? *s->at++ : 0;
}

static const char *word(struct source *s)
{
    return WORDS[next(s) % ARRAY_SIZE(WORDS)];
}

static json_t *build(struct source *s, unsigned depth);

static json_t *build_array(struct source *s, unsigned depth)
{
    json_t *list = json_array();
    for (unsigned n = next(s) % 6; n > 0; n--)
        json_array_append_new(list, build(s, depth - 1));
    return list;
}

static json_t *build_object(struct source *s, unsigned depth)
{
    json_t *o = json_object();
    for (unsigned n = next(s) % 8; n > 0; n--) {
        const char *name = word(s);
        json_object_set_new(o, name, build(s, depth - 1));
    }
    return o;
}

static json_t *build(struct source *s, unsigned depth)
{
    switch (next(s) % (depth ? 12 : 6)) {
    case 0:
        return json_null();
    case 1:
        return json_boolean(next(s) & 1);
    case 2:
        return json_integer((int8_t)next(s));
    case 3:
        return json_real((int8_t)next(s) / 4.0);
    case 4:
    case 5:
        return json_string(word(s));
    case 6:
    case 7:
        return build_array(s, depth);
    default:
        return build_object(s, depth);
    }
}

static void check(const json_t *schema, const json_t *value)
{
    struct error first = {0}, second = {0};
    int r = schema_check(schema, value, "input", &first);
    require(r == 0 || r == -EINVAL || r == -ELOOP);
    require((r == 0) == (first.code == 0));
    require(r == 0 || strncmp(first.text, "input", 5) == 0);
    require(schema_check(schema, value, "input", &second) == r &&
            strcmp(first.text, second.text) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct source s = {.at = data, .end = data + n};
    json_t *value = build(&s, DEPTH / 2), *schema = build(&s, DEPTH);
    check(schema, value);
    json_decref(schema);
    json_decref(value);
    return 0;
}
