/* The text of /proc/PID/stat, whose owner chose the name in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "command.h"

#define NUMBERS " 7 10 10 0 -1 4194560 103 0 0 0 11 22 33 44 20 0 5 0 6120 2670592 223\n"

static int parse(const char *text, struct proc_stat *ret)
{
    return proc_parse_stat(text, strlen(text), 100, ret);
}

static void ordinary(void **state)
{
    struct proc_stat s;
    assert_int_equal(parse("10 (cat) S" NUMBERS, &s), 0);
    assert_int_equal(s.state, 'S');
    assert_int_equal(s.parent, 7);
    assert_int_equal(s.cpu_us, (11 + 22 + 33 + 44) * 10000);
    assert_int_equal(s.threads, 5);
}

static void hostile_names(void **state)
{
    struct proc_stat s;
    assert_int_equal(parse("10 (a) Z 1 2 3) R" NUMBERS, &s), 0);
    assert_int_equal(s.state, 'R');
    assert_int_equal(s.parent, 7);
    assert_int_equal(parse("10 (\n) ( ) T" NUMBERS, &s), 0);
    assert_int_equal(s.state, 'T');
}

static void other_forms(void **state)
{
    struct proc_stat s = {.state = '?'};
    const char *texts[] = {"",         ")",         "10 (x",          "10 (x)",
                           "10 (x) S", "10 (x) S ", "10 (x) S 1 2 3", "10 (x)S 1 2 3 4"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_int_equal(parse(texts[i], &s), -EINVAL);
    assert_int_equal(s.state, '?');
}

static void dead_or_not(void **state)
{
    assert_true(proc_stat_is_dead(&(struct proc_stat){.state = 'Z', .threads = 1}));
    assert_false(proc_stat_is_dead(&(struct proc_stat){.state = 'Z', .threads = 2}));
    assert_false(proc_stat_is_dead(&(struct proc_stat){.state = 'T', .threads = 1}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ordinary),
        cmocka_unit_test(hostile_names),
        cmocka_unit_test(other_forms),
        cmocka_unit_test(dead_or_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
