/* UTF-8, base64, and the text of a kept stream. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "encoding.h"
#include "text.h"
#include "exec_result.h"

#define BYTES(s) (const uint8_t *)(s), sizeof(s) - 1

static void test_valid(void **state)
{
    assert_true(utf8_valid(BYTES("")));
    assert_true(utf8_valid(BYTES("a\0b")));
    assert_true(
        utf8_valid(BYTES("\xc2\x80 \xdf\xbf \xe0\xa0\x80 \xed\x9f\xbf \xee\x80\x80 \xef\xbf\xbf")));
    assert_true(utf8_valid(BYTES("\xf0\x90\x80\x80 \xf4\x8f\xbf\xbf")));
}

static void test_invalid(void **state)
{
    assert_false(utf8_valid(BYTES("\x80")));             /* a continuation alone */
    assert_false(utf8_valid(BYTES("\xc3")));             /* cut off */
    assert_false(utf8_valid(BYTES("\xe2\x82")));         /* cut off */
    assert_false(utf8_valid(BYTES("\xc0\x80")));         /* overlong NUL */
    assert_false(utf8_valid(BYTES("\xc1\xbf")));         /* overlong */
    assert_false(utf8_valid(BYTES("\xe0\x9f\xbf")));     /* overlong */
    assert_false(utf8_valid(BYTES("\xf0\x8f\xbf\xbf"))); /* overlong */
    assert_false(utf8_valid(BYTES("\xed\xa0\x80")));     /* a surrogate */
    assert_false(utf8_valid(BYTES("\xed\xbf\xbf")));     /* a surrogate */
    assert_false(utf8_valid(BYTES("\xf4\x90\x80\x80"))); /* above U+10FFFF */
    assert_false(utf8_valid(BYTES("\xf5\x80\x80\x80")));
    assert_false(utf8_valid(BYTES("\xff")));
    assert_false(utf8_valid(BYTES("a\xc3(")));
}

static void test_cuts(void **state)
{
    assert_int_equal(utf8_cut_end(BYTES("abc")), 0);
    assert_int_equal(utf8_cut_end(BYTES("a\xe2\x82\xac")), 0);
    assert_int_equal(utf8_cut_end(BYTES("a\xe2\x82")), 2);
    assert_int_equal(utf8_cut_end(BYTES("a\xf0\x9f\x98")), 3);
    assert_int_equal(utf8_cut_end(BYTES("a\xf0")), 1);
    assert_int_equal(utf8_cut_end(BYTES("a\x80\x80\x80\x80")), 0);
    assert_int_equal(utf8_cut_end(BYTES("")), 0);
    assert_int_equal(utf8_cut_start(BYTES("\x82\xac"
                                          "b")),
                     2);
    assert_int_equal(utf8_cut_start(BYTES("b")), 0);
    assert_int_equal(utf8_cut_start(BYTES("")), 0);
}

static void test_controls(void **state)
{
    assert_true(utf8_is_control(BYTES("\x1b")));
    assert_true(utf8_is_control(BYTES("\x7f")));
    assert_true(utf8_is_control(BYTES("\xc2\x9b")));     /* CSI as one character */
    assert_true(utf8_is_control(BYTES("\xe2\x80\xae"))); /* right-to-left override */
    assert_false(utf8_is_control(BYTES("\xc3\xa9")));
    assert_false(utf8_is_control(BYTES(" ")));
}

static void assert_base64(const char *data, size_t n, const char *text)
{
    _cleanup_buf_ struct buf b = BUF_INIT(64);
    assert_int_equal(base64_append(&b, data, n), 0);
    assert_string_equal(buf_cstr(&b), text);
}

static void test_base64(void **state)
{
    assert_base64("", 0, "");
    assert_base64("f", 1, "Zg==");
    assert_base64("fo", 2, "Zm8=");
    assert_base64("foo", 3, "Zm9v");
    assert_base64("foobar", 6, "Zm9vYmFy");
    assert_base64("\xff\xfe\x00", 3, "//4A");
    struct buf small = BUF_INIT(3);
    assert_true(base64_append(&small, "f", 1) < 0);
    buf_free(&small);
}

static void assert_kept(const char *head, const char *tail, uint64_t total, const char *text)
{
    struct box_capture c = {.head = BUF_INIT(64), .tail = BUF_INIT(64), .total = total};
    _cleanup_buf_ struct buf out = BUF_INIT(256);
    buf_append_str(&c.head, head);
    buf_append_str(&c.tail, tail);
    assert_int_equal(exec_result_kept_text(&c, &out), 0);
    assert_string_equal(buf_cstr(&out), text);
    buf_free(&c.head);
    buf_free(&c.tail);
}

static void test_kept_text(void **state)
{
    assert_kept("", "", 0, "");
    assert_kept("ab", "", 2, "ab");
    assert_kept("a\xe2",
                "\x82\xac"
                "b",
                5,
                "a\xe2\x82\xac"
                "b"); /* nothing between: a character may cross */
    assert_kept("ab", "yz", 10, "ab\n[… 6 bytes left out …]\nyz");
    assert_kept("a\xe2\x82",
                "\xac"
                "z",
                10, "a\n[… 8 bytes left out …]\nz");
    assert_kept("", "", 10, "\n[… 10 bytes left out …]\n");
}

static void test_limit_names(void **state)
{
    assert_null(box_limit_name(WIRE_LIMIT_NONE));
    assert_string_equal(box_limit_name(WIRE_LIMIT_CPU), "cpu-time");
    assert_string_equal(box_limit_name(WIRE_LIMIT_OUTPUT), "output");
    assert_null(box_limit_name((enum wire_limit)99));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_valid),       cmocka_unit_test(test_invalid),
        cmocka_unit_test(test_cuts),        cmocka_unit_test(test_controls),
        cmocka_unit_test(test_base64),      cmocka_unit_test(test_kept_text),
        cmocka_unit_test(test_limit_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
