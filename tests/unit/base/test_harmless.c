/* Untrusted bytes on the way to a terminal: nothing that it obeys is left, wherever the stream is
 * cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "text.h"

static void expect(const char *in, const char *out)
{
    for (size_t cut = 0; cut <= strlen(in); cut++) {
        _cleanup_buf_ struct buf b = BUF_INIT(4096);
        struct harmless h = {0};
        assert_int_equal(harmless_append(&h, in, cut, &b), 0);
        assert_int_equal(harmless_append(&h, in + cut, strlen(in) - cut, &b), 0);
        assert_int_equal(harmless_append(&h, "\n", 1, &b), 0);
        char want[4096];
        snprintf(want, sizeof want, "%s\n", out);
        assert_string_equal(buf_cstr(&b), want);
    }
}

static void test_plain_text_passes(void **state)
{
    expect("a\tb\r\nc ~", "a\tb\r\nc ~");
    expect("grün 漢字 🐇", "grün 漢字 🐇");
}

static void test_sequences_are_shown(void **state)
{
    expect("\033[2J\033]0;title\007", "\\x1b[2J\\x1b]0;title\\x07");
    expect("back\b\b\x7f", "back\\x08\\x08\\x7f");
}

static void test_control_characters_of_utf8_are_shown(void **state)
{
    expect("a\xc2\x9b"
           "2Jb",
           "a\\xc2\\x9b2Jb"); /* C1: CSI in one character */
    expect("x\xe2\x80\xae"
           "y",
           "x\\xe2\\x80\\xaey"); /* turns the direction of writing */
}

static void test_what_is_no_utf8_is_shown(void **state)
{
    expect("a\xff\xfe"
           "b",
           "a\\xff\\xfeb");
    expect("cut\xe6\xbc", "cut\\xe6\\xbc");
    expect("\xc0\xaf", "\\xc0\\xaf");
}

static void test_a_full_buffer_is_told(void **state)
{
    _cleanup_buf_ struct buf b = BUF_INIT(3);
    struct harmless h = {0};
    assert_true(harmless_append(&h, "\033", 1, &b) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_text_passes),
        cmocka_unit_test(test_sequences_are_shown),
        cmocka_unit_test(test_control_characters_of_utf8_are_shown),
        cmocka_unit_test(test_what_is_no_utf8_is_shown),
        cmocka_unit_test(test_a_full_buffer_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
