/* The validator: each keyword with what it lets pass and what it refuses, and where it says the
 * fault is. */
#include <errno.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "cleanup.h"
#include "schema.h"

struct fault {
    const char *schema, *value;
    const char *says; /* NULL: it is allowed */
};

static json_t *load(const char *text)
{
    json_t *v = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (!v)
        print_error("not JSON: %s\n", text);
    assert_non_null(v);
    return v;
}

static void check(const struct fault *f)
{
    struct error err = {0};
    json_t *schema = load(f->schema), *value = load(f->value);
    int r = schema_check(schema, value, "input", &err);
    if ((r == 0) != !f->says || (f->says && strcmp(err.text, f->says) != 0))
        print_error("%s with %s: %d '%s'\n", f->schema, f->value, r, err.text);
    assert_int_equal(r, f->says ? -err.code : 0);
    if (f->says)
        assert_string_equal(err.text, f->says);
    json_decref(schema);
    json_decref(value);
}

static void check_all(const struct fault *faults, size_t n)
{
    for (size_t i = 0; i < n; i++)
        check(&faults[i]);
}

static void test_types(void **state)
{
    static const struct fault faults[] = {
        {"{}", "17", NULL},
        {"true", "17", NULL},
        {"false", "17", "input: is not allowed"},
        {"3", "17", "input: has a schema that is not an object"},
        {"{\"type\":\"string\"}", "\"x\"", NULL},
        {"{\"type\":\"string\"}", "1", "input: must be of type string, is integer"},
        {"{\"type\":\"integer\"}", "1.0", NULL},
        {"{\"type\":\"integer\"}", "1.5", "input: must be of type integer, is number"},
        {"{\"type\":\"integer\"}", "1e300", "input: must be of type integer, is number"},
        {"{\"type\":\"number\"}", "1", NULL},
        {"{\"type\":\"boolean\"}", "false", NULL},
        {"{\"type\":\"boolean\"}", "0", "input: must be of type boolean, is integer"},
        {"{\"type\":[\"string\",\"null\"]}", "null", NULL},
        {"{\"type\":[\"string\",\"null\"]}", "[]",
         "input: must be of type string or null, is array"},
        {"{\"type\":[3]}", "1", "input: must be of type ?, is integer"},
        {"{\"enum\":[\"a\",2,null]}", "2", NULL},
        {"{\"enum\":[\"a\",2,null]}", "\"b\"", "input: must be one of \"a\", 2, null"},
        {"{\"const\":{\"a\":1}}", "{\"a\":1}", NULL},
        {"{\"const\":1}", "2", "input: is not the one value that is allowed"},
    };
    check_all(faults, ARRAY_SIZE(faults));
}

static void test_scalars(void **state)
{
    static const struct fault faults[] = {
        {"{\"minLength\":1}", "\"\"", "input: must not be empty"},
        {"{\"minLength\":3}", "\"ab\"", "input: is shorter than 3 characters"},
        {"{\"maxLength\":2}", "\"\\u00e4\\u00f6\"", NULL},
        {"{\"maxLength\":2}", "\"abc\"", "input: is longer than 2 characters"},
        {"{\"pattern\":\"^[a-z]+$\"}", "\"abc\"", NULL},
        {"{\"pattern\":\"^[a-z]+$\"}", "\"abc\\n\"", "input: does not match the pattern ^[a-z]+$"},
        {"{\"pattern\":\"(a+)+$\"}", "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab\"",
         "input: does not match the pattern (a+)+$"},
        {"{\"pattern\":\"(\"}", "\"a\"", "input: does not match the pattern ("},
        {"{\"minimum\":1}", "0", "input: must be at least 1, is 0"},
        {"{\"minimum\":1}", "1", NULL},
        {"{\"maximum\":1.5}", "2", "input: must be at most 1.5, is 2"},
        {"{\"exclusiveMinimum\":1}", "1", "input: must be more than 1, is 1"},
        {"{\"exclusiveMaximum\":1}", "1", "input: must be less than 1, is 1"},
        {"{\"minLength\":5}", "3", NULL},
    };
    check_all(faults, ARRAY_SIZE(faults));
}

static void test_objects(void **state)
{
    static const struct fault faults[] = {
        {"{\"required\":[\"a\"]}", "{}", "input.a: is missing"},
        {"{\"required\":[\"a\"]}", "[]", NULL},
        {"{\"properties\":{\"a\":{\"type\":\"string\"}}}", "{\"a\":1}",
         "input.a: must be of type string, is integer"},
        {"{\"properties\":{\"a\":{},\"b\":{}},\"additionalProperties\":false}", "{\"c\":1}",
         "input.c: is not known here; known are: a, b"},
        {"{\"additionalProperties\":{\"type\":\"null\"}}", "{\"c\":1}",
         "input.c: must be of type null, is integer"},
        {"{\"propertyNames\":{\"maxLength\":2}}", "{\"abc\":1}",
         "input.abc: is longer than 2 characters"},
        {"{\"minProperties\":1}", "{}", "input: has 0 members, needs at least 1"},
        {"{\"maxProperties\":0}", "{\"a\":1}", "input: has 1 members, may have at most 0"},
        {"{\"dependentRequired\":{\"a\":[\"b\"]}}", "{\"a\":1}", "input.b: is missing"},
        {"{\"dependentRequired\":{\"a\":[\"b\"]}}", "{\"c\":1}", NULL},
        {"{\"properties\":{\"a\":{\"properties\":{\"b\":{\"items\":{\"type\":\"string\"}}}}}}",
         "{\"a\":{\"b\":[\"x\",2]}}", "input.a.b[1]: must be of type string, is integer"},
    };
    check_all(faults, ARRAY_SIZE(faults));
}

