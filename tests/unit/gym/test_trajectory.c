/* Reading trajectories: whole, cut, broken, hostile; and telling whether a step is what was
 * recorded. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "text.h"
#include "trajectory.h"

#define HEAD "{\"task\":\"t\",\"digest\":\"d\",\"seed\":7,\"clock\":\"virtual\"}\n"
#define STEP(n, action)                                                                            \
    "{\"step\":" n ",\"action\":" action ",\"observation\":{\"text\":\"x\"},\"reward\":-0.01,"     \
    "\"pass_rate\":null,\"terminated\":false,\"truncated\":false,\"seconds\":0.1}\n"
#define END  "{\"return\":0.5,\"pass_rate\":1.0,\"calls\":1,\"seconds\":0.1,\"seed\":7}\n"
#define BASH "{\"tool\":\"bash\",\"command\":\"ls\"}"

static int parse(const char *text, struct trajectory *t, struct error *err)
{
    return trajectory_parse(text, strlen(text), "file", t, err);
}

static void test_whole(void **state)
{
    struct trajectory t = {0};
    assert_int_equal(parse(HEAD STEP("0", "null") STEP("1", BASH) END, &t, NULL), 0);
    assert_int_equal(json_array_size(t.steps), 2);
    assert_non_null(t.end);
    trajectory_free(&t);
    /* Empty lines are nothing; the sums may be missing; a last line may be torn. */
    assert_int_equal(parse(HEAD "\n" STEP("0", "null") "\n", &t, NULL), 0);
    assert_null(t.end);
    trajectory_free(&t);
    assert_int_equal(parse(HEAD STEP("0", "null") "{\"step\":1,\"act", &t, NULL), 0);
    assert_int_equal(json_array_size(t.steps), 1);
    trajectory_free(&t);
}

static void test_large_seed(void **state)
{
    struct trajectory t = {0};
    assert_int_equal(parse("{\"task\":\"t\",\"digest\":\"d\",\"seed\":\"18446744073709551615\","
                           "\"clock\":\"wall\"}\n",
                           &t, NULL),
                     0);
    trajectory_free(&t);
}

static void test_broken(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "empty"},
        {"\n\n", "empty"},
        {"x", "file:1: not JSON"},
        {"{\"task\":", "file:1: not JSON"},
        {"[]\n", "file:1"},
        {"{}\n", "names no task"},
        {"{\"task\":\"t\",\"digest\":\"d\",\"seed\":7,\"clock\":\"sun\"}\n", "clock"},
        {"{\"task\":\"t\",\"digest\":\"d\",\"seed\":\"x\",\"clock\":\"wall\"}\n", "seed"},
        {"{\"task\":\"t\",\"seed\":7,\"clock\":\"wall\"}\n", "digest"},
        {HEAD "{}\n", "file:2: step"},
        {HEAD STEP("1", "null"), "step"},
        {HEAD STEP("0", BASH), "action"},
        {HEAD STEP("0", "null") STEP("1", "null"), "file:3: action"},
        {HEAD STEP("0", "null") STEP("1", "{\"tool\":1}"), "action"},
        {HEAD STEP("0", "null") STEP("2", BASH), "step"},
        {HEAD "{\"step\":0,\"action\":null,\"observation\":1}\n", "observation"},
        {HEAD "{\"step\":0,\"action\":null,\"observation\":{},\"reward\":\"1\"}\n", "reward"},
        {HEAD "{\"step\":0,\"action\":null,\"observation\":{},\"reward\":1,\"pass_rate\":\"x\"}\n",
         "pass_rate"},
        {HEAD "{\"step\":0,\"action\":null,\"observation\":{},\"reward\":1,\"pass_rate\":1}\n",
         "terminated"},
        {HEAD "{\"return\":\"x\"}\n", "return"},
        {HEAD "{\"return\":1}\n", "calls"},
        {HEAD END STEP("0", "null"), "after the episode's totals"},
        {HEAD "torn\n" STEP("0", "null"), "file:2: not JSON"},
        {HEAD "{\"step\":0,\"step\":0}\n", "not JSON"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct trajectory t = {0};
        struct error err = {0};
        assert_int_equal(parse(cases[i].text, &t, &err), -EINVAL);
        if (!strstr(err.text, cases[i].says))
            fail_msg("case %zu: '%s' does not say '%s'", i, err.text, cases[i].says);
        assert_null(t.head);
    }
}

