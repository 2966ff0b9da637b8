/* Repeated string fields as a list such as execve wants. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "command.h"

static struct wire_frame frame_of(struct buf *b)
{
    struct wire_frame f;
    wire_end(b, 0);
    assert_int_equal(wire_parse(b->data, b->len, &f), b->len);
    return f;
}

static void in_order(void **state)
{
    _cleanup_buf_ struct buf b = BUF_INIT(4096);
    _cleanup_words_ struct words s = {0};
    wire_begin(&b, WIRE_EXEC);
    wire_put_str(&b, WIRE_K_ARG, "one");
    wire_put_str(&b, WIRE_K_ENV, "A=1");
    wire_put_str(&b, WIRE_K_ARG, "");
    wire_put_str(&b, WIRE_K_ARG, "three");
    struct wire_frame f = frame_of(&b);
    assert_int_equal(words_collect(&f, WIRE_K_ARG, &s), 0);
    assert_int_equal(s.count, 3);
    assert_string_equal(s.list[0], "one");
    assert_string_equal(s.list[1], "");
    assert_string_equal(s.list[2], "three");
    assert_null(s.list[3]);
    s.list[-1] = s.list[0];
}

static void none(void **state)
{
    _cleanup_buf_ struct buf b = BUF_INIT(4096);
    _cleanup_words_ struct words s = {0};
    wire_begin(&b, WIRE_EXEC);
    struct wire_frame f = frame_of(&b);
    assert_int_equal(words_collect(&f, WIRE_K_ARG, &s), 0);
    assert_int_equal(s.count, 0);
    assert_null(s.list[0]);
}

static void nul_is_refused(void **state)
{
    _cleanup_buf_ struct buf b = BUF_INIT(4096);
    struct words s = {0};
    wire_begin(&b, WIRE_EXEC);
    wire_put_str(&b, WIRE_K_ARG, "one");
    wire_put(&b, WIRE_K_ARG, "a\0b", 3);
    struct wire_frame f = frame_of(&b);
    assert_int_equal(words_collect(&f, WIRE_K_ARG, &s), -EINVAL);
    assert_null(s.list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order),
        cmocka_unit_test(none),
        cmocka_unit_test(nul_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
