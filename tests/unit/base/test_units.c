/* Sizes, times, counts and decimals as people write them: every form, and everything that only
 * looks like one. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cleanup.h"
#include "options.h"
#include "thread.h"

static void test_sizes(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {
        {"0", 0},
        {"1", 1},
        {"17B", 17},
        {"3K", 3 << 10},
        {"512M", 512ull << 20},
        {"2G", 2ull << 30},
        {"5T", 5ull << 40},
        {"00007", 7},
        {"9223372036854775807", INT64_MAX},
        {"8388607T", 8388607ull << 40},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        uint64_t bytes = 1;
        assert_int_equal(units_parse_size(cases[i].text, &bytes), 0);
        assert_int_equal(bytes, cases[i].bytes);
    }
}

static void test_times(void **state)
{
    static const struct {
        const char *text;
        int64_t ns;
    } cases[] = {
        {"7ns", 7},
        {"7us", 7000},
        {"250ms", 250 * NS_PER_MS},
        {"30s", 30 * NS_PER_S},
        {"5m", 300 * NS_PER_S},
        {"2h", 7200 * NS_PER_S},
        {"1d", 86400 * NS_PER_S},
        {"0s", 0},
        {"4611686018427387903ns", INT64_MAX / 2},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        int64_t ns = 1;
        assert_int_equal(units_parse_time(cases[i].text, &ns), 0);
        assert_int_equal(ns, cases[i].ns);
    }
}

static void assert_all(int expected, int (*size)(const char *, uint64_t *),
                       int (*time)(const char *, int64_t *), const char *const *cases)
{
    for (; *cases; cases++) {
        uint64_t bytes = 42;
        int64_t ns = 42;
        int r = size ? size(*cases, &bytes) : time(*cases, &ns);
        if (r != expected || bytes != 42 || ns != 42)
            fail_msg("'%s' gave %d", *cases, r);
    }
}

static void test_malformed(void **state)
{
    static const char *const sizes[] = {
        "",    " ",   "M",    "-1",    "+1",   " 1",  "1 ",  "1 M", "1m",
        "1k",  "1KB", "1KiB", "1.5G",  "0x10", "1e3", "1MM", "1P",  "１",
        "1\n", "1M ", "M1",   "1,000", "--1",  "inf", "nan", NULL,
    };
    static const char *const times[] = {
        "",     "5",    "s",    "-5s",   "+5s",  " 5s", "5s ", "5 s", "5S",
        "5sec", "5min", "1.5s", "1h30m", "0x5s", "5sm", "1w",  NULL,
    };
    assert_all(-EINVAL, units_parse_size, NULL, sizes);
    assert_all(-EINVAL, NULL, units_parse_time, times);
}

static void test_too_large(void **state)
{
    static const char *const sizes[] = {
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "8388608T",
        "16777216T",
        "99999999999999999999999999",
        NULL,
    };
    static const char *const times[] = {
        "4611686018427387904ns",
        "18446744073709551616ns",
        "53376d",
        "99999999999999999999999d",
        NULL,
    };
    assert_all(-ERANGE, units_parse_size, NULL, sizes);
    assert_all(-ERANGE, NULL, units_parse_time, times);
}

static void test_counts(void **state)
{
    static const char *const bad[] = {"", "-1", "+1", " 1", "1 ", "1K", "0x1", "1.0", NULL};
    uint64_t v = 0;
    assert_int_equal(units_parse_count("256", &v), 0);
    assert_int_equal(v, 256);
    assert_int_equal(units_parse_count("18446744073709551615", &v), 0);
    assert_true(v == UINT64_MAX);
    assert_int_equal(units_parse_count("18446744073709551616", &v), -ERANGE);
    assert_all(-EINVAL, units_parse_count, NULL, bad);
}

static void test_decimals(void **state)
{
    static const char *const bad[] = {"",    ".",  "1.", ".5",  "-1",  "1e3", "1.5.2",
                                      "1,5", " 1", "1 ", "inf", "nan", "0x1"};
    double v = 7;
    assert_int_equal(units_parse_decimal("1.5", &v), 0);
    assert_true(v == 1.5);
    assert_int_equal(units_parse_decimal("0.25", &v), 0);
    assert_true(v == 0.25);
    assert_int_equal(units_parse_decimal("2", &v), 0);
    assert_true(v == 2);
    assert_int_equal(units_parse_decimal("0.0625", &v), 0);
    assert_true(v == 0.0625);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(units_parse_decimal(bad[i], &v), -EINVAL);
    assert_int_equal(units_parse_decimal("99999999999999999999", &v), -ERANGE);
    assert_int_equal(units_parse_decimal("1.99999999999999999999", &v), -ERANGE);
    assert_true(v == 0.0625);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),     cmocka_unit_test(test_times),
        cmocka_unit_test(test_malformed), cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_counts),    cmocka_unit_test(test_decimals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
