/* Names that tools of the person's own may have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "own_tools.h"

static void test_names(void **state)
{
    assert_true(own_name_valid("a"));
    assert_true(own_name_valid("run_the-tests2"));
    static const char *const bad[] = {"", "1a", "_a", "-a", "A", "a.b", "a b", "a/b", "..", "ä"};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_false(own_name_valid(bad[i]));
    char name[OWN_NAME_MAX + 2];
    memset(name, 'a', sizeof name);
    name[OWN_NAME_MAX + 1] = 0;
    assert_false(own_name_valid(name));
    assert_true(own_name_valid(name + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
