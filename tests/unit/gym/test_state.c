/* Names of states: the same way leads to the same name, any other to another one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "env_state.h"

static void begin(const char *digest, char name[STATE_NAME_SIZE])
{
    assert_int_equal(state_begin(digest, name), 0);
    assert_int_equal(strlen(name), 64);
    assert_int_equal(strspn(name, "0123456789abcdef"), 64);
}

static void go(char name[STATE_NAME_SIZE], const char *tool, const char *input)
{
    json_t *o = json_loads(input, 0, NULL);
    assert_non_null(o);
    assert_int_equal(state_after(name, tool, o, name), 0);
    json_decref(o);
}

static void test_same_way(void **state)
{
    char a[STATE_NAME_SIZE], b[STATE_NAME_SIZE];
    begin("d", a);
    begin("d", b);
    assert_string_equal(a, b);
    go(a, "write_file", "{\"path\": \"x\", \"content\": \"y\"}");
    go(b, "write_file",
       "{ \"content\" : \"y\", \"path\": \"x\" }"); /* the order of members is nothing */
    assert_string_equal(a, b);
    go(a, "bash", "{}");
    assert_string_not_equal(a, b);
}

static void test_other_ways(void **state)
{
    static const char *const ways[][2] = {
        {"bash", "{}"},
        {"bash", "{\"a\": 1}"},
        {"bash", "{\"a\": \"1\"}"},
        {"bash", "{\"a\": 1.0}"},
        {"bash", "{\"a\": [1]}"},
        {"edit", "{\"a\": 1}"},
        {"bas", "{}"},
        {"bash", "{\"b\": 1}"},
        {"", "{}"},
        {"bash{}", "{\"\": \"\"}"},
    };
    const size_t n = sizeof ways / sizeof *ways;
    char names[sizeof ways / sizeof *ways + 2][STATE_NAME_SIZE];
    begin("d", names[n]);
    begin("e", names[n + 1]);
    for (size_t i = 0; i < n; i++) {
        begin("d", names[i]);
        go(names[i], ways[i][0], ways[i][1]);
    }
    for (size_t i = 0; i < n + 2; i++)
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(names[i], names[j]);
}

static void test_order_counts(void **state)
{
    char a[STATE_NAME_SIZE], b[STATE_NAME_SIZE];
    begin("d", a);
    begin("d", b);
    go(a, "x", "{}"), go(a, "y", "{}");
    go(b, "y", "{}"), go(b, "x", "{}");
    assert_string_not_equal(a, b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_way),
        cmocka_unit_test(test_other_ways),
        cmocka_unit_test(test_order_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
