/* The lines of the runner, and those of somebody who would like to be it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "outcomes.h"

#define T "0123456789abcdef0123456789abcdef"

static struct outcomes hear(const char *text)
{
    struct outcomes o;
    outcomes_init(&o, T);
    assert_true(outcomes_feed(&o, text, strlen(text)));
    return o;
}

static void expect(const struct outcomes *o, const char *id, enum grade_outcome outcome,
                   const char *message)
{
    const char *why = NULL;
    const struct outcome *t = outcomes_find(o, id);
    assert_non_null(t);
    assert_int_equal(outcomes_judge(o, t, &why), outcome);
    if (message)
        assert_string_equal(why ? why : "", message);
}

static void test_outcomes(void **state)
{
    struct outcomes o =
        hear(T " 0 B\ta::x\n" T " 1 P\ta::x\n" T " 2 B\ta::y\n" T " 3 F\ta::y\tone\\ntwo\\\\\n" T
               " 4 B\ta::z\n" T " 5 S\ta::z\t\n" T " 6 Z\n");
    expect(&o, "a::x", GRADE_PASSED, "");
    expect(&o, "a::y", GRADE_FAILED, "one\ntwo\\");
    expect(&o, "a::z", GRADE_SKIPPED, "");
    assert_true(o.done && !o.forged && !o.strange && o.count == 3);
    assert_null(outcomes_find(&o, "a"));
    assert_null(outcomes_current(&o));
    outcomes_free(&o);
}

static void test_pieces_of_lines(void **state)
{
    static const char text[] = T " 0 B\ta\n" T " 1 P\ta\n";
    struct outcomes o;
    outcomes_init(&o, T);
    for (size_t i = 0; i < strlen(text); i++)
        assert_true(outcomes_feed(&o, text + i, 1));
    expect(&o, "a", GRADE_PASSED, NULL);
    outcomes_free(&o);
}

static void test_what_does_not_end(void **state)
{
    struct outcomes o = hear(T " 0 B\ta\n");
    expect(&o, "a", GRADE_FAILED, "it began and did not end");
    assert_string_equal(outcomes_current(&o)->id, "a");
    outcomes_free(&o);
}

static void test_heard_of_twice(void **state)
{
    struct outcomes o = hear(T " 0 B\ta\n" T " 1 F\ta\n" T " 2 P\ta\n" T " 3 P\tb\n" T " 4 B\tc\n" T
                               " 5 B\tc\n" T " 6 P\tc\n");
    expect(&o, "a", GRADE_FAILED, NULL);
    expect(&o, "b", GRADE_FAILED, NULL);
    expect(&o, "c", GRADE_FAILED, NULL);
    outcomes_free(&o);
}

static void test_a_number_twice_is_a_forgery(void **state)
{
    struct outcomes o = hear(T " 0 B\ta\n" T " 1 P\ta\n" T " 1 B\tb\n");
    assert_true(o.forged);
    expect(&o, "a", GRADE_ERROR, "outcomes were forged");
    outcomes_free(&o);
}

static void test_nothing_follows_the_end(void **state)
{
    struct outcomes o = hear(T " 0 Z\n" T " 1 B\ta\n");
    assert_true(o.forged);
    outcomes_free(&o);
}

static void test_lines_of_nobody(void **state)
{
    struct outcomes o = hear("8 passed\n\n" T "\n" T " 0\n" T " x B\ta\n0" T " 0 B\ta\n\xff\xfe\n" T
                             " 0 B\ta\n" T " 1 P\ta\n");
    assert_int_equal(o.strange, 7);
    assert_false(o.forged);
    expect(&o, "a", GRADE_PASSED, NULL);
    outcomes_free(&o);
}

static void test_forms_that_the_runner_does_not_write(void **state)
{
    static const char *const BAD[] = {" 0 B\n",        " 0 B\t\n",     " 0 Q\ta\n",
                                      " 0 B\ta\tb\n",  " 0 Z\ta\n",    " 0 B\ta\\x\n",
                                      " 0 B\ta\\\n",   " 0 B\t\xff\n", " 0 T\ta\tb\n",
                                      " 0 B\ta\x01\n", " 0 B a\n",     " 0 P\ta\tb\tc\n"};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        char line[128];
        snprintf(line, sizeof line, T "%s", BAD[i]);
        struct outcomes o = hear(line);
        assert_true(o.forged);
        outcomes_free(&o);
    }
}

static void test_tampering_spoils_what_follows(void **state)
{
    struct outcomes o =
        hear(T " 0 B\ta\n" T " 1 P\ta\n" T " 2 T\ttampered: x\n" T " 3 B\tb\n" T " 4 P\tb\n");
    expect(&o, "a", GRADE_PASSED, NULL);
    expect(&o, "b", GRADE_ERROR, "tampered: x");
    outcomes_free(&o);
}

static void test_limits(void **state)
{
    struct outcomes o = hear("");
    char *long_line = malloc(OUTCOMES_LINE_MAX + 100);
    memset(long_line, 'x', OUTCOMES_LINE_MAX + 99);
    long_line[OUTCOMES_LINE_MAX + 99] = '\n';
    assert_true(outcomes_feed(&o, long_line, OUTCOMES_LINE_MAX + 100));
    assert_int_equal(o.strange, 1);
    assert_true(outcomes_feed(&o, T " 0 B\ta\n", strlen(T " 0 B\ta\n")));
    assert_int_equal(o.count, 1);
    bool more = true;
    for (size_t i = 0; more && i <= OUTCOMES_BYTES_MAX / OUTCOMES_LINE_MAX; i++)
        more = outcomes_feed(&o, long_line, OUTCOMES_LINE_MAX + 100);
    assert_false(more);
    free(long_line);
    outcomes_free(&o);
}

static void test_many(void **state)
{
    struct outcomes o;
    char line[128];
    unsigned sequence = 0;
    outcomes_init(&o, T);
    for (int i = 0; i < 5000; i++) {
        snprintf(line, sizeof line, T " %u B\tt::%d\n", sequence++, i);
        outcomes_feed(&o, line, strlen(line));
        snprintf(line, sizeof line, T " %u %c\tt::%d\n", sequence++, i % 2 ? 'P' : 'F', i);
        outcomes_feed(&o, line, strlen(line));
    }
    assert_int_equal(o.count, 5000);
    expect(&o, "t::4999", GRADE_PASSED, NULL);
    expect(&o, "t::0", GRADE_FAILED, NULL);
    assert_int_equal(outcomes_note(&o, "t::1", GRADE_PASSED, NULL), 0);
    expect(&o, "t::1", GRADE_FAILED, NULL);
    outcomes_free(&o);
}

static void test_doubt(void **state)
{
    struct outcomes o;
    outcomes_init(&o, T);
    assert_int_equal(outcomes_note(&o, "good", GRADE_PASSED, NULL), 0);
    assert_int_equal(outcomes_note(&o, "bad", GRADE_FAILED, "no"), 0);
    outcomes_doubt(&o, "its writer was killed");
    expect(&o, "good", GRADE_ERROR, "its writer was killed");
    expect(&o, "bad", GRADE_FAILED, "no");
    outcomes_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outcomes),
        cmocka_unit_test(test_pieces_of_lines),
        cmocka_unit_test(test_what_does_not_end),
        cmocka_unit_test(test_heard_of_twice),
        cmocka_unit_test(test_a_number_twice_is_a_forgery),
        cmocka_unit_test(test_nothing_follows_the_end),
        cmocka_unit_test(test_lines_of_nobody),
        cmocka_unit_test(test_forms_that_the_runner_does_not_write),
        cmocka_unit_test(test_tampering_spoils_what_follows),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_doubt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
