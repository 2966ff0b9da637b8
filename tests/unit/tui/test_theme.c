/* What of the environment says about colours, and stand-ins for what a terminal cannot show. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "theme.h"

static void test_ground(void **state)
{
    assert_int_equal(theme_ground(NULL, NULL), GROUND_UNKNOWN);
    assert_int_equal(theme_ground(NULL, "15;0"), GROUND_DARK);
    assert_int_equal(theme_ground(NULL, "0;15"), GROUND_LIGHT);
    assert_int_equal(theme_ground(NULL, "0;default;7"), GROUND_LIGHT);
    assert_int_equal(theme_ground(NULL, "12;8"), GROUND_DARK);
    assert_int_equal(theme_ground(NULL, "15;default"), GROUND_UNKNOWN);
    assert_int_equal(theme_ground(NULL, "15;99"), GROUND_UNKNOWN);
    assert_int_equal(theme_ground(NULL, ""), GROUND_UNKNOWN);
    assert_int_equal(theme_ground("light", "15;0"), GROUND_LIGHT);
    assert_int_equal(theme_ground("dark", NULL), GROUND_DARK);
    assert_int_equal(theme_ground("pink", "0;15"), GROUND_LIGHT);
}

static void test_stand_ins(void **state)
{
    struct theme all = {0}, ascii = {.ascii = true}, console = {.few_glyphs = true};
    assert_int_equal(theme_stand_in(&all, 0x25b8), 0);
    assert_int_equal(theme_stand_in(&ascii, 'a'), 0);
    assert_int_equal(theme_stand_in(&ascii, 0x25b8), '>');
    assert_int_equal(theme_stand_in(&ascii, 0x2502), '|');
    assert_int_equal(theme_stand_in(&ascii, 0x253c), '+');
    assert_int_equal(theme_stand_in(&ascii, 0x6f22), '?');
    assert_int_equal(theme_stand_in(&console, 0x25b8), '>');
    assert_int_equal(theme_stand_in(&console, 0x2502), 0); /* lines are in every font */
    assert_int_equal(theme_stand_in(&console, 0xe4), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ground),
        cmocka_unit_test(test_stand_ins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