static void test_limits(void **state)
{
    struct trajectory t = {0};
    struct error err = {0};
    struct buf b = BUF_INIT(64u << 20);
    buf_append_str(&b, HEAD);
    buf_append_str(&b, "[");
    for (size_t i = 0; i <= TRAJECTORY_VALUES_MAX; i++)
        buf_append_str(&b, "1,");
    buf_append_str(&b, "1]\n");
    assert_false(b.failed);
    assert_int_equal(trajectory_parse((char *)b.data, b.len, "file", &t, &err), -EINVAL);
    assert_non_null(strstr(err.text, "too long"));
    b.len = strlen(HEAD);
    for (size_t i = 0; i <= TRAJECTORY_LINE_MAX; i++)
        buf_append(&b, " ", 1);
    buf_append_str(&b, "{}\n");
    assert_int_equal(trajectory_parse((char *)b.data, b.len, "file", &t, &err), -EINVAL);
    assert_non_null(strstr(err.text, "too long"));
    b.len = strlen(HEAD);
    buf_append_str(&b, STEP("0", "null"));
    for (unsigned i = 1; i <= TRAJECTORY_STEPS_MAX; i++)
        buf_printf(&b,
                   "{\"step\":%u,\"action\":" BASH
                   ",\"observation\":{},\"reward\":0,\"pass_rate\":null,"
                   "\"terminated\":false,\"truncated\":false}\n",
                   i);
    assert_false(b.failed);
    assert_int_equal(trajectory_parse((char *)b.data, b.len, "file", &t, &err), -EINVAL);
    assert_non_null(strstr(err.text, "too many steps"));
    buf_free(&b);
}

static void test_same(void **state)
{
    struct trajectory t = {0};
    char why[256] = "";
    assert_int_equal(parse(HEAD STEP("0", "null") STEP("1", BASH), &t, NULL), 0);
    struct gym_step s = {.number = 1,
                         .action = json_pack("{s:s, s:s}", "command", "ls", "tool", "bash"),
                         .observation = json_pack("{s:s}", "text", "x"),
                         .reward = -0.01,
                         .pass_rate = __builtin_nan(""),
                         .seconds = 0.1};
    assert_true(trajectory_same(&t, &s, CLOCK_VIRTUAL, why, sizeof why));
    s.reward = __builtin_nextafter(-0.01, 0);
    assert_false(trajectory_same(&t, &s, CLOCK_VIRTUAL, why, sizeof why));
    assert_non_null(strstr(why, "step 1: reward was"));
    assert_true(trajectory_same(&t, &s, CLOCK_WALL, why, sizeof why));
    s.reward = -0.01;
    json_object_set_new(s.observation, "text", json_string("y"));
    assert_false(trajectory_same(&t, &s, CLOCK_VIRTUAL, why, sizeof why));
    assert_non_null(strstr(why, "observation"));
    json_object_set_new(s.action, "command", json_string("pwd"));
    assert_false(trajectory_same(&t, &s, CLOCK_WALL, why, sizeof why));
    assert_non_null(strstr(why, "action"));
    s.number = 2;
    assert_false(trajectory_same(&t, &s, CLOCK_WALL, why, sizeof why));
    assert_non_null(strstr(why, "not in the recording"));
    gym_step_free(&s);
    trajectory_free(&t);
}

static void test_lines_are_the_same_bytes(void **state)
{
    json_t *a = json_pack("{s:i, s:f}", "b", 1, "a", 0.1),
           *b = json_pack("{s:f, s:i}", "a", 0.1, "b", 1);
    char *x = trajectory_line(a), *y = trajectory_line(b);
    assert_string_equal(x, y);
    assert_string_equal(x, "{\"a\":0.10000000000000001,\"b\":1}");
    free(x), free(y);
    json_decref(a), json_decref(b);
}

static void test_load(void **state)
{
    struct trajectory t = {0};
    struct error err = {0};
    assert_int_equal(trajectory_load("/nonexistent/file", &t, &err), -ENOENT);
    assert_int_equal(trajectory_load("/", &t, &err), -EINVAL);
    assert_int_equal(trajectory_load("/dev/zero", &t, &err), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),  cmocka_unit_test(test_large_seed),
        cmocka_unit_test(test_broken), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_same),   cmocka_unit_test(test_lines_are_the_same_bytes),
        cmocka_unit_test(test_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
