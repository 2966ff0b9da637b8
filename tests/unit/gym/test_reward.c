/* Rewards and the virtual clock: to the bit. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "cleanup.h"
#include "env_state.h"

#define MS 1000000ll

static void same_bits(double a, double b)
{
    assert_memory_equal(&a, &b, sizeof a);
}

static void test_step(void **state)
{
    const struct task t = {.call_price = 0.01, .second_price = 0.02};
    struct reward r = reward_of(&t, 1, 1500 * MS, NAN);
    same_bits(r.pass_rate, 0.0);
    same_bits(r.calls, -0.01);
    same_bits(r.seconds, -0.03);
    same_bits(reward_sum(&r), 0.0 + -0.01 + -0.03);
}

static void test_last_step(void **state)
{
    const struct task t = {.call_price = 0.01, .second_price = 0.02};
    struct reward r = reward_of(&t, 1, 500 * MS, 0.75);
    same_bits(r.pass_rate, 0.75);
    same_bits(reward_sum(&r), 0.75 + -0.01 + -0.01);
}

static void test_what_is_free_is_zero(void **state)
{
    const struct task t = {0};
    struct reward r = reward_of(&t, 1, 7 * MS, NAN);
    same_bits(r.calls, 0.0);
    same_bits(r.seconds, 0.0);
    same_bits(reward_sum(&r), 0.0);
}

static void test_episode(void **state)
{
    const struct task t = {.call_price = 0.01, .second_price = 0.01};
    struct reward r = reward_of(&t, 3, 1240 * MS, 1.0);
    same_bits(r.calls, -(0.01 * 3));
    same_bits(r.seconds, -(0.01 * 1.24));
    same_bits(reward_sum(&r), 1.0 - 0.01 * 3 - 0.01 * 1.24);
    r = reward_of(&t, 3, 1240 * MS, NAN);
    same_bits(r.pass_rate, 0.0);
}

/* Ten times a tenth of a second is a second, in whatever order it came. */
static void test_time_is_summed_exactly(void **state)
{
    int64_t sum = 0;
    for (int i = 0; i < 10; i++)
        sum += virtual_clock_ns("apply_diff", 3);
    same_bits(reward_seconds(sum), 1.0);
}

static void test_virtual_clock(void **state)
{
    static const struct {
        const char *tool;
        size_t expected;
        int64_t ms;
    } cases[] = {
        {"read_file", 6, 50},   {"list_files", 6, 50}, {"search_files", 6, 50},
        {"apply_diff", 6, 100}, {"edit_file", 6, 100}, {"write_file", 6, 100},
        {"bash", 6, 500},       {"plan", 6, 50},       {"nothing", 6, 50},
        {"run_tests", 0, 500},  {"run_tests", 6, 620}, {"submit", 6, 620},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_int_equal(virtual_clock_ns(cases[i].tool, cases[i].expected), cases[i].ms * MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step),
        cmocka_unit_test(test_last_step),
        cmocka_unit_test(test_what_is_free_is_zero),
        cmocka_unit_test(test_episode),
        cmocka_unit_test(test_time_is_summed_exactly),
        cmocka_unit_test(test_virtual_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
