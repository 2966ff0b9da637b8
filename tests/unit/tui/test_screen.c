/* The background from the environment, and substitutes for glyphs that a terminal lacks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "view.h"

static void test_background_from_environment(void **state)
{
    assert_int_equal(theme_background(NULL, NULL), BACKGROUND_UNKNOWN);
    assert_int_equal(theme_background(NULL, "15;0"), BACKGROUND_DARK);
    assert_int_equal(theme_background(NULL, "0;15"), BACKGROUND_LIGHT);
    assert_int_equal(theme_background(NULL, "0;default;7"), BACKGROUND_LIGHT);
    assert_int_equal(theme_background(NULL, "12;8"), BACKGROUND_DARK);
    assert_int_equal(theme_background(NULL, "15;default"), BACKGROUND_UNKNOWN);
    assert_int_equal(theme_background(NULL, "15;99"), BACKGROUND_UNKNOWN);
    assert_int_equal(theme_background(NULL, ""), BACKGROUND_UNKNOWN);
    assert_int_equal(theme_background("light", "15;0"), BACKGROUND_LIGHT);
    assert_int_equal(theme_background("dark", NULL), BACKGROUND_DARK);
    assert_int_equal(theme_background("pink", "0;15"), BACKGROUND_LIGHT);
}

static void test_substitutes_for_missing_glyphs(void **state)
{
    struct theme all = {0}, ascii = {.ascii = true}, console = {.few_glyphs = true};
    assert_int_equal(theme_substitute(&all, 0x25b8), 0);
    assert_int_equal(theme_substitute(&ascii, 'a'), 0);
    assert_int_equal(theme_substitute(&ascii, 0x25b8), '>');
    assert_int_equal(theme_substitute(&ascii, 0x2502), '|');
    assert_int_equal(theme_substitute(&ascii, 0x253c), '+');
    assert_int_equal(theme_substitute(&ascii, 0x6f22), '?');
    assert_int_equal(theme_substitute(&console, 0x25b8), '>');
    assert_int_equal(theme_substitute(&console, 0x2502), 0); /* lines are in every font */
    assert_int_equal(theme_substitute(&console, 0xe4), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_background_from_environment),
        cmocka_unit_test(test_substitutes_for_missing_glyphs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
