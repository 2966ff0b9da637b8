/* Names of signals, and the known name that a mistyped one means. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "text.h"

static const char *name_of(int number)
{
    static char name[32];
    signame_format(number, name, sizeof name);
    return name;
}

static void test_names(void **state)
{
    assert_string_equal(name_of(SIGKILL), "SIGKILL");
    assert_string_equal(name_of(SIGHUP), "SIGHUP");
    assert_string_equal(name_of(SIGSYS), "SIGSYS");
    assert_string_equal(name_of(SIGRTMIN), "SIGRTMIN+0");
    assert_string_equal(name_of(SIGRTMAX), "SIGRTMIN+30");
}

/* As the C library abbreviates them. */
static void test_all_agree_with_the_library(void **state)
{
    for (int i = 1; i < 32; i++) {
        const char *abbreviation = sigabbrev_np(i);
        char expected[32];
        if (!abbreviation)
            continue;
        snprintf(expected, sizeof expected, "SIG%s",
                 strcmp(abbreviation, "POLL") == 0 ? "IO" : abbreviation);
        if (i != SIGSTKFLT)
            assert_string_equal(name_of(i), expected);
    }
}

static void test_other_numbers(void **state)
{
    assert_string_equal(name_of(0), "0");
    assert_string_equal(name_of(-1), "-1");
    assert_string_equal(name_of(65), "65");
    assert_string_equal(name_of(1000000), "1000000");
}

static void test_is_cut_to_fit(void **state)
{
    char name[4];
    signame_format(SIGKILL, name, sizeof name);
    assert_string_equal(name, "SIG");
}

static const char *nearest_of(const char *wanted)
{
    static const char *const NAMES[] = {"README.md", "main.c", "config.yml", "bcdef",
                                        "a_name_of_more_than_thirty_two_characters.json"};
    struct nearest n = nearest_to(wanted, strlen(wanted));
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        nearest_offer(&n, NAMES[i]);
    return n.best ? n.best : "none";
}

static void test_nearest_name_is_spelled_alike(void **state)
{
    assert_string_equal(nearest_of("readme.md"), "README.md");
    assert_string_equal(nearest_of("mian.c"), "main.c");
    assert_string_equal(nearest_of("config.yaml"), "config.yml");
    assert_string_equal(nearest_of("a_name_of_more_than_thirty_two_charcters.json"),
                        "a_name_of_more_than_thirty_two_characters.json");
    assert_string_equal(nearest_of("a"), "none");
    assert_string_equal(nearest_of("uvwxyz"), "none");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_all_agree_with_the_library),
        cmocka_unit_test(test_other_numbers),
        cmocka_unit_test(test_is_cut_to_fit),
        cmocka_unit_test(test_nearest_name_is_spelled_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
