/* Finding a program along PATH as execvp does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "command.h"

static void folders_in_order(void **state)
{
    static struct search_path s;
    char *env[] = {(char *)"HOME=/x", (char *)"PATH=/a:/b/c::/d", (char *)"PATH=/later", NULL};
    search_path_begin(&s, "sh", env);
    assert_string_equal(search_path_next(&s), "/a/sh");
    assert_string_equal(search_path_next(&s), "/b/c/sh");
    assert_string_equal(search_path_next(&s), "sh");
    assert_string_equal(search_path_next(&s), "/d/sh");
    assert_null(search_path_next(&s));
    assert_null(search_path_next(&s));
}

static void slash_means_a_path(void **state)
{
    static struct search_path s;
    char *env[] = {(char *)"PATH=/a:/b", NULL};
    search_path_begin(&s, "./run", env);
    assert_string_equal(search_path_next(&s), "./run");
    assert_null(search_path_next(&s));
}

static void without_a_path(void **state)
{
    static struct search_path s;
    char *none[] = {NULL}, *empty[] = {(char *)"PATH=", NULL};
    search_path_begin(&s, "sh", none);
    assert_string_equal(search_path_next(&s), "/bin/sh");
    assert_string_equal(search_path_next(&s), "/usr/bin/sh");
    assert_null(search_path_next(&s));
    search_path_begin(&s, "sh", empty);
    assert_string_equal(search_path_next(&s), "sh");
    assert_null(search_path_next(&s));
}

static void too_long_is_passed_over(void **state)
{
    static struct search_path s;
    static char path[2 * PATH_MAX] = "PATH=";
    char *env[] = {path, NULL};
    memset(path + 5, 'x', PATH_MAX);
    memcpy(path + 5 + PATH_MAX, ":/b", 4);
    search_path_begin(&s, "sh", env);
    assert_string_equal(search_path_next(&s), "/b/sh");
    assert_null(search_path_next(&s));
}

static void empty_name_is_nothing(void **state)
{
    static struct search_path s;
    char *env[] = {(char *)"PATH=/a", NULL};
    search_path_begin(&s, "", env);
    assert_null(search_path_next(&s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_in_order),      cmocka_unit_test(slash_means_a_path),
        cmocka_unit_test(without_a_path),        cmocka_unit_test(too_long_is_passed_over),
        cmocka_unit_test(empty_name_is_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
