#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "json.h"

static void test_member_of_another_type_is_the_fallback(void **state)
{
    _cleanup_json_ json_t *o =
        json_pack("{s:s, s:i, s:b, s:n}", "text", "a", "number", 7, "flag", 1, "nothing");
    assert_non_null(o);
    assert_string_equal(json_get_string(o, "text"), "a");
    assert_string_equal(json_get_string_or(o, "text", "b"), "a");
    assert_int_equal(json_get_integer(o, "number"), 7);
    assert_true(json_get_bool(o, "flag"));

    assert_null(json_get_string(o, "number"));
    assert_null(json_get_string(o, "absent"));
    assert_string_equal(json_get_string_or(o, "nothing", "b"), "b");
    assert_int_equal(json_get_integer(o, "text"), 0);
    assert_false(json_get_bool(o, "number"));
}

static void test_no_object_has_no_members(void **state)
{
    _cleanup_json_ json_t *list = json_array();
    assert_null(json_get_string(NULL, "a"));
    assert_null(json_get_string(list, "a"));
    assert_int_equal(json_get_integer(NULL, "a"), 0);
    assert_false(json_get_bool(list, "a"));
}

static void test_append_respects_the_maximum_of_the_buffer(void **state)
{
    _cleanup_json_ json_t *o = json_pack("{s:s}", "key", "value");
    _cleanup_buf_ struct buf wide = BUF_INIT(64), narrow = BUF_INIT(8);
    buf_append_str(&wide, "> ");
    assert_int_equal(json_append(&wide, o, JSON_COMPACT), 0);
    assert_string_equal(buf_cstr(&wide), "> {\"key\":\"value\"}");
    assert_int_equal(json_append(&narrow, o, JSON_COMPACT), -ENOBUFS);
}

static void test_count_values_ignores_strings_and_stops_at_max(void **state)
{
    const char *text = "{\"a,[{\\\"\": [1, 2, {}], \"b\": 3}";
    assert_int_equal(json_count_values(text, strlen(text), 100), 7);
    assert_int_equal(json_count_values(text, strlen(text), 3), 4);
    assert_int_equal(json_count_values("1", 1, 10), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_member_of_another_type_is_the_fallback),
        cmocka_unit_test(test_no_object_has_no_members),
        cmocka_unit_test(test_append_respects_the_maximum_of_the_buffer),
        cmocka_unit_test(test_count_values_ignores_strings_and_stops_at_max),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
