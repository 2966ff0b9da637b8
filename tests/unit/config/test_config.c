/* The configuration's text, the variables in it; and manifests of own tools. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "config.h"
#include "text.h"

static void expect_expanded(const char *value, const char *want)
{
    char *text = NULL;
    struct error err = {0};
    assert_int_equal(config_expand(value, "here", &text, &err), 0);
    assert_string_equal(text, want);
    free(text);
}

static void expect_refused(const char *value, const char *said)
{
    char *text = NULL;
    struct error err = {0};
    assert_true(config_expand(value, "here", &text, &err) < 0);
    assert_null(text);
    assert_non_null(strstr(err.text, said));
    assert_int_equal(strncmp(err.text, "here: ", 6), 0);
}

static void test_expand(void **state)
{
    setenv("A", "1", 1);
    setenv("EMPTY", "", 1);
    unsetenv("GONE");
    expect_expanded("", "");
    expect_expanded("plain $A $ } {", "plain $A $ } {");
    expect_expanded("${A}", "1");
    expect_expanded("x${A}y${A}z", "x1y1z");
    expect_expanded("[${EMPTY}]", "[]");
    expect_expanded("${EMPTY:-d}", "");
    expect_expanded("${GONE:-d}", "d");
    expect_expanded("${GONE:-}", "");
    expect_expanded("${GONE:-a:-b}", "a:-b");
    expect_refused("${GONE}", "${GONE} is not set");
    expect_refused("a${A", "without '}'");
    expect_refused("${}", "is not a variable name");
    expect_refused("${:-x}", "is not a variable name");
}

static void test_expand_is_bounded(void **state)
{
    char *big = malloc((300u << 10) + 1);
    memset(big, 'x', 300u << 10);
    big[300u << 10] = 0;
    expect_refused(big, "longer than");
    free(big);
}

static void test_text(void **state)
{
    static const char *const cases[][2] = {
        {"plain\n\ttext", "plain\n\ttext"},
        {"a\x1b[31mb\rc\x7f", "a[31mbc"},
        {"a\xff\xfe\xc3(b", "a(b"},
        {"\xe2\x80\xae"
         "abc\xe2\x81\xa6",
         "abc"},
        {"a\xf3\xa0\x81\x81z", "az"},
        {"0123456789", "0123456789"},
        {"01234567890", "0123456789…"},
        {"012345678ä", "012345678…"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char *text = foreign_text(cases[i][0], strlen(cases[i][0]), i < 5 ? 100 : 10);
        assert_string_equal(text, cases[i][1]);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expand),
        cmocka_unit_test(test_expand_is_bounded),
        cmocka_unit_test(test_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