static void test_arrays(void **state)
{
    static const struct fault faults[] = {
        {"{\"items\":{\"type\":\"integer\"}}", "[1,2]", NULL},
        {"{\"items\":{\"type\":\"integer\"}}", "[1,\"x\"]",
         "input[1]: must be of type integer, is string"},
        {"{\"minItems\":1}", "[]", "input: has 0 items, needs at least 1"},
        {"{\"maxItems\":1}", "[1,2]", "input: has 2 items, may have at most 1"},
    };
    check_all(faults, ARRAY_SIZE(faults));
}

static void test_combined(void **state)
{
    static const struct fault faults[] = {
        {"{\"allOf\":[{\"minimum\":1},{\"maximum\":2}]}", "3", "input: must be at most 2, is 3"},
        {"{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}", "3",
         "input: is none of the forms that are allowed"},
        {"{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"array\",\"maxItems\":1}]}", "[1,2]",
         "input: has 2 items, may have at most 1"},
        {"{\"anyOf\":[{\"type\":\"string\"}]}", "3", "input: must be of type string, is integer"},
        {"{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}", "null", NULL},
        {"{\"oneOf\":[{\"minimum\":1},{\"minimum\":2}]}", "0",
         "input: is none of the forms that are allowed"},
        {"{\"oneOf\":[{\"minimum\":1},{\"minimum\":2}]}", "1", NULL},
        {"{\"$ref\":\"#/$defs/a~1b\",\"$defs\":{\"a/b\":{\"type\":\"null\"}}}", "1",
         "input: must be of type null, is integer"},
        {"{\"$ref\":\"#/nowhere\"}", "1", "input: has a schema with a $ref that leads nowhere"},
        {"{\"$ref\":\"http://x/y\"}", "1", "input: has a schema with a $ref that leads nowhere"},
        {"{\"properties\":{\"next\":{\"$ref\":\"#\"}},\"additionalProperties\":false}",
         "{\"next\":{\"next\":{\"x\":1}}}",
         "input.next.next.x: is not known here; known are: next"},
    };
    check_all(faults, ARRAY_SIZE(faults));
}

/* What a stranger's schema can do to us: nothing for long. */
static void test_bounds(void **state)
{
    static const struct fault faults[] = {
        {"{\"$ref\":\"#\"}", "1", "input: the schema is too deep or too much work to check"},
        {"{\"anyOf\":[{\"$ref\":\"#\"},{\"$ref\":\"#\"}]}", "1",
         "input: the schema is too deep or too much work to check"},
    };
    check_all(faults, ARRAY_SIZE(faults));
    /* Many items, each of which is checked against many forms. */
    json_t *schema = load("{\"items\":{\"allOf\":[{},{},{},{},{},{},{},{},{},{}]}}");
    json_t *list = json_array();
    for (int i = 0; i < 20000; i++)
        json_array_append_new(list, json_integer(i));
    assert_int_equal(schema_check(schema, list, "input", NULL), -ELOOP);
    json_decref(schema);
    json_decref(list);
}

/* Keywords that are not checked must not make others refuse a valid value. */
static void test_ignored_keywords_refuse_nothing(void **state)
{
    static const struct fault faults[] = {
        {"{\"patternProperties\":{\"^x\":{}},\"additionalProperties\":false}", "{\"x1\":1}", NULL},
        {"{\"prefixItems\":[{\"type\":\"string\"}],\"items\":{\"type\":\"null\"}}", "[\"a\", null]",
         NULL},
        {"{\"items\":[{\"type\":\"string\"}],\"additionalItems\":false}", "[\"a\"]", NULL},
        {"{\"oneOf\":[{\"not\":{\"type\":\"string\"}},{\"type\":\"string\"}]}", "\"a\"", NULL},
        {"{\"if\":{},\"then\":{},\"else\":false}", "1", NULL},
        {"{\"contains\":{\"const\":3}, \"uniqueItems\":true}", "[1, 3]", NULL},
        {"{\"multipleOf\":2, \"format\":\"x\"}", "4", NULL},
        {"{\"unevaluatedProperties\":false}", "{}", NULL},
    };
    check_all(faults, ARRAY_SIZE(faults));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_scalars),
        cmocka_unit_test(test_objects),
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_combined),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_ignored_keywords_refuse_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
