/* Errors: one line with what was being done in front, always cut to fit, and never needed. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "error.h"

static void test_set(void **state)
{
    struct error err = {0};
    assert_int_equal(error_set(&err, EINVAL, "no %s", "way"), -EINVAL);
    assert_int_equal(err.code, EINVAL);
    assert_string_equal(err.text, "no way");
}

static void test_errno(void **state)
{
    struct error err = {0};
    assert_int_equal(error_errno(&err, ENOENT, "cannot open %s", "x"), -ENOENT);
    assert_string_equal(err.text, "cannot open x: No such file or directory");
}

static void test_wrap(void **state)
{
    struct error err = {0};
    error_errno(&err, EACCES, "cannot read %s", "x");
    assert_int_equal(error_wrap(&err, "cannot start box %d", 7), -EACCES);
    assert_int_equal(err.code, EACCES);
    assert_string_equal(err.text, "cannot start box 7: cannot read x: Permission denied");
}

static void test_without_an_object(void **state)
{
    assert_int_equal(error_set(NULL, EPERM, "x"), -EPERM);
    assert_int_equal(error_errno(NULL, EPERM, "x"), -EPERM);
    assert_true(error_wrap(NULL, "x") < 0);
}

/* A text as long as hostile names make it stays one string that ends. */
static void test_long_texts_are_cut(void **state)
{
    char name[3 * ERROR_TEXT_MAX];
    struct error err = {0};
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = 0;
    for (size_t n = ERROR_TEXT_MAX - 40; n < ERROR_TEXT_MAX + 3; n++) {
        error_errno(&err, ENOENT, "%.*s", (int)n, name);
        assert_in_range(strnlen(err.text, sizeof err.text),
                        n < ERROR_TEXT_MAX ? n : ERROR_TEXT_MAX - 1, ERROR_TEXT_MAX - 1);
        error_wrap(&err, "context");
        assert_true(strnlen(err.text, sizeof err.text) < ERROR_TEXT_MAX);
        assert_memory_equal(err.text, "context: nnn", 12);
        error_wrap(&err, "%s", name);
        assert_true(strnlen(err.text, sizeof err.text) < ERROR_TEXT_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_errno),
        cmocka_unit_test(test_wrap),
        cmocka_unit_test(test_without_an_object),
        cmocka_unit_test(test_long_texts_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
