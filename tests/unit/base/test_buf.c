/* The buffer: its maximum holds to the byte, failure sticks, and what is consumed is gone from the
 * front. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "text.h"

static void test_maximum_is_exact(void **state)
{
    for (size_t max = 0; max < 200; max++) {
        _cleanup_buf_ struct buf b = BUF_INIT(max);
        for (size_t i = 0; i < max; i++)
            assert_int_equal(buf_append(&b, "x", 1), 0);
        assert_int_equal(b.len, max);
        assert_true(b.cap <= max);
        assert_int_equal(buf_append(&b, "x", 1), -ENOBUFS);
        assert_int_equal(b.len, max);
    }
}

static void test_failure_sticks(void **state)
{
    _cleanup_buf_ struct buf b = BUF_INIT(4);
    assert_int_equal(buf_append(&b, "abc", 3), 0);
    assert_int_equal(buf_append(&b, "de", 2), -ENOBUFS);
    assert_true(b.failed);
    assert_int_equal(buf_append(&b, "d", 1), -ENOBUFS);
    assert_int_equal(buf_append(&b, "", 0), -ENOBUFS);
    assert_int_equal(buf_printf(&b, "%d", 1), -ENOBUFS);
    assert_null(buf_cstr(&b));
    assert_int_equal(b.len, 3);
    buf_free(&b);
    assert_false(b.failed);
    assert_int_equal(b.max, 4);
}

static void test_sizes_that_would_wrap(void **state)
{
    _cleanup_buf_ struct buf b = BUF_INIT(SIZE_MAX / 2);
    assert_int_equal(buf_append(&b, "abc", 3), 0);
    assert_null(buf_reserve(&b, SIZE_MAX));
    buf_free(&b);
    assert_int_equal(buf_append(&b, "abc", 3), 0);
    assert_null(buf_reserve(&b, SIZE_MAX - 2));
}

static void test_consume(void **state)
{
    _cleanup_buf_ struct buf b = BUF_INIT(8);
    buf_append_str(&b, "abcdef");
    buf_consume(&b, 0);
    assert_int_equal(b.len, 6);
    buf_consume(&b, 2);
    assert_string_equal(buf_cstr(&b), "cdef");
    buf_append_str(&b, "ghij");
    assert_int_equal(b.len, 8);
    assert_memory_equal(b.data, "cdefghij", 8);
    buf_consume(&b, 100);
    assert_int_equal(b.len, 0);
    assert_string_equal(buf_cstr(&b), "");
}

static void test_cstr_needs_room(void **state)
{
    _cleanup_buf_ struct buf b = BUF_INIT(3);
    buf_append_str(&b, "abc");
    assert_null(buf_cstr(&b));
}

static void test_printf(void **state)
{
    _cleanup_buf_ struct buf b = BUF_INIT(16);
    assert_int_equal(buf_printf(&b, "%s-%d", "a", 7), 0);
    assert_int_equal(buf_printf(&b, "%s", ""), 0);
    assert_string_equal(buf_cstr(&b), "a-7");
    assert_int_equal(buf_printf(&b, "%0100d", 1), -ENOBUFS);
    assert_int_equal(b.len, 3);
}

static void test_reserve_appends_nothing(void **state)
{
    _cleanup_buf_ struct buf b = BUF_INIT(1000);
    uint8_t *at = buf_reserve(&b, 1000);
    assert_non_null(at);
    assert_int_equal(b.len, 0);
    memset(at, 'x', 1000);
    b.len = 1000;
    assert_null(buf_reserve(&b, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_maximum_is_exact),        cmocka_unit_test(test_failure_sticks),
        cmocka_unit_test(test_sizes_that_would_wrap),   cmocka_unit_test(test_consume),
        cmocka_unit_test(test_cstr_needs_room),         cmocka_unit_test(test_printf),
        cmocka_unit_test(test_reserve_appends_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
